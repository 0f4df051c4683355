"""The reference of a language model, with a cache: `models.reference`, without the device's code.

The weights are those of the file, dequantised.
"""

from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.models import reference
from echo_npu.models.gguf_model import GgufModel
from echo_npu.models.reference import Floats, Past


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
        self._table = source.tensor("token_embd.weight").astype(dtype)
        self._head = source.head().astype(dtype)
        self._norm = source.tensor("output_norm.weight").astype(dtype)
        found = [source.layer(index) for index in range(source.layers if layers is None else layers)]
        self._layers = [
            replace(each, **{field.name: getattr(each, field.name).astype(dtype) for field in fields(each)})
            for each in found
        ]
        self.forget()

    def forget(self) -> None:
        """Begin a new text."""
        self._pasts: list[Past] = [[] for _ in self._layers]

    def read(self, tokens: Sequence[int]) -> Floats:
        """Read the next tokens of the text, and return the logits after each, [tokens, vocabulary]."""
        stream: Floats = self._table[np.asarray(tokens)]
        for weights, past in zip(self._layers, self._pasts, strict=True):
            stream = reference.layer(self._config, weights, stream, past)
        logits: Floats = reference.normalise(stream, self._norm, self._config.eps) @ self._head.T
        return logits
