"""Exact cycle numbers, committed in cycles.json beside this file.

After a change of the RTL that moves them on purpose, update them:

    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=counters CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=overlap CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=vector_cycles CONFIG=all
"""

from collections.abc import Sequence
from pathlib import Path as FilePath

from echo_npu.commands.packets import Packet
from echo_npu.spec.status import State
from echo_sim.config import small_memory_config_names
from tb.committed_cycles import CommittedCycles
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, stalled

COMMITTED = CommittedCycles(FilePath(__file__).with_name("cycles.json"))


async def spent(tb: NpuTestbench, packets: Sequence[Packet], via: Path = "window") -> dict[str, int]:
    """Run packets and check them; return the increase of each counter."""
    before = await tb.counters()
    assert await tb.run(packets, via) == State.DONE, f"{packets[0]}: {await tb.state()}"
    return {name: value - before[name] for name, value in (await tb.counters()).items()}


async def busy_cycles(tb: NpuTestbench, packets: Sequence[Packet], via: Path = "window") -> int:
    """Run packets and check them; return the clocks of state BUSY that they took."""
    return (await spent(tb, packets, via))["BUSY_CYCLES"]


def timed(config: str) -> bool:
    """Return whether clocks are judged: with a steady memory, on configurations with stated bounds."""
    return not stalled() and config in small_memory_config_names()


def compare_cycles(config: str, measured: dict[str, int]) -> None:
    """Compare with the committed numbers, or commit these; does nothing where clocks are not judged.

    Raises:
        AssertionError: a number has moved.
    """
    if timed(config):
        COMMITTED.compare(config, measured)
