"""The special functions of the vector engine's lanes compared with the functional model, bit by bit."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from echo_npu.model.special_functions import Words, exp, rcp, rsqrt
from echo_npu.spec.special_functions import SEGMENTS
from echo_sim.designs import Design
from tb.blocks import block_design, run_block
from tb.repository import ROOT

HERE = "tests/rtl/vector/special_function_pkg"
PACKAGE = "rtl/vector/special_function_pkg.sv"
TESTS = f"{HERE}/cocotb_special_function_pkg".replace("/", ".")
FUNCTIONS = (exp, rcp, rsqrt)
RANDOM = 500_000
"""Operands of each kind that is drawn."""


def design(package: Path | str = PACKAGE, suffix: str = "") -> Design:
    """The testbench around the package under test. Only its ports are public: the functions stay fast."""
    block = block_design(
        "special_function_tb",
        (
            "rtl/matrix/fp32_pkg.sv",
            "rtl/vector/vector_alu_pkg.sv",
            package,
            f"{HERE}/special_function_tb.sv",
        ),
        cpp=(f"{HERE}/special_function_files.cpp",),
        control=("rtl/waivers.vlt", f"{HERE}/public.vlt"),
        public=False,
    )
    return dataclasses.replace(block, name=f"{block.name}{suffix}")


def special() -> Words:
    """Return zeros, subnormals, infinities, NaN, powers of two and what lies beside them, of both signs."""
    powers = np.arange(256, dtype=np.int64) << 23
    subnormals = 1 << np.arange(23, dtype=np.int64)
    beside = np.concatenate([powers, subnormals, powers + (1 << 22)])[:, None] + np.arange(-2, 3)
    sizes = np.unique(np.clip(beside.reshape(-1), 0, 0x7FFF_FFFF)).astype(np.uint32)
    return np.concatenate([sizes, sizes | np.uint32(0x8000_0000)])


def borders() -> Words:
    """Return what lies beside the borders of all segments of each function."""
    mantissas = np.arange(4 * SEGMENTS, dtype=np.int64) << 17  # of [1, 4) and more
    sizes = [mantissas + (power << 23) for power in (1, 64, 126, 127, 253)]
    fractions = np.arange(-151 * SEGMENTS, 130 * SEGMENTS) / SEGMENTS * math.log(2)
    sizes.append(fractions.astype(np.float32).view(np.uint32).astype(np.int64))
    beside = np.concatenate(sizes)[:, None] + np.arange(-3, 4)
    return (beside.reshape(-1) & 0xFFFF_FFFF).astype(np.uint32)


def random_operands(seed: int) -> Words:
    """Return random bits, the range of exp and its lower limit, everyday numbers, the least and greatest."""
    source = np.random.default_rng(seed)
    exponents = source.choice([0, 1, 2, 3, 251, 252, 253, 254], RANDOM).astype(np.uint32) << np.uint32(23)
    return np.concatenate(
        [
            source.integers(0, 1 << 32, RANDOM, np.uint32),
            source.uniform(-110, 90, RANDOM).astype(np.float32).view(np.uint32),
            source.uniform(-105, -86, RANDOM).astype(np.float32).view(np.uint32),
            source.standard_normal(RANDOM).astype(np.float32).view(np.uint32),
            exponents | source.integers(0, 1 << 23, RANDOM, np.uint32),
        ]
    )


def results(folder: Path, operands: Words, block: Design) -> Mapping[str, Words]:
    """Return what the package gives for each operand, by function."""
    given, found = folder / "operands", folder / "results"
    operands.tofile(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECIAL_OPERANDS", str(given))
        patch.setenv("SPECIAL_RESULTS", str(found))
        run_block(block, TESTS)
    words = np.fromfile(found, np.uint32).reshape(operands.size, len(FUNCTIONS))
    return {each.__name__: words[:, place] for place, each in enumerate(FUNCTIONS)}


def differing(operands: Words, found: Mapping[str, Words]) -> dict[str, list[str]]:
    """Return the first operands for which a function differs from the functional model."""
    wrong = {each.__name__: operands[each(operands) != found[each.__name__]] for each in FUNCTIONS}
    return {name: [hex(a) for a in some[:5]] for name, some in wrong.items() if some.size}


def test_special_function_pkg(tmp_path: Path) -> None:
    operands = np.concatenate([special(), borders(), random_operands(11)])
    assert not differing(operands, results(tmp_path, operands, design()))


@pytest.mark.parametrize(
    ("sound", "broken", "function"),
    [
        ("odd      = ~power & 32'd1", "odd      = power & 32'd1", "rsqrt"),
        ("(lost != 0)", "(lost == 64'd1)", "rcp"),
        ("64'h40_0000_0000 - product", "64'h3F_FFFF_FFFF - product", "exp"),
    ],
    ids=["parity", "sticky-bit", "negation"],
)
def test_a_fault_is_found(tmp_path: Path, sound: str, broken: str, function: str) -> None:
    """The comparison can fail: with a wrong parity, a lost sticky bit or a wrong negation results differ."""
    package = tmp_path / "special_function_pkg.sv"
    text = (ROOT / PACKAGE).read_text()
    assert text.count(sound) == 1
    package.write_text(text.replace(sound, broken))
    operands = np.concatenate([special(), borders()])
    found = results(tmp_path, operands, design(package, f"-{function}"))
    assert function in differing(operands, found)
