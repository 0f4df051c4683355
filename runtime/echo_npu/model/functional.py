"""The functional model: every register, rule and result of the device, without its timing.

It takes the place of the hardware, below the registers: packets reach it through the command window or the
ring in device memory, are checked as the hardware checks them, and leave the same bytes in the same places.

It has no clock. So a soft reset is complete at once, and the watchdog ends only commands that no hardware
could finish in time (`Overlap`). Submitted work waits until the host lets time pass: each register read
executes one command at its end, and `wait_irq` executes commands until the interrupt rises. So the device is
busy after a doorbell, as on hardware, and a result that is read without waiting has the old bytes.
"""

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.checks import check_head, check_slots
from echo_npu.commands.packets import PACKET_BYTES, Command, Flags, NpuCommandPacket, Opcode
from echo_npu.errors import NpuBusError
from echo_npu.formats import FORMATS
from echo_npu.model.blocks import matmul_blocks
from echo_npu.model.constants import STORED_BITS, constant_registers
from echo_npu.model.epilogue import Epilogue, store, widen
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.numerics import add_fp32, matmul_fp32, matmul_int8
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_engine import ProgramFault, ProgramOverdue, VectorModel
from echo_npu.model.vector_scatter import first_bad_index
from echo_npu.model.watchdog import Overlap, least_clocks, least_clocks_to_index
from echo_npu.model.weight_panels import WeightPanels
from echo_npu.spec import registers as regs
from echo_npu.spec.contract import MAX_EXTENSION_WAIT
from echo_npu.spec.data_types import DataType, OutType
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


class ExecutionFault(PacketFault):
    """A command that was begun and stopped: the content of its destination is undefined."""


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
        self._panels = WeightPanels()
        self._vector = VectorModel(memory.bytes, self.programs, config.vector_length, config.row_elements)
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
        packet, batch, dst = command.packet, command.batch, command.dst
        # Errors of programs and of indices may come before the time is up, so these commands check it later.
        if command.vector is None and packet.opcode != Opcode.GATHER:
            self._watch(command)
        if packet.opcode == Opcode.LOAD_PROGRAM:
            words = self._bytes(command.sources[0], batch).reshape(-1)
            self.programs.load(packet.k, words.view(np.uint64))
        if dst is None:
            return
        if command.vector is not None:
            self._run_program(command)
        elif packet.opcode == Opcode.GATHER:
            self._gather(command)
        elif packet.opcode == Opcode.MATMUL:
            self._matmul(command)
        elif packet.opcode == Opcode.MEMCPY:
            target, source = self._bytes(dst, batch), self._bytes(command.sources[0], batch)
            # The rows of a batch are apart; where batches are not, the later one wins.
            for index in np.ndindex(target.shape[:2]) if dst.overlaps_itself(batch) else (...,):
                target[index] = source[index]
        elif packet.opcode == Opcode.ADD_TENSOR:
            a, b, c = (self._elements(each, batch, np.float32) for each in (*command.sources, dst))
            c[...] = add_fp32(a, b, _alpha(packet))
        else:
            raise NotImplementedError(f"the functional model does not execute {Opcode(packet.opcode).name}")

    def _watch(self, command: CheckedCommand, clocks: int | None = None) -> None:
        """Fault a command that takes more clocks than the watchdog allows.

        Args:
            clocks: what it takes; None: the least that it can take.
        """
        if clocks is None:
            clocks = least_clocks(command, self._config)
        if 0 < self._most_clocks(command) < clocks:
            if command.packet.opcode == Opcode.LOAD_PROGRAM:
                self.programs.give_up(command.packet.k, command.packet.m)
            raise ExecutionFault(ErrorCode.TIMEOUT)

    def _most_clocks(self, command: CheckedCommand) -> int:
        """Return the most clocks that the watchdog surely leaves a command; 0: any number."""
        return self._overlap.most_clocks(command.packet.opcode, self._stored[regs.WATCHDOG])

    def _matmul(self, command: CheckedCommand) -> None:
        packet, batch, dst = command.packet, command.batch, command.dst
        assert dst is not None
        dtype, right_type, out = packet.data_type, packet.right_type, packet.out_type
        left, right = command.sources[:2]
        a = self._elements(left, batch, dtype.storage)
        b = self._elements(right, batch, np.uint8 if packet.blocks else right_type.storage)
        c = self._elements(dst, batch, out.storage(dtype))
        if packet.has(Flags.TRANS_A):
            a = a.swapaxes(-1, -2)
        if packet.has(Flags.TRANS_B):
            b = b.swapaxes(-1, -2)
        epilogue = self._epilogue(command)
        for index in np.ndindex(c.shape[:2]):
            if packet.blocks:
                block_format = FORMATS[packet.blocks.label]
                tiles = b[index].reshape(right.rows, -1, block_format.tile_bytes)
                rows = widen(a[index], dtype)
                sums: NDArray[Any] = matmul_blocks(rows, tiles, block_format, packet.n, self._panels)
            elif dtype == DataType.INT8:
                sums = matmul_int8(a[index], b[index])
            else:
                sums = matmul_fp32(widen(a[index], dtype), widen(b[index], right_type))
            c[index] = sums if out == OutType.INT32 else store(epilogue.apply(sums), dtype, out)
        self._counters[regs.MACS] += command.macs

    def _epilogue(self, command: CheckedCommand) -> Epilogue:
        packet = command.packet
        row_scale: NDArray[np.float32] | None = None
        if command.row_scales is not None:
            row_scale = self._elements(command.row_scales, (1, 1), np.float32)[0, 0, 0]
        columns: list[NDArray[np.float32]] = []
        if command.column_vectors is not None:
            columns = list(self._elements(command.column_vectors, (1, 1), np.float32)[0, 0])
        return Epilogue(
            alpha=_alpha(packet) if packet.has(Flags.USE_ALPHA) else None,
            row_scale=row_scale,
            column_scale=columns[0] if packet.has(Flags.COL_SCALE) else None,
            bias=columns[-1] if packet.has(Flags.BIAS) else None,
            relu=packet.has(Flags.RELU),
        )

    def _run_program(self, command: CheckedCommand) -> None:
        vector = command.vector
        assert vector is not None
        bad = first_bad_index(self.memory.bytes, vector) if vector.table_rows else None
        try:
            limit = self._most_clocks(command)
            if bad is None:
                self._vector.execute(vector, limit, least_clocks(command, self._config))
            else:
                # The device finds it behind the program's first row, and two rows ahead of its own one.
                rows = max(bad[0] - 1, 1)
                before = replace(vector, rows=rows, batch=(1, 1))
                least = least_clocks_to_index(bad[0], vector.output.segment_bytes, self._config)
                self._vector.check(before, limit, least)
                raise ExecutionFault(ErrorCode.BAD_INDEX, bad[1])
        except ProgramFault as fault:
            raise ExecutionFault(ErrorCode.BAD_PROGRAM, fault.number) from None
        except ProgramOverdue:
            raise ExecutionFault(ErrorCode.TIMEOUT) from None

    def _gather(self, command: CheckedCommand) -> None:
        table, indices = command.sources
        dst = command.dst
        assert dst is not None
        wanted = self._bytes(indices, command.batch).reshape(-1).view(np.int32)
        wrong = np.flatnonzero((wanted < 0) | (wanted >= table.rows))
        if wrong.size:
            first = int(wrong[0])
            self._watch(command, least_clocks_to_index(first, table.row_bytes, self._config))
            raise ExecutionFault(ErrorCode.BAD_INDEX, indices.address + 4 * first)
        self._watch(command)
        self._bytes(dst, command.batch)[0, 0] = self._bytes(table, command.batch)[0, 0, wanted]

    def _bytes(self, operand: MemoryOperand, batch: tuple[int, int]) -> NDArray[np.uint8]:
        """Return the operand in memory as uint8 [outer, inner, rows, row bytes]."""
        return self._elements(operand, batch, np.uint8)

    def _elements(self, operand: MemoryOperand, batch: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """Return the operand in memory as [outer, inner, rows, row elements] of `dtype`."""
        inner, outer = operand.batch_strides
        size = np.dtype(dtype).itemsize
        return np.ndarray(
            (batch[1], batch[0], operand.rows, operand.row_bytes // size),
            dtype,
            self.memory.bytes,
            operand.address,
            (outer, inner, operand.row_stride, size),
        )


def _alpha(packet: NpuCommandPacket) -> np.float32:
    """Return the alpha of a packet, bits untouched."""
    alpha: np.float32 = np.array([packet.param[6]], dtype=np.uint32).view(np.float32)[0]
    return alpha
