"""What the device checks in a command before it touches memory, in the device's order.

    opcode, flags (param[7] counts as one), extension (magic, reserved words, counts), dimensions,
    alignment of src1, src2, dst, strides, range of src1, src2, dst, overlap

The first check that fails decides the error code and the address. All sizes are exact Python integers, so
nothing here can overflow; the hardware's arithmetic is wide enough to give the same answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from echo_npu.memory_map import REGISTERS, region_of
from echo_npu.packets import (
    EXTENSION_MAGIC,
    LEGAL_FLAGS,
    MAX_BATCH,
    MAX_MATMUL_DIM,
    MAX_ROWS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
)
from echo_npu.status import ErrorCode

MAX_COUNT: Final = 2**32 - 1
"""Bound of each dimension of MEMCPY and ADD_TENSOR, and of their product."""


class PacketFault(Exception):  # noqa: N818  (the device faults, this program does not)
    """A command that the device refuses: `code`, and the `address` it reports (0 where the code has none)."""

    def __init__(self, code: ErrorCode, address: int = 0) -> None:
        self.code = code
        self.address = address
        super().__init__(f"{code.name} at 0x{address:x}")


@dataclass(frozen=True, slots=True)
class Operand:
    """Rows of bytes in memory, repeated over two levels of batches. Strides are bytes, dense ones too."""

    address: int
    rows: int
    row_bytes: int
    row_stride: int
    batch_strides: tuple[int, int] = (0, 0)  # inner, outer

    def extent(self, batch: tuple[int, int]) -> int:
        """Bytes from the first to one past the last that is touched."""
        inner, outer = batch
        steps = (inner - 1) * self.batch_strides[0] + (outer - 1) * self.batch_strides[1]
        return steps + (self.rows - 1) * self.row_stride + self.row_bytes


@dataclass(frozen=True, slots=True)
class Command:
    """A checked command. Operands that an opcode does not have are None."""

    packet: NpuCommandPacket
    batch: tuple[int, int] = (1, 1)  # inner, outer
    src1: Operand | None = None
    src2: Operand | None = None
    dst: Operand | None = None

    @property
    def macs(self) -> int:
        """Multiply-accumulates: M * N * K for each batch of a MATMUL, 0 for anything else."""
        if self.packet.opcode != Opcode.MATMUL:
            return 0
        return self.packet.m * self.packet.k * self.packet.n * self.batch[0] * self.batch[1]


def check_head(packet: NpuCommandPacket) -> None:
    """The checks that need no extension packet: opcode and flags."""
    legal = LEGAL_FLAGS.get(packet.opcode)
    if legal is None:
        raise PacketFault(ErrorCode.BAD_OPCODE)
    if packet.flags & ~legal or packet.param[7]:
        raise PacketFault(ErrorCode.BAD_FLAGS)


def check_command(packet: NpuCommandPacket, extension: ExtensionPacket | None = None) -> Command:
    """The command that a packet, and the extension that its EXT flag announced, stand for.

    Raises: PacketFault with what the device reports.
    """
    check_head(packet)
    if packet.opcode in (Opcode.NOP, Opcode.SYNC):
        return Command(packet)
    ext = extension if packet.flags & Flags.EXT else None
    if ext is not None:
        _check_extension(packet, ext)
    command = _shape(packet, ext)
    _check_alignment(command)
    if ext is not None:
        _check_strides(command, ext)
    _check_ranges(command)
    return command


def _check_extension(packet: NpuCommandPacket, ext: ExtensionPacket) -> None:
    if packet.opcode == Opcode.MATMUL:
        must_be_zero: tuple[int, ...] = (ext.rows,)
    else:
        must_be_zero = (ext.src2_row_stride, ext.src2_batch0_stride, ext.src2_batch1_stride)
    if (
        ext.magic != EXTENSION_MAGIC
        or any(ext.reserved)
        or any(must_be_zero)
        or ext.batch0 > MAX_BATCH
        or ext.batch1 > MAX_BATCH
        or ext.rows > MAX_ROWS
    ):
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _shape(packet: NpuCommandPacket, ext: ExtensionPacket | None) -> Command:
    """The command's operands; checks the dimensions."""
    m, k, n = packet.m, packet.k, packet.n
    src1, src2, dst = packet.src1_addr, packet.src2_addr, packet.dst_addr
    e = ext or ExtensionPacket()
    batch = (e.batch0 or 1, e.batch1 or 1)
    strides1 = (e.src1_batch0_stride, e.src1_batch1_stride)
    strides2 = (e.src2_batch0_stride, e.src2_batch1_stride)
    strides_dst = (e.dst_batch0_stride, e.dst_batch1_stride)

    if packet.opcode == Opcode.MATMUL:
        if not all(1 <= size <= MAX_MATMUL_DIM for size in (m, k, n)):
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        rows1, bytes1 = (k, 4 * m) if packet.flags & Flags.TRANS_A else (m, 4 * k)
        rows2, bytes2 = (n, 4 * k) if packet.flags & Flags.TRANS_B else (k, 4 * n)
        return Command(
            packet,
            batch,
            Operand(src1, rows1, bytes1, e.src1_row_stride or bytes1, strides1),
            Operand(src2, rows2, bytes2, e.src2_row_stride or bytes2, strides2),
            Operand(dst, m, 4 * n, e.dst_row_stride or 4 * n, strides_dst),
        )

    count = m * max(k, 1) * max(n, 1)
    if m < 1 or k < 0 or n < 0 or max(m, k, n, count) > MAX_COUNT:
        raise PacketFault(ErrorCode.BAD_DIMENSION)
    if packet.opcode == Opcode.ADD_TENSOR:
        size = 4 * count
        return Command(
            packet,
            batch,
            Operand(src1, 1, size, size),
            Operand(src2, 1, size, size),
            Operand(dst, 1, size, size),
        )
    rows = e.rows or 1
    return Command(
        packet,
        batch,
        Operand(src1, rows, count, e.src1_row_stride or count, strides1),
        None,
        Operand(dst, rows, count, e.dst_row_stride or count, strides_dst),
    )


def _check_alignment(command: Command) -> None:
    if command.packet.opcode == Opcode.MEMCPY:
        return
    for operand in (command.src1, command.src2, command.dst):
        if operand is not None and operand.address % 4:
            raise PacketFault(ErrorCode.MISALIGNED, operand.address)


def _check_strides(command: Command, ext: ExtensionPacket) -> None:
    src1, src2, dst = command.src1, command.src2, command.dst
    assert src1 is not None
    assert dst is not None
    bad = any(
        count > 1 and not stride for count, stride in zip(command.batch, dst.batch_strides, strict=True)
    )
    if src2 is not None:
        given = (ext.src1_row_stride, ext.src2_row_stride, ext.dst_row_stride)
        strides = (*given, *src1.batch_strides, *src2.batch_strides, *dst.batch_strides)
        bad |= any(stride % 4 for stride in strides)
        bad |= any(operand.row_stride < operand.row_bytes for operand in (src1, src2, dst))
    else:
        bad |= dst.rows > 1 and dst.row_stride < dst.row_bytes
    if bad:
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _check_ranges(command: Command) -> None:
    operands = [operand for operand in (command.src1, command.src2, command.dst) if operand is not None]
    for operand in operands:
        if REGISTERS.contains(operand.address):
            raise PacketFault(ErrorCode.REGISTER_WINDOW, operand.address)
        if region_of(operand.address, operand.extent(command.batch)) is None:
            raise PacketFault(ErrorCode.OUT_OF_RANGE, operand.address)
    *sources, dst = operands
    size = dst.extent(command.batch)
    for source in sources:
        apart = (
            dst.address + size <= source.address
            or source.address + source.extent(command.batch) <= dst.address
        )
        in_place = command.packet.opcode == Opcode.ADD_TENSOR and source.address == dst.address
        if not apart and not in_place:
            raise PacketFault(ErrorCode.OVERLAP, dst.address)
