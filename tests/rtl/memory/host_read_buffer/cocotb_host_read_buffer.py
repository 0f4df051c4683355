"""host_read_buffer: random bursts, a memory and a host at any pace, resets."""

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
MAX_BURST, DATA_BEATS = 8, 16


class HostReadBufferSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    NO_ROOM = "an address that waits for room"
    LAST_ROOM = "an address that takes the last room"
    ALL_HERE = "as much data as fits, none of it taken"
    SAME_CLOCK = "an address that goes on while data leaves"
    LONGEST = "the longest burst"
    IDLE = "the idle state after work"
    RESET_INSIDE = "a reset with data inside"


class HostReadBufferTestbench:
    """The ports, and a model that follows the buffer clock by clock."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.addresses = HandshakeSource(dut, "arvalid_i", "arready_o", "arlen_i")
        self.data = Ready(dut, "rvalid_o", "rready_i", ["rid_o", "rdata_o", "rresp_o", "rlast_o"])
        self.accepting = self.answering = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.addresses.withdraw()
        self.claimed = 0  # beats of the bursts under way that the host has not taken
        # Beats that memory must bring, with whether they are the last of their burst.
        self.asked: deque[bool] = deque()
        self.beats: deque[tuple[int, ...]] = deque()  # that the host has not taken

    async def clock(self) -> None:
        """Do one clock: choose inputs, then judge the buffer."""
        dut = self.dut
        self.addresses.drive()
        self.data.drive()
        accept = random.random() < self.accepting
        dut.arready_i.value = int(accept)
        bring = bool(self.asked) and random.random() < self.answering
        last = int(bring and self.asked[0])
        beat = *(random.getrandbits(len(port)) for port in (dut.rid_i, dut.rdata_i, dut.rresp_i)), last
        dut.rvalid_i.value = int(bring)
        dut.rid_i.value, dut.rdata_i.value, dut.rresp_i.value, dut.rlast_i.value = beat
        await RisingEdge(dut.clk_i)
        offered, length = bool(dut.arvalid_i.value), int(dut.arlen_i.value) + 1
        room = self.claimed + length <= DATA_BEATS
        claims = f"{self.claimed} beats claimed, burst of {length}"
        assert bool(dut.arvalid_o.value) == (offered and room), claims
        assert int(dut.arlen_o.value) == length - 1
        self.situations.saw(HostReadBufferSituation.NO_ROOM, offered and not room)
        self.situations.saw(HostReadBufferSituation.ALL_HERE, len(self.beats) == DATA_BEATS)
        address = self.addresses.taken()
        assert (address is not None) == (offered and room and accept)
        taken = self.data.took()
        if taken is not None:
            assert taken == self.beats.popleft()
            self.claimed -= 1
        if address is not None:
            self.situations.saw(HostReadBufferSituation.SAME_CLOCK, taken is not None)
            self.claimed += length
            self.situations.saw(HostReadBufferSituation.LAST_ROOM, self.claimed == DATA_BEATS)
            self.situations.saw(HostReadBufferSituation.LONGEST, length == MAX_BURST)
            self.asked.extend(i == length - 1 for i in range(length))
        if bring:
            self.asked.popleft()
            self.beats.append(beat)

    async def drain(self) -> None:
        """End all work; the buffer is then idle."""
        self.addresses.chance = self.data.chance = self.accepting = self.answering = 1.0
        for _ in range(300):
            await self.clock()
            if not self.addresses.values and not self.claimed:
                break
        assert not self.addresses.values, "an address never went on"
        assert not self.claimed, "data never came"
        await self.clock()
        self.idle()
        self.situations.saw(HostReadBufferSituation.IDLE)

    def idle(self) -> None:
        """Judge the idle state."""
        assert not self.dut.arvalid_o.value
        assert not self.dut.rvalid_o.value


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Data passes in order, and an address is forwarded exactly when all its data has room, whichever side
    waits."""
    situations = Situations(HostReadBufferSituation)
    await reset(dut)
    testbench = HostReadBufferTestbench(dut, situations)
    for _ in situations.rounds(150):
        vary(testbench.addresses, testbench.data)
        testbench.accepting, testbench.answering = random.choice((1.0, 0.3)), random.choice((1.0, 0.5, 0.1))
        for _ in range(random.randint(20, 150)):
            if len(testbench.addresses.values) < 3:
                length = random.choice((0, MAX_BURST - 1, random.randrange(MAX_BURST)))
                testbench.addresses.values.append(length)
            await testbench.clock()
        end = random.random()
        if end < 0.5:
            await testbench.drain()
        elif end < 0.8:
            situations.saw(HostReadBufferSituation.RESET_INSIDE, testbench.beats)
            testbench.forget()
            await reset(dut)
            await testbench.clock()
            testbench.idle()
