"""Quantise float32 to blocks as ggml's reference does, to the bit, and back."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats.block_format import BLOCK, BlockFormat, named_format

F32 = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_HALF: Final = np.float32(0.5)


def quantize(values: F32, name: str) -> Bytes:
    """Quantise rows of weights.

    Args:
        values: float32 [N, K], K a multiple of 32.
        name: "q8_0", "q4_0" or "q4_1".

    Returns: the blocks as a file stores them, uint8 [N, row bytes].

    Raises:
        TypeError: another dtype.
        ValueError: an unknown format, another shape, a value that is infinite or NaN, or a block whose scale
            or minimum float16 cannot hold.
    """
    f = named_format(name)
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        raise TypeError(f"quantize takes float32, got {getattr(values, 'dtype', type(values).__name__)}")
    if values.ndim != 2 or 0 in values.shape or values.shape[1] % BLOCK:
        raise ValueError(f"quantize takes [N, K], K a multiple of {BLOCK}; got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"quantize to {f.name}: some values are infinite or NaN")
    blocks = values.reshape(-1, BLOCK)
    with np.errstate(all="ignore"):
        scale, least = _scales(blocks, f)
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
        stored = _stored(blocks, inverse, least, f)
        heads = [each.astype(np.float16) for each in ([scale, least] if f.minimum else [scale])]
    if not all(np.isfinite(each).all() for each in heads):
        raise ValueError(f"quantize to {f.name}: the scale or minimum of a block is beyond float16")
    packed = np.concatenate([*(each.view(np.uint8) for each in heads), stored], axis=1)
    return packed.reshape(values.shape[0], -1)


def dequantize(blocks: Bytes, name: str) -> F32:
    """Return the values of the blocks of a file, float32 [N, K]: one rounded product, one rounded sum.

    Args:
        blocks: uint8 [N, row bytes].

    Raises: ValueError for an unknown format or another shape.
    """
    f = named_format(name)
    if blocks.dtype != np.uint8 or blocks.ndim != 2 or blocks.shape[1] % f.block_bytes:
        raise ValueError(
            f"blocks of {f.name} are uint8 [N, a multiple of {f.block_bytes}], got {blocks.shape}"
        )
    each = blocks.reshape(-1, f.block_bytes)
    stored = each[:, f.head_bytes :]
    if f.bits == 4:
        stored = np.concatenate([stored & 15, stored >> 4], axis=1)
    quants = stored.view(np.int8).astype(np.float32) - np.float32(f.offset)
    heads = np.ascontiguousarray(each[:, : f.head_bytes]).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        values = heads[:, :1] * quants
        if f.minimum:
            values = values + heads[:, 1:]
    return values.reshape(blocks.shape[0], -1)


def _scales(blocks: F32, f: BlockFormat) -> tuple[F32, F32]:
    """Return the scale and the minimum of each block, float32 [blocks, 1], before they are rounded."""
    # The first of equal values, which zeros of both signs are.
    least: F32 = np.take_along_axis(blocks, blocks.argmin(axis=1, keepdims=True), axis=1)
    most: F32 = np.take_along_axis(blocks, blocks.argmax(axis=1, keepdims=True), axis=1)
    step: F32
    if f.minimum:
        step = (most - least) / np.float32(15)
        return step, least
    at = np.abs(blocks).argmax(axis=1, keepdims=True)
    extreme: F32 = np.take_along_axis(blocks, at, axis=1) + np.float32(0)  # no -0
    # In four bits the extreme value becomes -8, which is one step farther from 0 than 7.
    size: F32 = np.abs(extreme)
    step = extreme / np.float32(-8) if f.bits == 4 else size / np.float32(127)
    return step, least


def _stored(blocks: F32, inverse: F32, least: F32, f: BlockFormat) -> Bytes:
    """Return the bytes of the quants, [blocks, bytes]."""
    if f.bits == 8:
        scaled = blocks * inverse
        # Half away from zero, as C's roundf.
        floor = np.floor(np.abs(scaled))
        rounded = np.sign(scaled) * (floor + np.floor(2 * (np.abs(scaled) - floor)))
        stored: Bytes = rounded.astype(np.int8).view(np.uint8)
        return stored
    scaled = (blocks - least) * inverse + _HALF if f.minimum else blocks * inverse + (_HALF + f.offset)
    quants = np.minimum(np.trunc(scaled).astype(np.uint8), np.uint8(15))
    halves: Bytes = quants[:, : BLOCK // 2] | quants[:, BLOCK // 2 :] << np.uint8(4)
    return halves
