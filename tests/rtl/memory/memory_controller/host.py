"""The host's side of the controller: legal bursts of every kind, with room for all answers."""

import random
from collections import deque
from typing import Any

from tests.rtl.bursts import PAGE, Burst, draw
from tests.rtl.handshakes import HandshakeSource

IDS, OUTSTANDING = 16, 16


def draw_request(bus: int) -> tuple[Burst, int]:
    """Draw a burst; return it with the value of its address channel, without the upper bits of the ID."""
    burst = draw(random.randrange(1 << 20) * PAGE, bus, IDS)
    word = burst.axi_id << 32 | burst.address
    for value, width in ((burst.length - 1, 8), (burst.size, 3), (burst.kind, 2), (random.getrandbits(3), 3)):
        word = word << width | value
    return burst, word


class HostTraffic:
    """Reads and writes of the host.

    Attributes: reading, writing (the chance that another begins in a clock), reads, writes (the address
    channels), data (of the writes), granted (lengths of the bursts whose address was taken and whose data was
    not), unread, unanswered (bursts).
    """

    def __init__(self, dut: Any, bus: int) -> None:
        self._dut, self._bus = dut, bus
        self.reading = self.writing = 1.0
        self.reads = HandshakeSource(dut, "host_arvalid_i", "host_arready_o", "host_ar_i")
        self.writes = HandshakeSource(dut, "host_awvalid_i", "host_awready_o", "host_aw_i")
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.reads.withdraw()
        self.writes.withdraw()
        self.data: deque[int] = deque()
        self.lengths: deque[int] = deque()  # of the bursts whose address was not taken
        self.owed = 0  # beats of those whose address was
        self.offering = False
        self.unread = self.unanswered = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return bool(self.unread or self.unanswered)

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge."""
        dut, bus = self._dut, self._bus
        if self.unread < OUTSTANDING and random.random() < self.reading:
            self.unread += 1
            self.reads.values.append(draw_request(bus)[1])
        if self.unanswered < OUTSTANDING and random.random() < self.writing:
            self.unanswered += 1
            burst, word = draw_request(bus)
            self.writes.values.append(word)
            self.lengths.append(burst.length)
            for beat, lanes in enumerate(burst.lanes(bus)):
                strobes = lanes & random.choice((lanes, random.getrandbits(bus)))
                data = random.getrandbits(8 * bus)
                self.data.append((data << bus | strobes) << 1 | (beat == burst.length - 1))
        self.reads.drive()
        self.writes.drive()
        # Before its address is taken, data may or may not be there.
        if not self.offering:
            self.offering = bool(self.owed or (self.data and random.random() < 0.5))
        dut.host_wvalid_i.value = int(self.offering)
        dut.host_w_i.value = self.data[0] if self.offering else random.getrandbits(9 * bus + 1)

    def address_taken(self) -> None:
        """Note that a write's data is owed from now on."""
        self.owed += self.lengths.popleft()

    def give(self) -> int:
        """The controller has taken a beat of data."""
        self.offering = False
        self.owed -= 1
        return self.data.popleft()
