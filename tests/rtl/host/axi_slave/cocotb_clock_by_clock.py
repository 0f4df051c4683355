"""axi_slave clock by clock: what passes, what is refused, in which order, while every side waits; resets."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.bursts import PAGE, Burst, BurstType, draw
from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.progress import until
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [{"DataWidth": 64, "MaxOutstanding": 4}]
LANES = parameter("DataWidth") // 8
MOST = parameter("MaxOutstanding")
FULL_SIZE = LANES.bit_length() - 1
IDS = 16
MEMORY_END = 0x2000_0000
STAGE = 2
"""Elements that a register stage of a channel holds."""
PACE = 3
"""Clocks in which an address passes."""
OKAY, SLVERR, DECERR = 0, 2, 3
ADDRESS = ("id", "addr", "len", "size", "burst", "prot")
BITS = {"addr": 32, "len": 8, "size": 3, "burst": 2, "prot": 3}
VALIDS = [f"s_axi_{channel}valid" for channel in ("aw", "w", "ar")] + ["m_axi_bvalid", "m_axi_rvalid"]


class BurstSituation(Enum):
    """Bursts that the window must tell apart, of each direction."""

    OUTSIDE = "a burst outside of memory"
    PAGE_CROSSED = "a burst across the end of a page"
    BYTE_CROSSED = "a burst of bytes whose last one lies behind the end of a page"
    RESERVED = "a burst of the reserved kind"
    WRAP_LENGTH = "a wrapping burst of a forbidden length"
    WRAP_UNALIGNED = "a wrapping burst that is not aligned"
    FIXED_LONG = "a fixed burst of more than 16 beats"
    WIDE = "a beat that is wider than the bus"
    FIXED_MOST = "a fixed burst of 16 beats"
    WRAP_MOST = "a wrapping burst of 16 beats"
    PAGE_END = "a burst of several beats up to the end of a page"
    BYTES_END = "a burst of bytes up to the end of a page"
    MEMORY_END = "a burst up to the end of memory"
    UNALIGNED = "a burst that begins in the midst of a beat"


class AxiSlaveSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    WRITES_MOST = "a write that waits because as many as allowed are in flight"
    READS_MOST = "a read that waits because as many as allowed are in flight"
    WRITE_REFUSAL_WAITS = "a refused write behind one without a response"
    READ_REFUSAL_WAITS = "a refused read behind one without all of its data"
    WRITE_BEHIND = "a write that waits for a refused one"
    READ_BEHIND = "a read that waits for a refused one"
    WRITES_REFUSED = "two refused writes in turn"
    READS_REFUSED = "two refused reads in turn"
    DATA_FIRST = "write data inside before any address"
    DATA_AHEAD = "write data that memory takes before its address"
    AW_WAITS = "a write address that the host must hold"
    W_WAITS = "write data that the host must hold"
    B_WAITS = "a write response that memory must hold"
    AR_WAITS = "a read address that the host must hold"
    R_WAITS = "read data that memory must hold"
    MEMORY_AW_WAITS = "a write address that memory does not take"
    MEMORY_W_WAITS = "write data that memory does not take"
    MEMORY_AR_WAITS = "a read address that memory does not take"
    WRITE_FAILED = "a write response of memory that is an error"
    READ_FAILED = "a beat of read data that is an error"
    INTERLEAVED = "read data of two bursts by turns"
    RESTS = "nothing inside, and the clock rests"
    RESET_WRITES = "a reset with writes in flight"
    RESET_READS = "a reset with reads in flight"
    RESET_REFUSAL = "a reset with a refused burst inside"


def fault(burst: Burst) -> BurstSituation | None:
    """Return why a burst must be refused, if it must."""
    step = 1 << burst.size
    if burst.address >= MEMORY_END:
        return BurstSituation.OUTSIDE
    if burst.size > FULL_SIZE:
        return BurstSituation.WIDE
    if burst.kind == BurstType.FIXED:
        return BurstSituation.FIXED_LONG if burst.length > 16 else None
    if burst.kind == BurstType.INCR:
        crosses = burst.address % PAGE // step * step + step * burst.length > PAGE
        return BurstSituation.PAGE_CROSSED if crosses else None
    if burst.kind != BurstType.WRAP:
        return BurstSituation.RESERVED
    if burst.length not in (2, 4, 8, 16):
        return BurstSituation.WRAP_LENGTH
    return BurstSituation.WRAP_UNALIGNED if burst.address % step else None


def draw_burst() -> Burst:
    """Draw any burst, most of them legal or one step from it, most of them short."""
    page = random.choice((0, MEMORY_END // 2 - PAGE, MEMORY_END // 2, MEMORY_END - PAGE))
    if random.random() < 0.1:
        page = random.choice((MEMORY_END, *(1 << bit for bit in range(29, 32)), (1 << 32) - PAGE))
    axi_id, length = random.randrange(IDS), random.choice((1, 1, 2, 3, 4, 16))
    kind, size = (
        random.choice((0, 1, 1, 2, 2, 3, 3)),
        random.choice((0, FULL_SIZE, FULL_SIZE, FULL_SIZE + 1, 7)),
    )
    choice = random.random()
    if choice < 0.4:
        burst = draw(page, LANES, IDS)
        return burst if burst.length <= 16 else Burst(axi_id, page, length, FULL_SIZE, BurstType.INCR)
    if choice < 0.6:  # up to the end of a page, or one beat more
        more, size = random.random() < 0.3, random.randint(0, FULL_SIZE)
        return Burst(axi_id, page + PAGE - (length << size), length + more, size, BurstType.INCR)
    if choice < 0.75:
        return Burst(
            axi_id, page + random.randrange(64), random.choice((16, 17)), FULL_SIZE, random.choice((0, 2))
        )
    return Burst(axi_id, page + random.randrange(PAGE), length, size, kind)


class Direction:
    """The bursts of one direction, from the host's address to the last response."""

    def __init__(self, dut: Any, prefix: str, situations: Situations, bursts: Situations) -> None:
        self.dut, self.saw, self.bursts = dut, situations.saw, bursts
        self.prefix = prefix
        host, memory = ([f"{side}_axi_{prefix}{name}" for name in ADDRESS] for side in "sm")
        valids = [(f"{side}_axi_{prefix}valid", f"{side}_axi_{prefix}ready") for side in "sm"]
        self.host = HandshakeSource(dut, *valids[0], *host)
        self.memory = Ready(dut, *valids[1], memory)
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.host.withdraw()
        self.queued: deque[Burst] = deque()
        self.inside: deque[tuple[Burst, int]] = deque()  # not forwarded and not refused; with the host's bits
        self.open: list[Burst] = []  # forwarded, without a complete response
        self.answers: deque[tuple[int, ...]] = deque()  # that the host has yet to take
        self.late = 0

    def send(self, burst: Burst) -> None:
        """Queue a burst's address."""
        word = 0
        prot = random.getrandbits(3)
        values = (burst.axi_id, burst.address, burst.length - 1, burst.size, burst.kind, prot)
        for value, name in zip(values, ADDRESS, strict=True):
            word = word << BITS.get(name, 4) | value
        self.host.values.append(word)
        self.queued.append(burst)
        saw, step = self.bursts.saw, 1 << burst.size
        end = burst.address // step * step + step * burst.length
        if reason := fault(burst):
            saw(reason)
            saw(BurstSituation.BYTE_CROSSED, reason == BurstSituation.PAGE_CROSSED and end % PAGE == 1)
            return
        saw(BurstSituation.FIXED_MOST, burst.kind == BurstType.FIXED and burst.length == 16)
        saw(BurstSituation.WRAP_MOST, burst.kind == BurstType.WRAP and burst.length == 16)
        incr = burst.kind == BurstType.INCR
        saw(BurstSituation.PAGE_END, incr and burst.length > 1 and end % PAGE == 0)
        saw(BurstSituation.BYTES_END, incr and burst.size == 0 and end % PAGE == 0)
        saw(BurstSituation.MEMORY_END, incr and end == MEMORY_END)
        saw(BurstSituation.UNALIGNED, burst.address % step)

    def refused_first(self) -> bool:
        """Whether the oldest burst that is not forwarded is one to refuse."""
        return bool(self.inside) and fault(self.inside[0][0]) is not None

    def look(self) -> None:
        """Judge the addresses of this clock; one that is forwarded shows that refusals before it are done."""
        dut, direction = self.dut, self.prefix
        valid = bool(getattr(dut, f"m_axi_{direction}valid").value)
        if not getattr(dut, f"s_axi_{direction}ready").value:
            held = len(self.inside) + (self.prefix == "ar" and bool(self.answers))  # until its last beat
            assert held >= STAGE, "an address must wait although there is room"
        if valid:
            while self.refused_first():
                self.refuse()
            assert self.inside, "an address that the host did not send"
            assert len(self.open) < MOST, "more bursts in flight than allowed"
            self.late = 0
        elif self.inside and not self.refused_first() and len(self.open) < MOST and self.prompt():
            self.late += 1
            assert self.late <= PACE, "an address does not pass"

    def prompt(self) -> bool:
        """Whether nothing of a refused burst keeps the next one from passing."""
        return not self.answers

    def refuse(self) -> Burst:
        """Take the oldest burst as refused: all before it have their responses."""
        assert not self.open, "a refusal before the response of an earlier burst"
        burst, _ = self.inside.popleft()
        count = burst.length if self.prefix == "ar" else 1
        for beat in range(count):
            last = (0, DECERR, int(beat == count - 1)) if self.prefix == "ar" else (DECERR,)
            self.answers.append((burst.axi_id, *last))
        return burst

    def follow(self) -> None:
        """Follow the addresses that were taken."""
        if (taken := self.memory.took()) is not None:
            burst, word = self.inside.popleft()
            joined = 0
            for value, name in zip(taken, ADDRESS, strict=True):
                joined = joined << BITS.get(name, 4) | value
            assert joined == word, burst
            assert fault(burst) is None, f"{burst} reaches the memory"
            self.open.append(burst)
        if (sent := self.host.taken()) is not None:
            burst = self.queued.popleft()
            self.inside.append((burst, sent))
            self.accept(burst)

    def accept(self, burst: Burst) -> None:
        """Note a burst whose address the window has taken."""


class Writes(Direction):
    """Writes, their data and their responses."""

    def __init__(self, dut: Any, situations: Situations, bursts: Situations) -> None:
        self.data = HandshakeSource(
            dut, "s_axi_wvalid", "s_axi_wready", "s_axi_wdata", "s_axi_wstrb", "s_axi_wlast"
        )
        self.beats = Ready(dut, "m_axi_wvalid", "m_axi_wready", ["m_axi_wdata", "m_axi_wstrb", "m_axi_wlast"])
        self.answer = HandshakeSource(dut, "m_axi_bvalid", "m_axi_bready", "m_axi_bid", "m_axi_bresp")
        self.sink = Ready(dut, "s_axi_bvalid", "s_axi_bready", ["s_axi_bid", "s_axi_bresp"])
        super().__init__(dut, "aw", situations, bursts)
        self.sides = (self.host, self.memory, self.data, self.beats, self.answer, self.sink)

    def forget(self) -> None:
        super().forget()
        self.data.withdraw()
        self.answer.withdraw()
        self.inner: deque[int] = deque()  # beats not forwarded
        self.order: deque[Burst] = deque()  # accepted bursts whose data is not all forwarded or swallowed
        self.done = 0  # of the open ones, from the first on: all data forwarded, no response offered
        self.offered = 0

    @property
    def empty(self) -> bool:
        return not (self.inside or self.open or self.answers or self.inner)

    def send(self, burst: Burst) -> None:
        super().send(burst)
        named = burst.kind in (BurstType.FIXED, BurstType.INCR) or fault(burst) is None
        lanes = burst.lanes(LANES) if named and burst.size <= FULL_SIZE else [0] * burst.length
        for beat, most in enumerate(lanes, 1):
            data, strobes = random.getrandbits(8 * LANES), random.getrandbits(LANES) & most
            self.data.values.append((data << LANES | strobes) << 1 | (beat == burst.length))

    def refuse(self) -> Burst:
        burst = super().refuse()
        assert self.order.popleft() is burst
        for beat in range(burst.length):
            assert self.inner, "a refusal before all data of the burst"
            assert self.inner.popleft() & 1 == (beat == burst.length - 1)
        return burst

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge."""
        for side in self.sides:
            side.drive()

    def judge(self) -> None:
        """Judge and follow this clock."""
        dut, saw = self.dut, self.saw
        valid, waits = bool(dut.s_axi_bvalid.value), bool(self.inside)
        refused = self.refused_first()
        saw(AxiSlaveSituation.WRITE_REFUSAL_WAITS, refused and self.open)
        saw(AxiSlaveSituation.WRITE_BEHIND, refused and len(self.inside) > 1 and not fault(self.inside[1][0]))
        saw(AxiSlaveSituation.WRITES_REFUSED, refused and len(self.inside) > 1 and fault(self.inside[1][0]))
        saw(AxiSlaveSituation.WRITES_MOST, waits and not refused and len(self.open) == MOST)
        saw(AxiSlaveSituation.DATA_FIRST, self.inner and not self.order)
        saw(AxiSlaveSituation.AW_WAITS, dut.s_axi_awvalid.value and not dut.s_axi_awready.value)
        saw(AxiSlaveSituation.W_WAITS, dut.s_axi_wvalid.value and not dut.s_axi_wready.value)
        saw(AxiSlaveSituation.B_WAITS, dut.m_axi_bvalid.value and not dut.m_axi_bready.value)
        saw(AxiSlaveSituation.MEMORY_AW_WAITS, dut.m_axi_awvalid.value and not dut.m_axi_awready.value)
        saw(AxiSlaveSituation.MEMORY_W_WAITS, dut.m_axi_wvalid.value and not dut.m_axi_wready.value)
        if valid and not self.answers:
            assert refused, "a response that nobody waits for"
            self.refuse()
        assert valid == bool(self.answers)
        self.look()
        if not dut.s_axi_wready.value:
            assert len(self.inner) >= STAGE, "data must wait although there is room"
        if self.open and not dut.m_axi_bready.value:
            assert len(self.answers) >= STAGE, "a response must wait although there is room"
        if dut.m_axi_wvalid.value:
            assert self.inner, "data that the host did not send"
            assert self.order, "data before its address"
            assert fault(self.order[0]) is None, "data of a refused burst"
        if (shown := self.sink.took()) is not None:
            assert shown == self.answers.popleft()
        if (beat_out := self.beats.took()) is not None:
            beat = self.inner.popleft()
            data, strobes, last = beat_out
            assert (data << LANES | strobes) << 1 | last == beat
            saw(AxiSlaveSituation.DATA_AHEAD, self.inside and self.order[0] is self.inside[0][0])
            if last:
                self.order.popleft()
                self.done += 1
        if (given := self.answer.taken()) is not None:
            self.answers.append((given >> 2, given & 3))
            self.open.pop(0)
            self.done -= 1
            self.offered -= 1
            saw(AxiSlaveSituation.WRITE_FAILED, given & 3)
        self.follow()
        if (beat := self.data.taken()) is not None:
            self.inner.append(beat)
        while self.offered < min(self.done, len(self.open)):
            resp = random.choice((OKAY, OKAY, SLVERR, DECERR))
            self.answer.values.append(self.open[self.offered].axi_id << 2 | resp)
            self.offered += 1

    def accept(self, burst: Burst) -> None:
        self.order.append(burst)


class Reads(Direction):
    """Reads and their data."""

    def __init__(self, dut: Any, situations: Situations, bursts: Situations) -> None:
        names = ("id", "data", "resp", "last")
        self.data = HandshakeSource(
            dut, "m_axi_rvalid", "m_axi_rready", *(f"m_axi_r{name}" for name in names)
        )
        self.sink = Ready(dut, "s_axi_rvalid", "s_axi_rready", [f"s_axi_r{name}" for name in names])
        super().__init__(dut, "ar", situations, bursts)
        self.sides = (self.host, self.memory, self.data, self.sink)

    def forget(self) -> None:
        super().forget()
        self.data.withdraw()
        self.supply: list[tuple[Burst, int]] = []  # forwarded bursts, with their beats that are not offered
        self.latest: Burst | None = None

    @property
    def empty(self) -> bool:
        return not (self.inside or self.open or self.answers)

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge; memory gives beats of the first of any ID."""
        if self.supply and not self.data.values:
            firsts = {burst.axi_id: place for place, (burst, _) in reversed(list(enumerate(self.supply)))}
            place = random.choice(list(firsts.values()))
            burst, left = self.supply.pop(place)
            data, resp = random.getrandbits(8 * LANES), random.choice((OKAY, OKAY, SLVERR, DECERR))
            self.data.values.append(((burst.axi_id << 8 * LANES | data) << 2 | resp) << 1 | (left == 1))
            self.saw(AxiSlaveSituation.INTERLEAVED, self.latest not in (None, burst))
            self.latest = burst if left > 1 else None
            if left > 1:
                self.supply.insert(place, (burst, left - 1))
        for side in self.sides:
            side.drive()

    def judge(self) -> None:
        """Judge and follow this clock."""
        dut, saw = self.dut, self.saw
        valid, refused = bool(dut.s_axi_rvalid.value), self.refused_first()
        behind = len(self.inside) > 1 and (fault(self.inside[1][0]) is None)
        saw(AxiSlaveSituation.READ_REFUSAL_WAITS, refused and self.open)
        saw(AxiSlaveSituation.READ_BEHIND, refused and behind)
        saw(AxiSlaveSituation.READS_REFUSED, refused and len(self.inside) > 1 and not behind)
        saw(AxiSlaveSituation.READS_MOST, self.inside and not refused and len(self.open) == MOST)
        saw(AxiSlaveSituation.AR_WAITS, dut.s_axi_arvalid.value and not dut.s_axi_arready.value)
        saw(AxiSlaveSituation.R_WAITS, dut.m_axi_rvalid.value and not dut.m_axi_rready.value)
        saw(AxiSlaveSituation.MEMORY_AR_WAITS, dut.m_axi_arvalid.value and not dut.m_axi_arready.value)
        if valid and not self.answers:
            assert refused, "read data that nobody waits for"
            self.refuse()
        assert valid == bool(self.answers)
        self.look()
        if dut.m_axi_arvalid.value:
            assert len(self.answers) <= STAGE, "an address passes before the end of a refused burst"
        if self.open and not dut.m_axi_rready.value:
            assert len(self.answers) >= STAGE, "data must wait although there is room"
        if (beat := self.sink.took()) is not None:
            axi_id, data, resp, last = self.answers.popleft()
            assert beat == (axi_id, data, resp, last)
        if (given := self.data.taken()) is not None:
            resp, last, data = given >> 1 & 3, given & 1, given >> 3 & (1 << 8 * LANES) - 1
            axi_id = given >> 3 + 8 * LANES
            self.answers.append((axi_id, data, resp, last))
            saw(AxiSlaveSituation.READ_FAILED, resp)
            if last:
                self.open.remove(next(burst for burst in self.open if burst.axi_id == axi_id))
        before = len(self.open)
        self.follow()
        self.supply += [(burst, burst.length) for burst in self.open[before:]]

    def prompt(self) -> bool:
        return len(self.answers) <= STAGE


class AxiSlaveClocks:
    """Both directions, and what they share."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.saw = dut, situations.saw
        self.bursts = [Situations(BurstSituation, least=10) for _ in range(2)]
        self.writes = Writes(dut, situations, self.bursts[0])
        self.reads = Reads(dut, situations, self.bursts[1])

    async def clock(self) -> None:
        """Do one clock: choose inputs, then judge both directions."""
        self.writes.drive()
        self.reads.drive()
        await RisingEdge(self.dut.clk_i)
        empty = self.writes.empty and self.reads.empty
        assert bool(self.dut.busy.value) != empty
        valids = (self.dut.s_axi_awvalid, self.dut.s_axi_wvalid, self.dut.s_axi_arvalid)
        self.saw(AxiSlaveSituation.RESTS, empty and not any(valid.value for valid in valids))
        self.writes.judge()
        self.reads.judge()

    async def reset(self) -> None:
        """Reset in the midst of traffic; no valid is high meanwhile."""
        self.saw(AxiSlaveSituation.RESET_WRITES, self.writes.open)
        self.saw(AxiSlaveSituation.RESET_READS, self.reads.open)
        self.saw(AxiSlaveSituation.RESET_REFUSAL, self.writes.refused_first() or self.reads.refused_first())
        self.dut.rst_ni.value = 0
        for direction in (self.writes, self.reads):
            direction.forget()
        for _ in range(random.choice((1, 1, 3))):
            self.writes.drive()
            self.reads.drive()
            await RisingEdge(self.dut.clk_i)
        self.dut.rst_ni.value = 1
        await self.clock()

    async def drain(self) -> None:
        """Let all traffic pass."""
        for side in (*self.writes.sides, *self.reads.sides):
            side.chance = 1.0
        sides = (self.writes, self.reads)
        await until(
            self.clock,
            lambda: all(side.empty and not side.queued for side in sides),
            lambda: (
                [(len(side.queued), len(side.inside), len(side.open), len(side.answers)) for side in sides],
                len(self.writes.inner),
                [left for _, left in self.reads.supply],
            ),
            "a burst is not answered",
        )


@cocotb.test()
async def random_clocks(dut: Any) -> None:
    """Bursts of every kind on both directions, their answers in order, whichever side waits; resets."""
    await reset(dut, *VALIDS)
    situations = Situations(AxiSlaveSituation, least=10)
    testbench = AxiSlaveClocks(dut, situations)
    await testbench.clock()
    for _ in situations.rounds(800):
        vary(*testbench.writes.sides, *testbench.reads.sides)
        for direction in (testbench.writes, testbench.reads):
            while len(direction.queued) < random.randint(0, 12):
                direction.send(draw_burst())
        for _ in range(random.choice((3, 30, 200))):
            await testbench.clock()
        end = random.random()
        if end < 0.3:
            await testbench.drain()
        elif end < 0.5:
            await testbench.reset()
    await testbench.drain()
    for bursts in testbench.bursts:
        bursts.check()
