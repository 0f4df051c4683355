"""What the makers of random commands share: contents and strides of operands."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.benchmark.measure import random_elements
from echo_npu.formats import BLOCK, FORMATS, TILE_COLUMNS, TILE_DEPTH
from echo_npu.spec.data_types import Blocks, DataType


def elements(values: np.random.Generator, kind: DataType, nbytes: int) -> bytes:
    """Draw `nbytes` of elements: normally distributed, or any int8."""
    return random_elements(values, kind, (nbytes // kind.itemsize,)).tobytes()


def packed_tiles(values: np.random.Generator, blocks: Blocks, columns: int, depth: int) -> NDArray[np.uint8]:
    """Draw packed weights [N = columns, K = depth]: quants of any bits, scales and minima of ordinary size.

    What the tiles hold past N and K is of any bits, NaN among them.

    Returns: uint8 [N tiles, K tiles, bytes of a tile].
    """
    block_format = FORMATS[blocks.label]
    down, along = block_format.tiles(columns, depth)
    tiles = values.integers(0, 256, (down, along, block_format.tile_bytes), dtype=np.uint8)
    heads = np.ascontiguousarray(tiles[..., : block_format.quants_at]).view(np.float16)
    heads = heads.reshape(down, along, -1, 2, TILE_COLUMNS)  # d, m; block; column
    column = TILE_COLUMNS * np.arange(down)[:, None] + np.arange(TILE_COLUMNS)
    block = 2 * np.arange(along)[:, None] + np.arange(2)
    used = (column < columns)[:, None, None, None, :] & (block < depth // BLOCK)[None, :, None, :, None]
    ordinary = (0.1 * values.standard_normal(heads.shape)).astype(np.float16)
    heads = np.where(used, ordinary, heads)
    tiles[..., : block_format.quants_at] = heads.reshape(down, along, -1).view(np.uint8)
    return tiles


def packed_bytes(values: np.random.Generator, blocks: Blocks, nbytes: int) -> bytes:
    """Draw `nbytes` of packed weights: tiles as those of `packed_tiles`, and the beginning of one more."""
    count = -(-nbytes // blocks.tile_bytes)
    return packed_tiles(values, blocks, TILE_COLUMNS, TILE_DEPTH * count).tobytes()[:nbytes]


def stride_options(*operands: Sequence[int]) -> dict[str, Any]:
    """Return the options of `matmul_packets` or `memcpy_packets` for the strides of each operand.

    Args:
        operands: strides of rows, inner and outer batches; the destination is last.
    """
    sources = ("src",) if len(operands) == 2 else ("src1", "src2")
    batches = {
        f"{name}_batch_strides": tuple(strides[1:])
        for name, strides in zip((*sources, "dst"), operands, strict=True)
    }
    return {"row_strides": tuple(strides[0] for strides in operands), **batches}
