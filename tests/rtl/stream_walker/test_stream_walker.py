"""Builds stream_walker with its testbench and runs its cocotb tests."""

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/stream_walker"


def test_stream_walker() -> None:
    """Random streams, with and without waiting."""
    run_block(
        block_design(
            "stream_walker_tb",
            ("rtl/npu_pkg.sv", "rtl/vector_pkg.sv", "rtl/stream_walker.sv", f"{HERE}/stream_walker_tb.sv"),
            verilator_args=("-Wno-UNUSEDPARAM",),  # the packages are more than the walker needs
        ),
        f"{HERE}/cocotb_stream_walker".replace("/", "."),
    )
