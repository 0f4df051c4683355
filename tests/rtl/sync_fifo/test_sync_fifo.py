"""Builds sync_fifo with its testbench and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/sync_fifo"


@pytest.mark.parametrize("depth", [2, 16])
def test_sync_fifo(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random traffic at every level."""
    monkeypatch.setitem(os.environ, "SYNC_FIFO_DEPTH", str(depth))
    run_block(
        block_design(
            "sync_fifo_tb", ("rtl/sync_fifo.sv", f"{HERE}/sync_fifo_tb.sv"), parameters={"Depth": depth}
        ),
        f"{HERE}/cocotb_sync_fifo".replace("/", "."),
    )
