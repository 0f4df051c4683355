"""SYNC: a full fence that changes nothing."""

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test


@npu_test(via=["window", "ring"], count=[1, 2, 40])
async def test_sync(tb: NpuTestbench, via: Path, count: int) -> None:
    """One SYNC, two, and more than the queue holds at once."""
    assert await tb.run([NpuCommandPacket(Opcode.SYNC)] * count, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_sync_between_copies(tb: NpuTestbench, via: Path) -> None:
    """A chain of copies, each reading what the one before wrote, with a SYNC between any two."""
    nbytes = 300
    places = [tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8))]
    packets = []
    for _ in range(6):
        places.append(tb.destination(nbytes))
        packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, places[-2], 0, places[-1], m=nbytes))
        packets.append(NpuCommandPacket(Opcode.SYNC))
    assert await tb.run(packets, via) == State.DONE
    assert np.array_equal(tb.memory.read(places[0], nbytes), tb.memory.read(places[-1], nbytes))


@npu_test(via=["window", "ring"])
async def test_submitted_at_every_clock(tb: NpuTestbench, via: Path) -> None:
    """A packet is taken in whichever clock of the previous one's execution it is submitted."""
    for delay in range(100):
        await tb.commands.submit([NpuCommandPacket(Opcode.SYNC)], via)
        await Timer((delay + 1) * CLOCK_NS, "ns")
        await tb.commands.submit([NpuCommandPacket(Opcode.SYNC)], via)
        assert await tb.commands.wait(10_000) == State.DONE
        assert (await tb.state()).retired == 2 * (delay + 1)
    await tb.check()
