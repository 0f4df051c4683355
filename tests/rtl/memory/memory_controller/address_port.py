"""An address channel of m_axi and the host's channel behind it: turns, and legal addresses."""

from dataclasses import dataclass
from typing import Any

from tests.rtl.bursts import BurstType
from tests.rtl.handshakes import HandshakeSource

HOST = 0


@dataclass(frozen=True)
class Address:
    """A burst as the controller first offers it to memory. Attributes: beats, overtook (the host waits)."""

    client: int
    start: int
    beats: int


class AddressPort:
    """Judges one address channel, clock by clock.

    Attributes: new (the address first offered in this clock), taken (by memory at this clock edge),
    overtaken_by (clients served before the host's oldest request), waited (clocks that an address has waited
    for memory).
    """

    def __init__(self, dut: Any, channel: str, requests: HandshakeSource, bus: int) -> None:
        self._requests = requests
        self._bus = bus
        self._prot = dut.prot_i
        self._valid, self._ready, self._value = (
            getattr(dut, f"m_axi_{channel}{part}") for part in ("valid", "ready", "")
        )
        self._host_valid = getattr(dut, f"host_{channel}valid_i")
        self._host_ready = getattr(dut, f"host_{channel}ready_o")
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.new: Address | None = None
        self.taken: int | None = None
        self.granted = False  # an address of the host was taken at this clock edge
        self.overtaken_by: set[int] = set()
        self.waited = 0
        self._kept: int | None = None
        self._from_host: int | None = None
        self._due = False  # the host requested, and the port was free
        self._asked = False
        self._own_prot = 0

    def follow(self) -> None:
        """Judge the clock that has just passed."""
        value = int(self._value.value) if self._valid.value else None
        self.new = None
        if self._kept is not None:
            assert value == self._kept, "an address changed or went before memory took it"
        elif self._from_host is not None:
            assert value == self._from_host, "not what the host asked for"
            self.new = address_of(self._from_host)
            self.overtaken_by.clear()
        elif value is not None:
            self.new = self._channels_own(value)
        else:
            assert not self._due, "the host asks and nobody is served"
        taken = value is not None and bool(self._ready.value)
        self.taken = value if taken else None
        self._kept = None if taken else value
        self.waited = 0 if self._kept is None else self.waited + 1
        self._look_at_host(free=self._kept is None)
        self._own_prot = int(self._prot.value)

    def expect(self, room: bool) -> None:
        """Set whether one more burst may go out; if so, a requesting host must not wait without a reason."""
        self._due = self._due and room

    def _channels_own(self, value: int) -> Address:
        address = address_of(value)
        assert address.client != HOST, "a burst that the host has not asked for"
        assert not value >> 48 & 0xF, "the ID of a channel"
        attributes = ((self._bus.bit_length() - 1) << 2 | BurstType.INCR) << 3 | self._own_prot
        assert value & 0xFF == attributes, f"size, kind of burst or protection of client {address.client}"
        if self._asked:
            assert address.client not in self.overtaken_by, (
                f"client {address.client} overtakes the host twice"
            )
            self.overtaken_by.add(address.client)
        return address

    def _look_at_host(self, *, free: bool) -> None:
        self._asked = bool(self._host_valid.value)
        offered = self._requests.values[0] if self._asked else None
        self.granted = self._requests.taken() is not None
        assert free or not self.granted, "an address of the host is taken and there is no room for it"
        self._from_host = offered if self.granted else None
        self._due = self._asked and free


def address_of(value: int) -> Address:
    """Return the fields of a burst in the value of an address channel."""
    return Address(value >> 52, value >> 16 & 0xFFFF_FFFF, (value >> 8 & 0xFF) + 1)
