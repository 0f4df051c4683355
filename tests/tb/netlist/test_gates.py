"""The simulator of gates, without Verilator: what each cell computes, and which tables it refuses."""

import ctypes
import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb.netlist.design import GATES
from tb.netlist.table import MAGIC, TRUTH_TABLES, write_table
from tests.tb.netlist.modules import cell, memory, module

HEADER = "typedef unsigned svBitVecVal;\ntypedef unsigned char svBit;\n"
GATE = "clock_gate"
SEEDS = range(40)
"""Power-ups to try: what is the same in all of them is not random."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulator as a shared library, which ends at an index beyond a vector's end."""
    folder = tmp_path_factory.mktemp("gates")
    (folder / "svdpi.h").write_text(HEADER, encoding="utf-8")
    made = folder / "gates.so"
    flags = ["-std=c++17", "-O1", "-D_GLIBCXX_ASSERTIONS", "-shared", "-fPIC", f"-I{folder}"]
    command = ["g++", *flags, str(GATES), "-o", str(made)]
    subprocess.run(command, check=True, timeout=300)
    return made


class Netlist:
    """A design of which `settle` and `clock` take the inputs as one number, and give the outputs as one."""

    def __init__(self, library: ctypes.CDLL, modules: dict[str, Any], path: Path, seed: int) -> None:
        write_table(modules, "top", GATE, path)
        self._library = library
        library.npu_gates_load(str(path).encode(), seed)

    def settle(self, inputs: int = 0) -> int:
        values, results = (ctypes.c_uint32 * 2)(inputs, 0), (ctypes.c_uint32 * 2)()
        self._library.npu_gates_settle(0, values, results)
        return results[0] | results[1] << 32

    def clock(self, inputs: int = 0) -> int:
        self._library.npu_gates_clock((ctypes.c_uint32 * 2)(inputs, 0))
        return self.settle(inputs)


Simulate = Callable[..., Netlist]


@pytest.fixture
def simulate(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Simulate:
    """A function that powers up the modules "top" and others with a seed."""
    monkeypatch.delenv("ECHO_NPU_GATES", raising=False)
    loaded = ctypes.CDLL(str(library))

    def powered(top: dict[str, Any], seed: int = 1, **modules: dict[str, Any]) -> Netlist:
        return Netlist(loaded, {"top": top, **modules}, tmp_path / "gates.bin", seed)

    return powered


MEANT: dict[str, Callable[[int, int, int], int]] = {
    "$_BUF_": lambda a, b, s: a,
    "$_NOT_": lambda a, b, s: 1 - a,
    "$_AND_": lambda a, b, s: a & b,
    "$_OR_": lambda a, b, s: a | b,
    "$_XOR_": lambda a, b, s: a ^ b,
    "$_MUX_": lambda a, b, s: b if s else a,
}


@pytest.mark.parametrize("kind", TRUTH_TABLES)
def test_what_a_gate_computes(simulate: Simulate, kind: str) -> None:
    pins = {"$_BUF_": "A", "$_NOT_": "A", "$_MUX_": "ABS"}.get(kind, "AB")
    nets: dict[str, int | str] = {pin: 3 + "ABS".index(pin) for pin in pins}
    top = module({"clk": [2], "i": [3, 4, 5]}, {"o": [6]}, cell(kind, {}, **nets, Y=6))
    design = simulate(top)
    steps = itertools.product(range(8), repeat=2)  # any combination after any other
    for inputs in itertools.chain.from_iterable(steps):
        assert design.settle(inputs) == MEANT[kind](inputs & 1, inputs >> 1 & 1, inputs >> 2)


def test_gates_wait_for_the_deepest_input(simulate: Simulate) -> None:
    """A parity of 40 bits as a chain that the module names from its end."""
    chain = [
        cell("$_XOR_", A=3 + bit, B=100 + bit, Y=101 + bit if bit < 39 else 200)
        for bit in reversed(range(40))
    ]
    top = module({"clk": [2], "i": list(range(3, 35))}, {"o": [200]}, *chain, cell("$_BUF_", A="0", Y=100))
    # Bits 35 to 42 are driven by nothing, so they are random, but the same for all inputs.
    design = simulate(top)
    base = design.settle(0)
    for inputs in (1, 3, 0x8000_0000, 0xFFFF_FFFE, 0x1234_5679, 0):
        assert design.settle(inputs) == base ^ (inputs.bit_count() & 1)


def test_constants_and_undefined_bits(simulate: Simulate) -> None:
    """An undefined bit, and an input that is not connected, stay what they are in one run."""
    leaf = module({"a": [2]}, {"y": [3]}, cell("$_BUF_", A=2, Y=3))
    top = module({"clk": [2], "i": [3]}, {"o": ["0", "1", "x", "z", 4]}, cell("leaf", y=4))
    found = set()
    for seed in SEEDS:
        design = simulate(top, seed, leaf=leaf)
        first = design.settle(0)
        assert [design.settle(1), design.clock(0), design.clock(1)] == [first] * 3
        assert first & 3 == 2
        found.add(first >> 2)
    assert found == {0, 7}  # one bit, which is in all three places


def test_registers_take_their_inputs_together(simulate: Simulate) -> None:
    """Two registers exchange their values, a third holds without its enable; all power up at random."""
    top = module(
        {"clk": [2], "d": [3], "en": [4]},
        {"o": [5, 6, 7]},
        cell("$_DFF_P_", C=2, D=6, Q=5),
        cell("$_DFF_P_", C=2, D=5, Q=6),
        cell("$_DFFE_PP_", C=2, E=4, D=3, Q=7),
    )
    began = set()
    for seed in SEEDS:
        design = simulate(top, seed)
        first = design.settle()
        began.add(first)
        swapped = first & 4 | (first & 1) << 1 | first >> 1 & 1
        assert design.settle(3) == first  # no clock
        assert [design.clock(0), design.clock(1), design.clock(1)] == [swapped, first, swapped]
        assert [design.clock(3) >> 2, design.clock(0) >> 2, design.clock(2) >> 2] == [1, 1, 0]
    assert len(began) == 8


def test_a_register_takes_what_was_there_before_the_edge(simulate: Simulate) -> None:
    """A shift register of three bits, with gates between them."""
    top = module(
        {"clk": [2], "d": [3]},
        {"o": [5, 7, 9]},
        cell("$_DFF_P_", C=2, D=8, Q=9),
        cell("$_BUF_", A=7, Y=8),
        cell("$_DFF_P_", C=2, D=6, Q=7),
        cell("$_BUF_", A=5, Y=6),
        cell("$_DFF_P_", C=2, D=4, Q=5),
        cell("$_NOT_", A=3, Y=4),
    )
    design = simulate(top)
    found = [design.clock(bit) for bit in (1, 1, 1, 0, 1, 1, 0)]
    assert found[2:] == [0b000, 0b001, 0b010, 0b100, 0b001]


def test_gated_clocks(simulate: Simulate) -> None:
    """Behind a gate a register moves if the gate or its test input says so, and behind two if both do."""
    top = module(
        {"clk": [2], "i": [3, 4, 5, 6]},
        {"o": [8, 10]},
        cell(GATE, clk_i=7, enable_i=5, test_enable_i=6, clk_o=9),
        cell(GATE, clk_i=2, enable_i=3, test_enable_i=4, clk_o=7),
        cell("$_DFF_P_", C=9, D=13, Q=10),
        cell("$_NOT_", A=10, Y=13),
        cell("$_DFF_P_", C=7, D=14, Q=8),
        cell("$_NOT_", A=8, Y=14),
    )
    gate = module({"clk_i": [2], "enable_i": [3], "test_enable_i": [4]}, {"clk_o": [5]})
    design = simulate(top, clock_gate=gate)
    for inputs in range(16):
        before = design.settle(inputs)
        outer, inner = bool(inputs & 3), bool(inputs & 3) and bool(inputs >> 2)
        assert design.clock(inputs) == before ^ (outer | inner << 1), inputs


def test_a_memory(simulate: Simulate) -> None:
    """Three words of two bits: both ports read at once, bits are written by enable, the later port wins."""
    top = module(
        {"clk": [2], "at": [10, 11], "data": [12, 13], "en": [14, 15], "other": [16, 17], "en2": [18]},
        {"o": [20, 21], "p": [22, 23]},
        memory(
            3,
            2,
            [([10, 11], [20, 21]), (["1", "0"], [22, 23])],
            [(2, [10, 11], [12, 13], [14, 15]), (2, ["1", "0"], [16, 17], [18, 18])],
        ),
    )

    def inputs(at: int, data: int = 0, en: int = 0, other: int = 0, en2: int = 0) -> int:
        return at | data << 2 | en << 4 | other << 6 | en2 << 8

    began = set()
    for seed in SEEDS:
        design = simulate(top, seed)
        began |= {(at, design.settle(inputs(at)) & 3) for at in range(4)}
        for at in range(3):
            design.clock(inputs(at, at + 1, 3))
        assert [design.settle(inputs(at)) for at in range(4)] == [1 | 2 << 2, 2 | 2 << 2, 3 | 2 << 2, 2 << 2]
        assert design.settle(inputs(0, 2, 3)) == 1 | 2 << 2  # nothing is written without a clock
        assert design.clock(inputs(0, 2, 2)) == 3 | 2 << 2  # one bit of two
        assert design.clock(inputs(0, 0, 1)) == 2 | 2 << 2
        assert design.clock(inputs(3, 1, 3)) == 2 << 2  # there is no such word
        assert [design.settle(inputs(at)) & 3 for at in range(3)] == [2, 2, 3]
        assert design.clock(inputs(1, 0, 3, other=1, en2=1)) == 1 | 1 << 2
    assert began == {(at, value) for at in range(3) for value in range(4)} | {(3, 0)}


def test_a_memory_behind_a_gated_clock(simulate: Simulate) -> None:
    top = module(
        {"clk": [2], "i": [3, 4]},
        {"o": [6]},
        cell(GATE, clk_i=2, enable_i=3, test_enable_i="0", clk_o=5),
        memory(1, 1, [(["0"], [6])], [(5, ["0"], [4], ["1"])]),
    )
    gate = module({"clk_i": [2], "enable_i": [3], "test_enable_i": [4]}, {"clk_o": [5]})
    design = simulate(top, clock_gate=gate)
    assert [design.clock(inputs) for inputs in (3, 0, 2, 1, 2, 3)] == [1, 1, 1, 0, 0, 1]


def test_instances_have_states_of_their_own(simulate: Simulate) -> None:
    """An input that goes straight to two outputs reaches both."""
    leaf = module(
        {"c": [2], "d": [3]}, {"q": [4], "same": [3], "again": [3]}, cell("$_DFF_P_", C=2, D=3, Q=4)
    )
    top = module(
        {"clk": [2], "i": [3]},
        {"o": [4, 5, 6, 7, 8, 9]},
        cell("leaf", c=2, d=3, q=4, same=5, again=6),
        cell("leaf", c=2, d=4, q=7, same=8, again=9),
    )
    design = simulate(top, leaf=leaf)
    design.clock(1)
    assert design.clock(0) == 0b001_000 | 0
    assert design.settle(1) == 0b001_110
    assert design.clock(1) == 0b110_111


def test_instances_have_memories_of_their_own(simulate: Simulate) -> None:
    """The second one is written with what the first one held before."""
    leaf = module({"c": [2], "d": [3]}, {"q": [4]}, memory(1, 1, [(["0"], [4])], [(2, ["0"], [3], ["1"])]))
    top = module(
        {"clk": [2], "i": [3]}, {"o": [4, 5]}, cell("leaf", c=2, d=3, q=4), cell("leaf", c=2, d=4, q=5)
    )
    design = simulate(top, leaf=leaf)
    found = [design.clock(bit) for bit in (1, 1, 0, 0, 1)]
    assert found[1:] == [0b11, 0b10, 0b00, 0b01]


REFUSED = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).npu_gates_load(sys.argv[2].encode(), 1)
"""


def refusal(library: Path, path: Path) -> str:
    """Return what the simulator says to a table that it ends at."""
    command = [sys.executable, "-c", REFUSED, str(library), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([cell("$_NOT_", A=4, Y=5), cell("$_BUF_", A=5, Y=4)], "gates form a circle"),
        ([cell("$_NOT_", A=3, Y=4), cell("$_BUF_", A=3, Y=4)], "a net has two drivers"),
        ([cell("$_NOT_", A=4, Y=3)], "a net has two drivers"),
        ([cell("$_NOT_", A=3, Y=4), cell("$_DFF_P_", C=2, D=3, Q=4)], "a net has two drivers"),
        ([memory(2, 1, [([4], [4])], [(2, ["0"], [3], [3])])], "gates form a circle"),
    ],
)
def test_what_is_no_netlist(library: Path, tmp_path: Path, cells: list[dict[str, Any]], words: str) -> None:
    write_table({"top": module({"clk": [2], "i": [3]}, {"o": [4]}, *cells)}, "top", GATE, tmp_path / "t")
    assert words in refusal(library, tmp_path / "t")


def test_what_is_no_table(library: Path, tmp_path: Path) -> None:
    write_table({"top": module({"clk": [2], "i": [3]}, {"o": [3]})}, "top", GATE, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    assert np.frombuffer(whole, "<i4")[0] == MAGIC
    path = tmp_path / "cut"
    for size in (0, 3, 4, 8, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        assert f"{path} is too short" in refusal(library, path)
    path.write_bytes(b"\0" + whole[1:])
    assert "is no table of gates" in refusal(library, path)
    assert "none is too short, or not there" in refusal(library, tmp_path / "none")
