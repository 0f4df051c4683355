"""The functional model: every register, queue, rule and error of the device, without its timing.

It takes the place of the hardware, below the registers: packets reach it through the command window or the
ring in device memory, are checked as the hardware checks them, and leave the same bytes in the same places.

It has no clock. So a soft reset is complete at once, and the watchdog ends only commands that no hardware
could finish in time (`Overlap`). Submitted work waits until the host lets time pass: each register read
executes one command at its end, and `wait_irq` executes commands until the interrupt rises. So the device is
busy after a doorbell, as on hardware, and a result that is read without waiting has the old bytes.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from echo_npu.commands.checked import CheckedCommand, PacketFault
from echo_npu.commands.checks import check_head, check_slots
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES, Flags, NpuCommandPacket
from echo_npu.errors import NpuBusError
from echo_npu.model.constants import STORED_BITS, constant_registers
from echo_npu.model.execution import CommandExecution, ExecutionFault
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.watchdog import Overlap
from echo_npu.spec import registers as regs
from echo_npu.spec.contract import MAX_EXTENSION_WAIT
from echo_npu.spec.memory_map import Region
from echo_npu.spec.status import ErrorCode, State
from echo_sim.config import NpuConfig

_WINDOW_END: Final = regs.CMD_WINDOW + PACKET_BYTES
_WIDE: Final = {r.offset for r in regs.REGISTERS.values() if r.width == 64}
_READABLE: Final = {
    r.offset + i * r.stride + half
    for r in regs.REGISTERS.values()
    if r.readable
    for i in range(r.count)
    for half in range(0, r.width // 8, 4)
}


class ModelObserver(Protocol):
    """Follows the commands of a model."""

    def taking(self) -> None:
        """Note that the model is about to take a command; nothing of it has happened."""

    def executing(self, command: Command, checked: CheckedCommand) -> None:
        """Note that the model is about to execute a command, which is legal."""

    def faulted(self) -> None:
        """Note that the command that was being executed has failed: its destination is undefined."""


@dataclass(frozen=True, slots=True)
class ModelState:
    """What a model between two commands is, but for its memory: with it, another one goes on from there.

    Attributes:
        stored: the configuration registers, by offset.
        window: the command window.
        queue: the packets that wait in the window queue.
        ring_enabled: CONTROL.ring_enable.
        ring: base and size of the ring at its last doorbell; (0, 0) if there was none.
        head, tail: slots of the ring.
        submitted: whether anything was submitted since reset.
        taken, retired: commands since reset.
        programs: the words of program memory from 0 to the highest that was ever loaded.
    """

    stored: dict[int, int]
    window: bytes
    queue: tuple[bytes, ...]
    ring_enabled: bool
    ring: tuple[int, int]
    head: int
    tail: int
    submitted: bool
    taken: int
    retired: int
    programs: bytes

    @property
    def waiting(self) -> int:
        """Packets that were submitted and not taken."""
        return len(self.queue) + ((self.tail - self.head) % self.ring[1] if self.ring[1] else 0)


class FunctionalModel:
    """The device as its host sees it: registers by offset, memory by physical address, one interrupt.

    Args:
        config: gives the capability registers and the depth of the command queue.
        memory: device memory, with its map.

    Raises:
        RuntimeError: the process flushes float32 subnormals to zero.
    """

    def __init__(self, config: NpuConfig, memory: DeviceMemory) -> None:
        if np.float32(2.0**-126) * np.float32(0.5) == 0:
            raise RuntimeError("this process flushes float32 subnormals to zero (some library set FTZ)")
        self.memory = memory
        self._config = config
        self._depth = config.queue_depth
        self._constants = constant_registers(config)
        self._stored = dict.fromkeys(STORED_BITS, 0)
        # High words, of the last read of the low one; no reset clears them.
        self._latched = dict.fromkeys(_WIDE, 0)
        self.programs = ProgramMemory(config.program_words)
        self.observer: ModelObserver | None = None
        self._execution = CommandExecution(config, memory, self.programs)
        self._return_to_reset()

    def _return_to_reset(self) -> None:
        self._ring_enabled = False
        self._window = bytearray(PACKET_BYTES)
        self._queue: deque[bytes] = deque()
        # A command that lacks extensions, and whether it is from the ring.
        self._held: tuple[Command, bool] | None = None
        self._waited = 0  # cycles that it has waited for the next one
        self._head = self._tail = self._tail_register = 0
        self._ring = (0, 0)  # base and size that the last good doorbell found
        self._submitted = False
        self._error = ErrorCode.NONE
        self._error_index = self._error_address = 0
        self._taken = self._retired = 0
        self._overlap = Overlap()
        self._irq_status = 0
        self._clear_counters()

    def _clear_counters(self) -> None:
        self._counters = dict.fromkeys((getattr(regs, name) for name in regs.COUNTERS), 0)

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def between_commands(self) -> bool:
        """Whether no command waits for extensions and none has failed, so that `save` has all there is."""
        return self._held is None and not self._error

    @property
    def waiting(self) -> int:
        """Packets that were submitted and not taken."""
        return len(self._queue) + ((self._tail - self._head) % self._ring[1] if self._ring[1] else 0)

    @property
    def ring_slots(self) -> tuple[int, int, int, int]:
        """Base and size of the ring as of its last doorbell, the head and the tail."""
        return (*self._ring, self._head, self._tail)

    @property
    def retired(self) -> int:
        """Commands retired since reset."""
        return self._retired

    @property
    def error_registers(self) -> tuple[int, int, int]:
        """ERROR_CODE, ERROR_INDEX and ERROR_ADDR."""
        return int(self._error), self._error_index, self._error_address

    def save(self) -> ModelState:
        """Return everything but memory, between two commands."""
        return ModelState(
            stored=dict(self._stored),
            window=bytes(self._window),
            queue=tuple(self._queue),
            ring_enabled=self._ring_enabled,
            ring=self._ring,
            head=self._head,
            tail=self._tail,
            submitted=self._submitted,
            taken=self._taken,
            retired=self._retired,
            programs=self.programs.words.tobytes(),
        )

    def restore(self, state: ModelState) -> None:
        """Go on from a state that `save` returned. Counters begin at 0."""
        self._return_to_reset()
        self._stored = dict(state.stored)
        self._window = bytearray(state.window)
        self._queue = deque(state.queue)
        self._ring_enabled, self._ring = state.ring_enabled, state.ring
        self._head, self._tail, self._tail_register = state.head, state.tail, state.tail
        self._submitted = state.submitted
        self._taken, self._retired = state.taken, state.retired
        self.programs.loaded = 0
        self.programs.load(0, np.frombuffer(state.programs, np.uint64))

    # --- registers ------------------------------------------------------------------------------------------

    def read_reg(self, offset: int) -> int:
        """Return the 32-bit register at `offset`, then execute a waiting command; NpuBusError if refused."""
        if offset not in _READABLE:
            raise NpuBusError(offset, "read")
        value = self._value(offset)
        self._step()
        return value

    def _value(self, offset: int) -> int:
        if offset in self._constants:
            return self._constants[offset]
        if offset in self._stored:
            return self._stored[offset]
        if regs.CMD_WINDOW <= offset < _WINDOW_END:
            start = offset - regs.CMD_WINDOW
            return int.from_bytes(self._window[start : start + 4], "little")
        if offset in _WIDE:  # the low word latches the high word
            wide = self._error_address if offset == regs.ERROR_ADDR else self._counters[offset]
            self._latched[offset] = wide >> 32
            return wide & 0xFFFF_FFFF
        if offset - 4 in _WIDE:
            return self._latched[offset - 4]
        if offset == regs.STATUS:
            if self.state != State.BUSY:
                self._overlap.settle()
            level = len(self._queue)
            full = int(level == self._depth)
            return self.state | regs.STATUS_QUEUE_LEVEL.put(level) | regs.STATUS_QUEUE_FULL.put(full)
        return {
            regs.CONTROL: regs.CONTROL_RING_ENABLE.put(int(self._ring_enabled)),
            regs.ERROR_CODE: int(self._error),
            regs.ERROR_INDEX: self._error_index,
            regs.RETIRED: self._retired,
            regs.IRQ_STATUS: self._irq_status,
            regs.RING_HEAD: self._head,
            regs.RING_TAIL: self._tail_register,
        }[offset]

    def write_reg(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`, without executing a command; NpuBusError if refused."""
        if offset in self._stored:
            if offset == regs.WATCHDOG and value != self._stored[offset]:
                self._overlap.move_limit(busy=self.state == State.BUSY)
            self._stored[offset] = value & STORED_BITS[offset]
        elif regs.CMD_WINDOW <= offset < _WINDOW_END:
            start = offset - regs.CMD_WINDOW
            self._window[start : start + 4] = value.to_bytes(4, "little")
        elif offset == regs.DOORBELL:
            self._ring_doorbell_of_window()
        elif offset == regs.RING_TAIL:
            self._ring_doorbell_of_ring(value & regs.RING_TAIL_SLOT.mask)
        elif offset == regs.IRQ_STATUS:
            self._irq_status &= ~value
        elif offset == regs.CONTROL:
            self._control(value)
        else:
            raise NpuBusError(offset, "write")

    def _control(self, value: int) -> None:
        self._ring_enabled = bool(value & regs.CONTROL_RING_ENABLE.mask)
        if value & regs.CONTROL_CLEAR_COUNTERS.mask:
            self._clear_counters()
        if value & regs.CONTROL_CLEAR_ERROR.mask and self._error:
            self._queue.clear()
            self._held = None
            self._head = self._tail_register = self._tail
            self._submitted = False
            self._error = ErrorCode.NONE
            self._error_index = self._error_address = 0
            self._overlap.settle()
        if value & regs.CONTROL_SOFT_RESET.mask:
            self._return_to_reset()

    @property
    def state(self) -> State:
        """STATUS.state."""
        if self._error:
            return State.ERROR
        if self._queue or self._held or self._head != self._tail:
            return State.BUSY
        return State.DONE if self._submitted else State.IDLE

    @property
    def irq(self) -> bool:
        """The interrupt output."""
        return bool(self._irq_status & self._stored[regs.IRQ_ENABLE])

    # --- submission -----------------------------------------------------------------------------------------

    def _ring_doorbell_of_window(self) -> None:
        if self._error:
            return
        if len(self._queue) == self._depth:
            self._fail(ErrorCode.QUEUE_FULL)
            return
        self._queue.append(bytes(self._window))
        self._submitted = True

    def _ring_doorbell_of_ring(self, tail: int) -> None:
        self._tail_register = tail
        refusal = self._refusal(tail)
        if refusal is None:
            self._tail = tail
            self._ring = (self._address(regs.RING_BASE, regs.RING_BASE_HIGH), self._stored[regs.RING_SIZE])
            self._submitted |= tail != self._head
        elif not self._error:
            self._fail(refusal)

    def _refusal(self, tail: int) -> ErrorCode | None:
        """Return why a new tail of the ring is refused; None if it is good."""
        base, size = self._address(regs.RING_BASE, regs.RING_BASE_HIGH), self._stored[regs.RING_SIZE]
        inside = self.memory.map.region_of(base, size * PACKET_BYTES) is not None
        guard = self._guard
        inside &= guard is None or guard.contains(base, size * PACKET_BYTES)
        busy = self._head != self._tail
        moved = self._head >= size or (busy and self._ring != (base, size))
        if not self._ring_enabled or base % PACKET_BYTES or size < 2 or not inside or moved:
            return ErrorCode.RING_CONFIG
        # A new tail must not take back what was submitted.
        back = busy and (tail - self._head) % size < (self._tail - self._head) % size
        return ErrorCode.RING_INDEX if tail >= size or back else None

    @property
    def _guard(self) -> Region | None:
        """The range that holds the ring and that no command writes to."""
        base, size = self._address(regs.GUARD_BASE, regs.GUARD_BASE_HIGH), self._stored[regs.GUARD_SIZE]
        return Region("guard", base, size) if size else None

    def _address(self, low: int, high: int) -> int:
        """Return the address in two registers; the high one counts where memory lies above 4 GiB."""
        return (self._stored[high] << 32 if self.memory.map.is_large else 0) | self._stored[low]

    def _fail(self, code: ErrorCode, address: int = 0, index: int | None = None) -> None:
        self._error = code
        self._error_index = (self._taken if index is None else index) & 0xFFFF_FFFF
        self._error_address = address
        self._irq_status |= regs.IRQ_STATUS_ERROR.mask

    # --- execution ------------------------------------------------------------------------------------------

    def wait_irq(self, timeout_cycles: int) -> bool:
        """Execute until the interrupt is high or nothing can run; return whether it is high.

        The cycles count only for a command that waits for an extension.
        """
        while not self.irq and self._step():
            pass
        if not self.irq and self._held is not None:
            self._waited += timeout_cycles
            if self._waited >= MAX_EXTENSION_WAIT:
                self._held = None
                self._fail(ErrorCode.BAD_EXTENSION, index=self._taken - 1)
        return self.irq

    def _step(self) -> bool:
        """Execute one command if one can run; return whether one could."""
        if self._error:
            return False
        if self._held is None:
            from_ring = not self._queue
            if self.observer is not None and self.waiting:
                self.observer.taking()
            slot = self._take(from_ring)
            if slot is None:
                return False
            command = Command((slot,))
            self._taken += 1
        else:
            command, from_ring = self._held
        packet = command.packet
        try:
            if packet.has(Flags.EXT):
                check_head(packet, blocks=self._config.has_blocks)
            while not command.complete:
                slot = self._take(from_ring)
                if slot is None:
                    return self._hold(command, from_ring)
                command = Command((*command.slots, slot))
            self._held = None
            checked = check_slots(
                command.slots,
                self.programs,
                self._guard,
                blocks=self._config.has_blocks,
                memory=self.memory.map,
            )
            if self.observer is not None:
                self.observer.executing(command, checked)
            self._execute(checked)
        except ExecutionFault as fault:
            if self.observer is not None:
                self.observer.faulted()
            self._fail(fault.code, fault.address, self._taken - 1)
            return True
        except PacketFault as fault:
            self._held = None
            self._fail(fault.code, fault.address, self._taken - 1)
            return True
        self._retire(packet)
        return True

    def _hold(self, command: Command, from_ring: bool) -> bool:
        """Wait for an extension; return whether one has come since the last time."""
        if self._held is not None and len(self._held[0].slots) == len(command.slots):
            return False
        self._held, self._waited = (command, from_ring), 0
        return True

    def _take(self, from_ring: bool) -> bytes | None:
        if not from_ring:
            return self._queue.popleft() if self._queue else None
        if self._head == self._tail:
            return None
        base, size = self._ring
        slot = self.memory.read(base + self._head * PACKET_BYTES, PACKET_BYTES)
        self._head = 0 if self._head + 1 >= size else self._head + 1
        return slot.tobytes()

    def _retire(self, packet: NpuCommandPacket) -> None:
        self._retired = (self._retired + 1) & 0xFFFF_FFFF
        self._counters[regs.COMMANDS] += 1
        self._overlap.retire(packet.opcode)
        if packet.has(Flags.IRQ):
            self._irq_status |= regs.IRQ_STATUS_COMMAND.mask
        if self.state == State.DONE:
            self._irq_status |= regs.IRQ_STATUS_DONE.mask

    def _execute(self, command: CheckedCommand) -> None:
        limit = self._overlap.most_clocks(command.packet.opcode, self._stored[regs.WATCHDOG])
        self._counters[regs.MACS] += self._execution.execute(command, limit)
