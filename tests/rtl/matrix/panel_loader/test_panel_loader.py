"""Builds panel_loader with entries of two and of four beats and runs its cocotb tests."""

import os

import pytest

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/panel_loader"


@pytest.mark.parametrize(("tile", "block_x", "addr_bits"), [(4, 32, 8), (8, 32, 8)])
def test_panel_loader(tile: int, block_x: int, addr_bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random panels, stalls, aborts."""
    monkeypatch.setitem(os.environ, "LOADER_DATA_WIDTH", "64")
    monkeypatch.setitem(os.environ, "LOADER_TILE", str(tile))
    monkeypatch.setitem(os.environ, "LOADER_BLOCK_X", str(block_x))
    monkeypatch.setitem(os.environ, "LOADER_ADDR_BITS", str(addr_bits))
    run_block(
        block_design(
            "panel_loader",
            (
                "rtl/npu_pkg.sv",
                "rtl/matrix/fp32_pkg.sv",
                "rtl/vector/vector_alu_pkg.sv",
                "rtl/cells/sync_fifo.sv",
                "rtl/matrix/panel_loader.sv",
            ),
            parameters={"DataWidth": 64, "Tile": tile, "BlockX": block_x, "AddrBits": addr_bits},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the loader needs
        ),
        f"{HERE}/cocotb_panel_loader".replace("/", "."),
    )
