"""The functional model: every register, rule and result of the device, without its timing.

It stands where the hardware stands, below the registers: packets reach it through the command window or the
ring in device memory, are checked as the hardware checks them, and leave the same bytes in the same places.

It has no clock. Submitted work waits until the host lets time pass: each register read ends with one command
executed, `wait_irq` executes until the interrupt rises. So a doorbell returns with the device busy, as on
hardware, and reading a result without waiting for it reads the old bytes.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import DTypeLike, NDArray

from echo_npu import registers as regs
from echo_npu.checks import Command, Extension, Operand, PacketFault, check_command, check_head
from echo_npu.data_types import DataType, OutType
from echo_npu.epilogue import Epilogue, store, widen
from echo_npu.errors import NpuBusError
from echo_npu.memory import DeviceMemory
from echo_npu.memory_map import MEMORY_REGIONS
from echo_npu.numerics import add_fp32, matmul_fp32, matmul_int8
from echo_npu.packets import (
    PACKET_BYTES,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    extension_count,
)
from echo_npu.repository import HardwareConfig
from echo_npu.status import ErrorCode, State
from echo_npu.vector.command import VectorExtension
from echo_npu.vector.memory import ProgramMemory
from echo_npu.vector.model import ProgramFault, VectorModel

EXTENSION_TIMEOUT_CYCLES: Final = 1 << 16
"""An announced extension that has not come by then never will: BAD_EXTENSION."""

_WINDOW_END: Final = regs.CMD_WINDOW + PACKET_BYTES
_STORED: Final = {
    regs.IRQ_ENABLE: 0x7,
    regs.RING_BASE: 0xFFFF_FFFF,
    regs.RING_SIZE: regs.RING_SIZE_SLOTS.mask,
}
"""Plain configuration registers, and the bits that they have."""
_WIDE: Final = {r.offset for r in regs.REGISTERS.values() if r.width == 64}
_READABLE: Final = {
    r.offset + i * r.stride + half
    for r in regs.REGISTERS.values()
    if r.readable
    for i in range(r.count)
    for half in range(0, r.width // 8, 4)
}


class ExecutionFault(PacketFault):
    """A command that was begun and stopped: its destination is undefined."""


class FunctionalModel:
    """The device as its host sees it: registers by offset, memory by physical address, one interrupt.

    Args:
        config: what the capability registers show, and the depth of the command queue.
        memory: device memory.
    """

    def __init__(self, config: HardwareConfig, memory: DeviceMemory) -> None:
        if np.float32(2.0**-126) * np.float32(0.5) == 0:
            raise RuntimeError("this process flushes float32 subnormals to zero (some library set FTZ)")
        self.memory = memory
        self._depth = config.queue_depth
        self._constants = {
            regs.ID: 0x4543484F,
            regs.VERSION: regs.VERSION_MAJOR.put(1) | regs.VERSION_MINOR.put(0),
            regs.CAP_ARRAY: regs.CAP_ARRAY_ROWS.put(config.array_rows)
            | regs.CAP_ARRAY_COLS.put(config.array_cols),
            regs.CAP_VECTOR: regs.CAP_VECTOR_LANES.put(config.vector_lanes)
            | regs.CAP_VECTOR_DATA_WIDTH.put(config.data_width),
            regs.CAP_TYPES: sum(1 << dtype for dtype in DataType),
            regs.CAP_QUEUE: regs.CAP_QUEUE_DEPTH.put(config.queue_depth)
            | regs.CAP_QUEUE_RING_MAX_SLOTS_LOG2.put(16),
            regs.CAP_SCRATCH_A: 4 * config.block_m * config.block_k_tiles * config.array_rows,
            regs.CAP_SCRATCH_B: 4
            * config.block_k_tiles
            * config.array_rows
            * config.block_n_tiles
            * config.array_cols,
            regs.CAP_SCRATCH_ACC: 4 * config.acc_entries * config.array_cols,
            regs.CAP_VECTOR_LENGTH: config.vector_length,
            regs.CAP_VECTOR_ROW: config.row_elements,
            regs.CAP_PROGRAM: config.program_words,
        }
        self._stored = dict.fromkeys(_STORED, 0)
        self.programs = ProgramMemory(config.program_words)
        self._vector = VectorModel(memory.bytes, self.programs, config.vector_length, config.row_elements)
        self._return_to_reset()

    def _return_to_reset(self) -> None:
        self._ring_enabled = False
        self._window = bytearray(PACKET_BYTES)
        self._queue: deque[bytes] = deque()
        # A command that waits for its extensions; from the ring? those that have come.
        self._held: tuple[NpuCommandPacket, bool, list[bytes]] | None = None
        self._waited = 0  # cycles that it has waited for the next one
        self._head = self._tail = self._tail_register = 0
        self._ring = (0, 0)  # base and size that the last good doorbell found
        self._submitted = False
        self._error = ErrorCode.NONE
        self._error_index = self._error_address = 0
        self._taken = self._retired = 0
        self._irq_status = 0
        self._latched = dict.fromkeys(_WIDE, 0)
        self._clear_counters()

    def _clear_counters(self) -> None:
        self._counters = dict.fromkeys((getattr(regs, name) for name in regs.COUNTERS), 0)

    # --- registers ------------------------------------------------------------------------------------------

    def read_reg(self, offset: int) -> int:
        """The 32-bit register at `offset`; then one waiting command is executed."""
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
        """Write the 32-bit register at `offset`. No command is executed by this."""
        if offset in self._stored:
            self._stored[offset] = value & _STORED[offset]
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
            self._head = self._tail
            self._submitted = False
            self._error = ErrorCode.NONE
            self._error_index = self._error_address = 0
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
        if self._error:
            return
        base, size = self._stored[regs.RING_BASE], self._stored[regs.RING_SIZE]
        inside = any(r.contains(base, size * PACKET_BYTES) for r in MEMORY_REGIONS.values())
        moved = self._head >= size or (self._head != self._tail and self._ring != (base, size))
        if not self._ring_enabled or base % PACKET_BYTES or size < 2 or not inside or moved:
            self._fail(ErrorCode.RING_CONFIG)
        elif tail >= size:
            self._fail(ErrorCode.RING_INDEX)
        else:
            self._tail = tail
            self._ring = (base, size)
            self._submitted |= tail != self._head

    def _fail(self, code: ErrorCode, address: int = 0, index: int | None = None) -> None:
        self._error = code
        self._error_index = (self._taken if index is None else index) & 0xFFFF_FFFF
        self._error_address = address
        self._irq_status |= regs.IRQ_STATUS_ERROR.mask

    # --- execution ------------------------------------------------------------------------------------------

    def wait_irq(self, timeout_cycles: int) -> bool:
        """Execute until the interrupt is high or nothing is left that can run; whether it is high.

        The cycles count only for a command whose announced extension does not come.
        """
        while not self.irq and self._step():
            pass
        if not self.irq and self._held is not None:
            self._waited += timeout_cycles
            if self._waited >= EXTENSION_TIMEOUT_CYCLES:
                self._held = None
                self._fail(ErrorCode.BAD_EXTENSION, index=self._taken - 1)
        return self.irq

    def _step(self) -> bool:
        """Execute one command, if there is one that can run; whether there was."""
        if self._error:
            return False
        slots: list[bytes] = []
        if self._held is None:
            from_ring = not self._queue
            slot = self._take(from_ring)
            if slot is None:
                return False
            packet = NpuCommandPacket.unpack(slot)
            self._taken += 1
        else:
            packet, from_ring, slots = self._held
        try:
            if packet.flags & Flags.EXT:
                check_head(packet)
            while len(slots) < extension_count(packet.opcode, packet.flags):
                slot = self._take(from_ring)
                if slot is None:
                    return self._hold(packet, from_ring, slots)
                slots = [*slots, slot]
            self._held = None
            self._execute(check_command(packet, unpack_extension(slots), self.programs))
        except ExecutionFault as fault:
            self._fail(fault.code, fault.address, self._taken - 1)
            return True
        except PacketFault as fault:
            self._held = None
            self._fail(fault.code, fault.address, self._taken - 1)
            return True
        self._retire(packet)
        return True

    def _hold(self, packet: NpuCommandPacket, from_ring: bool, slots: list[bytes]) -> bool:
        """Wait for an extension; whether anything has come since the last time."""
        if self._held is not None and len(self._held[2]) == len(slots):
            return False
        self._held, self._waited = (packet, from_ring, slots), 0
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
        if packet.flags & Flags.IRQ:
            self._irq_status |= regs.IRQ_STATUS_COMMAND.mask
        if self.state == State.DONE:
            self._irq_status |= regs.IRQ_STATUS_DONE.mask

    def _execute(self, command: Command) -> None:
        packet, batch, dst = command.packet, command.batch, command.dst
        if packet.opcode == Opcode.LOAD_PROGRAM:
            words = self._bytes(command.sources[0], batch).reshape(-1)
            self.programs.load(packet.k, words.view(np.uint64))
        if dst is None:
            return
        if command.vector is not None:
            self._run_program(command)
            return
        if packet.opcode == Opcode.GATHER:
            self._gather(command)
            return
        if packet.opcode == Opcode.MEMCPY:
            self._bytes(dst, batch)[...] = self._bytes(command.sources[0], batch)
            return
        if packet.opcode == Opcode.MATMUL:
            self._matmul(command)
            return
        src1, src2 = command.sources
        a, b, c = (self._elements(each, batch, np.float32) for each in (src1, src2, dst))
        c[...] = add_fp32(a, b, _alpha(packet))

    def _matmul(self, command: Command) -> None:
        packet, batch, dst = command.packet, command.batch, command.dst
        assert dst is not None
        dtype, out = packet.data_type, packet.out_type
        a, b = (self._elements(each, batch, dtype.storage) for each in command.sources[:2])
        c = self._elements(dst, batch, out.storage(dtype))
        if packet.flags & Flags.TRANS_A:
            a = a.swapaxes(-1, -2)
        if packet.flags & Flags.TRANS_B:
            b = b.swapaxes(-1, -2)
        epilogue = self._epilogue(command)
        for index in np.ndindex(c.shape[:2]):
            if dtype == DataType.INT8:
                sums: NDArray[Any] = matmul_int8(a[index], b[index])
            else:
                sums = matmul_fp32(widen(a[index], dtype), widen(b[index], dtype))
            c[index] = sums if out == OutType.INT32 else store(epilogue.apply(sums), dtype, out)
        self._counters[regs.MACS] += command.macs

    def _epilogue(self, command: Command) -> Epilogue:
        flags = command.packet.flags
        row_scale: NDArray[np.float32] | None = None
        if command.row_scales is not None:
            row_scale = self._elements(command.row_scales, (1, 1), np.float32)[0, 0, 0]
        columns: list[NDArray[np.float32]] = []
        if command.column_vectors is not None:
            columns = list(self._elements(command.column_vectors, (1, 1), np.float32)[0, 0])
        return Epilogue(
            alpha=_alpha(command.packet) if flags & Flags.USE_ALPHA else None,
            row_scale=row_scale,
            column_scale=columns[0] if flags & Flags.COL_SCALE else None,
            bias=columns[-1] if flags & Flags.BIAS else None,
            relu=bool(flags & Flags.RELU),
        )

    def _run_program(self, command: Command) -> None:
        assert command.vector is not None
        try:
            self._vector.execute(command.vector)
        except ProgramFault as fault:
            raise ExecutionFault(ErrorCode.BAD_PROGRAM, fault.number) from None

    def _gather(self, command: Command) -> None:
        table, indices = command.sources
        dst = command.dst
        assert dst is not None
        wanted = self._bytes(indices, command.batch).reshape(-1).view(np.int32)
        wrong = np.flatnonzero((wanted < 0) | (wanted >= table.rows))
        if wrong.size:
            raise ExecutionFault(ErrorCode.BAD_INDEX, indices.address + 4 * int(wrong[0]))
        self._bytes(dst, command.batch)[0, 0] = self._bytes(table, command.batch)[0, 0, wanted]

    def _bytes(self, operand: Operand, batch: tuple[int, int]) -> NDArray[np.uint8]:
        """The operand in memory as uint8 [outer, inner, rows, row bytes]."""
        inner, outer = operand.batch_strides
        return as_strided(
            self.memory.bytes[operand.address :],
            (batch[1], batch[0], operand.rows, operand.row_bytes),
            (outer, inner, operand.row_stride, 1),
        )

    def _elements(self, operand: Operand, batch: tuple[int, int], dtype: DTypeLike) -> NDArray[Any]:
        """The operand in memory as [outer, inner, rows, row elements] of `dtype`."""
        inner, outer = operand.batch_strides
        size = np.dtype(dtype).itemsize
        return as_strided(
            self.memory.bytes.view(dtype)[operand.address // size :],
            (batch[1], batch[0], operand.rows, operand.row_bytes // size),
            (outer, inner, operand.row_stride, size),
        )


def _alpha(packet: NpuCommandPacket) -> np.float32:
    """The alpha of a packet, with its bits as they are."""
    alpha: np.float32 = np.array([packet.param[6]], dtype=np.uint32).view(np.float32)[0]
    return alpha


def unpack_extension(slots: list[bytes]) -> Extension | None:
    """What a command's extension packets say: one, or the three of a VECTOR command. None for none."""
    if not slots:
        return None
    return ExtensionPacket.unpack(slots[0]) if len(slots) == 1 else VectorExtension.unpack(slots)
