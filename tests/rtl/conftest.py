"""The files cocotb_*.py run inside the simulator: once for each of their CONFIGURATIONS."""

from tb.pytest_cocotb import make_testbench_file as pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]
