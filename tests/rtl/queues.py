"""Properties of any queue between two handshakes: order, no loss, one element a clock, and each clock of
random traffic with resets."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge, with_timeout

from tests.rtl.handshakes import HandshakeSource, Ready, vary
from tests.rtl.situations import Situations
from tests.rtl.stimulus import clocks, offer, reset, take


class QueueSituation(Enum):
    """What a queue meets at its handshakes."""

    FULL = "an element that waits for room"
    LEAVES = "an element that goes out of a full queue"
    EMPTY = "room at the output of an empty queue"
    RESET_FULL = "a reset of a full queue"
    RESET_BESIDE = "a reset in the clock in which an element goes in and one goes out"


class QueueModel:
    """A queue with a register at its output, clock by clock.

    Attributes: shown (the element at the output).
    """

    def __init__(self, depth: int, *, passes: bool) -> None:
        """Args: depth (elements behind the output), passes (a new element goes straight to a free output)."""
        self._depth, self._passes = depth, passes
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.shown: int | None = None
        self._stored: deque[int] = deque()

    @property
    def ready(self) -> bool:
        return len(self._stored) < self._depth

    def clock(self, given: int | None, *, room: bool) -> None:
        """Do one clock: `given` goes in; what is shown goes out if there is room."""
        if room:
            self.shown = None
        if given is not None and self._passes:
            self._stored.append(given)
        if self.shown is None and self._stored:
            self.shown = self._stored.popleft()
        if given is not None and not self._passes:
            self._stored.append(given)


async def follows(dut: Any, model: QueueModel) -> None:
    """Compare both handshakes with the model in each clock, whichever side waits, with resets in any."""
    await reset(dut)
    situations = Situations(QueueSituation, least=10)
    saw = situations.saw
    source, sink = (
        HandshakeSource(dut, "valid_i", "ready_o", "data_i"),
        Ready(dut, "valid_o", "ready_i", ["data_o"]),
    )
    for _ in situations.rounds(900):
        vary(source, sink)
        resetting = random.choice((0.0, 0.1, 0.3))
        for _ in range(random.choice((5, 20, 60))):
            in_reset = random.random() < resetting
            source.values.append(random.getrandbits(16))
            source.drive()
            sink.drive()
            dut.rst_ni.value = int(not in_reset)
            await RisingEdge(dut.clk_i)
            assert bool(dut.ready_o.value) == model.ready
            assert bool(dut.valid_o.value) == (model.shown is not None)
            if model.shown is not None:
                assert int(dut.data_o.value) == model.shown
            offered, room = bool(dut.valid_i.value), bool(dut.ready_i.value)
            saw(QueueSituation.FULL, offered and not model.ready)
            saw(QueueSituation.LEAVES, room and model.shown is not None and not model.ready)
            saw(QueueSituation.EMPTY, room and model.shown is None)
            if in_reset:
                saw(QueueSituation.RESET_FULL, not model.ready)
                saw(QueueSituation.RESET_BESIDE, offered and model.ready and room and model.shown is not None)
                source.withdraw()
                model.forget()
            else:
                model.clock(source.taken(), room=room)
    dut.rst_ni.value = 1


async def pass_through(dut: Any, values: list[int], sending: float, taking: float) -> None:
    """Pass all values through and check that they come out in order."""
    source = cocotb.start_soon(offer(dut, "valid_i", "ready_o", "data_i", values, sending))
    sink = cocotb.start_soon(take(dut, "valid_o", "ready_i", ["data_o"], len(values), taking))
    taken = await with_timeout(sink, 1, "ms")
    await source
    assert taken == [(value,) for value in values]


async def keeps_order(dut: Any, sending: float, taking: float) -> None:
    """Check that no element is lost, doubled or reordered, whichever side waits, and that the queue is then
    empty."""
    await reset(dut)
    await pass_through(dut, [random.getrandbits(16) for _ in range(500)], sending, taking)
    await RisingEdge(dut.clk_i)
    assert not dut.valid_o.value
    assert dut.ready_o.value


async def keeps_pace(dut: Any, latency: int) -> None:
    """Check one element a clock, each out again after `latency` clocks."""
    await reset(dut)
    begun = clocks()
    await pass_through(dut, list(range(200)), 1.0, 1.0)
    assert clocks() - begun <= 201 + latency
