"""A llama-architecture model in device memory, with its key and value cache, and the commands of a step.

A step takes some tokens at consecutive positions and finds the likeliest token after them. It is one recorded
program. Keys and values are float16, weights are in their file's blocks or float16, the residual stream is
float32; every product adds up in float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.device import Device
from echo_npu.driver.recorded_program import RecordedProgram
from echo_npu.language.projection import HALF, BlockProjection, HalfProjection, Projection, joined, place
from echo_npu.models.gguf_model import GgufModel, check_layers
from echo_npu.ops.packed import PackedTensor
from echo_npu.ops.rope import rope_tables
from echo_npu.tensor import DeviceTensor

Weights: TypeAlias = Literal["file", "half"]

CHUNK: Final = 128
"""Most tokens of a step."""


def check_size(source: GgufModel, context: int, layers: int) -> None:
    """Raise ValueError unless a model has so many positions and layers."""
    check_layers(layers, source.layers)
    if not 2 <= context <= source.context:
        raise ValueError(f"context is {context}; this model has 2 to {source.context} positions")


@dataclass(frozen=True, slots=True)
class _NetworkLayer:
    """The weights of a layer; projections of the same rows are one."""

    attention_norm: DeviceTensor
    qkv: Projection
    output: Projection
    ffn_norm: DeviceTensor
    gate_up: Projection
    down: Projection

    @property
    def projections(self) -> tuple[Projection, ...]:
        return self.qkv, self.output, self.gate_up, self.down


class Network:
    """The first layers of a model on a device.

    Args:
        device: holds weights, cache and intermediate tensors until it is closed.
        source: the model file.
        context: positions of the cache; prompt and answer together have at most so many tokens.
        layers: how many layers, from the first; None: all.
        every_logit: find the logits of every token of a step, not of the last one alone.
        weights: "file" keeps the file's blocks where the device multiplies them, and rounds other weights to
            float16; "half" rounds all.
        on_layer: called before each layer's weights are brought to the device, with its number.

    Attributes:
        layers, context.
        tensors: all tensors of the network, by name.
        next: int32 [1] on the device: the token that the last step found, and that `record_next` reads.
        logits: float32 [1, vocabulary] on the device, of the last step; [CHUNK, vocabulary] with
            `every_logit`, of which a step writes a row for each of its tokens.

    Raises:
        NpuOutOfMemoryError: the model does not fit into the device's memory.
        ValueError: a number of layers or positions that the model does not have.
    """

    def __init__(
        self,
        device: Device,
        source: GgufModel,
        *,
        context: int,
        layers: int | None = None,
        every_logit: bool = False,
        weights: Weights = "file",
        on_layer: Callable[[int], None] = lambda index: None,
    ) -> None:
        self.device = device
        self.config = source.config
        self.layers = source.layers if layers is None else layers
        check_size(source, context, self.layers)
        self.context = context
        self._blocks = device.capabilities.block_formats if weights == "file" else ()
        self.tensors: dict[str, DeviceTensor] = {}
        self._layers: list[_NetworkLayer] = []
        for index in range(self.layers):
            on_layer(index)
            self._layers.append(self._load(source, index))
        self._final_norm = self._place("final norm", source.tensor("output_norm.weight"))
        self._table = self._place("embedding", source.tensor("token_embd.weight").astype(HALF))
        self._head = self._projection("head", source, [source.head_name])
        self._every_logit = every_logit
        self._allocate()

    def _load(self, source: GgufModel, index: int) -> _NetworkLayer:
        vectors = source.layer_vectors(index)

        def projection(name: str, *weights: str) -> Projection:
            names = [source.layer_tensor(index, weight) for weight in weights]
            return self._projection(f"layer {index}: {name}", source, names)

        return _NetworkLayer(
            attention_norm=self._place(f"layer {index}: attention norm", vectors["attn_norm"]),
            qkv=projection("q, k, v", "wq", "wk", "wv"),
            output=projection("output", "wo"),
            ffn_norm=self._place(f"layer {index}: ffn norm", vectors["ffn_norm"]),
            gate_up=projection("gate, up", "w_gate", "w_up"),
            down=projection("down", "w_down"),
        )

    def _projection(self, name: str, source: GgufModel, tensors: Sequence[str]) -> Projection:
        """Bring weights, [out, in] each, to the device; their outputs will lie side by side."""
        packed = [source.packed(each) for each in tensors]
        kept = [each for each in packed if each is not None and each.format.name in self._blocks]
        if len(kept) < len(packed):
            if list(tensors) == ["token_embd.weight"]:
                return HalfProjection(self.device, self._table)
            values = np.concatenate([source.tensor(each) for each in tensors]).astype(HALF)
            return HalfProjection(self.device, self._place(name, values))
        parts = joined(kept)
        names = [name] if len(parts) == 1 else [f"{name}, part {number}" for number in range(len(parts))]
        return BlockProjection(
            self.device,
            [
                PackedTensor(self._place(each, part.data), part.format, part.shape)
                for each, part in zip(names, parts, strict=True)
            ],
        )

    def _place(self, name: str, values: NDArray[Any]) -> DeviceTensor:
        self.tensors[name] = place(self.device, values)
        return self.tensors[name]

    def _allocate(self) -> None:
        config, context = self.config, self.context
        rows = min(CHUNK, context)
        cosines, sines = rope_tables(context, config.head_dim, config.rope_base, interleaved=True)
        self._cosines, self._sines = self._place("cosines", cosines), self._place("sines", sines)
        cached = (self.layers, context, config.kv_heads, config.head_dim)
        self._keys = self._empty("keys", cached, HALF)
        self._values = self._empty("values", cached, HALF)
        self._stream = self._empty("stream", (rows, config.hidden))
        self._normed = self._empty("normed", (rows, config.hidden))
        widest = max(config.hidden, config.q_width, config.ffn)
        self._rounded = self._empty("rounded rows", (rows * widest,), HALF)
        self._qkv = self._empty("heads", (rows, config.heads + 2 * config.kv_heads, config.head_dim))
        self._turned = self._empty("turned heads", (rows, config.heads + config.kv_heads, config.head_dim))
        self._query = self._empty("query", (rows, config.heads, config.head_dim), HALF)
        # The rows of scores begin at whole beats of the bus, whatever the number of keys.
        places = -(-context // 32) * 32
        scores = (config.kv_heads, config.group, rows, places)
        self._scores = self._empty("scores", scores)
        self._odds = self._empty("probabilities", scores)
        self._shares = self._empty("rounded probabilities", scores, HALF)
        self._mixed = self._empty("mixed values", (rows, config.heads, config.head_dim))
        self._delta = self._empty("delta", (rows, config.hidden))
        self._gate_up = self._empty("gate and up", (rows, 2, config.ffn))
        self._swish = self._empty("swish", (rows, config.ffn))
        self.logits = self._empty("logits", (rows if self._every_logit else 1, self._head.outputs))
        self.next = self._empty("next token", (1,), np.int32)

    def _empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> DeviceTensor:
        """Allocate a tensor of zeros: what a step leaves unwritten is then the same on every device."""
        made = self.device.empty(shape, dtype)
        self.device.memset(made.ptr, 0, made.nbytes)
        self.tensors[name] = made
        return made

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model knows."""
        return self._table.shape[0]

    # --- steps ----------------------------------------------------------------------------------------------

    def record_prompt(self, position: int, count: int) -> RecordedProgram:
        """Record the step of `count` tokens from `position` on; its input `ids` is int32 [count].

        Raises:
            ValueError: positions beyond the context, or more than `CHUNK` tokens.
        """
        with self.device.record() as program:
            ids = program.input("ids", (count,), np.int32)
            self._step(ids, position)
        return program

    def record_next(self, position: int) -> RecordedProgram:
        """Record the step of the token that is in `next`, at `position`; ValueError beyond the context."""
        with self.device.record() as program:
            self._step(self.next, position)
        return program

    def _step(self, ids: DeviceTensor, position: int) -> None:
        npu, count = self.device, len(ids)
        if count > CHUNK or position < 0 or position + count > self.context:
            raise ValueError(
                f"{count} tokens from position {position}: a step has at most {CHUNK} tokens, the context "
                f"{self.context} positions"
            )
        stream = self._stream[:count]
        embedded = self._rounded[: stream.size].reshape(*stream.shape)
        npu.embedding(self._table, ids, out=embedded)
        npu.cast(embedded, np.float32, out=stream)
        for index, layer in enumerate(self._layers):
            self._attention(index, layer, stream, position)
            self._feed_forward(layer, stream)
        wanted = stream if self._every_logit else stream[-1:]
        logits = self.logits[: len(wanted)]
        self._project(self._normalise(wanted, self._final_norm), self._head, logits)
        npu.argmax(logits[-1:], axis=-1, out=self.next)

    def bound(self, position: int, count: int) -> int:
        """Return the least cycles of a step: what memory's bandwidth or the array's products take.

        Every weight and every cached key and value is read once, and all processing elements work at their
        rate.
        """
        config, capabilities = self.config, self.device.capabilities
        projections = [each for layer in self._layers for each in layer.projections]
        cached = 2 * self.layers * (position + count) * config.kv_width * HALF.itemsize
        read = sum(each.nbytes for each in projections) + self._head.nbytes + cached
        attended = count * position + count * (count + 1) // 2
        scored = count if self._every_logit else 1
        # In halves of the cycles that one processing element would take.
        work = 2 * 2 * self.layers * attended * config.q_width
        work += sum(2 * count * each.size // each.rate for each in projections)
        work += 2 * scored * self._head.size // self._head.rate
        elements = capabilities.array_rows * capabilities.array_cols
        return max(-(-read * 8 // capabilities.data_width), -(-work // (2 * elements)))

    def _normalise(self, stream: DeviceTensor, weight: DeviceTensor) -> DeviceTensor:
        normed = self._normed[: len(stream)]
        self.device.rms_norm(stream, weight, self.config.eps, out=normed)
        return normed

    def _project(self, rows: DeviceTensor, weights: Projection, out: DeviceTensor) -> None:
        weights.apply(rows, self._rounded, out)

    def _attention(self, index: int, layer: _NetworkLayer, stream: DeviceTensor, position: int) -> None:
        npu, config, count = self.device, self.config, len(stream)
        end = position + count
        heads, turned = self._qkv[:count], self._turned[:count]
        self._project(self._normalise(stream, layer.attention_norm), layer.qkv, heads.reshape(count, -1))
        npu.rope(
            heads[:, : config.heads + config.kv_heads],
            self._cosines[position:end],
            self._sines[position:end],
            interleaved=True,
            out=turned,
        )
        query = npu.cast(turned[:, : config.heads], HALF, out=self._query[:count])
        npu.cast(turned[:, config.heads :], HALF, out=self._keys[index, position:end])
        npu.cast(heads[:, config.heads + config.kv_heads :], HALF, out=self._values[index, position:end])
        self._mix(query, self._keys[index, :end], self._values[index, :end], count)
        self._project(self._mixed[:count].reshape(count, -1), layer.output, self._delta[:count])
        npu.add(stream, self._delta[:count], out=stream)

    def _mix(self, query: DeviceTensor, keys: DeviceTensor, values: DeviceTensor, count: int) -> None:
        """Compute the attention of `query`, [count, heads, head_dim], into `_mixed`."""
        npu, config, end = self.device, self.config, len(keys)
        scores, odds, shares = (each[:, :, :count, :end] for each in (self._scores, self._odds, self._shares))

        # [kv_heads, heads of a group, count, head_dim]; the keys and values are the same for a group.
        def grouped(heads: DeviceTensor) -> DeviceTensor:
            shape = (len(heads), config.kv_heads, -1, config.head_dim)
            return heads.reshape(*shape).transpose(1, 2, 0, 3)

        # For a single token the heads of a group are the rows of one product.
        def rows(heads: DeviceTensor) -> DeviceTensor:
            return heads[:, :, 0] if count == 1 else heads

        def shared(heads: DeviceTensor) -> DeviceTensor:
            return grouped(heads)[:, 0] if count == 1 else grouped(heads)

        npu.matmul(rows(grouped(query)), shared(keys), trans_b=True, out=rows(scores))
        scale = 1.0 / float(np.sqrt(config.head_dim))
        npu.softmax(scores, scale=scale, causal=count > 1, out=odds)
        npu.cast(odds, HALF, out=shares)
        npu.matmul(rows(shares), shared(values), out=rows(grouped(self._mixed[:count])))

    def _feed_forward(self, layer: _NetworkLayer, stream: DeviceTensor) -> None:
        npu, count = self.device, len(stream)
        both, swish = self._gate_up[:count], self._swish[:count]
        self._project(self._normalise(stream, layer.ffn_norm), layer.gate_up, both.reshape(count, -1))
        npu.silu(both[:, 0], out=swish)
        npu.mul(swish, both[:, 1], out=swish)
        self._project(swish, layer.down, self._delta[:count])
        npu.add(stream, self._delta[:count], out=stream)
