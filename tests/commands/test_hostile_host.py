"""A host that AXI4 allows but that does not cooperate: whatever it leaves undone at its port, commands and
soft resets end."""

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiResp

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.testbench import NpuTestbench, npu_test

FORWARDED = 16
"""Bursts of each direction that the window forwards without a response."""
AT_THE_PORT = 2
"""Responses that the window has received and that wait for the host."""
READ_AHEAD = 512
"""Beats that the window requests before the host takes any."""
BURSTS = FORWARDED + 4
MANY = 3 * FORWARDED
POLL_CYCLES = 1000
POLLS = 10
"""A memory that stalls may take a hundred cycles for each burst."""


async def copy(tb: NpuTestbench, nbytes: int) -> None:
    """Run and check one copy."""
    source = tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8))
    packet = NpuCommandPacket(Opcode.MEMCPY, src1_addr=source, dst_addr=tb.destination(nbytes), m=nbytes)
    assert await tb.run([packet], timeout_cycles=20_000) == State.DONE


@npu_test(held=["aw", "w", "b", "r"])
async def test_commands_and_a_soft_reset_end(tb: NpuTestbench, held: str) -> None:
    """Addresses or data of writes never come, or responses or read data are never taken, for bursts of every
    length that a page allows. Afterwards the port continues."""
    longest = min(256 * tb.config.bus_bytes, 4096)
    # All responses have room only if the bursts before them are short.
    usual = 64 if held == "b" else longest
    sizes = [*(tb.random.randint(1, usual) for _ in range(BURSTS - 1)), longest]
    # The data is in memory already, so memory is the same whenever the write arrives.
    contents = [tb.rng.integers(0, 256, nbytes, dtype=np.uint8) for nbytes in sizes]
    places = [tb.place(data, align=4096) for data in contents]
    async with tb.memory.front_door() as master:
        tb.memory.hold([held])
        if held == "r":
            tasks = [cocotb.start_soon(master.read(*each)) for each in zip(places, sizes, strict=True)]
        else:
            tasks = [
                cocotb.start_soon(master.write(place, data.tobytes()))
                for place, data in zip(places, contents, strict=True)
            ]
        await ClockCycles(tb.dut.bus_clk, 200)
        await copy(tb, 500)
        await tb.restart()
        tb.monitor.sync()
        tb.scoreboard.after_reset(tb.memory.shared, hard=False)
        await copy(tb, 500)
        assert not any(task.done() for task in tasks[-2:]), "the port did not stand still"
        tb.memory.hold(())
        for task, data in zip(tasks, contents, strict=True):
            answer = await task
            assert answer.resp == AxiResp.OKAY
            if held == "r":
                assert bytes(answer.data) == data.tobytes()
    # A soft reset clears the counters; beats without an answer or an address may have passed before.
    beats = sum(-(-nbytes // tb.config.bus_bytes) for nbytes in sizes)
    assert held in ("aw", "b") or (await tb.counters())["HOST_BEATS"] == beats
    tb.scoreboard.check_memory(tb.memory.shared)
    await tb.probe()


async def exactly(tb: NpuTestbench, statistic: str, count: int) -> None:
    """Wait until the memory has counted so much, and check that it counts no further."""
    for _ in range(POLLS):
        await ClockCycles(tb.dut.bus_clk, POLL_CYCLES)
        if tb.dram.statistic(statistic) >= count:
            break
    await ClockCycles(tb.dut.bus_clk, POLL_CYCLES)
    assert tb.dram.statistic(statistic) == count


@npu_test(held=["b", "r"])
async def test_as_many_bursts_are_forwarded(tb: NpuTestbench, held: str) -> None:
    """Of bursts of one beat, whose responses the host does not take, so many reach memory."""
    data = tb.rng.integers(0, 256, tb.config.bus_bytes, dtype=np.uint8)
    places = [tb.place(data, align=4096) for _ in range(MANY)]
    kind = "read_bursts" if held == "r" else "write_bursts"
    async with tb.memory.front_door() as master:
        tb.memory.hold([held])
        before = tb.dram.statistic(kind)
        if held == "r":
            tasks = [cocotb.start_soon(master.read(place, data.nbytes)) for place in places]
        else:
            tasks = [cocotb.start_soon(master.write(place, data.tobytes())) for place in places]
        await exactly(tb, kind, before + FORWARDED + AT_THE_PORT)
        tb.memory.hold(())
        for task in tasks:
            assert (await task).resp == AxiResp.OKAY
        assert tb.dram.statistic(kind) - before == MANY
    tb.scoreboard.check_memory(tb.memory.shared)


@npu_test()
async def test_as_many_beats_are_requested(tb: NpuTestbench) -> None:
    """Of the longest bursts, whose data the host does not take, so many reach memory."""
    beats = min(256, 4096 // tb.config.bus_bytes)
    data = tb.rng.integers(0, 256, beats * tb.config.bus_bytes, dtype=np.uint8)
    wanted = READ_AHEAD // beats
    places = [tb.place(data, align=4096) for _ in range(wanted + 2)]
    async with tb.memory.front_door() as master:
        tb.memory.hold(["r"])
        before = tb.dram.statistic("read_bursts")
        tasks = [cocotb.start_soon(master.read(place, data.nbytes)) for place in places]
        await exactly(tb, "read_bursts", before + wanted)
        tb.memory.hold(())
        for task, place in zip(tasks, places, strict=True):
            assert (await task).data == data.tobytes(), hex(place)
    tb.scoreboard.check_memory(tb.memory.shared)


@npu_test(first=["aw", "w"])
async def test_address_and_data_are_taken_alone(tb: NpuTestbench, first: str) -> None:
    """A write address that comes without data wakes the window, which takes it, and so does data that comes
    without an address."""
    valid = getattr(tb.dut, f"s_axi_{first}valid")
    data = tb.rng.integers(0, 256, tb.config.bus_bytes, dtype=np.uint8)
    place = tb.place(data, align=4096)  # so memory stays the same
    async with tb.memory.front_door() as master:
        tb.memory.hold(["w" if first == "aw" else "aw"])
        await ClockCycles(tb.dut.bus_clk, 200)  # until clocks rest
        write = cocotb.start_soon(master.write(place, data.tobytes()))
        await with_timeout(RisingEdge(valid), 10, "us")
        await ClockCycles(tb.dut.bus_clk, 50)
        assert not valid.value, "it still waits"
        tb.memory.hold(())
        assert (await write).resp == AxiResp.OKAY
    tb.scoreboard.check_memory(tb.memory.shared)
