"""Builds burst_splitter for the bus widths of the named configurations and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/burst_splitter"


@pytest.mark.parametrize("data_width", [64, 256])
def test_burst_splitter(data_width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random transfers with stalls, and aborts."""
    monkeypatch.setitem(os.environ, "BURST_DATA_WIDTH", str(data_width))
    run_block(
        block_design(
            "burst_splitter_tb",
            ("rtl/npu_pkg.sv", "rtl/burst_splitter.sv", f"{HERE}/burst_splitter_tb.sv"),
            parameters={"DataWidth": data_width},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the splitter needs
        ),
        f"{HERE}/cocotb_burst_splitter".replace("/", "."),
    )
