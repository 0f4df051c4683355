"""A checked command with its operands in memory, or its fault."""

from dataclasses import dataclass

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.commands.strided import overlaps
from echo_npu.commands.vector_command import VectorCommand
from echo_npu.spec.status import ErrorCode


class PacketFault(Exception):  # noqa: N818  (the device faults, this program does not)
    """A command that the device refuses: `code`, and the `address` it reports (0 where the code has none)."""

    def __init__(self, code: ErrorCode, address: int = 0) -> None:
        self.code = code
        self.address = address
        super().__init__(f"{code.name} at 0x{address:x}")


@dataclass(frozen=True, slots=True)
class MemoryOperand:
    """Rows of bytes in memory, repeated over two levels of batches. Strides are bytes, dense ones too.

    A row is one run of `row_bytes` bytes, or `segments` of them, `segment_stride` apart.
    """

    address: int
    rows: int
    row_bytes: int
    row_stride: int
    batch_strides: tuple[int, int] = (0, 0)  # inner, outer
    segments: int = 1
    segment_stride: int = 0

    def extent(self, batch: tuple[int, int]) -> int:
        """Return the bytes from the first to the last that is touched."""
        inner, outer = batch
        steps = (inner - 1) * self.batch_strides[0] + (outer - 1) * self.batch_strides[1]
        steps += (self.segments - 1) * self.segment_stride
        return steps + (self.rows - 1) * self.row_stride + self.row_bytes

    def overlaps_itself(self, batch: tuple[int, int]) -> bool:
        """Return whether two rows or batches share bytes. Also True if they interlace without sharing any."""
        rows, segments = (self.row_stride, self.rows), (self.segment_stride, self.segments)
        return overlaps(self.row_bytes, (segments, rows, *zip(self.batch_strides, batch, strict=True)))


@dataclass(frozen=True, slots=True)
class CheckedCommand:
    """A checked command.

    Attributes:
        sources: the operands that it reads, in the order of the packet's fields; those of a VECTOR command
            are its enabled input streams; behind those of a MATMUL come its column vectors and row scales.
        dst: what it writes to; None for a command that writes no memory.
        vector: of a VECTOR command, its other fields.
        column_vectors: of a MATMUL with COL_SCALE or BIAS, one row for each of the two.
        row_scales: of a MATMUL with ROW_SCALE, one row.
    """

    packet: NpuCommandPacket
    batch: tuple[int, int] = (1, 1)  # inner, outer
    sources: tuple[MemoryOperand, ...] = ()
    dst: MemoryOperand | None = None
    vector: VectorCommand | None = None
    column_vectors: MemoryOperand | None = None
    row_scales: MemoryOperand | None = None

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of dst; 4 for a copy."""
        if self.vector is not None:
            return self.vector.output.size
        if self.packet.opcode == Opcode.MATMUL:
            return self.packet.out_type.itemsize(self.packet.data_type)
        return 4

    @property
    def macs(self) -> int:
        """Multiply-accumulates: M * N * K for each batch of a MATMUL, 0 for anything else."""
        if self.packet.opcode != Opcode.MATMUL:
            return 0
        return self.packet.m * self.packet.k * self.packet.n * self.batch[0] * self.batch[1]
