"""Rotary position embedding."""

from typing import Any

import numpy as np

from echo_npu.reference import F64


def angles(positions: Any, head_dim: int, base: float = 10000.0) -> F64:
    """Compute `positions * base**(-2i / head_dim)`, [tokens, head_dim / 2] (Su et al. 2021)."""
    powers = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    return np.asarray(positions, np.float64)[:, None] * np.float64(base) ** -powers


def rope(x: Any, angle: Any, interleaved: bool = False) -> F64:
    """Rotate the pairs of the last axis.

    Args:
        x: [..., tokens, head_dim].
        angle: [tokens, head_dim / 2], radians.
        interleaved: the pairs are (2i, 2i + 1); else (i, i + head_dim / 2).
    """
    wide = np.asarray(x, np.float64)
    cos, sin = np.cos(angle), np.sin(angle)
    half = wide.shape[-1] // 2
    first, second = (
        (wide[..., 0::2], wide[..., 1::2]) if interleaved else (wide[..., :half], wide[..., half:])
    )
    pair = first * cos - second * sin, first * sin + second * cos
    if interleaved:
        return np.stack(pair, axis=-1).reshape(wide.shape)
    return np.concatenate(pair, axis=-1)
