"""Builds row_gatherer for the bus widths of the named configurations and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/row_gatherer"


@pytest.mark.parametrize("data_width", [64, 256])
def test_row_gatherer(data_width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random row numbers with stalls, bad numbers, aborts."""
    monkeypatch.setitem(os.environ, "GATHER_DATA_WIDTH", str(data_width))
    run_block(
        block_design(
            "row_gatherer_tb",
            ("rtl/npu_pkg.sv", "rtl/row_gatherer.sv", f"{HERE}/row_gatherer_tb.sv"),
            parameters={"DataWidth": data_width},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the gatherer needs
        ),
        f"{HERE}/cocotb_row_gatherer".replace("/", "."),
    )
