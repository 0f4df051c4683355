"""Two-dimensional transfers and their bursts, for the testbenches of the modules that execute them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cocotb.triggers import RisingEdge

from tests.rtl.handshakes import HandshakeSource

PAGE = 4096
MAX_BURST = 16


@dataclass(frozen=True)
class Transfer:
    """Rows of bytes; each starts `stride` bytes after the one before."""

    addr: int
    row_bytes: int
    rows: int
    stride: int

    @classmethod
    def of(cls, descriptor: Any) -> Transfer:
        """Read a port of the type dma_desc_t."""
        return cls.from_bits(int(descriptor.value))

    @classmethod
    def from_bits(cls, word: int) -> Transfer:
        """Return the transfer in a value of that type."""
        return cls(*(word >> place & 0xFFFF_FFFF for place in (96, 64, 32, 0)))

    @property
    def bits(self) -> int:
        """Return the value of a port of that type."""
        return self.addr << 96 | self.row_bytes << 64 | self.rows << 32 | self.stride

    def row_starts(self) -> list[int]:
        return [self.addr + row * self.stride & 0xFFFF_FFFF for row in range(self.rows)]

    @property
    def end(self) -> int:
        return self.addr + (self.rows - 1) * self.stride + self.row_bytes


def draw(space: int, bus: int) -> Transfer:
    """Draw a transfer within the first `space` bytes whose rows do not overlap: dense rows, rows with gaps,
    one row; short and long; aligned and not; near a page's end."""
    while True:
        row_bytes = random.choice(
            (1, bus - 1, bus, bus + 1, random.randint(1, 3 * bus), random.randint(1, 1500))
        )
        stride = row_bytes + random.choice((0, 0, 1, bus, random.randrange(5 * bus)))
        rows = random.choice((1, 1, 2, random.randint(1, 8)))
        start = random.choice((random.randrange(space), PAGE - random.randint(0, 2 * bus)))
        transfer = Transfer(start - start % random.choice((1, 4, bus)), row_bytes, rows, stride)
        if transfer.end <= space:
            return transfer


def draw_anywhere(bus: int) -> Transfer:
    """Draw a transfer whose rows may lie anywhere in the address space, also below the first one."""
    while True:
        drawn = draw(1 << 15, bus)
        stride = drawn.stride if random.random() < 0.7 else random.getrandbits(32)
        transfer = replace(drawn, addr=drawn.addr + (random.getrandbits(16) << 16), stride=stride)
        if all(start + transfer.row_bytes <= 1 << 32 for start in transfer.row_starts()):
            return transfer


def begin_of(transfer: Transfer, rows: int, row_bytes: int) -> Transfer:
    """Return a transfer with at most so many rows and bytes in a row."""
    return replace(transfer, rows=min(transfer.rows, rows), row_bytes=min(transfer.row_bytes, row_bytes))


def check_burst(addr: int, beats: int, bus: int) -> None:
    """Check what holds for every burst."""
    assert addr % bus == 0, f"burst at 0x{addr:x} does not start at a beat"
    assert 1 <= beats <= MAX_BURST, f"burst of {beats} beats"
    assert addr // PAGE == (addr + beats * bus - 1) // PAGE, f"burst at 0x{addr:x} crosses a page"


def bytes_as_beats(raw: bytes, bus: int) -> list[int]:
    """Return bytes as beats of a bus, the last one padded with zeros."""
    raw += bytes(-len(raw) % bus)
    return [int.from_bytes(raw[at : at + bus], "little") for at in range(0, len(raw), bus)]


def beats_of(transfer: Transfer, bus: int) -> list[int]:
    """Return the addresses of the beats that hold a transfer's rows, row after row."""
    return [
        beat
        for start in transfer.row_starts()
        for beat in range(start - start % bus, start + transfer.row_bytes, bus)
    ]


def rows_as_one(transfer: Transfer, bus: int) -> Transfer:
    """Return the same bytes as one row if the rows are whole beats and adjacent, else the transfer itself."""
    if transfer.stride != transfer.row_bytes or transfer.addr % bus or transfer.row_bytes % bus:
        return transfer
    return Transfer(transfer.addr, transfer.rows * transfer.row_bytes, 1, transfer.stride)


def bursts_of(start: int, row_bytes: int, bus: int) -> list[tuple[int, int]]:
    """Return first address and beats of the bursts of one row, each as long as the row, its page and the
    longest burst allow."""
    bursts, place, end = [], start - start % bus, start + row_bytes
    while place < end:
        beats = min(-(-(end - place) // bus), (PAGE - place % PAGE) // bus, MAX_BURST)
        bursts.append((place, beats))
        place += beats * bus
    return bursts


async def submit(dut: Any, transfer: Transfer) -> None:
    """Submit a transfer."""
    dut.desc_i.value = transfer.bits
    dut.desc_valid_i.value = 1
    await RisingEdge(dut.clk_i)
    while not dut.desc_ready_o.value:
        await RisingEdge(dut.clk_i)
    dut.desc_valid_i.value = 0


class TransferTestbench(Protocol):
    """A testbench that goes clock by clock, as far as `reset_in_traffic` needs it.

    Attributes: transfers (queued for the module).
    """

    transfers: HandshakeSource

    def draw(self) -> None:
        """Queue transfers."""

    async def clock(self, *, in_reset: bool = False) -> None:
        """Do one clock."""


async def reset_in_traffic(testbench: TransferTestbench) -> None:
    """Reset in the midst of traffic."""
    for _ in range(random.choice((1, 1, 3))):
        if random.random() < 0.5:
            testbench.draw()
            testbench.transfers.chance = 1.0
        await testbench.clock(in_reset=True)


async def until_idle(dut: Any, most: int = 5000) -> None:
    """Wait until `idle_o` is high. AssertionError: it is not high within `most` clocks."""
    for _ in range(most):
        await RisingEdge(dut.clk_i)
        if dut.idle_o.value:
            return
    raise AssertionError("it does not become idle")
