"""Runs the tests of stream_walker."""

from tb.blocks import run_module


def test_stream_walker() -> None:
    """Random streams, with and without waiting."""
    run_module(__file__)
