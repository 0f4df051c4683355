"""Builds result_epilogue with few columns and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/result_epilogue"


def test_result_epilogue() -> None:
    """Random commands and entries, gaps, aborts."""
    run_block(
        block_design(
            "result_epilogue",
            (
                "rtl/npu_pkg.sv",
                "rtl/matrix/fp32_pkg.sv",
                "rtl/vector/vector_alu_pkg.sv",
                "rtl/matrix/result_epilogue.sv",
            ),
            parameters={"Tile": 4},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the epilogue needs
        ),
        f"{HERE}/cocotb_result_epilogue".replace("/", "."),
    )
