"""The commands of a layer, ordered so that matrix and vector engine work at the same time.

Commands start in order, and each engine takes the next one while the other still works. So what does not
depend on one another stands side by side: the function of the gate beside the product of the other half, the
softmax of one key head beside the scores of the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from echo_npu.device import Device
from echo_npu.formats import TILE_COLUMNS
from echo_npu.language.group import TokenGroup
from echo_npu.language.projection import HALF, Projection
from echo_npu.models.layer_types import LayerConfig
from echo_npu.tensor import DeviceTensor

HEAD_RUNS: Final = 4
"""Most runs of key heads that are computed one after the other: a run costs three commands."""

COLUMN_PIECES: Final = 4
"""Pieces of the feed-forward columns of a few tokens: a piece costs four commands."""


@dataclass(frozen=True, slots=True)
class NetworkLayer:
    """A layer on the device.

    Attributes:
        attention_norm, ffn_norm: float32 [hidden].
        query, key_value, output, gate, up, down: the projections; the keys come before the values.
        keys, values: the cache, float16 [context, kv_heads, head_dim].
    """

    device: Device
    config: LayerConfig
    attention_norm: DeviceTensor
    query: Projection
    key_value: Projection
    output: Projection
    ffn_norm: DeviceTensor
    gate: Projection
    up: Projection
    down: Projection
    keys: DeviceTensor
    values: DeviceTensor

    @property
    def projections(self) -> tuple[Projection, ...]:
        """All weights that every token is multiplied by."""
        return self.query, self.key_value, self.output, self.gate, self.up, self.down

    def stages(
        self, group: TokenGroup, cosines: DeviceTensor, sines: DeviceTensor, *, alone: bool
    ) -> Iterator[None]:
        """Submit the layer's commands for a group of tokens. It pauses after commands of the matrix engine,
        beside which there is time for the vector engine's commands for another group.

        Args:
            cosines, sines: of the rotation at the tokens' positions, [count, head_dim].
            alone: there is no other group.
        """
        yield from self.attention(group, cosines, sines, alone=alone)
        yield from self.add_product(group.mixed, group, self.output)
        yield from self.feed_forward(group, alone=alone)
        yield from self.add_product(group.swish, group, self.down)

    def attention(
        self, group: TokenGroup, cosines: DeviceTensor, sines: DeviceTensor, *, alone: bool
    ) -> Iterator[None]:
        """Submit the commands from the residual stream to the mixed values of all heads, as `stages` does."""
        self._normalise(group, self.attention_norm)
        self.key_value.apply(group.normed, group.key_value)
        self.query.apply(group.normed, group.heads)
        yield
        self._rotate(group, cosines, sines)
        yield from self._attend(group, alone=alone)

    def _normalise(self, group: TokenGroup, weight: DeviceTensor) -> None:
        self.device.rms_norm(group.stream, weight, self.config.eps, out=group.normed)

    def add_product(
        self, rows: DeviceTensor, group: TokenGroup, weights: Projection, columns: slice = slice(None)
    ) -> Iterator[None]:
        """Add a product to columns of the residual stream: a single row of it is the product's bias."""
        if group.count == 1:
            weights.apply(rows, group.other_stream[:, columns], bias=group.stream[0][columns])
            group.turn()
            yield
        else:
            weights.apply(rows, group.delta[:, columns])
            yield
            stream = group.stream[:, columns]
            self.device.add(stream, group.delta[:, columns], out=stream)

    def _rotate(self, group: TokenGroup, cosines: DeviceTensor, sines: DeviceTensor) -> None:
        """Bring keys and values of the tokens into the cache, and rotate the queries."""
        npu, config, tables = self.device, self.config, (cosines, sines)
        heads = (group.count, -1, config.head_dim)
        made = group.key_value.reshape(group.count, 2, config.kv_heads, config.head_dim)
        if group.place is None:
            places = group.places
            npu.rope(made[:, 0], *tables, interleaved=True, out=self.keys[places])
            npu.cast(made[:, 1], HALF, out=self.values[places])
        else:
            npu.rope(made[:, 0], *tables, interleaved=True, out=self.keys, at=group.place)
            rows = (-1, config.kv_width)
            npu.scatter_rows(self.values.reshape(*rows), group.place, made[:, 1].reshape(*rows))
        npu.rope(group.heads.reshape(*heads), *tables, interleaved=True, out=group.query)

    def _attend(self, group: TokenGroup, *, alone: bool) -> Iterator[None]:
        """Compute the attention of the group to all keys up to its own."""
        runs = _runs(self.config.kv_heads, HEAD_RUNS)
        if not alone:
            for run in runs:
                self._score(group, run)
            yield
        for index, run in enumerate(runs):
            if alone:
                for each in runs[:2] if index == 0 else runs[index + 1 : index + 2]:
                    self._score(group, each)
            self._soften(group, run)
            if index:
                self._mix(group, runs[index - 1])
        self._mix(group, runs[-1])

    def _score(self, group: TokenGroup, run: slice) -> None:
        query, scores = group.by_key_head(group.query)[run], group.scores[run]
        keys = self.keys[: group.keys, run].transpose(1, 0, 2)
        self.device.matmul(
            group.as_rows(query), group.for_rows(keys), trans_b=True, out=group.as_rows(scores)
        )

    def _soften(self, group: TokenGroup, run: slice) -> None:
        scale = 1.0 / float(np.sqrt(self.config.head_dim))
        hidden: dict[str, Any] = {"causal": group.count > 1} if group.place is None else {"last": group.place}
        self.device.softmax(group.scores[run], scale=scale, out=group.shares[run], **hidden)

    def _mix(self, group: TokenGroup, run: slice) -> None:
        mixed = group.by_key_head(group.mixed)[run]
        values = self.values[: group.keys, run].transpose(1, 0, 2)
        self.device.matmul(group.as_rows(group.shares[run]), group.for_rows(values), out=group.as_rows(mixed))

    def feed_forward(self, group: TokenGroup, *, alone: bool) -> Iterator[None]:
        """Submit the commands from the residual stream to `silu(gate) * up`, as `stages` does.

        A few tokens alone take the columns piece by piece: the function of a piece has the products of others
        beside it.
        """
        self._normalise(group, self.ffn_norm)
        npu, width = self.device, self.gate.outputs
        pieces = _runs(width, COLUMN_PIECES if alone and group.count > 1 else 1, TILE_COLUMNS)
        products = [
            (weights.columns(piece.start, piece.stop), made(piece))
            for weights, made in ((self.gate, group.gate), (self.up, group.up))
            for piece in pieces
        ]

        def multiply(count: int) -> None:
            for weights, out in products[:count]:
                weights.apply(group.normed, out)
            del products[:count]

        if alone:
            multiply(3)  # two are under way, and the next begins with the first one's function
        else:
            multiply(1)
            yield
        for piece in pieces:
            npu.silu(group.gate(piece), out=group.swish[:, piece])
            multiply(1)
        multiply(len(products))
        yield
        for piece in pieces:
            npu.mul(group.swish[:, piece], group.up(piece), out=group.swish[:, piece])


def _runs(count: int, most: int, unit: int = 1) -> list[slice]:
    """Divide a range into at most so many runs of whole units, nearly equal ones."""
    units = -(-count // unit)
    runs = min(units, most)
    ends = [min(unit * (units * each // runs), count) for each in range(runs + 1)]
    return [slice(*each) for each in itertools.pairwise(ends)]
