"""Pack a matrix of blocks into tiles, and back; both ways only move bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats.block_format import (
    BLOCK,
    TILE_BLOCKS,
    BlockFormat,
    named_format,
)
from echo_npu.formats.quantize import quantize
from echo_npu.spec.contract import TILE_COLUMNS, TILE_DEPTH

Bytes = NDArray[np.uint8]


@runtime_checkable
class FileTensor(Protocol):
    """A tensor of a GGUF file, as `gguf.GGUFReader` gives it.

    Attributes:
        data: of a block format uint8 [N, row bytes], else the values [N, K].
        tensor_type: an enumeration with ggml's names.
    """

    @property
    def data(self) -> NDArray[Any]: ...

    @property
    def tensor_type(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class BlockParts:
    """The numbers in a matrix of blocks: value [n, k] is `d[n, k // 32] * q[n, k]`, plus `m[n, k // 32]`.

    Attributes:
        q: int8 [N, K].
        d: float16 [N, K / 32].
        m: likewise, or None where the format has no minimum.
    """

    q: NDArray[np.int8]
    d: NDArray[np.float16]
    m: NDArray[np.float16] | None


@dataclass(frozen=True, slots=True)
class PackedMatrix:
    """Weights [N, K] in packed tiles, on the host.

    Attributes:
        format: of the blocks.
        columns: N, the stored rows, which are columns of a product.
        depth: K, a multiple of 32.
        data: uint8 [N tiles, K tiles, bytes of a tile]. What lies past N and K is zero.
    """

    format: BlockFormat
    columns: int
    depth: int
    data: Bytes

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.columns, self.depth

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    @classmethod
    def from_bytes(cls, data: Bytes, block_format: BlockFormat, columns: int, depth: int) -> PackedMatrix:
        """Return the matrix whose tiles these bytes are; ValueError for a wrong shape or number of bytes."""
        _check_shape(columns, depth)
        wanted = block_format.packed_bytes(columns, depth)
        if data.dtype != np.uint8 or data.size != wanted:
            raise ValueError(
                f"{columns} x {depth} in {block_format.name} is {wanted} bytes, "
                f"got {data.dtype} of {data.size} elements"
            )
        tiles = block_format.tiles(columns, depth)
        return cls(block_format, columns, depth, data.reshape(*tiles, block_format.tile_bytes))

    def heads(self) -> NDArray[np.float16]:
        """Return the scales and the minima of all blocks, padding included, float16 in the tiles' order."""
        return np.ascontiguousarray(self.data[..., : self.format.quants_at]).view(np.float16)

    def part(self, first: int, stop: int) -> PackedMatrix:
        """Return the weights of columns `first` to `stop` - 1 of the product, packed anew where they begin
        within a tile; ValueError for columns that do not exist."""
        if not 0 <= first < stop <= self.columns:
            raise ValueError(f"columns {first} to {stop} of {self.columns}")
        if first % TILE_COLUMNS == 0 and (stop % TILE_COLUMNS == 0 or stop == self.columns):
            tiles = self.data[first // TILE_COLUMNS : -(-stop // TILE_COLUMNS)]
            return PackedMatrix(self.format, stop - first, self.depth, tiles)
        return pack(np.ascontiguousarray(unpack(self)[first:stop]), self.format.name)

    def parts(self) -> BlockParts:
        """Return the numbers in the tiles."""
        return tile_parts(self.data, self.format, self.columns, self.depth)


def pack(source: NDArray[Any] | FileTensor, name: str | None = None) -> PackedMatrix:
    """Pack a matrix of weights.

    Args:
        source: float32 or float16 [N, K], which is quantised; the blocks of a file as uint8 [N, row bytes];
            or a tensor of `gguf.GGUFReader`. K is a multiple of 32.
        name: the format: "q8_0", "q4_0" or "q4_1". It may be left out for a tensor of a file in blocks.

    Raises:
        TypeError: another dtype, or no array.
        ValueError: an unknown or a missing name, a tensor of another format, a shape that the format does not
            allow, or values that cannot be quantised.
    """
    if not isinstance(source, np.ndarray) and isinstance(source, FileTensor):
        return _pack_file_tensor(source, name)
    if not isinstance(source, np.ndarray):
        raise TypeError(f"pack takes a numpy array or a tensor of a GGUF file, got {type(source).__name__}")
    if name is None:
        raise ValueError("pack needs the name of the format for an array")
    block_format = named_format(name)
    if source.dtype in (np.float32, np.float16):
        source = quantize(source.astype(np.float32), name)
    if source.dtype != np.uint8:
        raise TypeError(f"pack takes float32, float16 or the bytes of blocks (uint8), got {source.dtype}")
    return _pack_blocks(source, block_format)


def unpack(packed: PackedMatrix) -> Bytes:
    """Return the blocks of a file, uint8 [N, row bytes]: exactly those that were packed."""
    f = packed.format
    down, along = packed.data.shape[:2]
    blocks = np.empty((down, TILE_COLUMNS, along, TILE_BLOCKS, f.block_bytes), np.uint8)
    for position in range(0, f.head_bytes, 2):
        blocks[..., position : position + 2] = tile_heads(packed.data, position // 2).transpose(0, 3, 1, 2, 4)
    blocks[..., f.head_bytes :] = tile_quants(packed.data, f).transpose(0, 2, 1, 3, 4)
    rows = blocks.reshape(down * TILE_COLUMNS, along * TILE_BLOCKS * f.block_bytes)
    return np.ascontiguousarray(rows[: packed.columns, : f.row_bytes(packed.depth)])


def block_parts(blocks: Bytes, name: str) -> BlockParts:
    """Return the numbers in the blocks of a file, uint8 [N, row bytes]; ValueError for another shape."""
    return pack(blocks, name).parts()


def tile_parts(tiles: Bytes, block_format: BlockFormat, columns: int, depth: int) -> BlockParts:
    """Return the numbers in tiles, uint8 [N tiles, K tiles, bytes of a tile], which may be a strided view."""

    def heads(which: int) -> NDArray[np.float16]:
        found = np.ascontiguousarray(tile_heads(tiles, which)).view(np.float16)[..., 0]
        return found.transpose(0, 3, 1, 2).reshape(-1, tiles.shape[1] * TILE_BLOCKS)[
            :columns, : depth // BLOCK
        ]

    stored = tile_quants(tiles, block_format)
    if block_format.bits == 4:
        stored = np.concatenate([stored & 15, stored >> 4], axis=-1)
    values = stored.view(np.int8) - np.int8(block_format.offset)
    q = values.transpose(0, 2, 1, 3, 4).reshape(-1, tiles.shape[1] * TILE_DEPTH)[:columns, :depth]
    return BlockParts(q, heads(0), heads(1) if block_format.minimum else None)


def tile_heads(tiles: Bytes, which: int) -> Bytes:
    """Return the bytes of d (0) or m (1) in tiles: [N tiles, K tiles, block, column, 2], a view."""
    size = TILE_BLOCKS * TILE_COLUMNS * 2
    part = tiles[..., which * size : (which + 1) * size]
    return part.reshape(*tiles.shape[:2], TILE_BLOCKS, TILE_COLUMNS, 2)


def tile_quants(tiles: Bytes, block_format: BlockFormat) -> Bytes:
    """Return the bytes of the quants in tiles: [N tiles, K tiles, column, block, bytes], a view."""
    part = tiles[..., block_format.quants_at :]
    return part.reshape(*tiles.shape[:2], TILE_COLUMNS, TILE_BLOCKS, block_format.quant_bytes)


def _check_shape(columns: int, depth: int) -> None:
    if columns < 1 or depth < 1 or depth % BLOCK:
        raise ValueError(f"weights are {columns} x {depth}: N is at least 1 and K a multiple of {BLOCK}")


def _pack_file_tensor(tensor: FileTensor, name: str | None) -> PackedMatrix:
    stored = str(getattr(tensor.tensor_type, "name", tensor.tensor_type)).lower()
    if stored in ("f32", "f16"):
        return pack(np.asarray(tensor.data), name)
    if name is not None and named_format(name) is not named_format(stored):
        raise ValueError(f"the tensor is in the format {stored}, not {name.lower()}")
    return pack(np.asarray(tensor.data), stored)


def _pack_blocks(blocks: Bytes, f: BlockFormat) -> PackedMatrix:
    if blocks.ndim != 2 or blocks.shape[1] % f.block_bytes:
        raise ValueError(
            f"blocks of {f.name} are uint8 [N, a multiple of {f.block_bytes}], got shape {blocks.shape}"
        )
    columns, depth = blocks.shape[0], blocks.shape[1] // f.block_bytes * BLOCK
    _check_shape(columns, depth)
    down, along = f.tiles(columns, depth)
    padded = np.zeros((down * TILE_COLUMNS, along * TILE_BLOCKS * f.block_bytes), np.uint8)
    padded[:columns, : blocks.shape[1]] = blocks
    grid = padded.reshape(down, TILE_COLUMNS, along, TILE_BLOCKS, f.block_bytes)
    tiles = np.empty((down, along, f.tile_bytes), np.uint8)
    for position in range(0, f.head_bytes, 2):
        tile_heads(tiles, position // 2)[...] = grid[..., position : position + 2].transpose(0, 2, 3, 1, 4)
    tile_quants(tiles, f)[...] = grid[..., f.head_bytes :].transpose(0, 2, 1, 3, 4)
    return PackedMatrix(f, columns, depth, tiles)
