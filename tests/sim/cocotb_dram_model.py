"""cocotb tests of the memory model with an AXI4 master, and of its protocol checker with a faulty one."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge
from cocotbext.axi import AxiBurstType, AxiBus, AxiMaster, AxiResp

from echo_sim.native import Dram

STALLS = ("stall_aw", "stall_w", "stall_b", "stall_ar", "stall_r")


async def start(dut: Any, **knobs: float) -> Dram:
    """Start the clock, reset, clear the statistics, and set all knobs to their defaults except `knobs`."""
    cocotb.start_soon(Clock(dut.clk, 10, unit="ns").start())
    dram = Dram()
    dram.clear_faults()
    dram.configure({"read_latency": 5, "write_latency": 5, "read_bandwidth": 4096, "write_bandwidth": 4096})
    dram.configure({**dict.fromkeys(STALLS, 0.0), "max_reads": 64, "max_writes": 64, "reorder": 0, **knobs})
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
        getattr(dut, f"m_axi_{name}").value = 0
    dut.rst_n.value = 0
    await ClockCycles(dut.clk, 3)
    dut.rst_n.value = 1
    await ClockCycles(dut.clk, 3)
    dram.clear_statistics()
    return dram


def bus_bytes(dut: Any) -> int:
    return len(dut.m_axi_wdata) // 8


@cocotb.test()
@cocotb.parametrize(stalls=[0.0, 0.5], reorder=[0, 1])
async def test_random_traffic(dut: Any, stalls: float, reorder: int) -> None:
    """Writes and reads of all sizes and alignments, narrow ones too: memory behaves like a bytearray."""
    dram = await start(dut, **dict.fromkeys(STALLS, stalls), reorder=reorder)
    master = AxiMaster(AxiBus.from_prefix(dut, "m_axi"), dut.clk)
    memory = dram.map()
    memory[0x1000:0x9000] = 0
    mirror = bytearray(0x8000)
    for _ in range(60):
        length = random.choice((1, 3, random.randint(1, 100), random.randint(1, 5000)))
        at = random.randrange(0x8000 - length)
        size = random.choice((None, *range(bus_bytes(dut).bit_length())))
        if random.random() < 0.5:
            data = random.randbytes(length)
            assert (await master.write(0x1000 + at, data, size=size)).resp == AxiResp.OKAY
            mirror[at : at + length] = data
        else:
            assert bytes((await master.read(0x1000 + at, length, size=size)).data) == mirror[at : at + length]
    assert memory[0x1000:0x9000].tobytes() == mirror
    assert dram.violations() == []


@cocotb.test()
async def test_wrap_and_fixed(dut: Any) -> None:
    """WRAP returns to its start, FIXED stays."""
    dram = await start(dut)
    master = AxiMaster(AxiBus.from_prefix(dut, "m_axi"), dut.clk)
    bus = bus_bytes(dut)
    words = np.arange(4 * bus, dtype=np.uint8).reshape(4, bus)
    dram.map()[0x2000 : 0x2000 + 4 * bus] = words.reshape(-1)
    wrapped = await master.read(0x2000 + 2 * bus, 4 * bus, burst=AxiBurstType.WRAP)
    assert bytes(wrapped.data) == words[[2, 3, 0, 1]].tobytes()
    fixed = await master.read(0x2000 + bus, 3 * bus, burst=AxiBurstType.FIXED)
    assert bytes(fixed.data) == words[[1, 1, 1]].tobytes()
    await master.write(0x2000 + 3 * bus, words.tobytes(), burst=AxiBurstType.WRAP)
    assert dram.map()[0x2000 : 0x2000 + 4 * bus].tobytes() == words[[1, 2, 3, 0]].tobytes()
    assert dram.violations() == []


@cocotb.test()
async def test_errors(dut: Any) -> None:
    """Injected and decode errors give the right response, the set number of times, and no byte is written."""
    dram = await start(dut)
    master = AxiMaster(AxiBus.from_prefix(dut, "m_axi"), dut.clk)
    memory = dram.map()
    memory[0x3000:0x3100] = 7
    dram.add_fault(0x3010, 0x3011, read=True, write=True, count=2)
    assert (await master.write(0x3010, b"12345678")).resp == AxiResp.SLVERR
    assert (memory[0x3000:0x3100] == 7).all()
    assert (await master.read(0x3010, 8)).resp == AxiResp.SLVERR
    assert (await master.read(0x3010, 8)).resp == AxiResp.OKAY
    dram.add_fault(0x3000, 0x3100, write=True, decode=True)
    assert (await master.write(0x3080, b"x")).resp == AxiResp.DECERR
    assert (await master.read(0x3080, 1)).resp == AxiResp.OKAY
    dram.clear_faults()
    assert dram.statistic("decode_errors") == 0
    assert (await master.read(0x2000_0000, 4)).resp == AxiResp.DECERR
    assert dram.statistic("decode_errors") == 1
    assert dram.statistic("first_error_address") & ~63 == 0x3000


@cocotb.test()
@cocotb.parametrize(latency=[1, 2, 7, 40])
async def test_latency(dut: Any, latency: int) -> None:
    """read_latency is the number of cycles from the accepted address to the first valid data."""
    await start(dut, read_latency=latency)
    await address(dut, "ar", 0x1000)
    cycles = 1
    dut.m_axi_rready.value = 1
    while True:
        await ReadOnly()
        if dut.m_axi_rvalid.value:
            break
        await RisingEdge(dut.clk)
        cycles += 1
    assert cycles == latency


@cocotb.test()
@cocotb.parametrize(share=[1, 2, 5])
async def test_bandwidth(dut: Any, share: int) -> None:
    """A bandwidth of a fraction of the bus delivers that fraction of the beats."""
    bus = bus_bytes(dut)
    await start(dut, read_bandwidth=bus / share)
    dut.m_axi_rready.value = 1
    await address(dut, "ar", 0x1000, length=64)
    beats = []
    for cycle in range(64 * share + 50):
        await RisingEdge(dut.clk)
        if dut.m_axi_rvalid.value:
            beats.append(cycle)
    assert len(beats) == 64
    assert abs(beats[-1] - beats[0] - 63 * share) <= 1  # the knob is rounded to 1/65536 byte


async def address(
    dut: Any, channel: str, addr: int, *, length: int = 1, burst: int = 1, size: int | None = None
) -> None:
    """Offer one address beat until it is accepted."""
    full = bus_bytes(dut).bit_length() - 1
    for name, value in {
        "addr": addr,
        "len": length - 1,
        "burst": burst,
        "size": full if size is None else size,
        "id": 1,
        "valid": 1,
    }.items():
        getattr(dut, f"m_axi_{channel}{name}").value = value
    while True:
        await RisingEdge(dut.clk)
        if getattr(dut, f"m_axi_{channel}ready").value:
            break
    getattr(dut, f"m_axi_{channel}valid").value = 0


async def data(dut: Any, *, strb: int, last: int) -> None:
    """Offer one beat of write data until it is accepted."""
    dut.m_axi_wdata.value = 0x55
    dut.m_axi_wstrb.value = strb
    dut.m_axi_wlast.value = last
    dut.m_axi_wvalid.value = 1
    while True:
        await RisingEdge(dut.clk)
        if dut.m_axi_wready.value:
            break
    dut.m_axi_wvalid.value = 0


def one(dram: Dram, words: str) -> None:
    """Check that exactly one kind of violation was reported, with these words."""
    found = dram.violations()
    assert found, f"nothing seen of: {words}"
    assert all(words in text for text in found), found


@cocotb.test()
async def test_illegal_bursts_are_seen(dut: Any) -> None:
    """4 KiB boundary, width, type, FIXED length, WRAP length and alignment."""
    bus = bus_bytes(dut)
    full = bus.bit_length() - 1
    for words, request in {
        "crosses a 4 KiB boundary": {"addr": 0x1FFF & -bus, "length": 2},
        "wider than the bus": {"addr": 0x1000, "size": full + 1},
        "burst type 3": {"addr": 0x1000, "burst": 3},
        "FIXED burst of 17": {"addr": 0x1000, "length": 17, "burst": 0},
        "WRAP burst of 3": {"addr": 0x1000, "length": 3, "burst": 2},
        "WRAP burst at unaligned": {"addr": 0x1001, "length": 4, "burst": 2},
    }.items():
        for channel in ("ar", "aw"):
            dram = await start(dut)
            await address(dut, channel, **request)
            await ClockCycles(dut.clk, 2)
            one(dram, words)


@cocotb.test()
async def test_bad_write_data_is_seen(dut: Any) -> None:
    """wlast too early, too late, and strobes outside of a narrow beat."""
    everything = (1 << bus_bytes(dut)) - 1
    dram = await start(dut)
    await address(dut, "aw", 0x1000, length=3)
    await data(dut, strb=everything, last=0)
    await data(dut, strb=everything, last=1)
    await ClockCycles(dut.clk, 2)
    one(dram, "wlast 1 at beat 2 of 3")
    dram = await start(dut)
    await address(dut, "aw", 0x1000)
    await data(dut, strb=everything, last=0)
    await ClockCycles(dut.clk, 2)
    one(dram, "wlast 0 at beat 1 of 1")
    dram = await start(dut)
    await address(dut, "aw", 0x1002, size=0)
    await data(dut, strb=0b1100, last=1)
    await ClockCycles(dut.clk, 2)
    one(dram, "outside the lanes")


@cocotb.test()
@cocotb.parametrize(channel=["aw", "ar", "w"])
async def test_restless_channels_are_seen(dut: Any, channel: str) -> None:
    """A valid that falls, or a payload that changes, before ready."""
    payload = {"aw": "m_axi_awaddr", "ar": "m_axi_araddr", "w": "m_axi_wstrb"}[channel]
    stall = {f"stall_{channel}": 0.9}
    for change, words in (("valid", "fell before"), ("payload", "changed while waiting")):
        dram = await start(dut, **stall, seed=3)
        ready = getattr(dut, f"m_axi_{channel}ready")
        while True:  # begin in a clock in which the channel is not ready
            await RisingEdge(dut.clk)
            getattr(dut, f"m_axi_{channel}valid").value = 1
            getattr(dut, payload).value = 0
            await RisingEdge(dut.clk)
            if not ready.value:
                break
            getattr(dut, f"m_axi_{channel}valid").value = 0
        dram.clear_statistics()
        if change == "valid":
            getattr(dut, f"m_axi_{channel}valid").value = 0
        else:
            getattr(dut, payload).value = 3
        await ClockCycles(dut.clk, 2)
        found = dram.violations()
        assert any(words in text for text in found), (change, found)
        getattr(dut, f"m_axi_{channel}valid").value = 0
