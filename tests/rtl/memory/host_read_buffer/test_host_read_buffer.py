"""Runs the tests of host_read_buffer."""

from tb.blocks import run_module


def test_host_read_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_module(__file__)
