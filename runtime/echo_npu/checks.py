"""What the device checks in a command before it touches memory, in the device's order.

    opcode, flags (param[7] counts as one), extension (magic, reserved words, counts), dimensions, the
    program's entry, alignment of the sources and dst, strides, range of the sources and dst, overlap

The first check that fails decides the error code and the address. All sizes are exact Python integers, so
nothing here can overflow; the hardware's arithmetic is wide enough to give the same answers.
"""

from __future__ import annotations

from typing import Final

from echo_npu.command import Command, Operand, PacketFault
from echo_npu.memory_map import REGISTERS, region_of
from echo_npu.packets import (
    EXTENSION_MAGIC,
    LEGAL_FLAGS,
    MAX_BATCH,
    MAX_MATMUL_DIM,
    MAX_ROWS,
    MAX_TABLE,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
)
from echo_npu.status import ErrorCode
from echo_npu.vector.checks import check_vector_alignment, check_vector_strides, in_place, vector_shape
from echo_npu.vector.command import VectorExtension
from echo_npu.vector.memory import ProgramMemory

__all__ = ["Command", "Extension", "Operand", "PacketFault", "check_command", "check_head"]

Extension = ExtensionPacket | VectorExtension

MAX_COUNT: Final = 2**32 - 1
"""Bound of each dimension of MEMCPY and ADD_TENSOR, and of their product."""


def check_head(packet: NpuCommandPacket) -> None:
    """The checks that need no extension packet: opcode and flags."""
    legal = LEGAL_FLAGS.get(packet.opcode)
    if legal is None:
        raise PacketFault(ErrorCode.BAD_OPCODE)
    if packet.flags & ~legal or packet.param[7]:
        raise PacketFault(ErrorCode.BAD_FLAGS)
    if packet.opcode == Opcode.VECTOR and not packet.flags & Flags.EXT:
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def check_command(
    packet: NpuCommandPacket,
    extension: Extension | None = None,
    programs: ProgramMemory | None = None,
) -> Command:
    """The command that a packet, and the extension that its EXT flag announced, stand for.

    Args:
        extension: of a VECTOR command a VectorExtension, of others an ExtensionPacket.
        programs: what program memory holds (None: there is none).

    Raises: PacketFault with what the device reports.
    """
    check_head(packet)
    if packet.opcode in (Opcode.NOP, Opcode.SYNC):
        return Command(packet)
    if packet.opcode == Opcode.VECTOR:
        if not isinstance(extension, VectorExtension):
            raise PacketFault(ErrorCode.BAD_EXTENSION)
        command = vector_shape(packet, extension, 0 if programs is None else programs.loaded)
    else:
        ext = ExtensionPacket()
        if packet.flags & Flags.EXT and isinstance(extension, ExtensionPacket):
            ext = extension
            _check_extension(packet, ext)
        command = _shape(packet, ext, 0 if programs is None else programs.size)
    _check_alignment(command)
    _check_strides(command, extension)
    _check_ranges(command)
    _check_overlap(command)
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


def _shape(packet: NpuCommandPacket, e: ExtensionPacket, program_words: int) -> Command:
    """The command's operands; checks the dimensions."""
    m, k, n = packet.m, packet.k, packet.n
    src1, src2, dst = packet.src1_addr, packet.src2_addr, packet.dst_addr
    batch = (e.batch0 or 1, e.batch1 or 1)
    strides1 = (e.src1_batch0_stride, e.src1_batch1_stride)
    strides2 = (e.src2_batch0_stride, e.src2_batch1_stride)
    strides_dst = (e.dst_batch0_stride, e.dst_batch1_stride)

    if packet.opcode == Opcode.MATMUL:
        if not all(1 <= size <= MAX_MATMUL_DIM for size in (m, k, n)):
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        rows1, bytes1 = (k, 4 * m) if packet.flags & Flags.TRANS_A else (m, 4 * k)
        rows2, bytes2 = (n, 4 * k) if packet.flags & Flags.TRANS_B else (k, 4 * n)
        sources = (
            Operand(src1, rows1, bytes1, e.src1_row_stride or bytes1, strides1),
            Operand(src2, rows2, bytes2, e.src2_row_stride or bytes2, strides2),
        )
        return Command(packet, batch, sources, Operand(dst, m, 4 * n, e.dst_row_stride or 4 * n, strides_dst))

    if packet.opcode == Opcode.GATHER:
        if not (1 <= m <= MAX_ROWS and 1 <= k <= MAX_TABLE and 1 <= n <= MAX_TABLE):
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        return Command(packet, batch, (Operand(src1, k, n, n), _linear(src2, 4 * m)), Operand(dst, m, n, n))

    if packet.opcode == Opcode.LOAD_PROGRAM:
        if m < 1 or k < 0 or k + m > program_words:
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        return Command(packet, batch, (_linear(src1, 8 * m),))

    count = m * max(k, 1) * max(n, 1)
    if m < 1 or k < 0 or n < 0 or max(m, k, n, count) > MAX_COUNT:
        raise PacketFault(ErrorCode.BAD_DIMENSION)
    if packet.opcode == Opcode.ADD_TENSOR:
        return Command(
            packet, batch, (_linear(src1, 4 * count), _linear(src2, 4 * count)), _linear(dst, 4 * count)
        )
    rows = e.rows or 1
    return Command(
        packet,
        batch,
        (Operand(src1, rows, count, e.src1_row_stride or count, strides1),),
        Operand(dst, rows, count, e.dst_row_stride or count, strides_dst),
    )


def _linear(address: int, nbytes: int) -> Operand:
    return Operand(address, 1, nbytes, nbytes)


def _check_alignment(command: Command) -> None:
    if command.vector is not None:
        check_vector_alignment(command.vector)
        return
    packet = command.packet
    addresses = {
        Opcode.MEMCPY: (),
        Opcode.GATHER: ((packet.src2_addr, 4),),
        Opcode.LOAD_PROGRAM: ((packet.src1_addr, 8),),
    }.get(Opcode(packet.opcode), ((packet.src1_addr, 4), (packet.src2_addr, 4), (packet.dst_addr, 4)))
    for address, multiple in addresses:
        if address % multiple:
            raise PacketFault(ErrorCode.MISALIGNED, address)


def _check_strides(command: Command, extension: Extension | None) -> None:
    if command.vector is not None:
        check_vector_strides(command.vector)
        return
    if not isinstance(extension, ExtensionPacket) or not command.packet.flags & Flags.EXT:
        return
    dst = command.dst
    assert dst is not None
    bad = any(
        count > 1 and not stride for count, stride in zip(command.batch, dst.batch_strides, strict=True)
    )
    if command.packet.opcode == Opcode.MATMUL:
        src1, src2 = command.sources
        given = (extension.src1_row_stride, extension.src2_row_stride, extension.dst_row_stride)
        strides = (*given, *src1.batch_strides, *src2.batch_strides, *dst.batch_strides)
        bad |= any(stride % 4 for stride in strides)
        bad |= any(operand.row_stride < operand.row_bytes for operand in (src1, src2, dst))
    else:
        bad |= dst.rows > 1 and dst.row_stride < dst.row_bytes
    if bad:
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _check_ranges(command: Command) -> None:
    for operand in (*command.sources, command.dst):
        if operand is None:
            continue
        if REGISTERS.contains(operand.address):
            raise PacketFault(ErrorCode.REGISTER_WINDOW, operand.address)
        if region_of(operand.address, operand.extent(command.batch)) is None:
            raise PacketFault(ErrorCode.OUT_OF_RANGE, operand.address)


def _check_overlap(command: Command) -> None:
    dst = command.dst
    if dst is None:
        return
    allowed = [False] * len(command.sources)
    if command.packet.opcode == Opcode.ADD_TENSOR:
        allowed = [source.address == dst.address for source in command.sources]
    if command.vector is not None:
        enabled = [stream for stream in command.vector.inputs if stream is not None]
        allowed = [in_place(command.vector, stream) for stream in enabled]
    size = dst.extent(command.batch)
    for source, same in zip(command.sources, allowed, strict=True):
        apart = (
            dst.address + size <= source.address
            or source.address + source.extent(command.batch) <= dst.address
        )
        if not apart and not same:
            raise PacketFault(ErrorCode.OVERLAP, dst.address)
