"""Try a device from its registers to its engines: what the owner of a new board runs first."""

from echo_npu.selftest.records import SelfCheck, SelfTest, Speed
from echo_npu.selftest.run import run_selftest

__all__ = ["SelfCheck", "SelfTest", "Speed", "run_selftest"]
