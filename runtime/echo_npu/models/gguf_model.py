"""Read a llama-architecture model from a GGUF file: shape, tokenizer, weights as float32."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import FORMATS, PackedMatrix, pack
from echo_npu.models.extras import require
from echo_npu.models.gguf_file import GgufFile
from echo_npu.models.layer_types import LayerConfig, LayerWeights
from echo_npu.models.truth import F32

F16 = NDArray[np.float16]

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
_PLAIN: Final[dict[str, tuple[float, ...]]] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "embedding_scale": (1.0, 0.0),
    "expert_count": (0,),
    "logit_scale": (1.0, 0.0),
    "residual_scale": (1.0, 0.0),
    "rope.scale_linear": (1.0, 0.0),
    "rope.scaling.factor": (1.0, 0.0),
}
"""Fields that change what a layer computes, and the values with which they do not."""

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


class GgufModel(GgufFile):
    """A model file. Tensors are read and dequantised on request.

    The query and key weights of such files are permuted for the interleaved form of RoPE (pairs 2i, 2i+1),
    which the layer computes.

    Args:
        path: a GGUF file of the llama architecture.

    Raises:
        MissingExtraError: the package gguf is not installed.
        FileNotFoundError: no such file.
        ValueError: no whole GGUF file; another architecture, type of tensors or form of the rotation; a field
            or a tensor that the model needs is missing, or does not fit the others; a tensor or a field that
            would change what the model computes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        architecture = self.metadata("general.architecture")
        if architecture != "llama":
            raise ValueError(f"{path.name} has the architecture {architecture!r}; only llama is supported")
        self.name = str(self.optional("general.name") or path.stem)
        self.layers = self.whole("llama.block_count")
        hidden = self.whole("llama.embedding_length")
        heads = self.whole("llama.attention.head_count")
        if hidden % heads:
            raise ValueError(
                f"{path.name} has {heads} heads in {hidden} columns, which is no whole number each"
            )
        parts: dict[str, Any] = {
            "hidden": hidden,
            "heads": heads,
            "kv_heads": self.whole("llama.attention.head_count_kv"),
            "head_dim": hidden // heads,
            "ffn": self.whole("llama.feed_forward_length"),
            "rope_base": self.real("llama.rope.freq_base", 1.0),
            "eps": self.real("llama.attention.layer_norm_rms_epsilon", float(np.finfo(np.float32).tiny)),
        }
        try:
            self.config = LayerConfig(**parts)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from None
        self.context = self.whole("llama.context_length", 2)
        self.vocabulary = len(self.texts("tokenizer.ggml.tokens"))
        self.has_own_head = "output.weight" in self._tensors
        self._check_rotation()
        self._check_variants()
        self._check_tensors()

    def _check_rotation(self) -> None:
        rotated = self.whole("llama.rope.dimension_count", 0)
        if rotated != self.config.head_dim:
            raise ValueError(
                f"{self.file_name} rotates {rotated} of {self.config.head_dim} dimensions, not all"
            )
        scaling = self.optional("llama.rope.scaling.type")
        if scaling not in (None, "none") or "rope_freqs.weight" in self._tensors:
            raise ValueError(
                f"{self.file_name} scales the rotation ({scaling or 'rope_freqs.weight'}): unsupported"
            )

    def _check_variants(self) -> None:
        """Refuse fields whose values change what a layer computes."""
        head_dim = self.config.head_dim
        plain = _PLAIN | {"attention.key_length": (head_dim,), "attention.value_length": (head_dim,)}
        for key, values in plain.items():
            value = self.optional(f"llama.{key}")
            if value is not None and value not in values:
                raise ValueError(f"{self.file_name} has llama.{key} = {value}; only {values[0]} is supported")
        key = "llama.attention.sliding_window"
        window = 0 if self.optional(key) is None else self.whole(key, 0)
        if 0 < window < self.context:
            raise ValueError(f"{self.file_name} has a sliding window of {window} positions: unsupported")

    def _shapes(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and shape of each tensor that the model needs."""
        config = self.config
        for name in ("token_embd.weight", *(["output.weight"] if self.has_own_head else [])):
            yield name, (self.vocabulary, config.hidden)
        yield "output_norm.weight", (config.hidden,)
        for index in range(self.layers):
            for name, shape in config.weight_shapes().items():
                yield self.layer_tensor(index, name), shape

    def _check_tensors(self) -> None:
        """Refuse tensors of a type that cannot be read, of another shape than the model's, or of no use."""
        known = set[str]()
        for name, shape in self._shapes():
            known.add(name)
            tensor = self._tensor(name)
            stored = tuple(int(size) for size in reversed(tensor.shape))
            if stored != shape:
                raise ValueError(
                    f"{self.file_name}: tensor {name} has shape {stored}; the model needs {shape}"
                )
            if tensor.tensor_type.name not in TENSOR_TYPES:
                raise ValueError(
                    f"{self.file_name}: tensor {name} has the type {tensor.tensor_type.name}; the supported "
                    f"ones are {', '.join(TENSOR_TYPES)}"
                )
        for name in self._tensors:
            if name not in known:
                raise ValueError(f"{self.file_name} has the tensor {name}, which this model does not use")

    def _tensor(self, name: str) -> Any:
        if name not in self._tensors:
            raise ValueError(f"{self.file_name} has no tensor {name}")
        return self._tensors[name]

    def tensor(self, name: str) -> F32:
        """Return a tensor as float32, [out, in].

        Raises:
            ValueError: the file has none of that name, or a value is infinite or NaN.
        """
        tensor = self._tensor(name)
        with np.errstate(invalid="ignore"):
            values = np.ascontiguousarray(self._dequantize(tensor.data, tensor.tensor_type), np.float32)
        self._check_values(name, values)
        return values

    def half(self, name: str) -> F16:
        """Return a tensor rounded to float16, [out, in]; ValueError also for a value beyond float16."""
        with np.errstate(over="ignore"):
            values = self.tensor(name).astype(np.float16)
        if not np.isfinite(values).all():
            raise ValueError(f"{self.file_name}: tensor {name} has values beyond float16")
        return values

    def packed(self, name: str) -> PackedMatrix | None:
        """Return a tensor, [out, in], in the packed blocks of its type; None for a type without blocks.

        Raises:
            ValueError: the file has none of that name, or a scale or minimum is infinite or NaN.
        """
        tensor = self._tensor(name)
        if tensor.tensor_type.name.lower() not in FORMATS:
            return None
        packed = pack(tensor)
        self._check_values(name, packed.heads())
        return packed

    def _check_values(self, name: str, values: NDArray[np.floating[Any]]) -> None:
        if not np.isfinite(values).all():
            raise ValueError(f"{self.file_name}: tensor {name} has values that are infinite or NaN")

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

    def special_token(self, name: str) -> int | None:
        """Return the number of a special token, such as "eos"; None if the file names none.

        Raises:
            ValueError: a number that the vocabulary does not have.
        """
        key = f"tokenizer.ggml.{name}_token_id"
        if self.optional(key) is None:
            return None
        number = self.whole(key, 0)
        if number >= self.vocabulary:
            raise ValueError(
                f"{self.file_name}: the field {key} is {number}; the vocabulary has {self.vocabulary} entries"
            )
        return number

    @cached_property
    def tokenizer(self) -> Any:
        """The byte-level BPE tokenizer that the file describes (`tokenizers.Tokenizer`).

        Raises:
            MissingExtraError: the package tokenizers is not installed.
            ValueError: another kind of tokenizer, or a vocabulary that is none.
        """
        tokenizers = require("tokenizers")
        kind, pre = self.metadata("tokenizer.ggml.model"), self.metadata("tokenizer.ggml.pre")
        if (kind, pre) != ("gpt2", "smollm"):
            raise ValueError(
                f"{self.file_name} has the tokenizer {kind}/{pre}; only gpt2/smollm is supported"
            )
        for key in ("add_bos_token", "add_eos_token"):
            if self.optional(f"tokenizer.ggml.{key}"):
                raise ValueError(f"{self.file_name} adds a token to each text ({key}): unsupported")
        tokens = self.texts("tokenizer.ggml.tokens")
        types = self.wholes("tokenizer.ggml.token_type", len(tokens))
        vocabulary = {token: index for index, token in enumerate(tokens)}
        if len(vocabulary) < len(tokens):
            raise ValueError(f"{self.file_name}: the vocabulary has a token twice")
        merges = [tuple(merge.split(" ")) for merge in self.texts("tokenizer.ggml.merges")]
        for merge in merges:
            if len(merge) != 2 or not {*merge, "".join(merge)} <= vocabulary.keys():
                raise ValueError(
                    f"{self.file_name}: the merge {' '.join(merge)!r} is not of two known tokens"
                )
        made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=merges))
        split = tokenizers.pre_tokenizers
        made.pre_tokenizer = split.Sequence(
            [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False, use_regex=True)]
        )
        made.decoder = tokenizers.decoders.ByteLevel()
        made.add_special_tokens(
            [token for token, kind in zip(tokens, types, strict=True) if kind == _CONTROL_TOKEN]
        )
        return made
