"""Builds activation_feeder with a small panel and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/activation_feeder"


def test_activation_feeder() -> None:
    """Random panels, stalls on both sides, aborts."""
    run_block(
        block_design(
            "activation_feeder",
            ("rtl/npu_pkg.sv", "rtl/matrix/tile_buffer.sv", "rtl/matrix/activation_feeder.sv"),
            parameters={"Tile": 4, "BlockM": 32, "AddrBits": 8, "AccAddrBits": 7, "ManyRows": 12},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the feeder needs
        ),
        f"{HERE}/cocotb_activation_feeder".replace("/", "."),
    )
