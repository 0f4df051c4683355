"""Builds epilogue_loader with small blocks and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/epilogue_loader"


def test_epilogue_loader() -> None:
    """Random blocks, stalls, aborts."""
    run_block(
        block_design(
            "epilogue_loader",
            ("rtl/npu_pkg.sv", "rtl/matrix/fp32_pkg.sv", "rtl/matrix/epilogue_loader.sv"),
            parameters={"DataWidth": 64, "Tile": 4, "BlockM": 32, "BlockN": 64},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the loader needs
        ),
        f"{HERE}/cocotb_epilogue_loader".replace("/", "."),
    )
