"""A llama-architecture model in plain numpy, as the papers have it, with a cache; without the device's code.

The weights are those of the file, dequantised.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.models.gguf_model import GgufModel

Floats = NDArray[np.floating[Any]]


class ReferenceModel:
    """Predicts the logits of every token of a text.

    Args:
        source: the model file.
        dtype: of all arithmetic: float64 or float32.
        layers: how many layers, from the first; None: all.
    """

    def __init__(
        self, source: GgufModel, dtype: DTypeLike = np.float64, *, layers: int | None = None
    ) -> None:
        self._config = source.config
        self._dtype = np.dtype(dtype)
        self._table = source.tensor("token_embd.weight").astype(dtype)
        self._head = source.head().astype(dtype)
        self._norm = source.tensor("output_norm.weight").astype(dtype)
        count = source.layers if layers is None else layers
        self._layers = [
            {name: getattr(source.layer(index), name).astype(dtype) for name in self._config.weight_shapes()}
            for index in range(count)
        ]
        self.forget()

    def forget(self) -> None:
        """Begin a new text."""
        width = (0, self._config.kv_heads, self._config.head_dim)
        self._keys = [np.empty(width, self._dtype) for _ in self._layers]
        self._values = [np.empty(width, self._dtype) for _ in self._layers]

    def read(self, tokens: Sequence[int]) -> Floats:
        """Read the next tokens of the text, and return the logits after each, [tokens, vocabulary]."""
        stream = self._table[np.asarray(tokens)]
        for index, weights in enumerate(self._layers):
            stream = stream + self._attention(index, weights, self._normalise(stream, weights["attn_norm"]))
            rows = self._normalise(stream, weights["ffn_norm"])
            gate = rows @ weights["w_gate"].T
            with np.errstate(over="ignore"):
                swish = gate / (1 + np.exp(-gate))
            stream = stream + (swish * (rows @ weights["w_up"].T)) @ weights["w_down"].T
        logits: Floats = self._normalise(stream, self._norm) @ self._head.T
        return logits

    def _attention(self, index: int, weights: dict[str, Floats], rows: Floats) -> Floats:
        config, count, before = self._config, len(rows), len(self._keys[index])
        angles = np.outer(
            np.arange(before, before + count),
            config.rope_base ** (-np.arange(0, config.head_dim, 2) / config.head_dim),
        )
        turns = np.exp(1j * angles)[:, None]

        def heads(name: str) -> Floats:
            return (rows @ weights[name].T).reshape(count, -1, config.head_dim)

        def rotated(name: str) -> Floats:
            made = heads(name).astype(np.float64)
            pairs = (made[..., ::2] + 1j * made[..., 1::2]) * turns
            return np.stack([pairs.real, pairs.imag], axis=-1).reshape(made.shape).astype(self._dtype)

        self._keys[index] = np.concatenate([self._keys[index], rotated("wk")])
        self._values[index] = np.concatenate([self._values[index], heads("wv")])
        query = rotated("wq").reshape(count, config.kv_heads, config.group, config.head_dim)
        scores = np.einsum("tkgd,skd->kgts", query, self._keys[index], optimize=True)
        scores = scores / np.sqrt(np.asarray(config.head_dim, self._dtype))
        hidden = np.arange(before + count) > np.arange(before, before + count)[:, None]
        scores = np.where(hidden, -np.inf, scores)
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        odds /= odds.sum(axis=-1, keepdims=True)
        mixed = np.einsum("kgts,skd->tkgd", odds, self._values[index], optimize=True)
        result: Floats = mixed.reshape(count, -1) @ weights["wo"].T
        return result

    def _normalise(self, rows: Floats, weight: Floats) -> Floats:
        mean = np.mean(rows * rows, axis=-1, keepdims=True)
        result: Floats = rows / np.sqrt(mean + np.asarray(self._config.eps, self._dtype)) * weight
        return result
