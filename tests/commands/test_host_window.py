"""The host window s_axi, the front door to device memory, driven by a general AXI4 master."""

import cocotb
import numpy as np
from cocotbext.axi import AxiBurstType, AxiResp

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.testbench import NpuTestbench, npu_test


def random_bytes(tb: NpuTestbench, count: int) -> bytes:
    return tb.rng.integers(0, 256, count, dtype=np.uint8).tobytes()


@npu_test()
async def test_write_and_read(tb: NpuTestbench) -> None:
    """Sizes and alignments of every kind; both doors see the same bytes."""
    bus = tb.config.bus_bytes
    for nbytes in (1, 2, bus - 1, bus, bus + 1, 5 * bus + 3, 5000):
        for offset in (0, 1, bus - 1, tb.random.randrange(4096)):
            data = random_bytes(tb, nbytes)
            address = tb.alloc(nbytes, tb.random.choice(("weight", "activation")), offset=offset)
            assert (await tb.memory.front_write(address, data)).resp == AxiResp.OKAY
            tb.scoreboard.check_memory(tb.memory.shared)
            answer = await tb.memory.front_read(address, nbytes)
            assert answer.resp == AxiResp.OKAY
            assert bytes(answer.data) == data


@npu_test()
async def test_narrow(tb: NpuTestbench) -> None:
    """Beats narrower than the bus, aligned or not."""
    for size in range(tb.config.bus_bytes.bit_length()):
        for offset in (0, 1, 3):
            data = random_bytes(tb, 37)
            address = tb.alloc(64, offset=offset)
            assert (await tb.memory.front_write(address, data, size=size)).resp == AxiResp.OKAY
            tb.scoreboard.check_memory(tb.memory.shared)
            assert bytes((await tb.memory.front_read(address, 37, size=size)).data) == data


@npu_test()
async def test_region_edges(tb: NpuTestbench) -> None:
    """First and last bytes of both regions; address 0 is memory."""
    for address in (0, 0x0FFF_FFC0, 0x1000_0000, 0x1FFF_FFC0):
        data = random_bytes(tb, 64)
        assert (await tb.memory.front_write(address, data)).resp == AxiResp.OKAY
        assert bytes((await tb.memory.front_read(address, 64)).data) == data
    tb.scoreboard.check_memory(tb.memory.shared)


@npu_test()
async def test_refused(tb: NpuTestbench) -> None:
    """Accesses to registers and reserved addresses are decode errors and change nothing; the window goes on
    working."""
    async with tb.memory.front_door() as master:
        for address in (0x2000_0000, 0x2000_0100, 0x2001_0000, 0x3FFF_FFC0, 0x4000_0000, 0xFFFF_FF00):
            assert (await master.write(address, random_bytes(tb, 100))).resp == AxiResp.DECERR, hex(address)
            assert (await master.read(address, 100)).resp == AxiResp.DECERR, hex(address)
    tb.scoreboard.check_memory(tb.memory.shared)
    address = tb.alloc(100)
    data = random_bytes(tb, 100)
    await tb.memory.front_write(address, data)
    assert bytes((await tb.memory.front_read(address, 100)).data) == data
    await tb.probe()


@npu_test()
async def test_memory_errors_reach_the_host(tb: NpuTestbench) -> None:
    """SLVERR from memory on a host access goes to the host and is no error of the device."""
    address = tb.place(np.zeros(256, dtype=np.uint8))
    tb.dram.add_fault(address, address + 64, read=True, write=True, count=2)
    async with tb.memory.front_door() as master:
        assert (await master.write(address, b"x" * 16)).resp == AxiResp.SLVERR
        assert (await master.read(address, 16)).resp == AxiResp.SLVERR
    tb.dram.clear_faults()
    tb.scoreboard.check_memory(tb.memory.shared)
    await tb.probe()


@npu_test()
async def test_beside_the_engines(tb: NpuTestbench) -> None:
    """Host traffic and commands at the same time, in separate places, affect only each other's timing."""
    nbytes = 8000
    copies = [
        NpuCommandPacket(
            Opcode.MEMCPY,
            0,
            tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8)),
            0,
            tb.destination(nbytes),
            m=nbytes,
        )
        for _ in range(3)
    ]
    host = [(tb.alloc(700, offset=i), random_bytes(tb, 700)) for i in range(4)]
    before = (await tb.counters())["HOST_BEATS"]
    await tb.commands.submit(copies)

    async def host_traffic() -> None:
        for address, data in host:
            assert (await tb.memory.front_write(address, data)).resp == AxiResp.OKAY
            assert bytes((await tb.memory.front_read(address, 700)).data) == data

    task = cocotb.start_soon(host_traffic())
    await task
    assert await tb.check() == State.DONE
    assert (await tb.counters())["HOST_BEATS"] > before


@npu_test(burst=[AxiBurstType.FIXED, AxiBurstType.WRAP])
async def test_other_bursts(tb: NpuTestbench, burst: AxiBurstType) -> None:
    """FIXED reads one place again and again; WRAP returns to where it began."""
    bus = tb.config.bus_bytes
    block = tb.rng.integers(0, 256, 4 * bus, dtype=np.uint8)
    address = tb.place(block, align=4 * bus)
    start = address + bus
    answer = await tb.memory.front_read(start, 4 * bus, burst=burst)
    assert answer.resp == AxiResp.OKAY
    words = block.reshape(4, bus)
    order = [1, 1, 1, 1] if burst == AxiBurstType.FIXED else [1, 2, 3, 0]
    assert bytes(answer.data) == words[order].tobytes()
    tb.scoreboard.check_memory(tb.memory.shared)


@npu_test(burst=[AxiBurstType.INCR, AxiBurstType.FIXED])
async def test_the_devices_own_bursts_after_the_hosts(tb: NpuTestbench, burst: AxiBurstType) -> None:
    """The device's bursts are INCR of whole beats, whatever the host's bursts just before were."""
    place = tb.place(np.zeros(64, dtype=np.uint8))
    data = random_bytes(tb, 4)
    await tb.memory.front_write(place, data, size=0)
    assert (await tb.memory.front_read(place, 4, size=0, burst=burst)).resp == AxiResp.OKAY
    await tb.probe()
    tb.scoreboard.check_memory(tb.memory.shared)
