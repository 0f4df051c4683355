"""Softmax."""

from typing import Any

import numpy as np

from echo_npu.reference import F64


def scores(x: Any, scale: float = 1.0, causal: bool = False, mask: Any = None) -> F64:
    """Compute the scores of softmax: `scale * x + mask`, -inf where `causal` hides an element.

    Args:
        x: [..., T, S].
        causal: row t sees the columns 0 .. t + S - T.
        mask: added, with numpy's broadcasting.
    """
    result = np.float64(scale) * np.asarray(x, np.float64)
    if mask is not None:
        result = result + np.asarray(mask, np.float64)
    if causal:
        rows, columns = result.shape[-2:]
        result = np.where(np.tri(rows, columns, columns - rows, dtype=bool), result, -np.inf)
    return result


def softmax(x: Any, axis: int = -1, scale: float = 1.0, causal: bool = False, mask: Any = None) -> F64:
    """Compute `exp(s - max(s)) / sum(exp(s - max(s)))` along an axis, `s` as in `scores`."""
    wide = scores(x, scale, causal, mask)
    with np.errstate(invalid="ignore"):
        odds = np.exp(wide - wide.max(axis=axis, keepdims=True))
        return np.asarray(odds / odds.sum(axis=axis, keepdims=True))
