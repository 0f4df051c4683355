"""Runs the tests of host_read_buffer with little room."""

from tb.blocks import run_module


def test_host_read_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_module(__file__, DataWidth=32, IdWidth=4, MaxBurst=8, DataBeats=16)
