"""What a command does to device memory: the results and faults of each operation, without its timing."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.formats import FORMATS
from echo_npu.model.blocks import matmul_blocks
from echo_npu.model.epilogue import Epilogue, store, widen
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.numerics import add_fp32, matmul_fp32, matmul_int8
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_engine import ProgramFault, ProgramOverdue, VectorModel
from echo_npu.model.vector_scatter import first_bad_index
from echo_npu.model.watchdog import least_clocks, least_clocks_to_index
from echo_npu.model.weight_panels import WeightPanels
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import ErrorCode
from echo_sim.config import NpuConfig


class ExecutionFault(PacketFault):
    """A command that was begun and stopped: the content of its destination is undefined."""


class CommandExecution:
    """The engines: execute legal commands, one after another, on device memory and program memory."""

    def __init__(self, config: NpuConfig, memory: DeviceMemory, programs: ProgramMemory) -> None:
        self._config = config
        self._memory = memory
        self._programs = programs
        self._panels = WeightPanels()
        self._vector = VectorModel(memory.bytes, programs, config.vector_length, config.row_elements)

    def execute(self, command: CheckedCommand, limit: int) -> int:
        """Execute a command; return the multiply-adds that it counts.

        Args:
            limit: the most clocks that the watchdog surely leaves it; 0: any number.

        Raises ExecutionFault: it stopped.
        """
        packet, batch, dst = command.packet, command.batch, command.dst
        # Errors of programs and of indices may come before the time is up, so these commands check it later.
        if command.vector is None and packet.opcode != Opcode.GATHER:
            self._watch(command, limit)
        if packet.opcode == Opcode.LOAD_PROGRAM:
            words = self._bytes(command.sources[0], batch).reshape(-1)
            self._programs.load(packet.k, words.view(np.uint64))
        if dst is None:
            return 0
        if command.vector is not None:
            self._run_program(command, limit)
        elif packet.opcode == Opcode.GATHER:
            self._gather(command, limit)
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
        return command.macs if packet.opcode == Opcode.MATMUL else 0

    def _watch(self, command: CheckedCommand, limit: int, clocks: int | None = None) -> None:
        """Fault a command that takes more than `limit` clocks, unless that is 0.

        Args:
            clocks: what it takes; None: the least that it can take.
        """
        if clocks is None:
            clocks = least_clocks(command, self._config)
        if 0 < limit < clocks:
            if command.packet.opcode == Opcode.LOAD_PROGRAM:
                self._programs.give_up(command.packet.k, command.packet.m)
            raise ExecutionFault(ErrorCode.TIMEOUT)

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

    def _run_program(self, command: CheckedCommand, limit: int) -> None:
        vector = command.vector
        assert vector is not None
        bad = first_bad_index(self._memory.bytes, vector) if vector.table_rows else None
        try:
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

    def _gather(self, command: CheckedCommand, limit: int) -> None:
        table, indices = command.sources
        dst = command.dst
        assert dst is not None
        wanted = self._bytes(indices, command.batch).reshape(-1).view(np.int32)
        wrong = np.flatnonzero((wanted < 0) | (wanted >= table.rows))
        if wrong.size:
            first = int(wrong[0])
            self._watch(command, limit, least_clocks_to_index(first, table.row_bytes, self._config))
            raise ExecutionFault(ErrorCode.BAD_INDEX, indices.address + 4 * first)
        self._watch(command, limit)
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
            self._memory.bytes,
            operand.address,
            (outer, inner, operand.row_stride, size),
        )


def _alpha(packet: NpuCommandPacket) -> np.float32:
    """Return the alpha of a packet, bits untouched."""
    alpha: np.float32 = np.array([packet.param[6]], dtype=np.uint32).view(np.float32)[0]
    return alpha
