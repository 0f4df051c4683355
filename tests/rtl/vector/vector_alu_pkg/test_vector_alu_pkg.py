"""The arithmetic of the vector engine's lanes compared with its definitions, in native code."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu.model.vector_alu import ALU
from echo_npu.vector.isa import Op, source_count
from echo_sim.designs import Design
from tb.blocks import block_design, run_block
from tb.repository import ROOT

HERE = "tests/rtl/vector/vector_alu_pkg"
TESTS = f"{HERE}/cocotb_vector_alu_pkg".replace("/", ".")
SCALED_FMA = 127


def design(package: Path | str = "rtl/vector/vector_alu_pkg.sv", suffix: str = "") -> Design:
    """The testbench around the package under test. Only its ports are public: the functions stay fast."""
    block = block_design(
        "vector_alu_tb",
        ("rtl/matrix/fp32_pkg.sv", package, f"{HERE}/vector_alu_tb.sv"),
        cpp=(f"{HERE}/vector_alu_check.cpp",),
        control=("rtl/waivers.vlt", f"{HERE}/public.vlt"),
        public=False,
    )
    return dataclasses.replace(block, name=f"{block.name}{suffix}")


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.uint32]:
    """Compare about 90 million operations, on all corner triples and random operands, with their definitions.

    Return some of them, [n, 6]: opcode, a, b, c, exponent, result.
    """
    dump = tmp_path_factory.mktemp("vector_alu") / "operations"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VECTOR_ALU_DUMP", str(dump))
        run_block(design(), TESTS)
    return np.fromfile(dump, np.uint32).reshape(-1, 6)


def test_vector_alu_pkg(operations: NDArray[np.uint32]) -> None:
    """The comparison in native code passes."""
    assert len(operations) == 150_000


def test_the_functional_model_agrees(operations: NDArray[np.uint32]) -> None:
    """echo_npu.model.vector_alu gives the same bits for every opcode."""
    compared = 0
    for op, function in ALU.items():
        _, a, b, c, exponent, result = operations[operations[:, 0] == op].T.copy()
        if op in (Op.SEL, Op.MOV):  # no arithmetic
            assert result.size == 0
            continue
        second = exponent if op in (Op.SCALE, Op.CLASS) else b
        with np.errstate(all="ignore"):
            found = function(*(a, second, c)[: source_count(op)])
        assert np.array_equal(found, result), op.name
        compared += result.size
    assert compared == np.count_nonzero(operations[:, 0] != SCALED_FMA)


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ("(32'd63 - shift)) << 1", "(32'd63 - shift)) << 2"),
        ("(moved >> 7) & (((moved[6:0] != 0)", "(moved >> 7) & (((moved[5:0] != 0)"),
    ],
    ids=["sticky-bit", "tie"],
)
def test_a_fault_is_found(tmp_path: Path, sound: str, broken: str) -> None:
    """The comparison can fail: with a lost sticky bit or a wrong tie results differ."""
    package = tmp_path / "vector_alu_pkg.sv"
    text = (ROOT / "rtl/vector/vector_alu_pkg.sv").read_text()
    assert text.count(sound) == 1
    package.write_text(text.replace(sound, broken))
    with pytest.raises(AssertionError, match="results differ"):
        run_block(design(package, "-broken"), TESTS)
