"""Builds stream_input for few and for all lanes and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/stream_input"
VECTOR_LENGTH = 32


@pytest.mark.parametrize(("data_width", "lanes", "row_elements"), [(64, 4, 64), (256, 16, 128)])
def test_stream_input(
    data_width: int, lanes: int, row_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random streams with stalls, what they ask memory for, aborts."""
    monkeypatch.setitem(os.environ, "INPUT_DATA_WIDTH", str(data_width))
    monkeypatch.setitem(os.environ, "INPUT_LANES", str(lanes))
    monkeypatch.setitem(os.environ, "INPUT_ROW_ELEMENTS", str(row_elements))
    monkeypatch.setitem(os.environ, "INPUT_VECTOR_LENGTH", str(VECTOR_LENGTH))
    run_block(
        block_design(
            "stream_input_tb",
            (
                "rtl/npu_pkg.sv",
                "rtl/vector_pkg.sv",
                "rtl/stream_walker.sv",
                "rtl/element_packer.sv",
                "rtl/stream_window.sv",
                "rtl/stream_input.sv",
                f"{HERE}/stream_input_tb.sv",
            ),
            parameters={
                "DataWidth": data_width,
                "Lanes": lanes,
                "RowElements": row_elements,
                "BeatBits": (VECTOR_LENGTH // lanes).bit_length() - 1,
            },
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the stream needs
        ),
        f"{HERE}/cocotb_stream_input".replace("/", "."),
    )
