"""Exact cycle numbers that must not creep: cycles.json beside this file.

A change of the RTL that moves them on purpose updates them:

    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=counters CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=overlap CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=vector_cycles CONFIG=all
"""

from pathlib import Path

from echo_npu.commands.packets import Packet
from echo_npu.spec.status import State
from echo_sim.config import config_names
from tb.committed_cycles import CommittedCycles
from tb.testbench import NpuTestbench, stalled

COMMITTED = CommittedCycles(Path(__file__).with_name("cycles.json"))


async def busy_cycles(tb: NpuTestbench, packets: list[Packet]) -> int:
    """Run packets through the window, check them; the clocks of state BUSY that they took."""
    before = (await tb.counters())["BUSY_CYCLES"]
    assert await tb.run(packets) == State.DONE, f"{packets[0]}: {await tb.state()}"
    return (await tb.counters())["BUSY_CYCLES"] - before


def timed(config: str) -> bool:
    """Whether clocks are judged: with a steady memory, on the configurations for which bounds are stated."""
    return not stalled() and config in config_names()


def compare_cycles(config: str, measured: dict[str, int]) -> None:
    """Compare with the committed numbers, or commit these, where clocks are judged.

    Raises:
        AssertionError: a number has moved.
    """
    if timed(config):
        COMMITTED.compare(config, measured)
