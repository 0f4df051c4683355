"""Builds skid_buffer with its testbench and runs its cocotb tests."""

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/skid_buffer"


def test_skid_buffer() -> None:
    """Random stalls on both sides, throughput, registered outputs."""
    run_block(
        block_design("skid_buffer_tb", ("rtl/skid_buffer.sv", f"{HERE}/skid_buffer_tb.sv")),
        f"{HERE}/cocotb_skid_buffer".replace("/", "."),
    )
