"""Builds panel_memory and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/panel_memory"


def test_panel_memory() -> None:
    """Random reads, and writes of one entry and of two."""
    run_block(
        block_design(
            "panel_memory",
            ("rtl/cells/masked_memory.sv", "rtl/matrix/panel_memory.sv"),
            parameters={"Tile": 4, "AddrBits": 6},
        ),
        f"{HERE}/cocotb_panel_memory".replace("/", "."),
    )
