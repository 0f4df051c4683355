"""Builds dma_write for the bus widths of the named configurations and runs its cocotb tests."""

import os

import pytest

from tb.designs import HDL, block_design
from tb.runner import run_block

HERE = "tests/rtl/dma_write"


@pytest.mark.parametrize(("data_width", "buffer_beats"), [(64, 32), (256, 64)])
def test_dma_write(data_width: int, buffer_beats: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random transfers with stalls, error responses, aborts."""
    monkeypatch.setitem(os.environ, "DMA_DATA_WIDTH", str(data_width))
    monkeypatch.setitem(os.environ, "DMA_BUFFER_BEATS", str(buffer_beats))
    run_block(
        block_design(
            "dma_write_tb",
            (
                "rtl/npu_pkg.sv",
                "rtl/sync_fifo.sv",
                "rtl/burst_splitter.sv",
                "rtl/dma_write.sv",
                HDL / "axi_burst_checker.sv",
                HDL / "axi_write_checker.sv",
                f"{HERE}/dma_write_tb.sv",
            ),
            parameters={"DataWidth": data_width, "BufferBeats": buffer_beats},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the channel needs
        ),
        f"{HERE}/cocotb_dma_write".replace("/", "."),
    )
