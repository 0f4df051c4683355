"""SYNC: a full fence that changes nothing."""

import numpy as np
from cocotb.triggers import Timer

from echo_npu.packets import NpuCommandPacket, Opcode
from echo_npu.status import State
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS


@npu_test(via=["window", "ring"], count=[1, 2, 40])
async def test_sync(bench: NpuBench, via: Path, count: int) -> None:
    """One, two, and more than the queue holds at once."""
    assert await bench.run([NpuCommandPacket(Opcode.SYNC)] * count, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_sync_between_copies(bench: NpuBench, via: Path) -> None:
    """A chain of copies, each reading what the one before wrote, with a SYNC between any two."""
    nbytes = 300
    places = [bench.place(bench.rng.integers(0, 256, nbytes, dtype=np.uint8))]
    packets = []
    for _ in range(6):
        places.append(bench.destination(nbytes))
        packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, places[-2], 0, places[-1], m=nbytes))
        packets.append(NpuCommandPacket(Opcode.SYNC))
    assert await bench.run(packets, via) == State.DONE
    assert np.array_equal(bench.memory.read(places[0], nbytes), bench.memory.read(places[-1], nbytes))


@npu_test(via=["window", "ring"])
async def test_submitted_at_every_clock(bench: NpuBench, via: Path) -> None:
    """A packet that is submitted in whichever clock of the way of the one before it is taken as well."""
    for delay in range(100):
        await bench.commands.submit([NpuCommandPacket(Opcode.SYNC)], via)
        await Timer((delay + 1) * CLOCK_NS, "ns")
        await bench.commands.submit([NpuCommandPacket(Opcode.SYNC)], via)
        assert await bench.commands.wait(10_000) == State.DONE
        assert (await bench.state()).retired == 2 * (delay + 1)
    await bench.check()
