"""host_write_buffer: random bursts, data before and after addresses, every side stalling, resets."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS: list[dict[str, int]] = [{}]
MAX_BURST, DATA_BEATS, MAX_OUTSTANDING = 8, 16, 4


class HostWriteBufferSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    DATA_FIRST = "a burst of data that is whole before its address comes"
    MANY_AHEAD = "more whole bursts of data than addresses can wait"
    ADDRESS_WAITS = "an address that waits for the rest of its data"
    DATA_FULL = "as much data as fits"
    ADDRESSES_FULL = "as many addresses as fit"
    ALL_ANSWERED = "as many responses as fit, none of them taken"
    LONGEST = "the longest burst"
    IDLE = "the idle state after work"
    RESET_INSIDE = "a reset with bursts inside"


class HostWriteBufferTestbench:
    """The ports, and a model that follows the buffer clock by clock."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.addresses = HandshakeSource(dut, "awvalid_i", "awready_o", "aw_i")
        self.data = HandshakeSource(dut, "wvalid_i", "wready_o", "beat_i")
        self.responses = Ready(dut, "bvalid_o", "bready_i", ["bid_o", "bresp_o"])
        self.issue = Ready(dut, "awvalid_o", "awready_i", ["aw_o"])
        self.writes = Ready(dut, "wvalid_o", "wready_i", ["beat_o"])
        self.answering = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.addresses.withdraw()
        self.data.withdraw()
        self.inside: deque[int] = deque()  # addresses not yet forwarded
        self.beats: deque[int] = deque()  # data not yet forwarded
        # Lengths of the bursts whose address is forwarded and whose data is not.
        self.owed: deque[int] = deque()
        self.lengths: deque[int] = deque()  # of the bursts whose address is not forwarded
        self.whole = 0  # bursts whose data is here and whose address is not forwarded
        self.unanswered = 0
        self.answers: deque[tuple[int, int]] = deque()  # that the host has not taken
        self.expected = 0  # responses that the host has yet to take, of all accepted bursts

    def burst(self) -> None:
        """Let the host start a burst, unless the window must wait."""
        if self.expected == MAX_OUTSTANDING:
            return
        self.expected += 1
        length = random.choice((1, 2, MAX_BURST, random.randint(1, MAX_BURST)))
        self.situations.saw(HostWriteBufferSituation.LONGEST, length == MAX_BURST)
        self.lengths.append(length)
        self.addresses.values.append(random.getrandbits(len(self.dut.aw_i)))
        width = len(self.dut.beat_i) - 1
        self.data.values.extend(random.getrandbits(width) << 1 | (i == length - 1) for i in range(length))

    async def clock(self) -> None:
        """Do one clock: choose inputs, then judge the buffer."""
        dut = self.dut
        self.addresses.drive()
        self.data.drive()
        self.responses.drive()
        self.issue.drive()
        self.writes.drive(allowed=bool(self.owed))
        answer = self.unanswered > 0 and random.random() < self.answering
        given = random.getrandbits(len(dut.bid_i)), random.getrandbits(2)
        dut.bvalid_i.value, dut.bid_i.value, dut.bresp_i.value = int(answer), *given
        await RisingEdge(dut.clk_i)
        self._look()
        if (address := self.addresses.taken()) is not None:
            self.inside.append(address)
        if (beat := self.data.taken()) is not None:
            self.beats.append(beat)
            self.whole += beat & 1
        if (beats := self.writes.took()) is not None:
            assert beats == (self.beats.popleft(),)
            self.owed[0] -= 1
            assert bool(beats[0] & 1) == (self.owed[0] == 0)
            if not self.owed[0]:
                self.owed.popleft()
                self.unanswered += 1
        if (issued := self.issue.took()) is not None:
            assert issued == (self.inside.popleft(),)
            self.whole -= 1
            self.owed.append(self.lengths.popleft())
        if (taken := self.responses.took()) is not None:
            assert taken == self.answers.popleft()
            self.expected -= 1
        if answer:
            self.unanswered -= 1
            self.answers.append(given)

    def _look(self) -> None:
        """Compare the outputs of this clock."""
        dut, situations = self.dut, self.situations
        assert bool(dut.awvalid_o.value) == bool(self.inside and self.whole)
        assert bool(dut.awready_o.value) == (len(self.inside) < MAX_OUTSTANDING)
        assert bool(dut.bvalid_o.value) == bool(self.answers)
        assert not self.owed or dut.wvalid_o.value, "data of a burst whose address has gone on is not at hand"
        if not dut.wready_o.value:
            assert len(self.beats) >= DATA_BEATS, "data is refused although there is room"
        situations.saw(HostWriteBufferSituation.DATA_FIRST, self.whole and not self.inside)
        situations.saw(HostWriteBufferSituation.MANY_AHEAD, self.whole > 1 and not self.inside)
        situations.saw(HostWriteBufferSituation.ADDRESS_WAITS, self.inside and not self.whole)
        situations.saw(HostWriteBufferSituation.DATA_FULL, not dut.wready_o.value)
        situations.saw(HostWriteBufferSituation.ADDRESSES_FULL, len(self.inside) == MAX_OUTSTANDING)
        situations.saw(HostWriteBufferSituation.ALL_ANSWERED, len(self.answers) == MAX_OUTSTANDING)

    async def drain(self) -> None:
        """End all work; the buffer is then idle."""
        for side in (self.addresses, self.data, self.responses, self.issue, self.writes):
            side.chance = 1.0
        self.answering = 1.0
        for _ in range(200):
            await self.clock()
            if not self.expected:
                break
        assert not self.expected, "bursts were left unanswered"
        await self.clock()
        self.idle()
        self.situations.saw(HostWriteBufferSituation.IDLE)

    def idle(self) -> None:
        """Judge the idle state."""
        dut = self.dut
        valids = (dut.awvalid_o, dut.wvalid_o, dut.bvalid_o)
        assert not any(valid.value for valid in valids)
        assert dut.awready_o.value
        assert dut.wready_o.value


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Bursts pass completely, in order and with their data at hand, whichever side waits."""
    situations = Situations(HostWriteBufferSituation)
    await reset(dut)
    testbench = HostWriteBufferTestbench(dut, situations)
    for _ in situations.rounds(150):
        vary(testbench.addresses, testbench.data, testbench.responses, testbench.issue, testbench.writes)
        testbench.answering = random.choice((1.0, 0.5, 0.05))
        starting = random.choice((1.0, 0.3, 0.05))
        for _ in range(random.randint(20, 150)):
            if random.random() < starting:
                testbench.burst()
            await testbench.clock()
        end = random.random()
        if end < 0.5:
            await testbench.drain()
        elif end < 0.8:
            situations.saw(HostWriteBufferSituation.RESET_INSIDE, testbench.inside and testbench.beats)
            testbench.forget()
            await reset(dut)
            await testbench.clock()
            testbench.idle()
