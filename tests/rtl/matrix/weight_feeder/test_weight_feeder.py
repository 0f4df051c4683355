"""Builds weight_feeder with a small panel and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/weight_feeder"


def test_weight_feeder() -> None:
    """Random panels, stalls on both sides, aborts."""
    run_block(
        block_design(
            "weight_feeder",
            ("rtl/npu_pkg.sv", "rtl/matrix/tile_buffer.sv", "rtl/matrix/weight_feeder.sv"),
            parameters={"Tile": 4, "BlockN": 32, "AddrBits": 8, "ManyRows": 12},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the feeder needs
        ),
        f"{HERE}/cocotb_weight_feeder".replace("/", "."),
    )
