"""Tokens that go through the layers together, and the memory of their intermediate results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.language.projection import HALF
from echo_npu.models.layer_types import LayerConfig
from echo_npu.tensor import DeviceTensor

Allocate = Callable[[str, tuple[int, ...], DTypeLike], DeviceTensor]
"""Makes a tensor of a name, a shape and a dtype."""

PLACES: Final = 32
"""Keys to which a row of scores is rounded up, so that rows begin at whole beats of the bus."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Intermediate tensors for up to `rows` tokens; all are float32 but `embedded`, `query` and `shares`,
    which are float16."""

    config: LayerConfig
    rows: int
    streams: tuple[DeviceTensor, DeviceTensor]
    normed: DeviceTensor
    embedded: DeviceTensor
    heads: DeviceTensor
    key_value: DeviceTensor
    query: DeviceTensor
    scores: DeviceTensor
    shares: DeviceTensor
    mixed: DeviceTensor
    delta: DeviceTensor
    gate: DeviceTensor
    up: DeviceTensor
    swish: DeviceTensor


def group_memory(
    empty: Allocate,
    config: LayerConfig,
    rows: int,
    context: int,
    suffix: str = "",
    *,
    whole: LayerConfig | None = None,
) -> GroupMemory:
    """Allocate the tensors for up to `rows` tokens of a context of so many positions.

    Args:
        whole: the layer of which `config` is one device's share; what is gathered has its widths.
    """
    gathered = config if whole is None else whole

    def single(name: str, *shape: int) -> DeviceTensor:
        return empty(name + suffix, (rows, *shape), np.float32)

    scores = (config.kv_heads, config.group, rows, -(-context // PLACES) * PLACES)
    return GroupMemory(
        config=config,
        rows=rows,
        streams=(single("stream", config.hidden), single("other stream", config.hidden)),
        normed=single("normed", config.hidden),
        embedded=empty(f"embedded rows{suffix}", (rows, config.hidden), HALF),
        heads=single("heads", config.q_width),
        key_value=single("keys and values", 2 * config.kv_width),
        query=empty(f"query{suffix}", (rows, config.heads, config.head_dim), HALF),
        scores=empty(f"scores{suffix}", scores, np.float32),
        shares=empty(f"probabilities{suffix}", scores, HALF),
        mixed=single("mixed values", gathered.q_width),
        delta=single("delta", config.hidden),
        gate=single("gate", config.ffn),
        up=single("up", config.ffn),
        swish=single("swish", gathered.ffn),
    )


class TokenGroup:
    """Tokens at consecutive positions in the memory of a group.

    Args:
        memory: of at least so many rows.
        position: of the first token; the least one that it can have, with `place`.
        count: of tokens.
        place: int32 [1] on the device: the position of the only token.
        keys: keys that the tokens may attend to; None: those up to the last token.

    Attributes:
        count, place, keys.
        places: the positions, as a slice; not with `place`.
        stream, other_stream: the residual stream, [count, hidden]; the other one is free.
        normed: [count, hidden].  heads: [count, q_width].  key_value: [count, 2 * kv_width].
        query: float16 [count, heads, head_dim].
        scores, shares: [kv_heads, group, count, keys]; shares is float16.
        mixed: [count, q_width].  delta: [count, hidden].  swish: [count, ffn].
    """

    def __init__(
        self,
        memory: GroupMemory,
        position: int,
        count: int,
        *,
        place: DeviceTensor | None = None,
        keys: int | None = None,
    ) -> None:
        self._memory = memory
        self.count = count
        self.place = place
        self.places = slice(position, position + count)
        self.keys = position + count if keys is None else keys
        self.stream, self.other_stream = (each[:count] for each in memory.streams)
        self.normed = memory.normed[:count]
        self.heads, self.key_value = memory.heads[:count], memory.key_value[:count]
        self.query = memory.query[:count]
        self.scores = memory.scores[:, :, :count, : self.keys]
        self.shares = memory.shares[:, :, :count, : self.keys]
        self.mixed, self.delta = memory.mixed[:count], memory.delta[:count]
        self.embedded = memory.embedded[:count]
        self.swish = memory.swish[:count]

    def gate(self, piece: slice) -> DeviceTensor:
        """Return columns of the gate, [count, columns], which lie apart from all others."""
        return self._piece(self._memory.gate, piece)

    def up(self, piece: slice) -> DeviceTensor:
        """Return columns of what the gate is multiplied by, as `gate` does."""
        return self._piece(self._memory.up, piece)

    def _piece(self, whole: DeviceTensor, piece: slice) -> DeviceTensor:
        flat = whole.reshape(-1)[self.count * piece.start : self.count * piece.stop]
        return flat.reshape(self.count, -1)

    def turn(self) -> None:
        """Make the other stream the residual stream."""
        self.stream, self.other_stream = self.other_stream, self.stream

    def by_key_head(self, heads: DeviceTensor) -> DeviceTensor:
        """Return heads, [count, heads * head_dim] or [count, heads, head_dim], as [kv_heads, group, count,
        head_dim]."""
        config = self._memory.config
        return heads.reshape(self.count, config.kv_heads, -1, config.head_dim).transpose(1, 2, 0, 3)

    def as_rows(self, heads: DeviceTensor) -> DeviceTensor:
        """Return [kv_heads, group, count, ...] with the heads of a group as rows where there is one token."""
        return heads[:, :, 0] if self.count == 1 else heads

    def for_rows(self, cached: DeviceTensor) -> DeviceTensor:
        """Return keys or values, [kv_heads, keys, head_dim], as what `as_rows` of heads is multiplied by."""
        return cached if self.count == 1 else cached[:, None]
