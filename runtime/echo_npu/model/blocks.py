"""Matrix products with weights in blocks, defined to the bit (docs/numerics.md)."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import BLOCK, BlockFormat, tile_parts
from echo_npu.model.numerics import FloatArray, canonicalise_nan
from echo_npu.spec.contract import TILE_COLUMNS

_CHUNK_BYTES: Final = 1 << 22  # of block sums; chosen so that a chunk stays in the cache
_ALONE: Final = 1 << 18
"""Multiply-accumulates of a product up to which OpenBLAS wakes no threads, which cost far more than it."""
_LEAST_NORMAL: Final = -126


def matmul_blocks(
    a: FloatArray, tiles: NDArray[np.uint8], block_format: BlockFormat, columns: int
) -> FloatArray:
    """Compute `a[M, K] @ weights.T` as a new C-contiguous float32 [M, N].

    Args:
        tiles: uint8 [N tiles, K tiles, bytes of a tile], which may be a strided view.
        columns: N.
    """
    rows, depth = a.shape
    result = np.empty((rows, columns), np.float32)
    planes, sums, exponents, kinds = _integers(a)
    step = min(_CHUNK_BYTES // (planes.nbytes // BLOCK), _ALONE // (2 * rows * BLOCK)) // TILE_COLUMNS or 1
    for first in range(0, tiles.shape[0], step):
        left = first * TILE_COLUMNS
        wide = min(columns - left, step * TILE_COLUMNS)
        parts = tile_parts(tiles[first : first + step], block_format, wide, depth)
        q = parts.q.reshape(wide, -1, BLOCK).transpose(1, 2, 0).astype(np.float32)
        products = planes @ q  # [block, 2 M, N]: exact, integers of at most 2**20
        with np.errstate(all="ignore"):
            # Both terms are exact, so this is the integer sum, rounded once.
            values = products[:, :rows] * np.float32(256) + products[:, rows:]
            values *= parts.d.astype(np.float32).T[:, None]
            if parts.m is not None:
                values += sums[:, :, None] * parts.m.astype(np.float32).T[:, None]
            values = _scaled(values, exponents)
            values[kinds < 0] = 0
            values[kinds > 0] = np.nan
            acc = np.zeros((rows, wide), np.float32)
            for each in values:
                acc += each
        result[:, left : left + wide] = acc
    return canonicalise_nan(result)


def _integers(
    a: FloatArray,
) -> tuple[FloatArray, FloatArray, NDArray[np.int32], NDArray[np.int8]]:
    """Convert rows to block floating point.

    Returns: the high bytes, then the low bytes of all rows, [blocks, 2 M, 32]; the sums of the integers,
        float32 [blocks, M]; the exponents of their last place, int32 [blocks, M]; and the kind of each block:
        -1 all zeros, 1 with an infinity or a NaN, else 0.
    """
    blocks = a.reshape(a.shape[0], -1, BLOCK).transpose(1, 0, 2)
    largest = np.abs(blocks).max(axis=-1)  # NaN if one is
    finite = np.isfinite(largest)
    kinds = np.where(finite, np.where(largest == 0, -1, 0), 1).astype(np.int8)
    exponents = np.frexp(np.where(finite, largest, 0).astype(np.float64))[1].astype(np.int32) - 15
    usable = np.where((kinds == 0)[..., None], blocks, 0).astype(np.float64)
    integers = np.rint(np.ldexp(usable, -exponents[..., None])).clip(-32768, 32767).astype(np.int32)
    planes = np.concatenate([integers >> 8, integers & 255], axis=1).astype(np.float32)
    return planes, integers.sum(axis=-1).astype(np.float32), exponents, kinds


def _scaled(values: FloatArray, exponents: NDArray[np.int32]) -> FloatArray:
    """Return `values * 2**exponents`, rounded once; values are [blocks, M, N], exponents [blocks, M]."""
    if exponents.min() >= _LEAST_NORMAL:
        return values * np.ldexp(np.float32(1), exponents)[:, :, None]
    return np.ldexp(values.astype(np.float64), exponents[:, :, None]).astype(np.float32)
