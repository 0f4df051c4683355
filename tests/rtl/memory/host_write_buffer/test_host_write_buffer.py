"""Runs the tests of host_write_buffer."""

from tb.blocks import run_module


def test_host_write_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_module(__file__)
