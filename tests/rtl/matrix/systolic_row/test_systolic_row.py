"""Builds systolic_row and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/systolic_row"


def test_systolic_row() -> None:
    """Random steps on random operands."""
    run_block(
        block_design(
            "systolic_row",
            ("rtl/matrix/fp32_pkg.sv", "rtl/matrix/systolic_row.sv"),
            parameters={"Cols": 4},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the row needs
        ),
        f"{HERE}/cocotb_systolic_row".replace("/", "."),
    )
