"""Builds tile_memory and runs its cocotb tests."""

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/tile_memory"


def test_tile_memory() -> None:
    """Random reads and writes."""
    run_block(
        block_design(
            "tile_memory",
            ("rtl/matrix/tile_memory.sv",),
            parameters={"Width": 128, "Depth": 32},
        ),
        f"{HERE}/cocotb_tile_memory".replace("/", "."),
    )
