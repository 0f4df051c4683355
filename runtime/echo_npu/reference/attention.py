"""Scaled dot-product attention."""

from typing import Any

import numpy as np

from echo_npu.reference import F64
from echo_npu.reference.softmax import softmax


def attention(
    q: Any, k: Any, v: Any, causal: bool = False, scale: float | None = None, mask: Any = None
) -> F64:
    """Compute `softmax(scale * q @ k^T + mask) @ v` (Vaswani et al. 2017).

    Args:
        q: [..., heads, T, D].
        k, v: [..., kv_heads, S, D]; query head h uses key head h // (heads / kv_heads).
        causal: query t sees the keys 0 .. t + S - T.
        scale: None: 1 / sqrt(D).
    """
    group = np.shape(q)[-3] // np.shape(k)[-3]
    keys = np.repeat(np.asarray(k, np.float64), group, axis=-3)
    values = np.repeat(np.asarray(v, np.float64), group, axis=-3)
    factor = 1.0 / np.sqrt(np.shape(q)[-1]) if scale is None else scale
    products = np.asarray(q, np.float64) @ keys.swapaxes(-1, -2)
    return np.asarray(softmax(products, scale=float(factor), causal=causal, mask=mask) @ values)
