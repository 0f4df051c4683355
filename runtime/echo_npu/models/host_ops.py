"""The operations of a layer that run on the host, in float32, each with its float64 truth and error bound.

Every function returns the float32 result, and the `Truth` that it is checked against.
"""

from __future__ import annotations

import numpy as np

from echo_npu.models.layer_types import F32, UNIT, Truth


def rms_norm(x: F32, weight: F32, eps: float) -> tuple[F32, Truth]:
    """`x / sqrt(mean(x**2) + eps) * weight` over the last axis."""
    mean = np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32)
    result = x * (np.float32(1.0) / np.sqrt(mean + np.float32(eps))) * weight
    wide = x.astype(np.float64)
    truth = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps) * weight.astype(np.float64)
    # Half the relative error of the sum of squares (pairwise: blocks of 128, eight accumulators), six
    # roundings.
    return np.asarray(result, np.float32), Truth(truth, np.abs(truth), 24 * UNIT)


def rope(x: F32, heads: int, base: float) -> tuple[F32, Truth]:
    """Rotate the pairs (2i, 2i+1) of each head of `x` by position * base**(-2i/head_dim).

    `x` is [tokens, heads * head_dim]; row i is at position i.
    """
    tokens, width = x.shape
    head_dim = width // heads
    angle = np.arange(tokens)[:, None] * base ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    pairs = x.reshape(tokens, heads, head_dim // 2, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    cos32, sin32 = cos.astype(np.float32), sin.astype(np.float32)
    result = np.stack([even * cos32 - odd * sin32, even * sin32 + odd * cos32], axis=-1)
    wide_even, wide_odd = even.astype(np.float64), odd.astype(np.float64)
    truth = np.stack([wide_even * cos - wide_odd * sin, wide_even * sin + wide_odd * cos], axis=-1)
    magnitude = np.stack(
        [
            np.abs(wide_even * cos) + np.abs(wide_odd * sin),
            np.abs(wide_even * sin) + np.abs(wide_odd * cos),
        ],
        axis=-1,
    )
    return result.reshape(x.shape), Truth(truth.reshape(x.shape), magnitude.reshape(x.shape), 4 * UNIT)


def causal_softmax(scores: F32) -> tuple[F32, Truth]:
    """Softmax over the last axis of [heads, tokens, tokens]; a token sees itself and what came before it."""
    tokens = scores.shape[-1]
    seen = np.tri(tokens, dtype=bool)
    masked = np.where(seen, scores, np.float32(-np.inf))
    shifted = masked - masked.max(axis=-1, keepdims=True)
    odds = np.exp(shifted)
    result = odds / odds.sum(axis=-1, keepdims=True, dtype=np.float32)
    wide = np.where(seen, scores.astype(np.float64), -np.inf)
    wide_shifted = wide - wide.max(axis=-1, keepdims=True)
    wide_odds = np.exp(wide_shifted)
    truth = wide_odds / wide_odds.sum(axis=-1, keepdims=True)
    # The rounded difference from the maximum is an exponent: its absolute error is the result's relative one,
    # and each of its terms adds at most 1/e of a rounding to the denominator. numpy's exp: within 3 ulp.
    spread = np.where(seen, np.abs(wide_shifted), 0.0)
    return np.asarray(result, np.float32), Truth(truth, truth * (1.0 + spread), (16 + tokens) * UNIT)


def silu_mul(gate: F32, up: F32) -> tuple[F32, Truth]:
    """`gate * sigmoid(gate) * up`, elementwise."""
    # Of -|gate|, it cannot overflow: the sigmoid of a very negative gate is tiny, not zero.
    small = np.exp(-np.abs(gate))
    sigmoid = np.where(gate >= 0, np.float32(1.0), small) / (np.float32(1.0) + small)
    result = gate * sigmoid * up
    wide = gate.astype(np.float64)
    with np.errstate(over="ignore"):
        truth = wide / (1.0 + np.exp(-wide)) * up.astype(np.float64)
    return np.asarray(result, np.float32), Truth(truth, np.abs(truth), 16 * UNIT)
