"""Runs the tests of skid_buffer."""

from tb.blocks import run_module


def test_skid_buffer() -> None:
    """Random stalls on both sides, throughput, registered outputs."""
    run_module(__file__, Width=16)
