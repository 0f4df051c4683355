"""Check commands as the device does before it touches memory, in the device's order.

    opcode, flags (param[7] counts as one), extension (magic, reserved words, counts), dimensions, the
    program's entry, alignment of the sources and dst, strides, range of the sources and dst, protected range,
    overlap

The first check that fails decides the error code and the address. Sizes are Python integers, which cannot
overflow; the hardware's arithmetic is wide enough to give the same results.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from echo_npu.commands.checked import CheckedCommand, MemoryOperand, PacketFault
from echo_npu.commands.packets import (
    BLOCK_ROWS,
    EPILOGUE_FLAGS,
    EXTENSION_MAGIC,
    FENCES,
    LEGAL_FLAGS,
    MAX_BATCH,
    MAX_COUNT,
    MAX_MATMUL_DIM,
    MAX_ROWS,
    MAX_TABLE,
    OUT_SHIFT,
    TILE_ALIGNMENT,
    VECTOR_OPERAND_FLAGS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    packed_rows,
)
from echo_npu.commands.vector_checks import (
    check_vector_alignment,
    check_vector_strides,
    in_place,
    vector_shape,
)
from echo_npu.commands.vector_command import VectorExtension
from echo_npu.formats import BLOCK
from echo_npu.spec.contract import PARAM_RESERVED
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.memory_map import DEFAULT_MAP, REGISTERS, MemoryMap, Region
from echo_npu.spec.status import ErrorCode

Extension = ExtensionPacket | VectorExtension

_NOT_WITH_BLOCKS: Final = Flags.OUT | Flags.TRANS_A | Flags.TRANS_B
_NOT_WITH_HALF_B: Final = Flags.DTYPE | Flags.BLOCKS
_COLUMN_FLAGS: Final = Flags.COL_SCALE | Flags.BIAS

_KEPT: Final = 4096
"""Commands whose check is kept: those of a few steps of a language model."""


class ProgramExtent(Protocol):
    """What a check needs to know of program memory."""

    @property
    def size(self) -> int:
        """Words of program memory."""

    @property
    def loaded(self) -> int:
        """Words from 0 to the highest one that was ever loaded."""


class ProgramSpace(NamedTuple):
    """The size of program memory, and of its loaded part, in words."""

    size: int
    loaded: int


def unpack_extension(slots: Sequence[bytes]) -> Extension | None:
    """Unpack a command's extension packets: one, or the three of a VECTOR command. None if there is none."""
    if not slots:
        return None
    return ExtensionPacket.unpack(slots[0]) if len(slots) == 1 else VectorExtension.unpack(slots)


def check_head(packet: NpuCommandPacket, *, blocks: bool = True) -> None:
    """Check what needs no extension packet: opcode and flags. PacketFault.

    Args:
        blocks: the device takes weights in blocks.
    """
    legal = LEGAL_FLAGS.get(packet.opcode)
    if legal is None:
        raise PacketFault(ErrorCode.BAD_OPCODE)
    is_matmul = packet.opcode == Opcode.MATMUL
    if (
        packet.flags & ~legal
        or packet.param[PARAM_RESERVED]
        or (is_matmul and not _types_fit(packet, blocks))
    ):
        raise PacketFault(ErrorCode.BAD_FLAGS)
    needs_extension = packet.opcode == Opcode.VECTOR or (is_matmul and packet.has(VECTOR_OPERAND_FLAGS))
    if needs_extension and not packet.has(Flags.EXT):
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _types_fit(packet: NpuCommandPacket, blocks: bool) -> bool:
    """Return whether the flags of a MATMUL name types that fit each other and that the device has."""
    out = (packet.flags & int(Flags.OUT)) >> OUT_SHIFT
    if packet.has(Flags.HALF_B) and packet.has(_NOT_WITH_HALF_B):
        return False
    if packet.has(Flags.BLOCKS):
        return blocks and packet.data_type in BLOCK_ROWS and not packet.has(_NOT_WITH_BLOCKS)
    if out == OutType.INT32:
        return packet.data_type == DataType.INT8 and not packet.has(EPILOGUE_FLAGS)
    return out in (OutType.FLOAT32, OutType.OWN)


def check_command(
    packet: NpuCommandPacket,
    extension: Extension | None = None,
    programs: ProgramExtent | None = None,
    guard: Region | None = None,
    *,
    blocks: bool = True,
    memory: MemoryMap = DEFAULT_MAP,
) -> CheckedCommand:
    """Check a packet and the extension that its EXT flag announced; return the command.

    Args:
        extension: a VectorExtension for a VECTOR command, an ExtensionPacket for others.
        programs: program memory (None: there is none).
        guard: the range that no command may write to (None: there is none).
        blocks: the device takes weights in blocks.
        memory: where the device's memory lies.

    Raises: PacketFault with what the device reports.
    """
    check_head(packet, blocks=blocks)
    if packet.opcode in FENCES:
        return CheckedCommand(packet)
    if packet.opcode == Opcode.VECTOR:
        if not isinstance(extension, VectorExtension):
            raise PacketFault(ErrorCode.BAD_EXTENSION)
        loaded = 0 if programs is None else programs.loaded
        command = vector_shape(packet, extension, loaded, large=memory.is_large)
    else:
        ext = ExtensionPacket()
        if packet.has(Flags.EXT) and isinstance(extension, ExtensionPacket):
            ext = extension
            _check_extension(packet, ext, memory)
        command = _shape(packet, ext, 0 if programs is None else programs.size)
    _check_alignment(command)
    _check_strides(command, extension)
    _check_ranges(command, memory)
    _check_guard(command, guard)
    _check_overlap(command)
    return command


def check_slots(
    slots: tuple[bytes, ...],
    programs: ProgramExtent | None = None,
    guard: Region | None = None,
    *,
    blocks: bool = True,
    memory: MemoryMap = DEFAULT_MAP,
) -> CheckedCommand:
    """Check a complete command as `check_command` does; a command that was checked before is only looked up.

    Args:
        slots: its packets, 64 bytes each.
        programs, guard, blocks, memory: as of `check_command`.

    Raises: PacketFault with what the device reports.
    """
    space = ProgramSpace(0, 0) if programs is None else ProgramSpace(programs.size, programs.loaded)
    return _checked(slots, space, guard, blocks, memory)


@lru_cache(maxsize=_KEPT)
def _checked(
    slots: tuple[bytes, ...],
    programs: ProgramSpace,
    guard: Region | None,
    blocks: bool,
    memory: MemoryMap,
) -> CheckedCommand:
    packet = NpuCommandPacket.unpack(slots[0])
    extension = unpack_extension(slots[1:])
    return check_command(packet, extension, programs, guard, blocks=blocks, memory=memory)


def _check_extension(packet: NpuCommandPacket, ext: ExtensionPacket, memory: MemoryMap) -> None:
    must_be_zero: list[int] = []
    is_matmul = packet.opcode == Opcode.MATMUL
    if not is_matmul:
        must_be_zero += [ext.src2_row_stride, ext.src2_batch0_stride, ext.src2_batch1_stride]
    # No other opcode that gets here has these flags.
    columns, scales = packet.has(_COLUMN_FLAGS), packet.has(Flags.ROW_SCALE)
    if not columns:
        must_be_zero.append(ext.column_vectors)
    if is_matmul and not (columns and memory.is_large):
        must_be_zero.append(ext.rows)
    if not scales:
        must_be_zero.append(ext.row_scales)
    if not (scales and memory.is_large):
        must_be_zero.append(ext.row_scales_high)
    if (
        ext.magic != EXTENSION_MAGIC
        or any(must_be_zero)
        or ext.batch0 > MAX_BATCH
        or ext.batch1 > MAX_BATCH
        or ext.rows > MAX_ROWS
    ):
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _shape(packet: NpuCommandPacket, e: ExtensionPacket, program_words: int) -> CheckedCommand:
    """Check the dimensions and return the command with its operands."""
    m, k, n = packet.m, packet.k, packet.n
    src1, src2, dst = packet.src1_addr, packet.src2_addr, packet.dst_addr
    batch = (e.batch0 or 1, e.batch1 or 1)

    if packet.opcode == Opcode.MATMUL:
        if not all(1 <= size <= MAX_MATMUL_DIM for size in (m, k, n)) or (packet.blocks and k % BLOCK):
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        return _product(packet, e, batch)

    if packet.opcode == Opcode.GATHER:
        if not (1 <= m <= MAX_ROWS and 1 <= k <= MAX_TABLE and 1 <= n <= MAX_TABLE):
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        return CheckedCommand(
            packet, batch, (MemoryOperand(src1, k, n, n), _linear(src2, 4 * m)), MemoryOperand(dst, m, n, n)
        )

    if packet.opcode == Opcode.LOAD_PROGRAM:
        if m < 1 or k < 0 or k + m > program_words:
            raise PacketFault(ErrorCode.BAD_DIMENSION)
        return CheckedCommand(packet, batch, (_linear(src1, 8 * m),))

    count = m * max(k, 1) * max(n, 1)
    if m < 1 or k < 0 or n < 0 or max(m, k, n, count) > MAX_COUNT:
        raise PacketFault(ErrorCode.BAD_DIMENSION)
    if packet.opcode == Opcode.ADD_TENSOR:
        return CheckedCommand(
            packet, batch, (_linear(src1, 4 * count), _linear(src2, 4 * count)), _linear(dst, 4 * count)
        )
    if packet.opcode == Opcode.MEMCPY:
        source, target = (_operand(name, packet, e, e.rows or 1, count) for name in ("src1", "dst"))
        return CheckedCommand(packet, batch, (source,), target)
    raise NotImplementedError(f"the checks do not know the operands of {Opcode(packet.opcode).name}")


def _product(packet: NpuCommandPacket, e: ExtensionPacket, batch: tuple[int, int]) -> CheckedCommand:
    """Return a MATMUL with its operands."""
    m, k, n = packet.m, packet.k, packet.n
    size1, size2 = packet.data_type.itemsize, packet.right_type.itemsize
    rows1, bytes1 = (k, size1 * m) if packet.has(Flags.TRANS_A) else (m, size1 * k)
    rows2, bytes2 = (n, size2 * k) if packet.has(Flags.TRANS_B) else (k, size2 * n)
    if packet.blocks:
        rows2, bytes2 = packed_rows(packet.blocks, k, n)
    bytes_dst = packet.out_type.itemsize(packet.data_type) * n
    src1 = _operand("src1", packet, e, rows1, bytes1)
    src2 = _operand("src2", packet, e, rows2, bytes2)
    dst = _operand("dst", packet, e, m, bytes_dst)
    vectors = packet.has(Flags.COL_SCALE) + packet.has(Flags.BIAS)
    columns = MemoryOperand(e.rows << 32 | e.column_vectors, vectors, 4 * n, 4 * n) if vectors else None
    scales = e.row_scales_high << 32 | e.row_scales
    row_scales = _linear(scales, 4 * m) if packet.has(Flags.ROW_SCALE) else None
    sources = (src1, src2, *(each for each in (columns, row_scales) if each is not None))
    return CheckedCommand(packet, batch, sources, dst, column_vectors=columns, row_scales=row_scales)


def _operand(
    name: str, packet: NpuCommandPacket, e: ExtensionPacket, rows: int, row_bytes: int
) -> MemoryOperand:
    """Return the operand `name` ("src1", "src2" or "dst"), with the strides of the extension."""
    row, inner, outer = (getattr(e, f"{name}_{each}_stride") for each in ("row", "batch0", "batch1"))
    return MemoryOperand(getattr(packet, f"{name}_addr"), rows, row_bytes, row or row_bytes, (inner, outer))


def _linear(address: int, nbytes: int) -> MemoryOperand:
    return MemoryOperand(address, 1, nbytes, nbytes)


def _check_alignment(command: CheckedCommand) -> None:
    if command.vector is not None:
        check_vector_alignment(command.vector)
        return
    packet, dst = command.packet, command.dst
    first, second = (packet.src1_addr, 4), (packet.src2_addr, 4)
    addresses: list[tuple[int, int]] = []
    if packet.opcode == Opcode.ADD_TENSOR:
        addresses = [first, second, (packet.dst_addr, 4)]
    elif packet.opcode == Opcode.GATHER:
        addresses = [second]
    elif packet.opcode == Opcode.LOAD_PROGRAM:
        addresses = [(packet.src1_addr, 8)]
    elif packet.opcode == Opcode.MATMUL:
        assert dst is not None
        sizes = (packet.data_type.itemsize, _right_alignment(packet))
        addresses = [(source.address, size) for source, size in zip(command.sources, sizes, strict=False)]
        addresses += [(vector.address, 4) for vector in command.sources[2:]]
        addresses.append((dst.address, packet.out_type.itemsize(packet.data_type)))
    for address, multiple in addresses:
        if address % multiple:
            raise PacketFault(ErrorCode.MISALIGNED, address)


def _right_alignment(packet: NpuCommandPacket) -> int:
    """Return the bytes that address and strides of a MATMUL's right operand are multiples of."""
    return TILE_ALIGNMENT if packet.blocks else packet.right_type.itemsize


def _check_strides(command: CheckedCommand, extension: Extension | None) -> None:
    if command.vector is not None:
        check_vector_strides(command.vector)
        return
    if not isinstance(extension, ExtensionPacket) or not command.packet.has(Flags.EXT):
        return
    dst = command.dst
    assert dst is not None
    bad = any(
        count > 1 and not stride for count, stride in zip(command.batch, dst.batch_strides, strict=True)
    )
    if command.packet.opcode == Opcode.MATMUL:
        src1, src2 = command.sources[:2]
        for operand, row_stride, multiple in (
            (src1, extension.src1_row_stride, command.packet.data_type.itemsize),
            (src2, extension.src2_row_stride, _right_alignment(command.packet)),
            (dst, extension.dst_row_stride, command.packet.out_type.itemsize(command.packet.data_type)),
        ):
            bad |= any(stride % multiple for stride in (row_stride, *operand.batch_strides))
            bad |= operand.row_stride < operand.row_bytes
    else:
        bad |= dst.rows > 1 and dst.row_stride < dst.row_bytes
    if bad:
        raise PacketFault(ErrorCode.BAD_EXTENSION)


def _check_ranges(command: CheckedCommand, memory: MemoryMap) -> None:
    for operand in (*command.sources, command.dst):
        if operand is None:
            continue
        if REGISTERS.contains(operand.address):
            raise PacketFault(ErrorCode.REGISTER_WINDOW, operand.address)
        # The device counts the bytes of a row in 32 bits.
        fits = operand.row_bytes < 1 << 32
        if not fits or memory.region_of(operand.address, operand.extent(command.batch)) is None:
            raise PacketFault(ErrorCode.OUT_OF_RANGE, operand.address)


def _check_guard(command: CheckedCommand, guard: Region | None) -> None:
    dst = command.dst
    if dst is None or guard is None:
        return
    if dst.address < guard.end and guard.base < dst.address + dst.extent(command.batch):
        raise PacketFault(ErrorCode.PROTECTED, dst.address)


def _check_overlap(command: CheckedCommand) -> None:
    dst = command.dst
    if dst is None:
        return
    allowed = [False] * len(command.sources)
    if command.packet.opcode == Opcode.ADD_TENSOR:
        allowed = [source.address == dst.address for source in command.sources]
    if command.vector is not None:
        enabled = [stream for stream in command.vector.sources if stream is not None]
        allowed = [in_place(command.vector, stream) for stream in enabled]
    size = dst.extent(command.batch)
    for source, same in zip(command.sources, allowed, strict=True):
        apart = (
            dst.address + size <= source.address
            or source.address + source.extent(command.batch) <= dst.address
        )
        if not apart and not same:
            raise PacketFault(ErrorCode.OVERLAP, dst.address)
