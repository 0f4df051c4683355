"""vector_alu as hardware. The tests of vector_alu_pkg compare its arithmetic, those of commands its use."""

from tests.rtl.synthesis import holds

LANES = 4
SOURCES = (
    "rtl/npu_pkg.sv",
    "rtl/matrix/fp32_pkg.sv",
    "rtl/vector/vector_alu_pkg.sv",
    "rtl/vector/vector_pkg.sv",
    "rtl/vector/vector_alu.sv",
)


def test_one_multiplier_a_lane() -> None:
    """All sums and products of a lane share one fused multiply-add: there is one multiplier in it."""
    parameters = f"-G Lanes={LANES}"
    assert not holds("vector_alu", SOURCES, [f"select -assert-count {LANES} t:$mul"], parameters)
    assert holds("vector_alu", SOURCES, [f"select -assert-count {LANES + 1} t:$mul"], parameters)
