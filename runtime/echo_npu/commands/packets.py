"""Command packets: 64 little-endian bytes each, as the device reads them.

`NpuCommandPacket` and `ExtensionPacket` encode whatever fits the fields, valid or not: the device judges a
packet, and tests need bad ones. `builders` and `matmul_command` refuse what the device would refuse.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, SupportsIndex, TypeAlias, TypeVar

from echo_npu.commands.arguments import address, u32
from echo_npu.commands.integers import checked_integer
from echo_npu.formats import FORMATS, TILE_COLUMNS, TILE_DEPTH
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
    "extension_count",
    "float32_bits",
    "packet_bytes",
    "stride_fields",
    "vector_fields",
]

_Made = TypeVar("_Made")

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
        words = [u32(f"param[{index}]", word) for index, word in enumerate(param)]
        for first, name, value in ((PARAM_M, "m", m), (PARAM_K, "k", k), (PARAM_N, "n", n)):
            if value is not None:
                bits = checked_integer(name, value, -(2**63), 2**63 - 1) & (2**64 - 1)
                words[first : first + 2] = [bits & 0xFFFF_FFFF, bits >> 32]
        if alpha is not None:
            words[PARAM_ALPHA] = float32_bits("alpha", alpha)
        put = object.__setattr__
        put(self, "opcode", u32("opcode", opcode))
        put(self, "flags", u32("flags", flags))
        put(self, "src1_addr", address("src1_addr", src1_addr))
        put(self, "src2_addr", address("src2_addr", src2_addr))
        put(self, "dst_addr", address("dst_addr", dst_addr))
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
            object.__setattr__(self, item.name, u32(item.name, getattr(self, item.name)))

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


def _sixty_four(data: bytes | bytearray | memoryview) -> bytes:
    raw = bytes(data)
    if len(raw) != PACKET_BYTES:
        raise ValueError(f"a packet has {PACKET_BYTES} bytes, got {len(raw)}")
    return raw
