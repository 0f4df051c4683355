"""A decoder layer, and a model of such layers, in float64, as in the papers.

It is independent of `decoder_layer.py` on purpose: one head at a time, complex numbers for the rotation, no
shared helper. A mistake in the layer's wiring (a head reading its neighbour, a lost mask, a wrong stride)
shows as a difference between the two, even if every single operation is exact.
"""

import numpy as np

from echo_npu.models.layer_types import LayerConfig, LayerWeights, StackCase
from echo_npu.models.truth import F32, F64


def layer(config: LayerConfig, weights: LayerWeights, x: F32 | F64) -> F64:
    """Compute the layer's output, float64 [tokens, hidden], for the residual stream `x` of the same shape.

    Tokens have positions 0, 1, 2, ... and each sees itself and its predecessors.
    """
    stream = np.asarray(x, np.float64)
    stream = stream + attention(config, weights, _normalise(stream, weights.attn_norm, config.eps))
    return stream + feed_forward(weights, _normalise(stream, weights.ffn_norm, config.eps))


def stack_logits(case: StackCase) -> F64:
    """Compute the logits of the last token, float64 [vocabulary]."""
    stream = case.table[case.ids].astype(np.float64)
    for index in range(case.layers):
        stream = layer(case.config, case.layer(index), stream)
    last = _normalise(stream[-1:], case.final_norm, case.config.eps)[0]
    logits: F64 = case.table.astype(np.float64) @ last
    return logits


def attention(config: LayerConfig, weights: LayerWeights, x: F64) -> F64:
    """Compute causal grouped-query attention of the normalised `x`, [tokens, hidden] to [tokens, hidden]."""
    tokens, width = len(x), config.head_dim
    turns = np.exp(
        1j * np.outer(np.arange(tokens), config.rope_base ** (-2.0 * np.arange(width // 2) / width))
    )
    heads = []
    for head in range(config.heads):
        shared = head * config.kv_heads // config.heads
        query = _rotate(x @ _rows(weights.wq, head, width).T, turns)
        key = _rotate(x @ _rows(weights.wk, shared, width).T, turns)
        value = x @ _rows(weights.wv, shared, width).T
        mixed = np.zeros((tokens, width))
        for position in range(tokens):
            logits = key[: position + 1] @ query[position] / np.sqrt(width)
            odds = np.exp(logits - logits.max())
            mixed[position] = odds @ value[: position + 1] / odds.sum()
        heads.append(mixed)
    return np.hstack(heads) @ weights.wo.astype(np.float64).T


def feed_forward(weights: LayerWeights, x: F64) -> F64:
    """Compute SwiGLU of the normalised `x`, [tokens, hidden] to [tokens, hidden]."""
    gate = x @ weights.w_gate.astype(np.float64).T
    swish = gate * (0.5 + 0.5 * np.tanh(gate / 2.0))
    product: F64 = (swish * (x @ weights.w_up.astype(np.float64).T)) @ weights.w_down.astype(np.float64).T
    return product


def _normalise(x: F64, weight: F32, eps: float) -> F64:
    lengths = np.linalg.norm(x, axis=1, keepdims=True)
    result: F64 = x / np.sqrt(lengths**2 / x.shape[1] + eps) * weight.astype(np.float64)
    return result


def _rows(matrix: F32, head: int, width: int) -> F64:
    return matrix[head * width : (head + 1) * width].astype(np.float64)


def _rotate(x: F64, turns: np.ndarray) -> F64:
    pairs = np.ascontiguousarray(x).view(np.complex128)
    return np.ascontiguousarray(pairs * turns).view(np.float64)
