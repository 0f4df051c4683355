"""The arithmetic of sums and matrix products, defined to the bit.

float32 is IEEE-754 binary32, round to nearest even, subnormals kept; every NaN result is 0x7FC00000.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.spec.data_types import CANONICAL_NAN

FloatArray = NDArray[np.float32]

_NAN: Final = np.array([CANONICAL_NAN], dtype=np.uint32).view(np.float32)[0]

# Chosen so that the data of a step stays in the L2 cache.
_BLOCK_OUTPUTS: Final = 1 << 15
_BLOCK_ROWS: Final = 64
_PRODUCT_BYTES: Final = 1 << 18
# The sum of so many products of int8, each at most 2**14, is exact in float32, in any order.
_EXACT_DEPTH: Final = 1 << 10
_SMALL_BLOCK: Final = 4096  # outputs; below it the interpreter costs more than the arithmetic


def canonicalise_nan(values: FloatArray) -> FloatArray:
    """Replace every NaN by 0x7FC00000, in place; returns `values`."""
    nan = np.isnan(values)
    if nan.any():
        values[nan] = _NAN
    return values


def add_fp32(a: FloatArray, b: FloatArray, alpha: np.float32) -> FloatArray:
    """Compute `a + alpha * b`, elementwise: one rounded product, one rounded sum."""
    with np.errstate(all="ignore"):
        result = np.multiply(b, alpha, dtype=np.float32)
        np.add(a, result, out=result)
    return canonicalise_nan(result)


def matmul_fp32(a: FloatArray, b: FloatArray) -> FloatArray:
    """Compute `a[M, K] @ b[K, N]`, as a new C-contiguous [M, N].

    Each output starts at +0.0 and takes one rounded product and one rounded sum for each k, in ascending
    order.
    """
    rows, columns = a.shape[0], b.shape[1]
    result = np.zeros((rows, columns), dtype=np.float32)
    with np.errstate(all="ignore"):
        block_rows = min(rows, _BLOCK_ROWS)
        block_columns = _BLOCK_OUTPUTS // block_rows
        for top in range(0, rows, block_rows):
            at = np.ascontiguousarray(a[top : top + block_rows].T)
            for left in range(0, columns, block_columns):
                block = result[top : top + block_rows, left : left + block_columns]
                _accumulate(at, np.ascontiguousarray(b[:, left : left + block_columns]), block)
    return canonicalise_nan(result)


def matmul_int8(a: NDArray[np.int8], b: NDArray[np.int8]) -> NDArray[np.int32]:
    """Compute `a[M, K] @ b[K, N]` in int32, modulo 2**32, as a new C-contiguous [M, N]."""
    result = np.zeros((a.shape[0], b.shape[1]), dtype=np.int32)
    for k in range(0, a.shape[1], _EXACT_DEPTH):
        left = a[:, k : k + _EXACT_DEPTH].astype(np.float32)
        right = b[k : k + _EXACT_DEPTH].astype(np.float32)
        result += (left @ right).astype(np.int32)  # wraps
    return result


def _accumulate(at: FloatArray, b: FloatArray, out: FloatArray) -> None:
    """Compute `out += at.T @ b` in ascending k; `at` is [K, M] and `b` is [K, N], both contiguous."""
    depth, rows = at.shape
    columns = b.shape[1]
    outputs = rows * columns
    if outputs > _SMALL_BLOCK:
        acc = np.ascontiguousarray(out)
        product = np.empty_like(acc)
        for k in range(depth):
            np.multiply(at[k, :, None], b[k], out=product)
            np.add(acc, product, out=acc)
        out[...] = acc
        return
    # Many k in one call. `accumulate` is defined as r[i] = r[i-1] + p[i], which is the device's order.
    # `reduce` is quicker and adds in that order too, except along the axis that is contiguous in memory,
    # where it adds in pairs.
    step = max(1, min(depth, _PRODUCT_BYTES // (4 * outputs)))
    products = np.zeros((step + 1, rows, columns), dtype=np.float32)
    for k in range(0, depth, step):
        part = min(step, depth - k)
        terms = products[: part + 1]
        np.multiply(at[k : k + part, :, None], b[k : k + part, None, :], out=terms[1:])
        flat = terms.reshape(part + 1, outputs)
        if outputs >= 16:
            flat[0] = np.add.reduce(flat, axis=0)
        else:
            flat[0] = np.add.accumulate(flat, axis=0)[-1]
    out[...] = products[0]
