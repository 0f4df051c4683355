"""Builds stream_window for few and for all lanes and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/stream_window"
VECTOR_LENGTH = 32


@pytest.mark.parametrize(("lanes", "row_elements"), [(4, 64), (16, 128)])
def test_stream_window(lanes: int, row_elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random rows of every kind, with stalls; room, drain, abort."""
    monkeypatch.setitem(os.environ, "WINDOW_LANES", str(lanes))
    monkeypatch.setitem(os.environ, "WINDOW_ROW_ELEMENTS", str(row_elements))
    monkeypatch.setitem(os.environ, "WINDOW_VECTOR_LENGTH", str(VECTOR_LENGTH))
    run_block(
        block_design(
            "stream_window_tb",
            ("rtl/vector_pkg.sv", "rtl/stream_window.sv", f"{HERE}/stream_window_tb.sv"),
            parameters={
                "Lanes": lanes,
                "RowElements": row_elements,
                "BeatBits": (VECTOR_LENGTH // lanes).bit_length() - 1,
            },
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the window needs
        ),
        f"{HERE}/cocotb_stream_window".replace("/", "."),
    )
