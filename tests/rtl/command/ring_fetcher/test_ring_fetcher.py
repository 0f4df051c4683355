"""Builds ring_fetcher for two widths of memory and runs its cocotb tests."""

import pytest

from tb.blocks import block_design, run_block

HERE = "tests/rtl/command/ring_fetcher"


@pytest.mark.parametrize("data_width", [64, 256])
def test_ring_fetcher(data_width: int) -> None:
    """Random rings, holds, aborts, errors."""
    run_block(
        block_design(
            "ring_fetcher",
            ("rtl/npu_pkg.sv", "rtl/cells/sync_fifo.sv", "rtl/command/ring_fetcher.sv"),
            parameters={"DataWidth": data_width, "Depth": 4},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the fetcher needs
        ),
        f"{HERE}/cocotb_ring_fetcher".replace("/", "."),
    )
