"""ring_fetcher: its owner fills, holds, rewrites and aborts the ring; memory is slow and gives errors."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [{"DataWidth": 64, "Depth": 4}, {"DataWidth": 256, "Depth": 4}]
DEPTH = parameter("Depth")
PACKET_BYTES = 64


class RingFetcherSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FULL = "as many packets fetched ahead as fit"
    WRAPPED = "a packet from the first slot behind one from the last"
    SEVERAL = "several slots in one transfer"
    HOLD_FETCHED = "a hold that drops what was fetched"
    HOLD_ON_ITS_WAY = "a hold that drops what is on its way"
    LATE_DATA = "data that comes after the hold that made it stale"
    REWRITTEN = "a slot that is read again after a hold, with other contents"
    FAILED = "a packet that could not be read, behind those that could"
    FAILED_HOLD = "a hold that ends a failure"
    ABORT_ON_ITS_WAY = "an abort with data on its way"
    HEAD_SET = "a head that was set to another slot than the first"


class RingFetcherTestbench:
    """The ports, and a model: the ring, its fetched slots, and the packet that must come next."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.beat_bytes = len(dut.data_i) // 8
        self.beats = PACKET_BYTES // self.beat_bytes
        self.taking = self.accepting = self.bringing = 1.0
        self.failing = 0.0
        self.head = 0
        self.renew()

    def renew(self) -> None:
        """Lay out a ring of another size, empty at its head; the fetcher then holds nothing."""
        dut = self.dut
        self.size = random.choice((2, 3, random.randint(2, 20)))
        self.base = random.randrange(0, 1 << 28, PACKET_BYTES)
        self.slots = [random.getrandbits(8 * PACKET_BYTES) for _ in range(self.size)]
        self.tail = self.head
        self.fetch = self.head  # next slot to ask for
        self.way: deque[tuple[int, int]] = deque()  # beats asked for: slot, number
        self.stale = 0  # of them, those that belong to dropped slots
        self.ready: deque[int] = deque()  # packets fetched
        self.lost = False  # the next packet could not be read
        self.error_address = 0
        self.last_taken = -1
        self.rewritten: set[int] = set()
        dut.base_i.value, dut.size_i.value, dut.tail_i.value = self.base, self.size, self.tail

    def fill(self) -> None:
        """Write packets into free slots and move the tail; one slot stays free."""
        free = (self.head - self.tail - 1) % self.size
        for _ in range(random.randint(0, free)):
            self.slots[self.tail] = random.getrandbits(8 * PACKET_BYTES)
            self.rewritten.discard(self.tail)
            self.tail = (self.tail + 1) % self.size
        self.dut.tail_i.value = self.tail

    async def clock(self, *, hold: bool = False, abort: bool = False, set_head: int | None = None) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        dut.hold_i.value, dut.abort_i.value = int(hold), int(abort)
        dut.set_head_i.value, dut.set_head_value_i.value = int(set_head is not None), set_head or 0
        accept = random.random() < self.accepting
        dut.desc_ready_i.value = int(accept)
        # An error concerns data that has not come yet.
        fails = bool(self.way) and not abort and random.random() < self.failing
        bring = bool(self.way) and not abort and not fails and random.random() < self.bringing
        beat = 0
        if bring:
            slot, number = self.way[0]
            beat = self.slots[slot] >> 8 * self.beat_bytes * number & (1 << 8 * self.beat_bytes) - 1
        dut.error_i.value = int(fails)
        dut.error_addr_i.value = address = random.getrandbits(32)
        dut.data_valid_i.value = int(bring)
        dut.data_i.value = beat if bring else random.getrandbits(8 * self.beat_bytes)
        shown = bool(self.ready) and not hold
        take = shown and not abort and set_head is None and random.random() < self.taking
        dut.packet_take_i.value = int(take)
        await RisingEdge(dut.clk_i)
        self.look(hold=hold, shown=shown)
        asked = self.asked(accept=accept, quiet=hold or abort or set_head is not None)
        situations = self.situations
        if take:
            situations.saw(RingFetcherSituation.WRAPPED, self.head == 0 and self.last_taken == self.size - 1)
            situations.saw(RingFetcherSituation.REWRITTEN, self.head in self.rewritten)
            self.rewritten.discard(self.head)
            self.last_taken = self.head
            self.ready.popleft()
            self.head = (self.head + 1) % self.size
        if bring:
            slot, number = self.way.popleft()
            if self.stale:
                self.stale -= 1
                situations.saw(RingFetcherSituation.LATE_DATA, not hold)
            elif number == self.beats - 1 and not self.lost and not hold:
                self.ready.append(self.slots[slot])
        if fails and not self.stale and not hold and not self.lost:
            self.lost, self.error_address = True, address
            situations.saw(RingFetcherSituation.FAILED, self.ready)
        self.way.extend(asked)
        if hold:
            situations.saw(RingFetcherSituation.HOLD_FETCHED, self.ready)
            situations.saw(RingFetcherSituation.HOLD_ON_ITS_WAY, self.way)
            situations.saw(RingFetcherSituation.FAILED_HOLD, self.lost)
            self.ready.clear()
            self.stale, self.lost = len(self.way), False
            self.fetch = self.head
        if abort:
            situations.saw(RingFetcherSituation.ABORT_ON_ITS_WAY, self.way)
            self.way.clear()
            self.ready.clear()
            self.stale, self.lost = 0, False
        if set_head is not None:
            self.head = self.fetch = set_head

    def look(self, *, hold: bool, shown: bool) -> None:
        """Compare the outputs of this clock."""
        dut = self.dut
        assert int(dut.head_o.value) == self.head
        assert dut.data_ready_o.value
        assert bool(dut.packet_valid_o.value) == shown
        if shown:
            assert int(dut.packet_o.value) == self.ready[0], f"slot {self.head} of {self.size}"
        assert bool(dut.failed_o.value) == (self.lost and not self.ready and not hold)
        if dut.failed_o.value:
            assert int(dut.failed_addr_o.value) == self.error_address
        self.situations.saw(RingFetcherSituation.FULL, len(self.ready) == DEPTH)

    def asked(self, *, accept: bool, quiet: bool) -> list[tuple[int, int]]:
        """Judge the requested transfer; return its beats if it was accepted."""
        dut = self.dut
        end = self.tail if self.tail >= self.fetch else self.size
        count = min(end - self.fetch, DEPTH - len(self.ready))
        wanted = bool(count) and not self.way and not self.lost and not quiet
        assert bool(dut.desc_valid_o.value) == wanted
        if not (wanted and accept):
            return []
        assert Transfer.of(dut.desc_o) == Transfer(
            self.base + PACKET_BYTES * self.fetch, PACKET_BYTES * count, 1, 0
        )
        self.situations.saw(RingFetcherSituation.SEVERAL, count > 1)
        slots = range(self.fetch, self.fetch + count)
        self.fetch = (self.fetch + count) % self.size
        return [(slot, number) for slot in slots for number in range(self.beats)]

    async def hold(self) -> None:
        """Hold, and rewrite slots that may have been fetched."""
        await self.clock(hold=True)
        for distance in range((self.tail - self.head) % self.size):
            slot = (self.head + distance) % self.size
            # Data on its way may be old or new: it is dropped.
            self.slots[slot] = random.getrandbits(8 * PACKET_BYTES)
            self.rewritten.add(slot)
        for _ in range(random.choice((0, 1, random.randrange(10)))):
            await self.clock(hold=True)

    async def abort(self) -> None:
        """Abort, set the head meanwhile, and begin with another ring."""
        for _ in range(random.choice((0, 3))):
            await self.clock(abort=True)
        self.failing = 0.0
        head = random.choice((0, 1))
        self.situations.saw(RingFetcherSituation.HEAD_SET, head)
        await self.clock(abort=True, set_head=head)
        self.renew()
        for _ in range(random.choice((0, 3))):
            await self.clock(abort=True)

    async def drain(self) -> None:
        """Let everything pass; the ring is then empty."""
        self.taking = self.accepting = self.bringing = 1.0
        self.failing = 0.0
        if self.lost:
            await self.hold()
        for _ in range(self.size * 40):
            await self.clock()
            if self.head == self.tail:
                return
        raise AssertionError(f"slot {self.head} of {self.size} never comes")


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Packets come in the order of the ring, each with its content at the last time it had to be read."""
    situations = Situations(RingFetcherSituation)
    await reset(dut)
    testbench = RingFetcherTestbench(dut, situations)
    for _ in situations.rounds(250):
        testbench.taking, testbench.accepting, testbench.bringing = (
            random.choice((1.0, 0.5, 0.05)) for _ in range(3)
        )
        testbench.failing = random.choice((0.0, 0.0, 0.02, 0.2))
        for _ in range(random.randint(5, 100)):
            if random.random() < 0.2:
                testbench.fill()
            await testbench.clock()
        end = random.random()
        if end < 0.35:
            await testbench.hold()
        elif end < 0.6:
            await testbench.abort()
        elif end < 0.8:
            await testbench.drain()
    await reset(dut)
    testbench.head = 0
    testbench.renew()
    await testbench.clock()
    testbench.fill()
    await testbench.drain()
