"""Cocotb tests of axi_slave: random AXI4 traffic of every burst kind against a model of the memory."""

import dataclasses
import random
from collections import defaultdict, deque

import cocotb
from cocotb.clock import Clock
from cocotb.handle import SimHandleBase
from cocotb.triggers import ClockCycles, Event, ReadOnly, RisingEdge
from cocotbext.axi import AxiBus, AxiResp, AxiSlave
from cocotbext.axi.axi_channels import (
    AxiARSource,
    AxiARTransaction,
    AxiAWSource,
    AxiAWTransaction,
    AxiBSink,
    AxiRSink,
    AxiWSource,
    AxiWTransaction,
)

from tb.blocks import parameter
from tests.rtl.bursts import PAGE, Burst, BurstType, draw
from tests.rtl.stimulus import pause

CONFIGURATIONS = [{"DataWidth": 64, "MaxOutstanding": 8}, {"DataWidth": 256, "MaxOutstanding": 8}]
LANES = parameter("DataWidth") // 8
MAX_OUTSTANDING = parameter("MaxOutstanding")
FULL_SIZE = LANES.bit_length() - 1
IDS = 4
MEMORY_END = 0x2000_0000
# Random traffic stays on these pages: reads and writes apart, so that their order does not matter.
WRITE_PAGES = (0x0000_0000, 0x0FFF_F000, 0x1000_0000, 0x1FFF_F000)
READ_PAGES = (0x0000_2000, 0x0FFF_D000, 0x1000_3000, 0x1FFF_C000)
FAULTY_PAGE = 0x0800_0000  # the memory answers with an error
OUTSIDE = (0x2000_0000, 0x2000_F000, 0x2001_0000, 0x3FFF_F000, 0x4000_0000, 0x8000_0000, 0xFFFF_F000)


def legal(burst: Burst) -> bool:
    """Return whether AXI4 allows the burst on this bus."""
    if burst.size > FULL_SIZE:
        return False
    step = 1 << burst.size
    if burst.kind == BurstType.FIXED:
        return burst.length <= 16
    if burst.kind == BurstType.INCR:
        return burst.address % PAGE // step * step + step * burst.length <= PAGE
    return burst.kind == BurstType.WRAP and burst.length in (2, 4, 8, 16) and burst.address % step == 0


def response(burst: Burst) -> AxiResp:
    """Return the response that the host must get."""
    if burst.address >= MEMORY_END or not legal(burst):
        return AxiResp.DECERR
    return AxiResp.SLVERR if burst.address // PAGE * PAGE == FAULTY_PAGE else AxiResp.OKAY


def random_good(pages: tuple[int, ...]) -> Burst:
    """Draw a legal burst within one of the pages."""
    return draw(random.choice(pages), LANES, IDS)


def random_bad() -> Burst:
    """Draw a burst that must be refused."""
    axi_id = random.randrange(IDS)
    inside = random.choice(WRITE_PAGES)
    choice = random.randrange(6)
    if choice == 0:
        return Burst(axi_id, inside + PAGE - LANES, random.randint(2, 9), FULL_SIZE, BurstType.INCR)
    if choice == 1:
        return Burst(axi_id, inside, random.randint(1, 9), FULL_SIZE, 3)
    if choice == 2:
        return Burst(axi_id, inside, random.choice((1, 3, 5, 17)), FULL_SIZE, BurstType.WRAP)
    if choice == 3:
        return Burst(axi_id, inside, random.randint(17, 30), FULL_SIZE, BurstType.FIXED)
    if choice == 4:
        return Burst(axi_id, inside, random.randint(1, 4), FULL_SIZE + 1, BurstType.INCR)
    good = random_good((random.choice(OUTSIDE),))
    return dataclasses.replace(good, axi_id=axi_id)


def random_faulty() -> Burst:
    """Draw a legal burst that the memory answers with an error."""
    return random_good((FAULTY_PAGE,))


def fields(channel: str, burst: Burst) -> dict[str, int]:
    """Return the signals of a burst on an address channel, "aw" or "ar"."""
    values = zip(("id", "addr", "len", "size", "burst"), dataclasses.astuple(burst), strict=True)
    return {f"{channel}{name}": value - (name == "len") for name, value in values}


class SparseMemory:
    """Target of the AXI slave model: sparse bytes; one page raises, which the model turns into SLVERR."""

    def __init__(self) -> None:
        self.bytes: dict[int, int] = {}

    async def read(self, address: int, length: int) -> bytes:
        """Return the bytes at an address."""
        self._check(address)
        return bytes(self.bytes.get(address + i, 0) for i in range(length))

    async def write(self, address: int, data: bytes) -> None:
        """Store bytes."""
        self._check(address)
        for i, byte in enumerate(data):
            self.bytes[address + i] = byte

    @staticmethod
    def _check(address: int) -> None:
        assert address < MEMORY_END, f"the window let 0x{address:X} through"
        if address // PAGE * PAGE == FAULTY_PAGE:
            raise ValueError("faulty page")


class AxiSlaveTestbench:
    """Host channels, memory, and the check of every response."""

    def __init__(self, dut: SimHandleBase) -> None:
        self.dut = dut
        self.target = SparseMemory()
        self.golden: dict[int, int] = {}
        self.writes: defaultdict[int, deque[Burst]] = defaultdict(deque)  # by ID: what waits for its response
        self.reads: defaultdict[int, deque[tuple[Burst, list[int]]]] = defaultdict(deque)
        self.waiting = 0
        self.checked = 0
        self.all_done = Event()

    async def start(self, idle: float = 0.0, backpressure: float = 0.0, memory_stall: float = 0.0) -> None:
        """Start the clock, reset, and start the models on both sides."""
        dut = self.dut
        reset = {"reset": dut.rst_ni, "reset_active_level": False}
        dut.rst_ni.value = 0
        host = AxiBus.from_prefix(dut, "s_axi")
        self.aw = AxiAWSource(host.write.aw, dut.clk_i, **reset)
        self.w = AxiWSource(host.write.w, dut.clk_i, **reset)
        self.b = AxiBSink(host.write.b, dut.clk_i, **reset)
        self.ar = AxiARSource(host.read.ar, dut.clk_i, **reset)
        self.r = AxiRSink(host.read.r, dut.clk_i, **reset)
        self.memory = AxiSlave(AxiBus.from_prefix(dut, "m_axi"), dut.clk_i, target=self.target, **reset)
        Clock(dut.clk_i, 10, unit="ns").start()
        await ClockCycles(dut.clk_i, 4)
        dut.rst_ni.value = 1
        await ClockCycles(dut.clk_i, 2)
        write, read = self.memory.write_if, self.memory.read_if
        writing = write.aw_channel, write.w_channel, write.b_channel
        self.memory_channels = (*writing, read.ar_channel, read.r_channel)
        pause(idle, self.aw, self.w, self.ar)
        pause(backpressure, self.b, self.r)
        pause(memory_stall, *self.memory_channels)
        cocotb.start_soon(self._check_writes())
        cocotb.start_soon(self._check_reads())

    def write(self, burst: Burst) -> None:
        """Queue a write of random data with random strobes, and apply its effect to the model."""
        self.aw.send_nowait(AxiAWTransaction(**fields("aw", burst)))
        good = response(burst) == AxiResp.OKAY
        addresses = burst.addresses() if legal(burst) else [burst.address] * burst.length
        for beat, address in enumerate(addresses):
            data = random.getrandbits(8 * LANES)
            word = address // LANES * LANES
            first = max(burst.address, address) if beat == 0 or burst.kind == BurstType.FIXED else address
            lanes = list(range(first - word, min(LANES, address - word + (1 << burst.size))))
            # The memory model fails a burst only if it stores some of it.
            density = 1.0 if response(burst) == AxiResp.SLVERR else 0.9
            strobe = sum(1 << lane for lane in lanes if random.random() < density)
            self.w.send_nowait(AxiWTransaction(wdata=data, wstrb=strobe, wlast=int(beat == burst.length - 1)))
            for lane in range(LANES):
                if good and strobe >> lane & 1:
                    self.golden[word + lane] = data >> 8 * lane & 0xFF
        self.writes[burst.axi_id].append(burst)
        self.waiting += 1

    def read(self, burst: Burst) -> None:
        """Queue a read and the expected content of each beat."""
        self.ar.send_nowait(AxiARTransaction(**fields("ar", burst)))
        expected = [0] * burst.length
        if response(burst) == AxiResp.OKAY:
            for beat, address in enumerate(burst.addresses()):
                word = address // LANES * LANES
                expected[beat] = sum(self.golden.get(word + lane, 0) << 8 * lane for lane in range(LANES))
        self.reads[burst.axi_id].append((burst, expected))
        self.waiting += 1

    def fill(self, pages: tuple[int, ...]) -> None:
        """Fill memory and the model with random bytes, past the window."""
        for page in pages:
            for address in range(page, page + PAGE):
                self.target.bytes[address] = self.golden[address] = random.getrandbits(8)

    def _finished(self) -> None:
        self.waiting -= 1
        self.checked += 1
        if self.waiting == 0:
            self.all_done.set()

    async def _check_writes(self) -> None:
        while True:
            answer = await self.b.recv()
            axi_id = int(answer.bid)
            assert self.writes[axi_id], f"a write response for id {axi_id} that nobody waits for"
            burst = self.writes[axi_id].popleft()
            assert int(answer.bresp) == response(burst), f"{burst}: response {int(answer.bresp)}"
            self._finished()

    async def _check_reads(self) -> None:
        beats: defaultdict[int, int] = defaultdict(int)
        while True:
            answer = await self.r.recv()
            axi_id = int(answer.rid)
            assert self.reads[axi_id], f"read data for id {axi_id} that nobody waits for"
            burst, expected = self.reads[axi_id][0]
            beat = beats[axi_id]
            last = beat == burst.length - 1
            assert int(answer.rresp) == response(burst), f"{burst}: response {answer.rresp} in beat {beat}"
            assert int(answer.rdata) == expected[beat], f"{burst}: beat {beat}"
            assert bool(answer.rlast) == last, f"{burst}: last in beat {beat}"
            beats[axi_id] = 0 if last else beat + 1
            if last:
                self.reads[axi_id].popleft()
                self._finished()

    async def drain(self) -> None:
        """Wait until everything is answered, then compare all of memory with the model."""
        if self.waiting:
            self.all_done.clear()
            await self.all_done.wait()
        assert self.checked > 0
        stored, golden = ({a: b for a, b in each.items() if b} for each in (self.target.bytes, self.golden))
        assert stored == golden


@cocotb.test(timeout_time=20, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.4], backpressure=[0.0, 0.4], memory_stall=[0.0, 0.4])
async def random_traffic(dut: SimHandleBase, idle: float, backpressure: float, memory_stall: float) -> None:
    """Reads and writes of every kind, refused and failing ones among them, are all outstanding at once."""
    testbench = AxiSlaveTestbench(dut)
    testbench.fill(READ_PAGES)
    await testbench.start(idle, backpressure, memory_stall)
    for _ in range(150):
        for action, pages in ((testbench.write, WRITE_PAGES), (testbench.read, READ_PAGES)):
            dice = random.random()
            action(random_bad() if dice < 0.2 else random_faulty() if dice < 0.3 else random_good(pages))
    await testbench.drain()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def only_refused(dut: SimHandleBase) -> None:
    """Only refused traffic: all of it is answered, none reaches the memory, and good traffic works
    afterwards."""
    testbench = AxiSlaveTestbench(dut)
    await testbench.start()
    for _ in range(40):
        testbench.write(random_bad())
        testbench.read(random_bad())
    testbench.write(Burst(1, 0x2000_0000, 256, FULL_SIZE, BurstType.INCR) if LANES <= 16 else random_bad())
    await testbench.drain()
    assert not testbench.target.bytes
    page = WRITE_PAGES[0]
    testbench.write(Burst(0, page, 16, FULL_SIZE, BurstType.INCR))
    await testbench.drain()
    testbench.read(Burst(0, page, 16, FULL_SIZE, BurstType.INCR))
    await testbench.drain()


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def long_stalls(dut: SimHandleBase) -> None:
    """Each channel on either side stalls for long; nothing is lost, and nothing overruns."""
    testbench = AxiSlaveTestbench(dut)
    testbench.fill(READ_PAGES)
    await testbench.start()
    host = (testbench.aw, testbench.w, testbench.b, testbench.ar, testbench.r)
    for channel in (*testbench.memory_channels, *host):
        channel.pause = True
        for _ in range(2 * MAX_OUTSTANDING):
            testbench.write(dataclasses.replace(random_good(WRITE_PAGES), length=1, kind=BurstType.INCR))
            testbench.read(dataclasses.replace(random_good(READ_PAGES), length=1, kind=BurstType.INCR))
        await ClockCycles(dut.clk_i, 500)
        assert testbench.waiting > 0
        channel.pause = False
        await testbench.drain()


async def _gaps(dut: SimHandleBase, valid: str, ready: str, beats: int) -> int:
    """Count cycles without a transfer between the first and the last of `beats` transfers on a channel."""
    seen, gaps = 0, 0
    while seen < beats:
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        if getattr(dut, valid).value and getattr(dut, ready).value:
            seen += 1
        elif seen:
            gaps += 1
    return gaps


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def throughput(dut: SimHandleBase) -> None:
    """Long bursts pass at one beat a cycle, and single-beat bursts follow each other without a pause."""
    testbench = AxiSlaveTestbench(dut)
    testbench.fill(READ_PAGES)
    await testbench.start()
    beats = min(256, PAGE // LANES)
    task = cocotb.start_soon(_gaps(dut, "s_axi_rvalid", "s_axi_rready", beats))
    testbench.read(Burst(0, READ_PAGES[0], beats, FULL_SIZE, BurstType.INCR))
    assert await task == 0, "the read burst had gaps"
    await testbench.drain()

    task = cocotb.start_soon(_gaps(dut, "m_axi_wvalid", "m_axi_wready", beats))
    testbench.write(Burst(0, WRITE_PAGES[0], beats, FULL_SIZE, BurstType.INCR))
    assert await task == 0, "the write burst had gaps"
    await testbench.drain()

    # Addresses alone: as many as may be outstanding leave back to back, and no more.
    testbench.memory.read_if.r_channel.pause = True
    testbench.memory.read_if.ar_channel.queue_occupancy_limit = -1
    task = cocotb.start_soon(_gaps(dut, "m_axi_arvalid", "m_axi_arready", MAX_OUTSTANDING))
    for index in range(2 * MAX_OUTSTANDING):
        testbench.read(Burst(index % 4, READ_PAGES[1] + LANES * index, 1, FULL_SIZE, BurstType.INCR))
    assert await task == 0, "read addresses had gaps"
    for _ in range(50):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        more = dut.m_axi_arvalid.value and dut.m_axi_arready.value
        assert not more, "more bursts outstanding than allowed"
    await RisingEdge(dut.clk_i)
    testbench.memory.read_if.r_channel.pause = False
    await testbench.drain()
