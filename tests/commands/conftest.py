"""The test files here are cocotb suites: they run inside the simulator."""

from tb.pytest_cocotb import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
