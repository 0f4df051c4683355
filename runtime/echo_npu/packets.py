"""Command packets: 64 little-endian bytes each, as the device reads them.

`NpuCommandPacket` and `ExtensionPacket` encode whatever fits the fields, right or wrong: the device judges a
packet, and tests need bad ones. The builders (`matmul_packets`, `memcpy_packets`, `add_packets`) refuse what
the device would refuse for its shape, with the name and value of the argument.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final, SupportsIndex, TypeAlias, TypeVar

from echo_npu.data_types import DataType, OutType
from echo_npu.integers import checked_integer

_Made = TypeVar("_Made")

PACKET_BYTES: Final = 64
EXTENSION_MAGIC: Final = 0x31545845
"""The bytes "EXT1"."""

MAX_MATMUL_DIM: Final = 1 << 24
MAX_ROWS: Final = 1 << 24
MAX_BATCH: Final = 65535
MAX_TABLE: Final = 1 << 31
"""Bound of the rows of a table, and of the bytes of one of them."""


class Opcode(IntEnum):
    """What a command does."""

    NOP = 0x00
    MATMUL = 0x01
    ADD_TENSOR = 0x02
    MEMCPY = 0x03
    VECTOR = 0x04
    GATHER = 0x05
    LOAD_PROGRAM = 0x06
    SYNC = 0xFF


class Flags(IntFlag):
    """Modifiers of a command; the device refuses a flag that its opcode does not know."""

    NONE = 0
    TRANS_A = 1 << 0
    """MATMUL: src1 is stored as [K, M]."""
    TRANS_B = 1 << 1
    """MATMUL: src2 is stored as [N, K]."""
    USE_ALPHA = 1 << 2
    """MATMUL: the finished accumulator is multiplied by alpha, with one rounding."""
    DTYPE = 3 << 4
    """MATMUL: the two bits of the operands' `DataType`."""
    OUT = 3 << 8
    """MATMUL: the two bits of the result's `OutType`."""
    ROW_SCALE = 1 << 10
    """MATMUL: row m of the result is multiplied by a float32 of its own."""
    COL_SCALE = 1 << 11
    """MATMUL: column n of the result is multiplied by a float32 of its own."""
    BIAS = 1 << 12
    """MATMUL: a float32 of its own is added to column n of the result."""
    RELU = 1 << 13
    """MATMUL: what is below zero becomes zero."""
    IRQ = 1 << 30
    """Raise the command interrupt when this command retires."""
    EXT = 1 << 31
    """An extension packet follows (MATMUL, MEMCPY), or three (VECTOR)."""


_LEGAL: Final[dict[int, Flags]] = {
    Opcode.NOP: Flags.IRQ,
    Opcode.SYNC: Flags.IRQ,
    Opcode.ADD_TENSOR: Flags.IRQ,
    Opcode.MEMCPY: Flags.IRQ | Flags.EXT,
    Opcode.MATMUL: Flags.TRANS_A
    | Flags.TRANS_B
    | Flags.USE_ALPHA
    | Flags.DTYPE
    | Flags.OUT
    | Flags.ROW_SCALE
    | Flags.COL_SCALE
    | Flags.BIAS
    | Flags.RELU
    | Flags.IRQ
    | Flags.EXT,
    Opcode.VECTOR: Flags.IRQ | Flags.EXT,
    Opcode.GATHER: Flags.IRQ,
    Opcode.LOAD_PROGRAM: Flags.IRQ,
}
LEGAL_FLAGS: Final[dict[int, int]] = {opcode: int(flags) for opcode, flags in _LEGAL.items()}
"""The flags each opcode understands."""

DTYPE_SHIFT: Final = 4
OUT_SHIFT: Final = 8
VECTOR_OPERAND_FLAGS: Final = Flags.ROW_SCALE | Flags.COL_SCALE | Flags.BIAS
"""The flags of MATMUL whose float32 vectors the extension packet points to."""
EPILOGUE_FLAGS: Final = VECTOR_OPERAND_FLAGS | Flags.USE_ALPHA | Flags.RELU
"""The flags of MATMUL for what happens to an element between its sum and dst."""

VECTOR_EXTENSIONS: Final = 3
_EXT: Final = int(Flags.EXT)  # plain integers are combined many times faster


def extension_count(opcode: int, flags: int) -> int:
    """How many extension packets a command announces: 0 where the flag is missing or not legal."""
    if not flags & LEGAL_FLAGS.get(opcode, 0) & _EXT:
        return 0
    return VECTOR_EXTENSIONS if opcode == Opcode.VECTOR else 1


def _u32(name: str, value: SupportsIndex) -> int:
    return checked_integer(name, value, 0, 2**32 - 1)


def _address(name: str, value: SupportsIndex) -> int:
    return checked_integer(name, value, 0, 2**64 - 1)


def float32_bits(name: str, value: float) -> int:
    """The IEEE-754 binary32 encoding of `value` (rounded to nearest even)."""
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, got {value!r} ({type(value).__name__})")
    number = float(value)
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", number))
    except OverflowError:
        raise ValueError(f"{name} is {number!r}, which float32 cannot hold") from None
    return int(bits)


@dataclass(frozen=True, init=False, slots=True)
class NpuCommandPacket:
    """One command.

    Args:
        opcode: u32, see `Opcode`.
        flags: u32, see `Flags`.
        src1_addr, src2_addr, dst_addr: u64 physical byte addresses.
        param: the eight u32 parameter words; `m`, `k`, `n` (int64, words 0-5) and `alpha` (float32, word 6)
            write into them when given.

    Raises:
        TypeError, ValueError: a field of a type or size that its bits cannot hold. Nothing else is checked
            here.
    """

    opcode: int
    flags: int
    src1_addr: int
    src2_addr: int
    dst_addr: int
    param: tuple[int, int, int, int, int, int, int, int]

    _LAYOUT: ClassVar = struct.Struct("<IIQQQ8I")

    def __init__(
        self,
        opcode: SupportsIndex,
        flags: SupportsIndex = 0,
        src1_addr: SupportsIndex = 0,
        src2_addr: SupportsIndex = 0,
        dst_addr: SupportsIndex = 0,
        param: Sequence[SupportsIndex] = (0,) * 8,
        *,
        m: SupportsIndex | None = None,
        k: SupportsIndex | None = None,
        n: SupportsIndex | None = None,
        alpha: float | None = None,
    ) -> None:
        if len(param) != 8:
            raise ValueError(f"param has {len(param)} words; a packet has 8")
        words = [_u32(f"param[{index}]", word) for index, word in enumerate(param)]
        for first, name, value in ((0, "m", m), (2, "k", k), (4, "n", n)):
            if value is not None:
                bits = checked_integer(name, value, -(2**63), 2**63 - 1) & (2**64 - 1)
                words[first : first + 2] = [bits & 0xFFFF_FFFF, bits >> 32]
        if alpha is not None:
            words[6] = float32_bits("alpha", alpha)
        put = object.__setattr__
        put(self, "opcode", _u32("opcode", opcode))
        put(self, "flags", _u32("flags", flags))
        put(self, "src1_addr", _address("src1_addr", src1_addr))
        put(self, "src2_addr", _address("src2_addr", src2_addr))
        put(self, "dst_addr", _address("dst_addr", dst_addr))
        put(self, "param", tuple(words))

    def _dim(self, first: int) -> int:
        bits = self.param[first] | self.param[first + 1] << 32
        return bits - (1 << 64) if bits >> 63 else bits

    @property
    def m(self) -> int:
        return self._dim(0)

    @property
    def k(self) -> int:
        return self._dim(2)

    @property
    def n(self) -> int:
        return self._dim(4)

    @property
    def alpha(self) -> float:
        (value,) = struct.unpack("<f", struct.pack("<I", self.param[6]))
        return float(value)

    @property
    def data_type(self) -> DataType:
        """Type of the operands of a MATMUL."""
        return DataType((self.flags & Flags.DTYPE) >> DTYPE_SHIFT)

    @property
    def out_type(self) -> OutType:
        """Type of the result of a MATMUL; ValueError for the reserved one."""
        return OutType((self.flags & Flags.OUT) >> OUT_SHIFT)

    def pack(self) -> bytes:
        """The 64 bytes of the packet."""
        return self._LAYOUT.pack(
            self.opcode, self.flags, self.src1_addr, self.src2_addr, self.dst_addr, *self.param
        )

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> NpuCommandPacket:
        """The packet that these 64 bytes hold; ValueError for another length."""
        opcode, flags, src1, src2, dst, *param = cls._LAYOUT.unpack(_sixty_four(data))
        return _made(
            cls, opcode=opcode, flags=flags, src1_addr=src1, src2_addr=src2, dst_addr=dst, param=tuple(param)
        )

    def __str__(self) -> str:
        try:
            name = Opcode(self.opcode).name
        except ValueError:
            name = f"opcode 0x{self.opcode:x}"
        parts = [name]
        if self.flags:
            parts.append(f"flags=0x{self.flags:x}")
        if self.opcode not in (Opcode.NOP, Opcode.SYNC):
            parts.append(f"m={self.m} k={self.k} n={self.n}")
            parts.append(f"src1=0x{self.src1_addr:x} src2=0x{self.src2_addr:x} dst=0x{self.dst_addr:x}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPacket:
    """What 64 bytes cannot hold: leading dimensions, two levels of batches, and vectors beside the operands.

    All strides are u32 bytes. A row stride of 0 is dense. A batch count of 0 is 1. A batch stride of 0 reads
    the same matrix again. `rows` is MEMCPY's: so many rows of the main packet's byte count. `column_vectors`
    and `row_scales` are MATMUL's: the u32 addresses of the float32 vectors that its flags ask for.
    """

    magic: int = EXTENSION_MAGIC
    batch0: int = 0
    src1_row_stride: int = 0
    src2_row_stride: int = 0
    dst_row_stride: int = 0
    rows: int = 0
    src1_batch0_stride: int = 0
    src2_batch0_stride: int = 0
    dst_batch0_stride: int = 0
    batch1: int = 0
    src1_batch1_stride: int = 0
    src2_batch1_stride: int = 0
    dst_batch1_stride: int = 0
    column_vectors: int = 0
    row_scales: int = 0
    reserved: int = 0

    _LAYOUT: ClassVar = struct.Struct("<16I")

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _u32(item.name, getattr(self, item.name)))

    def pack(self) -> bytes:
        """The 64 bytes of the packet."""
        return self._LAYOUT.pack(*(getattr(self, item.name) for item in fields(self)))

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> ExtensionPacket:
        """The packet that these 64 bytes hold; ValueError for another length."""
        return _made(cls, **dict(zip(cls.__slots__, cls._LAYOUT.unpack(_sixty_four(data)), strict=True)))

    def __str__(self) -> str:
        given = [
            f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return " ".join(["EXT", *given])


def _made(kind: type[_Made], **values: Any) -> _Made:
    """A packet whose fields are known to fit."""
    packet = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(packet, name, value)
    return packet


Packet: TypeAlias = NpuCommandPacket | ExtensionPacket | bytes
"""What `submit` takes: a command, the extension that follows it, or 64 raw bytes."""


def packet_bytes(packet: Packet) -> bytes:
    """The 64 bytes to submit; TypeError or ValueError for anything that is no packet."""
    if isinstance(packet, (NpuCommandPacket, ExtensionPacket)):
        return packet.pack()
    if isinstance(packet, (bytes, bytearray, memoryview)):
        return _sixty_four(packet)
    raise TypeError(
        f"a packet is an NpuCommandPacket, an ExtensionPacket or 64 bytes, got {type(packet).__name__}"
    )


def _sixty_four(data: bytes | bytearray | memoryview) -> bytes:
    raw = bytes(data)
    if len(raw) != PACKET_BYTES:
        raise ValueError(f"a packet has {PACKET_BYTES} bytes, got {len(raw)}")
    return raw


# --- builders -----------------------------------------------------------------------------------------------


def _dim(name: str, value: SupportsIndex, high: int = MAX_MATMUL_DIM) -> int:
    return checked_integer(name, value, 1, high)


def _stride(name: str, value: SupportsIndex, *, multiple: int = 1, least: int = 0) -> int:
    number = _u32(name, value)
    if number % multiple:
        raise ValueError(f"{name} is {number}; it must be a multiple of {multiple}")
    if number and number < least:
        raise ValueError(f"{name} is {number}; a row has {least} bytes")
    return number


def _aligned(name: str, value: SupportsIndex, multiple: int = 4) -> int:
    number = _address(name, value)
    if number % multiple:
        raise ValueError(f"{name} is 0x{number:x}; it must be a multiple of {multiple}")
    return number


def _aligned32(name: str, value: SupportsIndex) -> int:
    """An address that the extension packet holds: 32 bits, a multiple of 4."""
    return _aligned(name, _u32(name, value))


def _batch_strides(name: str, value: Sequence[int], *, multiple: int = 1) -> tuple[int, int]:
    if len(value) != 2:
        raise ValueError(f"{name} has {len(value)} entries; it is (inner stride, outer stride) in bytes")
    return (
        _stride(f"{name}[0]", value[0], multiple=multiple),
        _stride(f"{name}[1]", value[1], multiple=multiple),
    )


def _batch_counts(batch: Sequence[int]) -> tuple[int, int]:
    if len(batch) != 2:
        raise ValueError(f"batch has {len(batch)} entries; it is (inner count, outer count)")
    return _dim("batch[0]", batch[0], MAX_BATCH), _dim("batch[1]", batch[1], MAX_BATCH)


def _written_batches(name: str, strides: tuple[int, int], batch: tuple[int, int]) -> None:
    for level in (0, 1):
        if batch[level] > 1 and strides[level] == 0:
            raise ValueError(
                f"{name}[{level}] is 0, but batch[{level}] is {batch[level]}: all would write one place"
            )


def matmul_packets(
    src1: int,
    src2: int,
    dst: int,
    m: int,
    k: int,
    n: int,
    *,
    dtype: DataType | str = DataType.FP32,
    out: OutType = OutType.FLOAT32,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float | None = None,
    row_scales: int | None = None,
    column_vectors: int | None = None,
    column_scale: bool = False,
    bias: bool = False,
    relu: bool = False,
    row_strides: Sequence[int] = (0, 0, 0),
    batch: Sequence[int] = (1, 1),
    src1_batch_strides: Sequence[int] = (0, 0),
    src2_batch_strides: Sequence[int] = (0, 0),
    dst_batch_strides: Sequence[int] = (0, 0),
    irq: bool = False,
) -> list[NpuCommandPacket | ExtensionPacket]:
    """`dst[M, N] = op(src1)[M, K] @ op(src2)[K, N]`, row-major, for every batch.

    On its way to dst an element is multiplied by alpha, by its row's scale and by its column's, its column's
    bias is added, and relu is taken: those that are asked for, in this order, each rounded to float32.

    Args:
        src1, src2, dst: physical byte addresses, multiples of their elements' size.
        m, k, n: 1..2**24.
        dtype: type of both operands, or its label: fp32, bf16, fp16, int8.
        out: type of the result: float32, that of the operands, or (int8, and nothing on its way) int32.
        trans_a: src1 is stored as [K, M].  trans_b: src2 is stored as [N, K].
        alpha: multiplies the finished product (None: not at all).
        row_scales: address of M float32, a multiple of 4; the same for every batch.
        column_vectors: address of the N float32 of `column_scale`, of `bias`, or of both one behind the
            other; a multiple of 4; the same for every batch.
        column_scale, bias: which of the column vectors there are.
        relu: what is below zero becomes zero.
        row_strides: bytes from one stored row to the next of src1, src2, dst; 0 is dense.
        batch: (inner, outer) number of products, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one matrix to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, and its extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    m, k, n = _dim("m", m), _dim("k", k), _dim("n", n)
    dtype = DataType.of(dtype)
    if not isinstance(out, OutType):
        raise TypeError(f"out must be an OutType, got {out!r} ({type(out).__name__})")
    size, out_size = dtype.itemsize, out.itemsize(dtype)
    src1, src2 = _aligned("src1", src1, size), _aligned("src2", src2, size)
    dst = _aligned("dst", dst, out_size)
    flags = Flags(dtype << DTYPE_SHIFT | out << OUT_SHIFT)
    for flag, given in (
        (Flags.TRANS_A, trans_a),
        (Flags.TRANS_B, trans_b),
        (Flags.USE_ALPHA, alpha is not None),
        (Flags.ROW_SCALE, row_scales is not None),
        (Flags.COL_SCALE, column_scale),
        (Flags.BIAS, bias),
        (Flags.RELU, relu),
        (Flags.IRQ, irq),
    ):
        if given:
            flags |= flag
    if out == OutType.INT32 and (dtype != DataType.INT8 or flags & EPILOGUE_FLAGS):
        raise ValueError(
            f"out is int32 and dtype is {dtype.label}: int32 takes int8 operands, and no alpha, scales, bias "
            "or relu"
        )
    if (column_vectors is not None) != (column_scale or bias):
        raise ValueError(
            f"column_vectors is {column_vectors}, column_scale is {column_scale} and bias is {bias}: the "
            "address goes with one of these or both"
        )
    columns = 0 if column_vectors is None else _aligned32("column_vectors", column_vectors)
    scales = 0 if row_scales is None else _aligned32("row_scales", row_scales)
    if len(row_strides) != 3:
        raise ValueError(f"row_strides has {len(row_strides)} entries; it is (src1, src2, dst) in bytes")
    row_bytes = (size * (m if trans_a else k), size * (k if trans_b else n), out_size * n)
    rows = [
        _stride(f"row_strides[{i}]", row_strides[i], multiple=multiple, least=row_bytes[i])
        for i, multiple in enumerate((size, size, out_size))
    ]
    counts = _batch_counts(batch)
    strides1 = _batch_strides("src1_batch_strides", src1_batch_strides, multiple=size)
    strides2 = _batch_strides("src2_batch_strides", src2_batch_strides, multiple=size)
    strides_dst = _batch_strides("dst_batch_strides", dst_batch_strides, multiple=out_size)
    _written_batches("dst_batch_strides", strides_dst, counts)
    extended = any(rows) or counts != (1, 1) or bool(flags & VECTOR_OPERAND_FLAGS)
    if extended:
        flags |= Flags.EXT
    packets: list[NpuCommandPacket | ExtensionPacket] = [
        NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=alpha)
    ]
    if extended:
        packets.append(
            ExtensionPacket(
                batch0=counts[0],
                batch1=counts[1],
                src1_row_stride=rows[0],
                src2_row_stride=rows[1],
                dst_row_stride=rows[2],
                src1_batch0_stride=strides1[0],
                src2_batch0_stride=strides2[0],
                dst_batch0_stride=strides_dst[0],
                src1_batch1_stride=strides1[1],
                src2_batch1_stride=strides2[1],
                dst_batch1_stride=strides_dst[1],
                column_vectors=columns,
                row_scales=scales,
            )
        )
    return packets


def memcpy_packets(
    src: int,
    dst: int,
    nbytes: int,
    *,
    rows: int = 1,
    row_strides: Sequence[int] = (0, 0),
    batch: Sequence[int] = (1, 1),
    src_batch_strides: Sequence[int] = (0, 0),
    dst_batch_strides: Sequence[int] = (0, 0),
    irq: bool = False,
) -> list[NpuCommandPacket | ExtensionPacket]:
    """Copy `rows` rows of `nbytes` bytes from `src` to `dst`, for every batch; no alignment is asked for.

    Args:
        src, dst: physical byte addresses.
        nbytes: bytes of a row, at least 1.
        rows: 1..2**24.
        row_strides: bytes from one row to the next of src, dst; 0 is dense.
        batch: (inner, outer) number of repetitions, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one block to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, and its extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src, dst = _address("src", src), _address("dst", dst)
    nbytes = _dim("nbytes", nbytes, 2**32 - 1)
    rows = _dim("rows", rows, MAX_ROWS)
    if len(row_strides) != 2:
        raise ValueError(f"row_strides has {len(row_strides)} entries; it is (src, dst) in bytes")
    src_stride = _stride("row_strides[0]", row_strides[0])
    dst_stride = _stride("row_strides[1]", row_strides[1], least=nbytes if rows > 1 else 0)
    counts = _batch_counts(batch)
    strides_src = _batch_strides("src_batch_strides", src_batch_strides)
    strides_dst = _batch_strides("dst_batch_strides", dst_batch_strides)
    _written_batches("dst_batch_strides", strides_dst, counts)
    flags = Flags.IRQ if irq else Flags.NONE
    extended = rows > 1 or counts != (1, 1)
    if extended:
        flags |= Flags.EXT
    packets: list[NpuCommandPacket | ExtensionPacket] = [
        NpuCommandPacket(Opcode.MEMCPY, flags, src, 0, dst, m=nbytes)
    ]
    if extended:
        packets.append(
            ExtensionPacket(
                rows=rows,
                batch0=counts[0],
                batch1=counts[1],
                src1_row_stride=src_stride,
                dst_row_stride=dst_stride,
                src1_batch0_stride=strides_src[0],
                dst_batch0_stride=strides_dst[0],
                src1_batch1_stride=strides_src[1],
                dst_batch1_stride=strides_dst[1],
            )
        )
    return packets


def add_packets(
    src1: int, src2: int, dst: int, elements: int, *, alpha: float = 1.0, irq: bool = False
) -> list[NpuCommandPacket | ExtensionPacket]:
    """`dst = src1 + alpha * src2` over `elements` consecutive float32 values; dst may be one of the sources.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src1, src2, dst = _aligned("src1", src1), _aligned("src2", src2), _aligned("dst", dst)
    elements = _dim("elements", elements, 2**30 - 1)
    flags = Flags.IRQ if irq else Flags.NONE
    return [NpuCommandPacket(Opcode.ADD_TENSOR, flags, src1, src2, dst, m=elements, alpha=alpha)]


def gather_packets(
    table: int, indices: int, dst: int, rows: int, row_bytes: int, table_rows: int, *, irq: bool = False
) -> list[NpuCommandPacket | ExtensionPacket]:
    """Row `indices[i]` of a table to row i of dst, all dense.

    Args:
        table: address of `table_rows` rows of `row_bytes` bytes, each 1..2**31.
        indices: address of `rows` int32 values, a multiple of 4.
        dst: address of `rows` rows, 1..2**24.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    table, indices, dst = _address("table", table), _aligned("indices", indices), _address("dst", dst)
    rows = _dim("rows", rows, MAX_ROWS)
    row_bytes, table_rows = _dim("row_bytes", row_bytes, MAX_TABLE), _dim("table_rows", table_rows, MAX_TABLE)
    flags = Flags.IRQ if irq else Flags.NONE
    return [NpuCommandPacket(Opcode.GATHER, flags, table, indices, dst, m=rows, k=table_rows, n=row_bytes)]


def load_program_packets(
    src: int, words: int, at: int, *, irq: bool = False
) -> list[NpuCommandPacket | ExtensionPacket]:
    """`words` instructions of 64 bits from `src`, a multiple of 8, to program memory from word `at` on.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src = _aligned("src", src, 8)
    words, at = _dim("words", words), checked_integer("at", at, 0, MAX_MATMUL_DIM)
    flags = Flags.IRQ if irq else Flags.NONE
    return [NpuCommandPacket(Opcode.LOAD_PROGRAM, flags, src, m=words, k=at)]


def nop_packet(*, irq: bool = False) -> NpuCommandPacket:
    """A command that does nothing but retire."""
    return NpuCommandPacket(Opcode.NOP, Flags.IRQ if irq else Flags.NONE)


def sync_packet(*, irq: bool = False) -> NpuCommandPacket:
    """A full fence: it retires when everything before it has, and nothing after it starts earlier."""
    return NpuCommandPacket(Opcode.SYNC, Flags.IRQ if irq else Flags.NONE)
