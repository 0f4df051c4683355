"""A llama-architecture model in device memory, with its key and value cache, and the commands of a step.

A step takes some tokens at consecutive positions and finds the likeliest token after them. It is one recorded
program; that of a single token reads token and position from device memory, and serves several positions.
Keys and values are float16, weights are in their file's blocks or float16, the residual stream is float32;
every product adds up in float32.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias

import numpy as np

from echo_npu.backends.base import LaterCounters
from echo_npu.device import Device
from echo_npu.language.group import GroupMemory, TokenGroup, group_memory
from echo_npu.language.layer import NetworkLayer
from echo_npu.language.loading import WeightLoader
from echo_npu.language.projection import HALF
from echo_npu.language.share import WHOLE, Share
from echo_npu.language.token_step import PromptStep, TokenProgram, TokenStep
from echo_npu.language.turns import in_turn
from echo_npu.models.gguf_model import GgufModel, check_layers
from echo_npu.ops.broadcast import compute
from echo_npu.ops.rope import rope_tables
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.pointwise import integer

Weights: TypeAlias = Literal["file", "half"]
Candidates: TypeAlias = tuple[DeviceTensor, DeviceTensor]
"""Token numbers and logits."""

CHUNK: Final = 128
"""Most tokens of a step."""

RING_SLOTS: Final = 8192
"""Slots of a command ring in which a step of many layers is submitted with one doorbell."""

MOST_CANDIDATES: Final = 128
"""Most tokens that a step finds in order."""

PAIR: Final = 32
"""From so many tokens on a step has two groups: one has the matrix engine while the other has the vector
engine."""


def check_size(source: GgufModel, context: int, layers: int) -> None:
    """Raise ValueError unless a model has so many positions and layers."""
    check_layers(layers, source.layers)
    if not 2 <= context <= source.context:
        raise ValueError(f"context is {context}; this model has 2 to {source.context} positions")


def check_step(position: int, count: int, context: int) -> None:
    """Raise ValueError unless a step may have these tokens."""
    if count > CHUNK or position < 0 or position + count > context:
        raise ValueError(
            f"{count} tokens from position {position}: a step has at most {CHUNK} tokens, the context "
            f"{context} positions"
        )


def check_candidates(count: int, vocabulary: int) -> None:
    """Raise ValueError unless a step may find so many of the likeliest tokens."""
    if not 0 <= count <= min(MOST_CANDIDATES, vocabulary):
        raise ValueError(
            f"candidates is {count}; it must be 0 to {MOST_CANDIDATES}, and at most the {vocabulary} tokens"
        )


class Network:
    """The first layers of a model on a device.

    Args:
        device: holds weights, cache and intermediate tensors until it is closed.
        source: the model file.
        context: positions of the cache; prompt and answer together have at most so many tokens.
        layers: how many layers, from the first; None: all.
        every_logit: find the logits of every token of a step, not of the last one alone.
        candidates: how many of the likeliest tokens a step finds, in order, at most MOST_CANDIDATES; 0: the
            likeliest alone.
        weights: "file" keeps the file's blocks where the device multiplies them, and rounds other weights to
            float16; "half" rounds all.
        share: which of the layers' and the head's columns it has; `echo_npu.sharding` joins several.
        on_layer: called before each layer's weights are brought to the device, with its number.

    Attributes:
        layers, context.
        config: of the layers, as this device computes them.
        tensors: all tensors of the network, by name.
        next: int32 [1] on the device: the token that the last step found, and that `record_next` reads.
        position: int32 [1] on the device: that of the token in `next`, once a step of `record_next` runs.
        logits: float32 [1, vocabulary] on the device, of the last step; [CHUNK, vocabulary] with
            `every_logit`, of which a step writes a row for each of its tokens.
        candidates: the likeliest tokens after the last step, int32 [1, candidates], and their logits,
            float32 likewise; None without candidates.

    Raises:
        NpuOutOfMemoryError: the model does not fit into the device's memory.
        ValueError: a number of layers or positions that the model does not have, or a share that is none.
    """

    def __init__(
        self,
        device: Device,
        source: GgufModel,
        *,
        context: int,
        layers: int | None = None,
        every_logit: bool = False,
        candidates: int = 0,
        weights: Weights = "file",
        share: Share = WHOLE,
        on_layer: Callable[[int], None] = lambda index: None,
    ) -> None:
        self.device = device
        self.config = share.config(source.config)
        self.layers = source.layers if layers is None else layers
        check_size(source, context, self.layers)
        check_candidates(candidates, source.vocabulary)
        self.context = context
        formats = device.capabilities.block_formats if weights == "file" else ()
        self._loader = loader = WeightLoader(device, formats, share)
        self.tensors = loader.tensors
        cached = (self.layers, context, self.config.kv_heads, self.config.head_dim)
        keys, values = loader.empty("keys", cached, HALF), loader.empty("values", cached, HALF)
        self._layers: list[NetworkLayer] = []
        for index in range(self.layers):
            on_layer(index)
            self._layers.append(loader.layer(source, index, keys[index], values[index]))
        self._final_norm = loader.place("final norm", source.tensor("output_norm.weight"))
        self._table = loader.place("embedding", source.half("token_embd.weight"))
        self._own_tokens = share.vocabulary(self.vocabulary)
        tied = self._table if source.head_name == "token_embd.weight" else None
        self._head = loader.projection("head", source, [source.head_name], [self._own_tokens], tied)
        self._every_logit = every_logit
        rows = min(CHUNK, context)
        cosines, sines = rope_tables(context, self.config.head_dim, self.config.rope_base, interleaved=True)
        self._cosines, self._sines = loader.place("cosines", cosines), loader.place("sines", sines)
        self._memories = self._group_memories(rows)
        self.logits = loader.empty("logits", (rows if every_logit else 1, self.vocabulary))
        self.next = loader.empty("next token", (1,), np.int32)
        self.position = loader.empty("position", (1,), np.int32)
        rotation = (1, self.config.head_dim)
        self._rotation = loader.empty("cosines there", rotation), loader.empty("sines there", rotation)
        self._token = TokenProgram(device, context, self.position, values, self._token_step)
        self.candidates: Candidates | None = None
        if candidates:
            found = loader.empty("candidates", (1, candidates), np.int32)
            self.candidates = found, loader.empty("logits of candidates", (1, candidates))

    def _group_memories(self, rows: int) -> list[GroupMemory]:
        """Allocate for groups of tokens, which have at most `rows` tokens together."""
        empty, config, context = self._loader.empty, self.config, self.context
        first = max(min(rows, PAIR - 1), -(-rows // 2))
        made = [group_memory(empty, config, first, context)]
        if rows >= PAIR:
            made.append(group_memory(empty, config, rows // 2, context, " of the second group"))
        return made

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model knows."""
        return self._table.shape[0]

    def counters_later(self) -> LaterCounters:
        """Return the device's counters as they are now; on rtlfarm they are known later."""
        return self.device.counters_later()

    def set_next(self, token: int) -> None:
        """Choose the token that `record_next` reads."""
        self.next.copy_from(np.array([token], np.int32))

    # --- steps ----------------------------------------------------------------------------------------------

    def record_prompt(self, position: int, count: int) -> PromptStep:
        """Record the step of `count` tokens from `position` on; its input `ids` is int32 [count].

        Raises:
            ValueError: positions beyond the context, or more than `CHUNK` tokens.
        """
        with self.device.record() as program:
            ids = program.input("ids", (count,), np.int32)
            self._step(ids, position)
        return PromptStep(program, self._token)

    def record_next(self, position: int) -> TokenStep:
        """Return the step of the token that is in `next`, at `position`; ValueError beyond the context.

        Nothing is recorded if the last one's program serves.
        """
        check_step(position, 1, self.context)
        return TokenStep(self._token, position)

    def _token_step(self, keys: int) -> None:
        """Submit the step of the token in `next` at the position in `position`, which is below `keys`."""
        group = TokenGroup(self._memories[0], 0, 1, place=self.position, keys=keys)
        in_turn([self._pass(group, self.next, alone=True)])
        # Beside the last product.
        step, plus = {"position": self.position}, integer("add", "sp", ("int32",))
        compute(self.device, "next position", plus, step, self.position, params=[np.int32(1)], dtype=np.int32)
        self._find_logits(group, 1, self.logits[:1])
        self._find_next(self.logits[:1])

    def _step(self, ids: DeviceTensor, position: int) -> None:
        count = len(ids)
        check_step(position, count, self.context)
        counts = [count] if count < PAIR else [-(-count // 2), count // 2]
        groups, firsts = [], [0, counts[0]]
        for memory, first, own in zip(self._memories, firsts, counts, strict=False):
            groups.append(TokenGroup(memory, position + first, own))
        passes = [
            self._pass(group, ids[first : first + group.count], alone=len(groups) == 1)
            for group, first in zip(groups, firsts, strict=False)
        ]
        in_turn(passes)
        wanted = groups if self._every_logit else groups[-1:]
        row = 0
        for group in wanted:
            rows = group.count if self._every_logit else 1
            self._find_logits(group, rows, self.logits[row : row + rows])
            row += rows
        self._find_next(self.logits[row - 1 : row])

    def _find_next(self, logits: DeviceTensor) -> None:
        """Find the likeliest tokens, from logits [1, vocabulary]."""
        if self.candidates is None:
            self.device.argmax(logits, axis=-1, out=self.next)
            return
        tokens, values = self.candidates
        self.device.top_k(logits, tokens.size, out=(values, tokens))
        self.device.copy(tokens[0, :1], out=self.next)

    def _pass(self, group: TokenGroup, ids: DeviceTensor, *, alone: bool) -> Iterator[None]:
        """Bring tokens through all layers; it pauses where the other engine is next."""
        self._embed(group, ids)
        tables = self._rotation_of(group)
        for index, layer in enumerate(self._layers):
            stages = layer.stages(group, *tables, alone=alone)
            if index == 0 and group.place is not None:
                next(stages)  # the matrix engine works meanwhile
                for table, rows in zip((self._cosines, self._sines), tables, strict=True):
                    self.device.embedding(table, group.place, out=rows)
            yield from stages

    def _rotation_of(self, group: TokenGroup) -> tuple[DeviceTensor, DeviceTensor]:
        """Return cosines and sines for a group's tokens; with `place`, memory that they are brought to."""
        if group.place is not None:
            return self._rotation
        return self._cosines[group.places], self._sines[group.places]

    def _embed(self, group: TokenGroup, ids: DeviceTensor) -> None:
        self.device.embedding(self._table, ids, out=group.embedded)
        self.device.cast(group.embedded, np.float32, out=group.stream)

    def _find_logits(self, group: TokenGroup, rows: int, out: DeviceTensor) -> None:
        """Compute the logits of the last rows of a group."""
        normed = group.normed[:rows]
        self.device.rms_norm(group.stream[-rows:], self._final_norm, self.config.eps, out=normed)
        self._head.apply(normed, out)

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
