"""The gates of `small` compute on the board what the RTL computes, bit for bit and clock for clock."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_sim.config import load_config
from echo_sim.designs import Design
from echo_sim.parameters import LEAST_MIB
from echo_sim.run import RunResult, run
from tb import cli
from tb.netlist import synthesis
from tb.netlist.design import netlist_design
from tb.netlist.table import TRUTH_TABLES
from tb.repository import ROOT
from tb.suites import suites

pytestmark = pytest.mark.sim

CONFIG = "small"
SEED = 5
TESTS = (
    "add_tensor.test_sizes",
    "memcpy.test_chain",
    "matmul.test_chain",
    "matmul_types.test_shapes",
    "matmul_blocks.test_activations_of_16_bits",
    "vector.test_instructions",
    "vector.test_loops",
    "errors.test_errors_and_soft_reset",
)
"""Add, copy, products of float32, of the other types and with weights in blocks, vector programs, errors.
Their scoreboards compare device memory with the functional model. What follows a slash picks cases."""


def play(design: Design | str, name: str, test: str, **environment: str) -> RunResult:
    suite, _, wanted = test.partition(".")
    whole = test.partition("/")[0]
    return run(
        design,
        suites()[suite].module,
        name=f"netlist-test-{name}",
        replay=f"make SIM=verilator KIND=netlist CONFIG={CONFIG} TEST={whole}",
        env={"ECHO_NPU_CONFIG": CONFIG, "ECHO_NPU_STALLS": "0", **environment},
        seed=SEED,
        test_filter=rf"\.{wanted}(/.*)?$",
        quiet=True,
    )


@pytest.mark.parametrize("test", TESTS)
def test_gates_do_what_the_rtl_does(test: str) -> None:
    gates = play(netlist_design(CONFIG), "gates", test)
    assert gates.outcomes
    assert gates.passed, gates.failures()
    rtl = play(CONFIG, "rtl", test)
    assert rtl.passed, rtl.failures()
    assert [(each.name, each.cycles) for each in gates.outcomes] == [
        (each.name, each.cycles) for each in rtl.outcomes
    ]


def depths(gates: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the most gates on a path that ends with each gate, itself included.

    Args:
        gates: [n, 5], of the table: the kind, three nets that go in, and the net that comes out.
    """
    found = np.zeros(int(gates[:, 1:].max()) + 1, np.int32)
    inputs = np.maximum(gates[:, 1:4], 0)
    while True:
        deeper: NDArray[np.int32] = found[inputs].max(axis=1) + 1
        if np.array_equal(deeper, found[gates[:, 4]]):
            return deeper
        found[gates[:, 4]] = deeper


def test_wrong_gates_are_found(tmp_path: Path) -> None:
    """Of the exclusive ors behind 150 gates one of 7 becomes an or: sums are wrong.

    So deep is only arithmetic: the device still answers.
    """
    design = netlist_design(CONFIG)
    (shell,) = (path for path in design.sources if path.name == "npu_top.sv")
    words = np.fromfile(shell.with_name("gates.bin"), "<i4")
    place = 1
    for _ in range(3):  # the number of nets, the inputs, the outputs
        place += 1 + int(words[place])
    gates = words[place + 1 : place + 1 + int(words[place])].reshape(-1, 5)
    exclusive = np.flatnonzero((gates[:, 0] == TRUTH_TABLES["$_XOR_"]) & (depths(gates) > 150))
    assert exclusive.size > 1000
    gates[exclusive[::7], 0] = TRUTH_TABLES["$_OR_"]
    words.tofile(tmp_path / "gates.bin")
    found = play(design, "wrong", "add_tensor.test_sizes", ECHO_NPU_GATES=str(tmp_path / "gates.bin"))
    assert "ExactMismatchError" in str(found.failures())


def test_gates_have_the_memory_of_their_configuration() -> None:
    """Memory above 4 GiB is a macro of the RTL, not a parameter."""
    large = load_config("large")
    usual = dataclasses.replace(large, weight_mib=LEAST_MIB, activation_mib=LEAST_MIB)
    assert large.parameters() == usual.parameters()
    for config, words in ((large, f" -D NPU_WEIGHT_MIB={large.weight_mib} "), (usual, " -D SYNTHESIS -I ")):
        assert words in synthesis._to_words(config, ())[0]
    assert synthesis._digest(large, ROOT / "rtl") != synthesis._digest(usual, ROOT / "rtl")


def test_another_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rtl", "--kind", "gates", "--config", CONFIG]) == 2
    assert "'netlist'" in capsys.readouterr().err


def test_waves_of_gates_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rtl", "--kind", "netlist", "--waves", "--config", CONFIG, "--seed", "1"]) == 2
    assert "KIND=netlist" in capsys.readouterr().err
