"""Runs the tests of ram_queue."""

from tb.blocks import run_module


def test_ram_queue() -> None:
    """Random stalls on both sides, throughput, room."""
    run_module(__file__, Width=16, Depth=8)
