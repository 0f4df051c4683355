"""Command packets: 64 little-endian bytes each, as the device reads them.

`NpuCommandPacket` and `ExtensionPacket` encode whatever fits the fields, valid or not: the device judges a
packet, and tests need bad ones. The builders (`matmul_command`, `memcpy_command`, `add_command`, ...) refuse
fields that the device would refuse, with the name and value of the argument. Each has a variant
(`matmul_packets`, ...) that returns a list of packets.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, Final, ParamSpec, SupportsIndex, TypeAlias, TypeVar

from echo_npu.commands.integers import checked_integer
from echo_npu.formats import BLOCK, FORMATS, TILE_COLUMNS, TILE_DEPTH
from echo_npu.spec.contract import (
    BLOCKS_SHIFT,
    COMMAND_STRUCT,
    DTYPE_SHIFT,
    EXTENSION_MAGIC,
    EXTENSION_STRUCT,
    MAX_BATCH,
    MAX_COUNT,
    MAX_DIM,
    MAX_TABLE,
    OPCODES,
    OUT_SHIFT,
    PACKET_BYTES,
    PARAM_ALPHA,
    PARAM_K,
    PARAM_M,
    PARAM_N,
    TILE_ALIGNMENT,
    VECTOR_EXTENSIONS,
    Blocks,
    DataType,
    ExtensionFields,
    Flags,
    Opcode,
    OutType,
)

__all__ = [
    "BLOCKS_SHIFT",
    "DTYPE_SHIFT",
    "EPILOGUE_FLAGS",
    "EXTENSION_MAGIC",
    "FENCES",
    "LEGAL_FLAGS",
    "MAX_BATCH",
    "MAX_COUNT",
    "MAX_MATMUL_DIM",
    "MAX_ROWS",
    "MAX_TABLE",
    "OPCODES",
    "OUT_SHIFT",
    "PACKET_BYTES",
    "TILE_ALIGNMENT",
    "VECTOR_EXTENSIONS",
    "VECTOR_OPERAND_FLAGS",
    "ExtensionPacket",
    "Flags",
    "NpuCommandPacket",
    "Opcode",
    "Packet",
    "add_packets",
    "extension_count",
    "float32_bits",
    "gather_packets",
    "load_program_packets",
    "matmul_packets",
    "memcpy_packets",
    "nop_packet",
    "packet_bytes",
    "stride_fields",
    "sync_packet",
    "vector_fields",
]

_Made = TypeVar("_Made")
_P = ParamSpec("_P")

MAX_MATMUL_DIM: Final = MAX_DIM
MAX_ROWS: Final = MAX_DIM

LEGAL_FLAGS: Final[dict[int, int]] = {opcode: facts.flags for opcode, facts in OPCODES.items()}
"""The legal flags of each opcode."""
FENCES: Final = frozenset(opcode for opcode, facts in OPCODES.items() if facts.engine == "none")
"""The opcodes of commands that use no engine and wait for everything before them."""
_MATRIX: Final = frozenset(opcode for opcode, facts in OPCODES.items() if facts.engine == "matrix")

VECTOR_OPERAND_FLAGS: Final = Flags.ROW_SCALE | Flags.COL_SCALE | Flags.BIAS
"""The flags of MATMUL whose float32 vectors the extension packet points to."""
EPILOGUE_FLAGS: Final = VECTOR_OPERAND_FLAGS | Flags.USE_ALPHA | Flags.RELU
"""The flags of MATMUL for the steps between an element's sum and dst."""

_EXTENSIONS: Final[dict[int, int]] = {opcode: facts.extensions for opcode, facts in OPCODES.items()}
# Plain integers are combined many times faster than flags.
_EXT: Final = int(Flags.EXT)
_DTYPE: Final = int(Flags.DTYPE)
_OUT: Final = int(Flags.OUT)
_BLOCK_BITS: Final = int(Flags.BLOCKS)
_DATA_TYPES: Final = tuple(DataType(number) for number in range((_DTYPE >> DTYPE_SHIFT) + 1))
_BLOCKS: Final = tuple(Blocks(number) for number in range((_BLOCK_BITS >> BLOCKS_SHIFT) + 1))
_U32: Final = 2**32 - 1


def extension_count(opcode: int, flags: int) -> int:
    """Return the number of extension packets that a command announces: 0 if the flag is not set or legal."""
    return _EXTENSIONS.get(opcode, 0) if flags & _EXT else 0


BLOCK_ROWS: Final = (DataType.FP32, DataType.FP16)
"""Types of src1 beside weights in blocks."""


def packed_rows(blocks: Blocks, k: int, n: int) -> tuple[int, int]:
    """Return how many rows of tiles packed weights [N, K] have, and the bytes of one."""
    return -(-n // TILE_COLUMNS), -(-k // TILE_DEPTH) * FORMATS[blocks.label].tile_bytes


def _u32(name: str, value: SupportsIndex) -> int:
    return checked_integer(name, value, 0, _U32)


def _address(name: str, value: SupportsIndex) -> int:
    return checked_integer(name, value, 0, 2**64 - 1)


def float32_bits(name: str, value: float) -> int:
    """Return the IEEE-754 binary32 encoding of `value` (rounded to nearest even)."""
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
        TypeError, ValueError: a field that its bits cannot hold. Nothing else is checked.
    """

    opcode: int
    flags: int
    src1_addr: int
    src2_addr: int
    dst_addr: int
    param: tuple[int, int, int, int, int, int, int, int]

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
        for first, name, value in ((PARAM_M, "m", m), (PARAM_K, "k", k), (PARAM_N, "n", n)):
            if value is not None:
                bits = checked_integer(name, value, -(2**63), 2**63 - 1) & (2**64 - 1)
                words[first : first + 2] = [bits & 0xFFFF_FFFF, bits >> 32]
        if alpha is not None:
            words[PARAM_ALPHA] = float32_bits("alpha", alpha)
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
        return self._dim(PARAM_M)

    @property
    def k(self) -> int:
        return self._dim(PARAM_K)

    @property
    def n(self) -> int:
        return self._dim(PARAM_N)

    @property
    def alpha(self) -> float:
        (value,) = struct.unpack("<f", struct.pack("<I", self.param[PARAM_ALPHA]))
        return float(value)

    def has(self, flags: Flags) -> bool:
        """Return whether one of these flags is set."""
        return int.__and__(self.flags, flags) != 0

    @property
    def data_type(self) -> DataType:
        """Type of the operands of a MATMUL; with HALF_B that of src1."""
        return _DATA_TYPES[(self.flags & _DTYPE) >> DTYPE_SHIFT]

    @property
    def right_type(self) -> DataType:
        """Type of src2 of a MATMUL that has no blocks."""
        return DataType.FP16 if self.has(Flags.HALF_B) else self.data_type

    @property
    def blocks(self) -> Blocks:
        """Format of src2 of a MATMUL in packed blocks."""
        return _BLOCKS[(self.flags & _BLOCK_BITS) >> BLOCKS_SHIFT]

    @property
    def on_matrix(self) -> bool:
        """Whether the matrix engine executes the command; False for an unknown opcode."""
        return self.opcode in _MATRIX

    @property
    def out_type(self) -> OutType:
        """Type of the result of a MATMUL; ValueError for the reserved one."""
        return OutType((self.flags & _OUT) >> OUT_SHIFT)

    def pack(self) -> bytes:
        """Return the 64 bytes of the packet."""
        return COMMAND_STRUCT.pack(
            self.opcode, self.flags, self.src1_addr, self.src2_addr, self.dst_addr, *self.param
        )

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> NpuCommandPacket:
        """Return the packet that these 64 bytes hold; ValueError for another length."""
        opcode, flags, src1, src2, dst, *param = COMMAND_STRUCT.unpack(_sixty_four(data))
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
        if self.opcode not in FENCES:
            parts.append(f"m={self.m} k={self.k} n={self.n}")
            parts.append(f"src1=0x{self.src1_addr:x} src2=0x{self.src2_addr:x} dst=0x{self.dst_addr:x}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionPacket(ExtensionFields):
    """The second packet of a command: row strides, two levels of batches, and vectors besides the operands.

    All strides are u32 bytes. A row stride of 0 is dense. A batch count of 0 is 1. A batch stride of 0 reads
    the same matrix again. `rows` is the number of rows of a MEMCPY, each of the main packet's byte count.
    `column_vectors` and `row_scales` are the low words of the addresses of the float32 vectors that a
    MATMUL's flags ask for; `rows` and `row_scales_high` are the high ones (`vector_fields`).
    """

    def __post_init__(self) -> None:
        for item in fields(self):
            object.__setattr__(self, item.name, _u32(item.name, getattr(self, item.name)))

    def pack(self) -> bytes:
        """Return the 64 bytes of the packet."""
        return EXTENSION_STRUCT.pack(*(getattr(self, item.name) for item in fields(self)))

    @classmethod
    def unpack(cls, data: bytes | bytearray | memoryview) -> ExtensionPacket:
        """Return the packet that these 64 bytes hold; ValueError for another length."""
        words = EXTENSION_STRUCT.unpack(_sixty_four(data))
        return _made(cls, **dict(zip(ExtensionFields.__slots__, words, strict=True)))

    def __str__(self) -> str:
        given = [
            f"{f.name}={getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != f.default
        ]
        return " ".join(["EXT", *given])


def vector_fields(column_vectors: int, row_scales: int) -> dict[str, int]:
    """Return the fields of a MATMUL's ExtensionPacket for the addresses of its vectors; 0: there is none."""
    return {
        "column_vectors": column_vectors & _U32,
        "rows": column_vectors >> 32,
        "row_scales": row_scales & _U32,
        "row_scales_high": row_scales >> 32,
    }


def stride_fields(operand: str, row: int, batch: Sequence[int]) -> dict[str, int]:
    """Return the fields of an ExtensionPacket for an operand's strides: of rows, of (inner, outer) batches.

    Args:
        operand: "src1", "src2" or "dst".
    """
    inner, outer = batch
    return {
        f"{operand}_row_stride": row,
        f"{operand}_batch0_stride": inner,
        f"{operand}_batch1_stride": outer,
    }


def _made(kind: type[_Made], **values: Any) -> _Made:
    """Make a packet without checks, for fields that are known to fit."""
    packet = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(packet, name, value)
    return packet


Packet: TypeAlias = NpuCommandPacket | ExtensionPacket | bytes
"""What `submit` takes: a command, the extension that follows it, or 64 raw bytes."""


def packet_bytes(packet: Packet) -> bytes:
    """Return the 64 bytes to submit; TypeError or ValueError for anything that is no packet."""
    if isinstance(packet, (NpuCommandPacket, ExtensionPacket)):
        return packet.pack()
    if isinstance(packet, (bytes, bytearray, memoryview)):
        return _sixty_four(packet)
    raise TypeError(
        f"a packet is an NpuCommandPacket, an ExtensionPacket or 64 bytes, got {type(packet).__name__}"
    )


@dataclass(frozen=True, slots=True)
class Command:
    """A command packet and the extension packets that it announces, which are submitted together.

    Attributes:
        slots: 64 bytes each, the command packet first. The last command of a submission may lack extensions:
            the device waits for them.
    """

    slots: tuple[bytes, ...]

    @classmethod
    def of(cls, packet: Packet, *extensions: Packet) -> Command:
        """Return the command of these packets, valid or not; TypeError or ValueError for what is no
        packet."""
        return cls(tuple(packet_bytes(each) for each in (packet, *extensions)))

    @property
    def packet(self) -> NpuCommandPacket:
        """The command packet."""
        return NpuCommandPacket.unpack(self.slots[0])

    @property
    def needed(self) -> int:
        """Slots that it has when it is complete."""
        return 1 + _announced(self.slots[0])

    @property
    def complete(self) -> bool:
        """Whether every extension that the packet announces is there."""
        return len(self.slots) >= self.needed

    def __str__(self) -> str:
        others = self.slots[1:]
        texts = (
            [str(ExtensionPacket.unpack(others[0]))] if len(others) == 1 else [each.hex() for each in others]
        )
        return ", ".join([str(self.packet), *texts])

    def packets(self) -> list[NpuCommandPacket | ExtensionPacket]:
        """Return the packets of a command whose only extension, if any, is an ExtensionPacket."""
        return [self.packet, *(ExtensionPacket.unpack(slot) for slot in self.slots[1:])]


Submission: TypeAlias = Command | Packet | Iterable[Command | Packet]
"""What `Device.submit` takes: a command or a packet, or several of both in order."""


def as_commands(given: Submission) -> list[Command]:
    """Return the commands of a submission; a packet's extensions are those that follow it.

    Raises:
        TypeError, ValueError: something that is no packet.
    """
    if isinstance(given, (Command, NpuCommandPacket, ExtensionPacket, bytes)):
        given = [given]
    made: list[Command] = []
    slots: list[bytes] = []  # of a command that lacks extensions
    for each in given:
        if isinstance(each, Command) and not slots and each.complete:
            made.append(each)
            continue
        for slot in each.slots if isinstance(each, Command) else (packet_bytes(each),):
            slots.append(slot)
            if len(slots) > _announced(slots[0]):
                made.append(Command(tuple(slots)))
                slots = []
    return [*made, Command(tuple(slots))] if slots else made


def _announced(slot: bytes) -> int:
    """Return how many extensions a command packet announces."""
    opcode, flags = struct.unpack_from("<II", slot)
    return extension_count(opcode, flags)


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


def matmul_command(
    src1: int,
    src2: int,
    dst: int,
    m: int,
    k: int,
    n: int,
    *,
    dtype: DataType | str = DataType.FP32,
    half_b: bool = False,
    blocks: Blocks | str = Blocks.NONE,
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
) -> Command:
    """Compute `dst[M, N] = op(src1)[M, K] @ op(src2)[K, N]`, row-major, for every batch.

    Each sum is multiplied by alpha, by its row's scale and by its column's scale, its column's bias is added,
    and relu is taken. Only the steps that are asked for are done, in this order, each rounded to float32.

    Args:
        src1, src2, dst: physical byte addresses, multiples of their elements' size.
        m, k, n: 1..2**24.
        dtype: type of both operands, with `half_b` of src1, or its label: fp32, bf16, fp16, int8.
        half_b: src2 is float16; dtype is float32, and there are no blocks.
        blocks: format of src2, which is then packed weights [N, K] (`echo_npu.formats`), or its label: q8_0,
            q4_0, q4_1; K is a multiple of 32, dtype is float32 or float16 and that of src1 alone, out is
            float32, and nothing is transposed.
        out: type of the result: float32, that of the operands, or int32 (of int8, without any step).
        trans_a: src1 is stored as [K, M].
        trans_b: src2 is stored as [N, K].
        alpha: multiplies the sum (None: no such step).
        row_scales: address of M float32, a multiple of 4; the same for every batch.
        column_vectors: address of N float32 for `column_scale` or for `bias`, or of 2 * N for both in this
            order; a multiple of 4; the same for every batch.
        column_scale, bias: which column vectors there are.
        relu: values below zero become zero.
        row_strides: bytes from one stored row to the next of src1, src2, dst; 0 is dense.
        batch: (inner, outer) number of products, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one matrix to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, with an extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    m, k, n = _dim("m", m), _dim("k", k), _dim("n", n)
    dtype = DataType.of(dtype)
    if not isinstance(out, OutType):
        raise TypeError(f"out must be an OutType, got {out!r} ({type(out).__name__})")
    packed = Blocks.of(blocks)
    if packed and (k % BLOCK or dtype not in BLOCK_ROWS or out != OutType.FLOAT32 or trans_a or trans_b):
        raise ValueError(
            f"blocks is {packed.label}, k is {k}, dtype is {dtype.label}, out is {out.name.lower()}, "
            f"trans_a is {trans_a}, trans_b is {trans_b}: k must be a multiple of {BLOCK}, dtype fp32 or "
            "fp16, the result float32, and nothing transposed"
        )
    if half_b and (dtype != DataType.FP32 or packed):
        raise ValueError(
            f"half_b is {half_b}, dtype is {dtype.label}, blocks is {packed.label}: a float16 src2 takes a "
            "float32 src1, and no blocks"
        )
    size, out_size = dtype.itemsize, out.itemsize(dtype)
    element2 = DataType.FP16.itemsize if half_b else size
    size2 = TILE_ALIGNMENT if packed else element2
    src1, src2 = _aligned("src1", src1, size), _aligned("src2", src2, size2)
    dst = _aligned("dst", dst, out_size)
    flags = Flags(dtype << DTYPE_SHIFT | out << OUT_SHIFT | packed << BLOCKS_SHIFT)
    for flag, given in (
        (Flags.HALF_B, half_b),
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
    columns = 0 if column_vectors is None else _aligned("column_vectors", column_vectors)
    scales = 0 if row_scales is None else _aligned("row_scales", row_scales)
    if len(row_strides) != 3:
        raise ValueError(f"row_strides has {len(row_strides)} entries; it is (src1, src2, dst) in bytes")
    row_bytes2 = packed_rows(packed, k, n)[1] if packed else element2 * (k if trans_b else n)
    row_bytes = (size * (m if trans_a else k), row_bytes2, out_size * n)
    rows = [
        _stride(f"row_strides[{i}]", row_strides[i], multiple=multiple, least=row_bytes[i])
        for i, multiple in enumerate((size, size2, out_size))
    ]
    counts = _batch_counts(batch)
    strides1 = _batch_strides("src1_batch_strides", src1_batch_strides, multiple=size)
    strides2 = _batch_strides("src2_batch_strides", src2_batch_strides, multiple=size2)
    strides_dst = _batch_strides("dst_batch_strides", dst_batch_strides, multiple=out_size)
    _written_batches("dst_batch_strides", strides_dst, counts)
    extended = any(rows) or counts != (1, 1) or bool(flags & VECTOR_OPERAND_FLAGS)
    if extended:
        flags |= Flags.EXT
    packet = NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=alpha)
    if not extended:
        return Command.of(packet)
    return Command.of(
        packet,
        ExtensionPacket(
            batch0=counts[0],
            batch1=counts[1],
            **stride_fields("src1", rows[0], strides1),
            **stride_fields("src2", rows[1], strides2),
            **stride_fields("dst", rows[2], strides_dst),
            **vector_fields(columns, scales),
        ),
    )


def memcpy_command(
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
) -> Command:
    """Copy `rows` rows of `nbytes` bytes from `src` to `dst`, for every batch, with any alignment.

    Args:
        src, dst: physical byte addresses.
        nbytes: bytes of a row, at least 1.
        rows: 1..2**24.
        row_strides: bytes from one row to the next of src, dst; 0 is dense.
        batch: (inner, outer) number of repetitions, each 1..65535.
        *_batch_strides: (inner, outer) bytes from one block to the next; 0 reads the same one again.
        irq: raise the command interrupt on retirement.

    Returns: the command, with an extension packet if it needs one.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src, dst = _address("src", src), _address("dst", dst)
    nbytes = _dim("nbytes", nbytes, MAX_COUNT)
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
    packet = NpuCommandPacket(Opcode.MEMCPY, flags, src, 0, dst, m=nbytes)
    if not extended:
        return Command.of(packet)
    return Command.of(
        packet,
        ExtensionPacket(
            rows=rows,
            batch0=counts[0],
            batch1=counts[1],
            **stride_fields("src1", src_stride, strides_src),
            **stride_fields("dst", dst_stride, strides_dst),
        ),
    )


def add_command(
    src1: int, src2: int, dst: int, elements: int, *, alpha: float = 1.0, irq: bool = False
) -> Command:
    """Compute `dst = src1 + alpha * src2` over consecutive float32 values; dst may be one of the sources.

    Args:
        src1, src2, dst: physical byte addresses, multiples of 4.
        elements: 1..2**30 - 1.
        alpha: rounded to float32.
        irq: raise the command interrupt on retirement.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src1, src2, dst = _aligned("src1", src1), _aligned("src2", src2), _aligned("dst", dst)
    elements = _dim("elements", elements, 2**30 - 1)
    flags = Flags.IRQ if irq else Flags.NONE
    return Command.of(NpuCommandPacket(Opcode.ADD_TENSOR, flags, src1, src2, dst, m=elements, alpha=alpha))


def gather_command(
    table: int, indices: int, dst: int, rows: int, row_bytes: int, table_rows: int, *, irq: bool = False
) -> Command:
    """Copy row `indices[i]` of a table to row i of dst, all dense.

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
    return Command.of(
        NpuCommandPacket(Opcode.GATHER, flags, table, indices, dst, m=rows, k=table_rows, n=row_bytes)
    )


def load_program_command(src: int, words: int, at: int, *, irq: bool = False) -> Command:
    """Load `words` instructions of 64 bits from `src`, a multiple of 8, into program memory from word `at`
    on.

    Raises:
        TypeError, ValueError: naming the argument and its value.
    """
    src = _aligned("src", src, 8)
    words, at = _dim("words", words), checked_integer("at", at, 0, MAX_MATMUL_DIM)
    flags = Flags.IRQ if irq else Flags.NONE
    return Command.of(NpuCommandPacket(Opcode.LOAD_PROGRAM, flags, src, m=words, k=at))


def nop_packet(*, irq: bool = False) -> NpuCommandPacket:
    """Return a command that only retires."""
    return NpuCommandPacket(Opcode.NOP, Flags.IRQ if irq else Flags.NONE)


def sync_packet(*, irq: bool = False) -> NpuCommandPacket:
    """Return a full fence: it retires after everything before it, and nothing after it starts earlier."""
    return NpuCommandPacket(Opcode.SYNC, Flags.IRQ if irq else Flags.NONE)


def _as_packets(build: Callable[_P, Command]) -> Callable[_P, list[NpuCommandPacket | ExtensionPacket]]:
    """Make a builder that returns the packets of a command."""

    @wraps(build)
    def packets(*args: _P.args, **kwargs: _P.kwargs) -> list[NpuCommandPacket | ExtensionPacket]:
        return build(*args, **kwargs).packets()

    packets.__name__ = packets.__qualname__ = build.__name__.replace("_command", "_packets")
    packets.__annotations__ = {**build.__annotations__, "return": "list[NpuCommandPacket | ExtensionPacket]"}
    return packets


matmul_packets = _as_packets(matmul_command)
memcpy_packets = _as_packets(memcpy_command)
add_packets = _as_packets(add_command)
gather_packets = _as_packets(gather_command)
load_program_packets = _as_packets(load_program_command)
