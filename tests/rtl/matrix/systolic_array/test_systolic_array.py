"""Builds systolic_array with few rows and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/systolic_array"


def test_systolic_array() -> None:
    """Random rows, weights and resets."""
    run_block(
        block_design(
            "systolic_array",
            ("rtl/matrix/fp32_pkg.sv", "rtl/matrix/systolic_row.sv", "rtl/matrix/systolic_array.sv"),
            parameters={"Tile": 4},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the array needs
        ),
        f"{HERE}/cocotb_systolic_array".replace("/", "."),
    )
