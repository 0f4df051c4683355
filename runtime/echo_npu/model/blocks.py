"""Matrix products with weights in blocks, defined to the bit (docs/numerics.md)."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import BLOCK, BlockFormat
from echo_npu.model.numerics import FloatArray, canonicalise_nan
from echo_npu.model.weight_panels import WeightPanels, WeightSection
from echo_npu.spec.contract import TILE_COLUMNS

_CHUNK_BYTES: Final = 1 << 22  # of block sums; chosen so that a chunk stays in the cache
_ALONE: Final = 1 << 18
"""Multiply-accumulates of a product up to which OpenBLAS wakes no threads, which cost far more than it."""
_LEAST_NORMAL: Final = -126


def matmul_blocks(
    a: FloatArray,
    tiles: NDArray[np.uint8],
    block_format: BlockFormat,
    columns: int,
    panels: WeightPanels | None = None,
) -> FloatArray:
    """Compute `a[M, K] @ weights.T` as a new C-contiguous float32 [M, N].

    Args:
        tiles: uint8 [N tiles, K tiles, bytes of a tile], which may be a strided view.
        columns: N.
        panels: keeps unpacked weights for the next product with them.
    """
    rows, depth = a.shape
    blocks = depth // BLOCK
    result = np.empty((rows, columns), np.float32)
    activations = _Activations.of(a, planes=1 if block_format.bits == 4 else 2)
    most = min(_CHUNK_BYTES // (4 * rows * blocks), _ALONE // (2 * rows * BLOCK))
    step = max(most // TILE_COLUMNS, 1) * TILE_COLUMNS
    left = 0
    with np.errstate(all="ignore"):
        for section in (panels or WeightPanels(0)).sections(tiles, block_format):
            quants = section.widened()[:blocks]
            wide = min(section.columns, columns - left)
            for first in range(0, wide, step):
                part = slice(first, min(first + step, wide))
                found = _sums(activations, section, quants, part, block_format.offset)
                result[:, left + first : left + part.stop] = found
            left += wide
    return canonicalise_nan(result)


@dataclass(frozen=True, slots=True)
class _Activations:
    """Rows as block floating point.

    Attributes:
        planes: the integers, float32 [blocks, M, 32]; or their high bytes and then their low bytes,
            [blocks, 2 M, 32].
        sums: of the integers, float32 [blocks, M].
        exponents: of their last place, int32 [blocks, M].
        kinds: of each block, int8 [blocks, M]: -1 all zeros, 1 with an infinity or a NaN, else 0.
    """

    planes: FloatArray
    sums: FloatArray
    exponents: NDArray[np.int32]
    kinds: NDArray[np.int8]

    @classmethod
    def of(cls, a: FloatArray, planes: int) -> "_Activations":
        """Convert rows; `planes` is 1 for whole integers and 2 for their bytes."""
        blocks = a.reshape(a.shape[0], -1, BLOCK).transpose(1, 0, 2)
        largest = np.abs(blocks).max(axis=-1)  # NaN if one is
        finite = np.isfinite(largest)
        kinds = np.where(finite, np.where(largest == 0, -1, 0), 1).astype(np.int8)
        usable = blocks
        if kinds.any():
            largest = np.where(finite, largest, np.float32(0))
            usable = np.where((kinds == 0)[..., None], blocks, np.float32(0))
        exponents = np.frexp(largest)[1].astype(np.int32) - 15
        integers = np.rint(np.ldexp(usable, -exponents[..., None])).clip(-32768, 32767)
        integers += np.float32(0)  # no zero is negative
        sums = integers.sum(axis=-1)  # exact
        if planes == 2:
            high = np.floor(integers * np.float32(1 / 256))
            integers = np.concatenate([high, integers - high * np.float32(256)], axis=1)
        return cls(integers, sums, exponents, kinds)


def _sums(
    activations: _Activations, section: WeightSection, quants: FloatArray, part: slice, offset: int
) -> FloatArray:
    """Return the sums of some columns of a section, float32 [M, columns]."""
    sums, kinds = activations.sums, activations.kinds
    blocks, rows = sums.shape
    # Exact: integers of at most 2**24, with quants of 8 bits at most 2**20 for each plane.
    values = activations.planes @ quants[:, :, part]
    if values.shape[1] > rows:
        # Both terms are exact, so this is the integer sum, rounded once.
        values = values[:, :rows] * np.float32(256) + values[:, rows:]
    if offset:
        values -= (sums * np.float32(offset))[:, :, None]  # exact
    values *= section.d[:blocks, None, part]
    if section.m is not None:
        values += sums[:, :, None] * section.m[:blocks, None, part]
    values = _scaled(values, activations.exponents)
    if kinds.any():
        values[kinds < 0] = 0
        values[kinds > 0] = np.nan
    # numpy's `reduce` may add in another order.
    total = np.zeros(values.shape[1:], np.float32)
    for each in values:
        total += each
    return total


def _scaled(values: FloatArray, exponents: NDArray[np.int32]) -> FloatArray:
    """Return `values * 2**exponents`, rounded once, perhaps in place.

    Args:
        values: [blocks, M, N].
        exponents: [blocks, M].
    """
    if exponents.min() >= _LEAST_NORMAL:
        values *= np.ldexp(np.float32(1), exponents)[:, :, None]
        return values
    return np.ldexp(values.astype(np.float64), exponents[:, :, None]).astype(np.float32)
