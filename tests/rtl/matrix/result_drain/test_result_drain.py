"""Builds result_drain with small blocks and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/result_drain"


def test_result_drain() -> None:
    """Random blocks, stalls, aborts."""
    run_block(
        block_design(
            "result_drain",
            (
                "rtl/npu_pkg.sv",
                "rtl/matrix/fp32_pkg.sv",
                "rtl/vector/vector_alu_pkg.sv",
                "rtl/cells/sync_fifo.sv",
                "rtl/matrix/epilogue_loader.sv",
                "rtl/matrix/result_epilogue.sv",
                "rtl/matrix/result_drain.sv",
            ),
            parameters={"DataWidth": 64, "Tile": 4, "BlockM": 32, "BlockN": 64, "RingBits": 6},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the drain needs
        ),
        f"{HERE}/cocotb_result_drain".replace("/", "."),
    )
