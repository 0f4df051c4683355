"""vector_alu as hardware. The tests of vector_alu_pkg compare its arithmetic, those of commands its use."""

import pytest

from tests.rtl.synthesis import holds

LANES = 4
SOURCES = (
    "rtl/npu_pkg.sv",
    "rtl/matrix/fp32_pkg.sv",
    "rtl/vector/vector_alu_pkg.sv",
    "rtl/vector/special_function_pkg.sv",
    "rtl/vector/vector_pkg.sv",
    "rtl/vector/special_unit.sv",
    "rtl/vector/vector_alu.sv",
)


MULTIPLIERS = 5 * LANES
"""One of the multiply-add of a lane, three of its interpolation, and one by log2(e)."""


@pytest.mark.parametrize("pipeline", [0, 1])
def test_multipliers_of_a_lane(pipeline: int) -> None:
    """All sums and products of a lane share one fused multiply-add, and its special functions one cubic."""
    parameters = f"-G Lanes={LANES} -G Pipeline={pipeline}"
    assert not holds("vector_alu", SOURCES, [f"select -assert-count {MULTIPLIERS} t:$mul"], parameters)
    assert holds("vector_alu", SOURCES, [f"select -assert-count {MULTIPLIERS + 1} t:$mul"], parameters)


def test_no_table_is_a_memory() -> None:
    """The coefficients are logic for the flows of netlists and areas; the accumulators are the one memory."""
    commands = ["memory -norom -nomap", "select -assert-count 1 t:$mem_v2"]
    assert not holds("vector_alu", SOURCES, commands, f"-G Lanes={LANES}")
