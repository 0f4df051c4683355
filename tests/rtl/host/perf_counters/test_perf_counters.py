"""Runs the tests of perf_counters."""

from tb.blocks import run_module


def test_perf_counters() -> None:
    """Every count at every width, and the clear."""
    run_module(__file__)
