"""Read a llama-architecture model from a GGUF file: shape, tokenizer, weights as float32."""

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from echo_npu.formats import FORMATS, PackedMatrix, pack
from echo_npu.models.extras import require
from echo_npu.models.layer_types import LayerConfig, LayerWeights
from echo_npu.models.truth import F32

_TENSORS = {
    "attn_norm": "attn_norm",
    "wq": "attn_q",
    "wk": "attn_k",
    "wv": "attn_v",
    "wo": "attn_output",
    "ffn_norm": "ffn_norm",
    "w_gate": "ffn_gate",
    "w_up": "ffn_up",
    "w_down": "ffn_down",
}
_CONTROL_TOKEN = 3

TENSOR_TYPES = ("F32", "F16", "Q8_0", "Q4_0", "Q4_1")
"""The types of tensors that can be read."""


def check_index(index: int, layers: int) -> None:
    """Raise IndexError unless a model of so many layers has a layer `index`."""
    if not 0 <= index < layers:
        raise IndexError(f"layer index {index}: this model has the layers 0 to {layers - 1}")


def check_layers(count: int, layers: int) -> None:
    """Raise ValueError unless a model of `layers` layers has `count` first ones."""
    if not 1 <= count <= layers:
        raise ValueError(f"layers is {count}; this model has 1 to {layers}")


class GgufModel:
    """A model file. Tensors are read and dequantised on request.

    The query and key weights of such files are permuted for the interleaved form of RoPE (pairs 2i, 2i+1),
    which the layer computes.

    Args:
        path: a GGUF file of the llama architecture.

    Raises:
        MissingExtraError: the package gguf is not installed.
        FileNotFoundError: no such file.
        ValueError: no readable GGUF file; another architecture, type of tensors or form of the rotation; a
            field or a tensor that the model needs is missing, or does not fit the others.
    """

    def __init__(self, path: Path) -> None:
        gguf = require("gguf")
        if not path.is_file():
            raise FileNotFoundError(f"there is no model file {path}")
        self._dequantize = gguf.quants.dequantize
        self._name = path.name
        try:
            self._reader = gguf.GGUFReader(str(path))
        except Exception as error:  # the reader of the package raises whatever a damaged file leads to
            raise ValueError(f"{path.name} is no whole GGUF file: {error}") from None
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        architecture = self.metadata("general.architecture")
        if architecture != "llama":
            raise ValueError(f"{path.name} has the architecture {architecture!r}; only llama is supported")
        self.name = str(self.optional("general.name") or path.stem)
        self.layers = int(self.metadata("llama.block_count"))
        hidden = int(self.metadata("llama.embedding_length"))
        heads = int(self.metadata("llama.attention.head_count"))
        self.config = LayerConfig(
            hidden=hidden,
            heads=heads,
            kv_heads=int(self.metadata("llama.attention.head_count_kv")),
            head_dim=hidden // heads,
            ffn=int(self.metadata("llama.feed_forward_length")),
            rope_base=float(self.metadata("llama.rope.freq_base")),
            eps=float(self.metadata("llama.attention.layer_norm_rms_epsilon")),
        )
        self.context = int(self.metadata("llama.context_length"))
        self.has_own_head = "output.weight" in self._tensors
        self._check_rotation()
        self._check_tensors()

    def _check_rotation(self) -> None:
        rotated = int(self.metadata("llama.rope.dimension_count"))
        if rotated != self.config.head_dim:
            raise ValueError(f"{self._name} rotates {rotated} of {self.config.head_dim} dimensions, not all")
        scaling = self.optional("llama.rope.scaling.type")
        if scaling not in (None, "none") or "rope_freqs.weight" in self._tensors:
            raise ValueError(
                f"{self._name} scales the rotation ({scaling or 'rope_freqs.weight'}): unsupported"
            )

    def _check_tensors(self) -> None:
        """Refuse tensors of a type that cannot be read, or of another shape than the model's."""
        config = self.config
        shapes: dict[str, tuple[int, ...]] = {"output_norm.weight": (config.hidden,)}
        for index in range(self.layers):
            for name, shape in config.weight_shapes().items():
                shapes[self.layer_tensor(index, name)] = shape
        vocabulary = len(self.metadata("tokenizer.ggml.tokens"))
        for name in ("token_embd.weight", *(["output.weight"] if self.has_own_head else [])):
            shapes[name] = (vocabulary, config.hidden)
        for name, shape in shapes.items():
            tensor = self._tensor(name)
            stored = tuple(int(size) for size in reversed(tensor.shape))
            if stored != shape:
                raise ValueError(f"{self._name}: tensor {name} has shape {stored}; the model needs {shape}")
            if tensor.tensor_type.name not in TENSOR_TYPES:
                raise ValueError(
                    f"{self._name}: tensor {name} has the type {tensor.tensor_type.name}; the supported ones "
                    f"are {', '.join(TENSOR_TYPES)}"
                )

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            raise ValueError(f"{self._name} has no tensor {name}")
        return self._tensors[name]

    def metadata(self, key: str) -> Any:
        """Return the value of a metadata field; ValueError if the file has none of that name."""
        value = self.optional(key)
        if value is None:
            raise ValueError(f"{self._name} has no metadata field {key}")
        return value

    def optional(self, key: str) -> Any:
        """Return the value of a metadata field, or None if the file has none of that name."""
        field = self._reader.get_field(key)
        return None if field is None else field.contents()

    def tensor(self, name: str) -> F32:
        """Return a tensor as float32, [out, in]; ValueError if the file has none of that name."""
        tensor = self._tensor(name)
        return np.ascontiguousarray(self._dequantize(tensor.data, tensor.tensor_type), np.float32)

    def packed(self, name: str) -> PackedMatrix | None:
        """Return a tensor, [out, in], in the packed blocks of its type; None for a type without blocks."""
        tensor = self._tensor(name)
        return pack(tensor) if tensor.tensor_type.name.lower() in FORMATS else None

    @property
    def head_name(self) -> str:
        """Name of the tensor that gives the logits: the embedding where the file has no own head."""
        return "output.weight" if self.has_own_head else "token_embd.weight"

    @staticmethod
    def layer_tensor(index: int, weight: str) -> str:
        """Return the name of the tensor of a layer's weight, named as in `LayerWeights`."""
        return f"blk.{index}.{_TENSORS[weight]}.weight"

    def head(self) -> F32:
        """Return the matrix of the logits, float32 [vocabulary, hidden]: the embedding where the file has no
        own."""
        return self.tensor(self.head_name)

    def layer(self, index: int) -> LayerWeights:
        """Return the weights of layer `index`.

        Raises:
            IndexError: no such layer; the message gives the range.
        """
        self.check_index(index)
        weights = LayerWeights(**{name: self.tensor(self.layer_tensor(index, name)) for name in _TENSORS})
        weights.check(self.config)
        return weights

    def layer_vectors(self, index: int) -> dict[str, F32]:
        """Return the weights of layer `index` that are no matrices, by their names in `LayerWeights`.

        Raises:
            IndexError: no such layer; the message gives the range.
        """
        self.check_index(index)
        shapes = self.config.weight_shapes()
        return {
            name: self.tensor(self.layer_tensor(index, name))
            for name, shape in shapes.items()
            if len(shape) == 1
        }

    def check_index(self, index: int) -> None:
        """Raise IndexError unless the model has a layer `index`."""
        check_index(index, self.layers)

    def embed(self, tokens: list[int]) -> F32:
        """Return the embedding rows of `tokens`, float32 [tokens, hidden]; IndexError for an unknown
        token."""
        table = self._tensors["token_embd.weight"]
        if any(not 0 <= token < len(table.data) for token in tokens):
            raise IndexError(f"tokens {tokens}: the vocabulary has {len(table.data)} entries")
        return np.ascontiguousarray(self._dequantize(table.data[tokens], table.tensor_type), np.float32)

    @cached_property
    def tokenizer(self) -> Any:
        """The byte-level BPE tokenizer that the file describes (`tokenizers.Tokenizer`).

        Raises:
            MissingExtraError: the package tokenizers is not installed.
            ValueError: another kind of tokenizer.
        """
        tokenizers = require("tokenizers")
        kind, pre = self.metadata("tokenizer.ggml.model"), self.metadata("tokenizer.ggml.pre")
        if (kind, pre) != ("gpt2", "smollm"):
            raise ValueError(f"{self._name} has the tokenizer {kind}/{pre}; only gpt2/smollm is supported")
        tokens = self.metadata("tokenizer.ggml.tokens")
        merges = [tuple(merge.split(" ")) for merge in self.metadata("tokenizer.ggml.merges")]
        vocabulary = {token: index for index, token in enumerate(tokens)}
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
        split = tokenizers.pre_tokenizers
        made.pre_tokenizer = split.Sequence(
            [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        made.decoder = tokenizers.decoders.ByteLevel()
        types = self.metadata("tokenizer.ggml.token_type")
        made.add_special_tokens(
            [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL_TOKEN]
        )
        return made
