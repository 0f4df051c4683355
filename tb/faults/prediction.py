"""Prediction of what the device does with any submission: the functional model with a record of its
writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.errors import NpuBusError
from echo_npu.model.execution import ExecutionFault
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_scatter import row_addresses
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import Region
from echo_sim.config import load_config
from tb.checking import Behind, accepted
from tb.scoreboards.accuracy import addresses

SLVERR: Final = 2
UNKNOWN: Final = (0, 0, 0)

_COUNTERS: Final = {offset + half for offset in (getattr(regs, n) for n in regs.COUNTERS) for half in (0, 4)}


def written_ranges(command: CheckedCommand) -> list[tuple[int, int]]:
    """Return [start, end) of every run of bytes that a command may write."""
    if command.dst is None:
        return []
    if command.vector is not None and command.vector.table_rows:  # any row of a table of any height
        return [(command.dst.address, command.dst.address + command.dst.extent(command.batch))]
    size = command.dst.row_bytes
    return [(start, start + size) for start in np.unique(addresses(command.dst, command.batch)).tolist()]


def effort(command: CheckedCommand) -> float:
    """Estimate the clock cycles that a command takes on a small device."""
    batches = command.batch[0] * command.batch[1]

    def of(operand: MemoryOperand) -> float:
        return batches * operand.rows * operand.segments * (4 + operand.row_bytes / 8)

    dst, vector = command.dst, command.vector
    if dst is not None and vector is not None:
        dst = replace(dst, rows=vector.rows)  # of a scatter's table, as many as are written
    work = 20 + sum(of(each) for each in (*command.sources, dst) if each is not None)
    if vector is not None:
        passes = sum(each.passes for each in vector.inputs if each is not None)
        work += batches * vector.rows * (1 + vector.cols / 4) * (10 + passes) * vector.repeats
    return work + command.macs / 8


@dataclass(frozen=True)
class Written:
    """Runs of bytes that were written, and their previous contents.

    Attributes:
        starts: int64 [runs], first address of each run of bytes.
        before: uint8 [runs, bytes per run].
        defined: whether the model knows the new contents; False if the command failed.
    """

    starts: NDArray[np.int64]
    before: NDArray[np.uint8]
    defined: bool

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """[start, end) of each run."""
        size = self.before.shape[1]
        return [(start, start + size) for start in self.starts.tolist()]


class PredictedDevice(FunctionalModel):
    """Functional model with byte strobes that executes on demand and can undo its writes.

    Attributes:
        written: writes of commands in order, since `take_back` or since the caller emptied it.
        stopped: the command that failed in its engine; None if the last failing one was refused, or none
            failed.
        longest: greatest `effort` of a command that was executed since the caller set it to 0.
    """

    def __init__(self, config: str) -> None:
        self.written: list[Written] = []
        self.longest = 0.0
        self.stopped: CheckedCommand | None = None
        self._history: list[Written] = []
        self._stands = True
        self._high_known = False  # no reset clears the high word that a read of a low word latched
        super().__init__(load_config(config), DeviceMemory())

    @property
    def has_blocks(self) -> bool:
        """Whether the device takes weights in blocks."""
        return self._config.has_blocks

    # --- between cases ---

    def power(self) -> None:
        """Enter the state after rst_n, which also clears what a soft reset keeps."""
        self._return_to_reset()
        self._high_known = False
        self.stopped = None
        self._stored = dict.fromkeys(self._stored, 0)
        self.programs.loaded = 0

    def host_write(self, address: int, data: bytes) -> None:
        """Write memory as the host."""
        self._keep(np.array([address]), len(data), defined=False)
        self.memory.write(address, np.frombuffer(data, dtype=np.uint8))

    def take_back(self) -> None:
        """Undo all writes to memory since the last call."""
        for each in reversed(self._history):
            self._put_back(each)
        self._history.clear()
        self.written.clear()

    def is_sound(self, command: CheckedCommand) -> bool:
        """Return whether a command ends without an error if nothing limits its time; memory stays as it is.

        Raises ValueError: the command has no destination.
        """
        if command.dst is None:
            raise ValueError(f"{command.packet.opcode} has no destination")
        kept = self._keep(self._starts(command, command.dst), command.dst.row_bytes, defined=False)
        try:
            self._execution.execute(command, limit=0)
        except ExecutionFault:
            return False
        finally:
            self._history.pop()
            self._put_back(kept)
        return True

    def _put_back(self, kept: Written) -> None:
        self.memory.bytes[kept.starts[:, None] + np.arange(kept.before.shape[1])] = kept.before

    def _keep(self, starts: NDArray[np.int64], size: int, *, defined: bool) -> Written:
        kept = Written(starts, self.memory.bytes[starts[:, None] + np.arange(size)], defined)
        self._history.append(kept)
        return kept

    # --- actions of cases ---

    def submit(self, slot: bytes) -> None:
        """Submit a packet through the command window."""
        self._window[:] = slot
        self._ring_doorbell_of_window()

    def drain(self) -> None:
        """Execute everything that can run."""
        self._stands = False
        while self._step():
            pass
        self._stands = True
        self.waited()

    def waited(self) -> None:
        """Do as the runner at the end of a wait: it clears the interrupts."""
        self._irq_status = 0

    def give_up_extension(self) -> None:
        """Let the device time out waiting for announced extensions."""
        self._stands = False
        while not self.error:
            self.wait_irq(1 << 16)
        self._stands = True
        self.waited()

    def _step(self) -> bool:
        return not self._stands and super()._step()

    def write_strobed(self, offset: int, value: int, strobes: int) -> int:
        """Write the bytes of a register selected by `strobes`; return the AXI response."""
        offset &= 0xFFFC
        mask = sum(0xFF << 8 * lane for lane in range(4) if strobes >> lane & 1)
        value &= mask
        if offset in self._stored or regs.CMD_WINDOW <= offset < regs.DOORBELL:
            value |= self._value(offset) & ~mask
        elif offset == regs.CONTROL:
            value |= regs.CONTROL_RING_ENABLE.put(int(self._ring_enabled)) & ~mask
        elif offset == regs.RING_TAIL:
            if not mask & regs.RING_TAIL_SLOT.mask:
                return 0
            value |= self._tail_register & ~mask
        elif offset == regs.DOORBELL and not mask:
            return 0
        try:
            self.write_reg(offset, value)
        except NpuBusError:
            return SLVERR
        return 0

    def peek(self, offset: int) -> tuple[int, int, int]:
        """Predict a register read: data, mask of the known bits, response."""
        offset &= 0xFFFC
        if offset in _COUNTERS or (offset == regs.ERROR_ADDR + 4 and not self._high_known):
            return UNKNOWN
        self._high_known |= offset == regs.ERROR_ADDR
        try:
            return self.read_reg(offset), 0xFFFF_FFFF, 0
        except NpuBusError:
            return 0, 0xFFFF_FFFF, SLVERR

    # --- state ---

    @property
    def error(self) -> int:
        """Value of ERROR_CODE."""
        return int(self._error)

    @property
    def taken(self) -> int:
        """Commands taken since reset."""
        return self._taken

    @property
    def guard(self) -> Region | None:
        """Range that no command may write to; None if there is none."""
        return self._guard

    @property
    def waits_for_extension(self) -> bool:
        """Whether a command still lacks extensions."""
        return self._held is not None

    @property
    def pending(self) -> list[bytes]:
        """Waiting packets: those of the window, then those of the ring."""
        return [*self._queue, *self.in_ring(self._tail)]

    def in_ring(self, tail: int, most: int = 256) -> list[bytes]:
        """Return the packets in the ring from the head up to slot `tail`, at most `most` of them."""
        slots: list[bytes] = []
        base, size, head = self._stored[regs.RING_BASE], self._stored[regs.RING_SIZE], self._head
        while head != tail and len(slots) < most:
            address = base + head * PACKET_BYTES
            if address + PACKET_BYTES > self.memory.size:
                break
            slots.append(self.memory.read(address, PACKET_BYTES).tobytes())
            head = 0 if head + 1 >= size else head + 1
        return slots

    @property
    def window(self) -> bytes:
        """Contents of the command window."""
        return bytes(self._window)

    @property
    def ring_head(self) -> int:
        """Value of RING_HEAD."""
        return self._head

    def registers(self) -> tuple[int, int, int, int, int, int]:
        """Return the values of tb.scoreboards.commands.STATE_REGISTERS as the runner reads them."""
        self.peek(regs.STATUS)  # tells the host that nothing is under way
        self.peek(regs.ERROR_ADDR)  # latches the high word
        address = self._error_address
        low, high = address & 0xFFFF_FFFF, address >> 32
        return self.state, int(self._error), self._error_index, low, high, self._retired

    def _execute(self, command: CheckedCommand) -> None:
        self.stopped = None
        self.longest = max(self.longest, effort(command))
        if command.dst is None:
            super()._execute(command)
            return
        kept = self._keep(self._starts(command, command.dst), command.dst.row_bytes, defined=True)
        self.written.append(kept)
        try:
            super()._execute(command)
        except ExecutionFault:
            self.written[-1] = Written(kept.starts, kept.before, False)
            self.stopped = command
            raise

    def _starts(self, command: CheckedCommand, dst: MemoryOperand) -> NDArray[np.int64]:
        """Return the first address of each run of bytes that a command with destination `dst` writes."""
        if command.vector is not None and command.vector.table_rows:
            return row_addresses(self.memory.bytes, command.vector)
        return np.unique(addresses(dst, command.batch))


def commands(
    slots: Sequence[bytes], programs: ProgramMemory, guard: Region | None = None, *, blocks: bool
) -> Iterator[tuple[list[bytes], CheckedCommand | None]]:
    """Yield the packets of each command with the checked command; None if it is refused, e.g. for writing to
    `guard`, or for weights in blocks where the device has no `blocks`.

    An incomplete last command is omitted.
    """
    for command in as_commands(slots):
        if not command.complete:
            return
        yield list(command.slots), accepted(command, programs, guard, blocks=blocks)


def behind(
    failed: bool, slots: Sequence[bytes], programs: ProgramMemory, *, blocks: bool
) -> list[CheckedCommand]:
    """Return the commands in `slots` that may be running when the one before them fails in its engine.

    `failed` says whether the failing command is on the matrix engine, `blocks` as in `commands`.
    """
    watch, found = Behind(failed), []
    for slot in slots:
        command = watch.take(slot, programs, blocks=blocks)
        if command is not None:
            found.append(command)
        if watch.complete:
            break
    return found
