"""What the device must do with anything that a case submits: the functional model, and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.checks import check_command, unpack_extension
from echo_npu.commands.packets import FENCES, PACKET_BYTES, NpuCommandPacket, Opcode, extension_count
from echo_npu.errors import NpuBusError
from echo_npu.model.functional import ExecutionFault, FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import Region
from echo_npu.vector.memory import ProgramMemory
from echo_sim.config import load_config
from tb.scoreboards.accuracy import addresses

SLVERR: Final = 2
UNKNOWN: Final = (0, 0, 0)

_COUNTERS: Final = {offset + half for offset in (getattr(regs, n) for n in regs.COUNTERS) for half in (0, 4)}


def written_ranges(command: CheckedCommand) -> list[tuple[int, int]]:
    """[start, end) of every run of bytes that a command may write."""
    if command.dst is None:
        return []
    size = command.dst.row_bytes
    return [(start, start + size) for start in np.unique(addresses(command.dst, command.batch)).tolist()]


def effort(command: CheckedCommand) -> float:
    """Roughly the clock cycles that a command takes on a small device."""
    batches = command.batch[0] * command.batch[1]

    def of(operand: MemoryOperand) -> float:
        return batches * operand.rows * operand.segments * (4 + operand.row_bytes / 8)

    work = 20 + sum(of(each) for each in (*command.sources, command.dst) if each is not None)
    if command.vector is not None:
        vector = command.vector
        passes = sum(each.passes for each in vector.inputs if each is not None)
        work += batches * vector.rows * (1 + vector.cols / 4) * (10 + passes) * vector.repeats
    return work + command.macs / 8


@dataclass(frozen=True)
class Written:
    """Runs of bytes that were written, and what was there before.

    Attributes:
        starts: int64 [runs], first address of each run of bytes.
        before: uint8 [runs, bytes of a run].
        defined: whether the model says what is there now; not so where the command failed.
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
    """The functional model with byte strobes, on demand, and with a way back.

    Attributes:
        written: what commands wrote since `take_back` or the caller emptied it, in order.
        stopped: the command that failed in its engine; None when the last one to fail, if any, was refused.
    """

    def __init__(self, config: str) -> None:
        self.written: list[Written] = []
        self.stopped: CheckedCommand | None = None
        self._history: list[Written] = []
        self._stands = True
        self._high_known = False  # no reset clears what the last read of a low word has latched
        super().__init__(load_config(config), DeviceMemory())

    # --- from case to case ---

    def power(self) -> None:
        """As after rst_n: what a soft reset keeps is gone, too."""
        self._return_to_reset()
        self._high_known = False
        self.stopped = None
        self._stored = dict.fromkeys(self._stored, 0)
        self.programs.loaded = 0

    def host_write(self, address: int, data: bytes) -> None:
        """The host changes memory."""
        self._keep(np.array([address]), len(data), defined=False)
        self.memory.write(address, np.frombuffer(data, dtype=np.uint8))

    def take_back(self) -> None:
        """Memory is what it was the last time."""
        for each in reversed(self._history):
            self.memory.bytes[each.starts[:, None] + np.arange(each.before.shape[1])] = each.before
        self._history.clear()
        self.written.clear()

    def _keep(self, starts: NDArray[np.int64], size: int, *, defined: bool) -> Written:
        kept = Written(starts, self.memory.bytes[starts[:, None] + np.arange(size)], defined)
        self._history.append(kept)
        return kept

    # --- what cases do ---

    def submit(self, slot: bytes) -> None:
        """A packet through the command window."""
        self._window[:] = slot
        self._ring_doorbell_of_window()

    def drain(self) -> None:
        """Execute all that can run."""
        self._stands = False
        while self._step():
            pass
        self._stands = True
        self._irq_status = 0  # the runner clears it where it waits

    def give_up_extension(self) -> None:
        """Wait in vain for the extensions that were announced."""
        self._stands = False
        while not self.error:
            self.wait_irq(1 << 16)
        self._stands = True
        self._irq_status = 0

    def _step(self) -> bool:
        return not self._stands and super()._step()

    def write_strobed(self, offset: int, value: int, strobes: int) -> int:
        """A register write of the bytes that `strobes` has a bit for; returns the AXI response."""
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
        """What a read of a register answers: data, the bits of it that are known, response."""
        offset &= 0xFFFC
        if offset in _COUNTERS or (offset == regs.ERROR_ADDR + 4 and not self._high_known):
            return UNKNOWN
        self._high_known |= offset == regs.ERROR_ADDR
        try:
            return self.read_reg(offset), 0xFFFF_FFFF, 0
        except NpuBusError:
            return 0, 0xFFFF_FFFF, SLVERR

    # --- what became of it ---

    @property
    def error(self) -> int:
        """ERROR_CODE."""
        return int(self._error)

    @property
    def taken(self) -> int:
        """Commands taken since reset."""
        return self._taken

    @property
    def guard(self) -> Region | None:
        """The range that no command may write to."""
        return self._guard

    @property
    def waits_for_extension(self) -> bool:
        """Whether a command waits for extensions that were not submitted."""
        return self._held is not None

    @property
    def pending(self) -> list[bytes]:
        """The packets that wait, those of the window before those of the ring."""
        return [*self._queue, *self.in_ring(self._tail)]

    def in_ring(self, tail: int, most: int = 256) -> list[bytes]:
        """What a ring that is where the registers say holds from the head up to slot `tail`, or the first
        `most` packets of it."""
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
        """What the command window holds."""
        return bytes(self._window)

    @property
    def ring_head(self) -> int:
        """RING_HEAD."""
        return self._head

    def registers(self) -> tuple[int, int, int, int, int, int]:
        """The values of tb.faults.script.STATE, read as the runner reads them."""
        self.peek(regs.ERROR_ADDR)  # which latches its high word
        address = self._error_address
        low, high = address & 0xFFFF_FFFF, address >> 32
        return self.state, int(self._error), self._error_index, low, high, self._retired

    def _execute(self, command: CheckedCommand) -> None:
        self.stopped = None
        if command.dst is None:
            super()._execute(command)
            return
        starts = np.unique(addresses(command.dst, command.batch))
        kept = self._keep(starts, command.dst.row_bytes, defined=True)
        self.written.append(kept)
        try:
            super()._execute(command)
        except ExecutionFault:
            self.written[-1] = Written(kept.starts, kept.before, False)
            self.stopped = command
            raise


def commands(
    slots: Sequence[bytes], programs: ProgramMemory, guard: Region | None = None
) -> Iterator[tuple[list[bytes], CheckedCommand | None]]:
    """The packets of each command, and the command; None for one that is refused, as one is that would write
    to `guard`. An incomplete last one is left out."""
    index = 0
    while index < len(slots):
        packet = NpuCommandPacket.unpack(slots[index])
        size = 1 + extension_count(packet.opcode, packet.flags)
        part = list(slots[index : index + size])
        if len(part) < size:
            return
        try:
            yield part, check_command(packet, unpack_extension(part[1:]), programs, guard)
        except PacketFault:
            yield part, None
        index += size


def behind(failed: bool, slots: Sequence[bytes], programs: ProgramMemory) -> list[CheckedCommand]:
    """Which of the commands in `slots` may be under way when the one before them fails in its engine.

    The matrix engine holds two commands and the vector engine one; they start in order.

    Args:
        failed: whether the failing one is on the matrix engine.
    """
    room = {True: 2, False: 1}
    room[failed] -= 1
    found = []
    for _, command in commands(slots, programs):
        if command is None or command.packet.opcode in FENCES:
            break
        on_matrix = command.packet.opcode == Opcode.MATMUL
        room[on_matrix] -= 1
        if room[on_matrix] < 0:
            break
        found.append(command)
    return found
