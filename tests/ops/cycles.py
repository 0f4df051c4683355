"""Exact cycle numbers that must not creep: cycles.json beside this file, by configuration and workload.

A change of the RTL that moves them on purpose updates them:

    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=counters CONFIG=all
    ECHO_NPU_UPDATE=1 make SIM=verilator TEST=vector_cycles CONFIG=all
"""

import fcntl
import json
import os
from pathlib import Path

from echo_npu.packets import Packet
from echo_npu.status import State
from tb.bench import NpuBench, stalled

CYCLES_FILE = Path(__file__).with_name("cycles.json")


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
    if stalled():
        return
    if os.environ.get("ECHO_NPU_UPDATE"):
        _update(config, measured)
    expected = json.loads(CYCLES_FILE.read_text(encoding="utf-8"))[config]
    moved = {
        name: (expected.get(name), cycles)
        for name, cycles in measured.items()
        if expected.get(name) != cycles
    }
    assert not moved, f"cycles moved, (committed, measured): {moved}; see {Path(__file__).name}"


def _update(config: str, measured: dict[str, int]) -> None:
    """Store new numbers; several simulators may do so at once."""
    with open(CYCLES_FILE, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        cycles = json.loads(text) if text else {}
        cycles[config] = {**cycles.get(config, {}), **measured}
        file.truncate(0)
        file.write(json.dumps(cycles, indent=2, sort_keys=True) + "\n")
