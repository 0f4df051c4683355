"""Builds axi_slave for the bus widths of the named configurations and runs its cocotb tests."""

import os

import pytest

from tb.designs import AXI_CHECKERS, block_design
from tb.runner import run_block

SOURCES = ("rtl/skid_buffer.sv", "rtl/axi_slave.sv", *AXI_CHECKERS, "tests/rtl/axi_slave/axi_slave_tb.sv")
MAX_OUTSTANDING = 8


@pytest.mark.parametrize("data_width", [64, 256])
def test_axi_slave(data_width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random traffic, refusals, stalls and throughput."""
    monkeypatch.setitem(os.environ, "AXI_SLAVE_DATA_WIDTH", str(data_width))
    monkeypatch.setitem(os.environ, "AXI_SLAVE_MAX_OUTSTANDING", str(MAX_OUTSTANDING))
    run_block(
        block_design(
            "axi_slave_tb",
            SOURCES,
            parameters={"DataWidth": data_width, "MaxOutstanding": MAX_OUTSTANDING},
        ),
        "tests.rtl.axi_slave.cocotb_axi_slave",
    )
