"""Builds tile_buffer as both feeders have it and runs its cocotb tests."""

import os

import pytest

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/tile_buffer"


@pytest.mark.parametrize(("blocks", "early"), [(2, 0), (4, 1)], ids=["weights", "rows"])
def test_tile_buffer(blocks: int, early: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random traffic and aborts."""
    monkeypatch.setitem(os.environ, "BUFFER_BLOCKS", str(blocks))
    monkeypatch.setitem(os.environ, "BUFFER_EARLY", str(early))
    run_block(
        block_design(
            "tile_buffer",
            ("rtl/matrix/tile_buffer.sv",),
            parameters={"Tile": 4, "TagBits": 8, "Blocks": blocks, "Early": early},
        ),
        f"{HERE}/cocotb_tile_buffer".replace("/", "."),
    )
