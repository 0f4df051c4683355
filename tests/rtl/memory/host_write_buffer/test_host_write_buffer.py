"""Runs the tests of host_write_buffer with little room."""

from tb.blocks import run_module

PARAMETERS = {"DataWidth": 32, "AddressWidth": 16, "MaxBurst": 8, "DataBeats": 16, "MaxOutstanding": 4}


def test_host_write_buffer() -> None:
    """Random bursts, stalls on every channel, resets."""
    run_module(__file__, **PARAMETERS)
