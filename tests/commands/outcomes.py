"""Commands that do not succeed: refused, failed by a bus error, or ended by a soft reset. Everything is
checked."""

from collections.abc import Sequence
from typing import Any

from echo_npu.commands.packets import Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.testbench import RING_BASE, RING_SLOTS, NpuTestbench


async def failed(tb: NpuTestbench, code: ErrorCode, address: int | None = None, name: Any = "") -> None:
    """Expect that what was submitted ends with the error `code`, at `address` if given; clear the error.

    `name` identifies the case in a failure's message.
    """
    assert await tb.check() == State.ERROR, f"{name}: accepted"
    state = await tb.state()
    assert state.error_code == code, f"{name}: {state}"
    assert address in (None, state.error_address), f"{name}: {state}"
    await tb.commands.clear_error()


async def refused(
    tb: NpuTestbench,
    packets: Sequence[Packet],
    code: ErrorCode,
    address: int | None = None,
    *,
    via: Path = "window",
    name: Any = "",
) -> None:
    """Submit packets, then check the error as `failed` does."""
    await tb.commands.submit(packets, via)
    await failed(tb, code, address, name)


async def protect(tb: NpuTestbench, base: int, size: int) -> None:
    """Let no command write `size` bytes from `base` on, both multiples of 64."""
    await tb.registers.write(regs.GUARD_BASE, base)
    await tb.registers.write(regs.GUARD_SIZE, size)


def spoil(
    tb: NpuTestbench, start: int, nbytes: int = 4, *, write: bool = False, decode: bool = False
) -> None:
    """Let memory refuse reads, or writes, of `nbytes` bytes at `start` with SLVERR, or DECERR."""
    tb.dram.clear_statistics()
    tb.dram.add_fault(start, start + nbytes, read=not write, write=write, decode=decode)


async def bus_error(
    tb: NpuTestbench, packets: Sequence[Packet], code: ErrorCode, via: Path, index: int | None
) -> None:
    """Submit packets of which command number `index` since reset (None: the fetch of a slot) meets a bus
    error. Clear the error and its cause."""
    await tb.commands.submit(packets, via)
    assert await tb.commands.wait(1_000_000) == State.ERROR
    await tb.check_bus_error(code, index)
    tb.dram.clear_faults()
    await tb.commands.clear_error()


async def fail(tb: NpuTestbench, packets: Sequence[Packet], code: ErrorCode, via: Path, before: int) -> None:
    """Submit commands of which one, after `before` others, meets a bus error; check, and recover."""
    await bus_error(tb, packets, code, via, (await tb.state()).retired + before)
    await tb.probe()
    await tb.restart()


async def give_up(tb: NpuTestbench, *places: tuple[int, int]) -> None:
    """Soft-reset the device during commands. No bus traffic may remain, and nothing may be written outside of
    `places`, each (address, bytes)."""
    await tb.commands.soft_reset()
    assert tb.dram.statistic("outstanding") == 0
    tb.monitor.sync()
    tb.scoreboard.resynchronise(tb.memory.shared, [(start, start + nbytes) for start, nbytes in places])
    await tb.commands.setup_ring(RING_BASE, RING_SLOTS)
