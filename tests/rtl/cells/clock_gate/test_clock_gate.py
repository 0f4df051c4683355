"""Runs the tests of clock_gate."""

from tb.blocks import run_module


def test_clock_gate() -> None:
    """Whole pulses, exactly in the clocks that an enable precedes."""
    run_module(__file__)
