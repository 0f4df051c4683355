"""Products with block-quantised weights, to the bit, one output row and one block at a time.

This is the definition in docs/numerics.md as numpy says it best, without code shared with the functional
model. `truth` is what the result approximates, in float64.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_BLOCK = 32


def block_floating_point(x: F32) -> tuple[NDArray[np.int64], int]:
    """Return a finite block that is not all zero as integers i and the exponent e: i * 2**(e - 15)."""
    largest = float(np.abs(x).max())
    e = math.frexp(largest)[1]
    scaled = np.ldexp(x.astype(np.float64), 15 - e)  # exact; rint rounds ties to even
    return np.clip(np.rint(scaled), -32768, 32767).astype(np.int64), e


def block_product(
    x: F32, q: NDArray[np.int8], d: NDArray[np.float16], m: NDArray[np.float16] | None = None
) -> F32:
    """Compute `x @ weights.T` as the device does.

    Args:
        x: float32 [M, K], K a multiple of 32.
        q: int8 [N, K].
        d, m: float16 [N, K / 32]. Without a minimum m is None.

    Returns: float32 [M, N]; every NaN is 0x7FC00000.
    """
    result = np.zeros((x.shape[0], q.shape[0]), np.float32)
    with np.errstate(all="ignore"):
        for row in range(x.shape[0]):
            for block in range(x.shape[1] // _BLOCK):
                part = x[row, block * _BLOCK : (block + 1) * _BLOCK]
                if not part.any():
                    continue
                if not np.isfinite(part).all():
                    result[row] = np.nan
                    continue
                i, e = block_floating_point(part)
                sums = q[:, block * _BLOCK : (block + 1) * _BLOCK].astype(np.int64) @ i
                value = sums.astype(np.float32) * d[:, block].astype(np.float32)
                if m is not None:
                    value = value + np.float32(i.sum()) * m[:, block].astype(np.float32)
                # float64 holds the scaled value exactly, down to the smallest step of float32.
                scaled = np.ldexp(value.astype(np.float64), e - 15).astype(np.float32)
                result[row] = result[row] + scaled
    result[np.isnan(result)] = np.float32(np.nan)
    return result


def truth(
    x: F32, q: NDArray[np.integer[Any]], d: NDArray[np.float16], m: NDArray[np.float16] | None = None
) -> tuple[F64, F64]:
    """Return `x @ weights.T` in float64, and the bound on the error of `block_product`.

    The bound: an integer is off by at most one step of its block, 2**(e - 15). A block's sum is rounded four
    times (to float32, times d, plus the minima, scaled), the minima once, and then once for each block
    that is added.

    Args: as those of `block_product`, finite.
    """
    wide = x.astype(np.float64)
    blocks = np.abs(wide).reshape(x.shape[0], -1, _BLOCK).max(axis=-1)
    steps = np.where(blocks == 0, 0, np.ldexp(1.0, np.frexp(blocks)[1] - 15))
    steps = np.repeat(steps, _BLOCK, axis=1)
    weights: F64 = q.astype(np.float64) * np.repeat(d.astype(np.float64), _BLOCK, axis=1)
    sizes: F64 = np.abs(weights)
    if m is not None:
        minima = np.repeat(m.astype(np.float64), _BLOCK, axis=1)
        weights, sizes = weights + minima, sizes + np.abs(minima)
    roundings = 5 + x.shape[1] // _BLOCK
    bound = steps @ sizes.T + roundings * (2.0**-24 * ((np.abs(wide) + steps) @ sizes.T) + 2.0**-149)
    return wide @ weights.T, bound
