"""Exact cycle numbers that must not creep: cycles.json beside this file.

A change of the RTL that moves them on purpose updates them:

    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=counters CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=overlap CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=vector_cycles CONFIG=all
"""

from pathlib import Path

from echo_npu.packets import Packet
from echo_npu.status import State
from tb.bench import NpuBench, stalled
from tb.committed_cycles import CommittedCycles

COMMITTED = CommittedCycles(Path(__file__).with_name("cycles.json"))


async def busy_cycles(bench: NpuBench, packets: list[Packet]) -> int:
    """Run packets through the window, check them; the clocks of state BUSY that they took."""
    before = (await bench.counters())["BUSY_CYCLES"]
    assert await bench.run(packets) == State.DONE, f"{packets[0]}: {await bench.state()}"
    return (await bench.counters())["BUSY_CYCLES"] - before


def compare_cycles(config: str, measured: dict[str, int]) -> None:
    """Compare with the committed numbers, or commit these; a memory that stalls has none.

    Raises:
        AssertionError: a number has moved.
    """
    if not stalled():
        COMMITTED.compare(config, measured)
