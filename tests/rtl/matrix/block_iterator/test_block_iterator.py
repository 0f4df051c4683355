"""Builds block_iterator with small blocks and runs its cocotb tests."""

import os

import pytest

from tb.blocks import block_design, run_block

HERE = "tests/rtl/matrix/block_iterator"


@pytest.mark.parametrize("whole_k", [0, 1])
def test_block_iterator(whole_k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random products and aborts."""
    monkeypatch.setitem(os.environ, "ITERATOR_WHOLE_K", str(whole_k))
    run_block(
        block_design(
            "block_iterator",
            ("rtl/npu_pkg.sv", "rtl/matrix/block_iterator.sv"),
            parameters={
                "Tile": 4,
                "BlockM": 32,
                "BlockKTiles": 4,
                "BlockNTiles": 8,
                "AccEntries": 128,
                "WholeK": whole_k,
            },
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the iterator needs
        ),
        f"{HERE}/cocotb_block_iterator".replace("/", "."),
    )
