"""A decoder layer, and a model of such layers, as in the papers; in float64 unless a caller asks for float32.

It is independent of `decoder_layer.py` on purpose: one head at a time, complex numbers for the rotation, no
shared helper. A mistake in the layer's wiring (a head reading its neighbour, a lost mask, a wrong stride)
shows as a difference between the two, even if every single operation is exact.

All arithmetic but the rotation has the type of the residual stream.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.models.layer_types import LayerConfig, LayerWeights, StackCase
from echo_npu.models.truth import F64

Floats: TypeAlias = NDArray[np.floating[Any]]
Past: TypeAlias = list[tuple[Floats, Floats]]
"""Keys and values, [tokens, head_dim] each, of the key and value heads of a layer; empty before a text."""


def layer(config: LayerConfig, weights: LayerWeights, x: Floats, past: Past | None = None) -> Floats:
    """Compute the layer's output, [tokens, hidden], for the residual stream `x` of the same shape.

    Each token sees itself and its predecessors.

    Args:
        past: what the tokens before those of `x` left; those of `x` are added. None: there were none.
    """
    stream = x + attention(config, weights, normalise(x, weights.attn_norm, config.eps), past)
    return stream + feed_forward(weights, normalise(stream, weights.ffn_norm, config.eps))


def stack_logits(case: StackCase) -> F64:
    """Compute the logits of the last token, float64 [vocabulary]."""
    stream: Floats = case.table[case.ids].astype(np.float64)
    for index in range(case.layers):
        stream = layer(case.config, case.layer(index), stream)
    last = normalise(stream[-1:], case.final_norm, case.config.eps)[0]
    logits: F64 = case.table.astype(np.float64) @ last
    return logits


def attention(config: LayerConfig, weights: LayerWeights, x: Floats, past: Past | None = None) -> Floats:
    """Compute causal grouped-query attention of the normalised `x`, [tokens, hidden] to [tokens, hidden].

    `past` is as in `layer`.
    """
    tokens, width = len(x), config.head_dim
    before = len(past[0][0]) if past else 0
    positions = np.arange(before, before + tokens)
    turns = np.exp(1j * np.outer(positions, config.rope_base ** (-2.0 * np.arange(width // 2) / width)))
    pairs: Past = []
    for shared in range(config.kv_heads):
        key = _rotate(x @ _rows(weights.wk, shared, width).T, turns)
        value = x @ _rows(weights.wv, shared, width).T
        if past:
            key, value = np.vstack([past[shared][0], key]), np.vstack([past[shared][1], value])
        pairs.append((key, value))
    if past is not None:
        past[:] = pairs
    heads = []
    for head in range(config.heads):
        keys, values = pairs[head * config.kv_heads // config.heads]
        query = _rotate(x @ _rows(weights.wq, head, width).T, turns)
        mixed = np.zeros((tokens, width), x.dtype)
        for token in range(tokens):
            seen = before + token + 1
            logits = keys[:seen] @ query[token] / math.sqrt(width)
            odds = np.exp(logits - logits.max())
            mixed[token] = odds @ values[:seen] / odds.sum()
        heads.append(mixed)
    result: Floats = np.hstack(heads) @ weights.wo.T
    return result


def feed_forward(weights: LayerWeights, x: Floats) -> Floats:
    """Compute SwiGLU of the normalised `x`, [tokens, hidden] to [tokens, hidden]."""
    gate = x @ weights.w_gate.T
    swish = gate * (0.5 + 0.5 * np.tanh(gate / 2.0))
    product: Floats = (swish * (x @ weights.w_up.T)) @ weights.w_down.T
    return product


def normalise(x: Floats, weight: Floats, eps: float) -> Floats:
    """Divide the rows of `x`, [tokens, hidden], by their root mean square, and multiply by `weight`."""
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    result: Floats = x / np.sqrt(lengths**2 / x.shape[1] + eps) * weight
    return result


def _rows(matrix: Floats, head: int, width: int) -> Floats:
    return matrix[head * width : (head + 1) * width]


def _rotate(x: Floats, turns: NDArray[np.complex128]) -> Floats:
    pairs = np.ascontiguousarray(x, np.float64).view(np.complex128)
    return np.ascontiguousarray(pairs * turns).view(np.float64).astype(x.dtype)
