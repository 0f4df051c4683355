"""A llama layer whose heads and columns are divided among devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.formats import PackedMatrix, pack
from echo_npu.language.group import GroupMemory, TokenGroup, group_memory
from echo_npu.language.layer import NetworkLayer
from echo_npu.language.loading import WeightLoader
from echo_npu.language.projection import HALF
from echo_npu.language.share import WHOLE, Share, check_shares
from echo_npu.models.layer_types import LayerConfig, LayerWeights
from echo_npu.models.truth import F32
from echo_npu.ops.rope import rope_tables
from echo_npu.sharding.devices import DeviceGroup, Gather
from echo_npu.tensor import DeviceTensor

BLOCK_FORMATS: Final = ("q8_0", "q4_0", "q4_1")


class ShardGroup(TokenGroup):
    """Tokens on one of several devices, which writes its own columns of what is gathered.

    Attributes:
        whole_mixed: [count, q_width] of all devices; `mixed` is a view of its own columns.
        whole_swish: [count, ffn], and so is `swish`.
        Others as `TokenGroup`.
    """

    def __init__(
        self, memory: GroupMemory, position: int, count: int, share: Share, whole: LayerConfig
    ) -> None:
        super().__init__(memory, position, count)
        self.whole_mixed, self.whole_swish = self.mixed, self.swish
        self.mixed = self.whole_mixed[:, share.query(whole)]
        self.swish = self.whole_swish[:, share.ffn(whole)]


def shard_stages(
    layer: NetworkLayer,
    group: ShardGroup,
    cosines: DeviceTensor,
    sines: DeviceTensor,
    share: Share,
    whole: LayerConfig,
) -> Iterator[Gather]:
    """Submit one device's commands of a layer, and say what is gathered in between.

    Args:
        layer: the device's share of the layer.
        cosines, sines: as for `NetworkLayer.stages`.
        whole: the layer of all devices.
    """
    columns = share.hidden(whole)
    _submit(layer.attention(group, cosines, sines, alone=True))
    yield Gather(group.whole_mixed, share.query(whole))
    _submit(layer.add_product(group.whole_mixed, group, layer.output, columns))
    yield Gather(group.stream, columns)
    _submit(layer.feed_forward(group, alone=True))
    yield Gather(group.whole_swish, share.ffn(whole))
    _submit(layer.add_product(group.whole_swish, group, layer.down, columns))
    yield Gather(group.stream, columns)


def _submit(stages: Iterator[None]) -> None:
    """Let a generator submit everything; its pauses are for a second group of tokens."""
    for _ in stages:
        pass


class _LayerSource:
    """The weights of one layer, in a block format or in float16."""

    def __init__(self, config: LayerConfig, weights: LayerWeights, block_format: str | None) -> None:
        self.config = config
        self._weights = weights
        self._format = block_format

    def layer_tensor(self, index: int, weight: str) -> str:
        return weight

    def layer_vectors(self, index: int) -> dict[str, F32]:
        return {"attn_norm": self._weights.attn_norm, "ffn_norm": self._weights.ffn_norm}

    def packed(self, name: str) -> PackedMatrix | None:
        return None if self._format is None else pack(self.tensor(name), self._format)

    def half(self, name: str) -> NDArray[np.float16]:
        return self.tensor(name).astype(np.float16)

    def tensor(self, name: str) -> F32:
        values: F32 = getattr(self._weights, name)
        return values


class _LayerShard:
    """One device's share of a layer, with its cache."""

    def __init__(
        self, device: Device, source: _LayerSource, share: Share, context: int, formats: Sequence[str]
    ) -> None:
        self.whole = source.config
        config = share.config(self.whole)
        loader = WeightLoader(device, formats, share)
        cached = (context, config.kv_heads, config.head_dim)
        keys, values = loader.empty("keys", cached, HALF), loader.empty("values", cached, HALF)
        self.layer = loader.layer(source, 0, keys, values)
        tables = rope_tables(context, config.head_dim, config.rope_base, interleaved=True)
        self.cosines, self.sines = (
            loader.place(name, table) for name, table in zip(("cosines", "sines"), tables, strict=True)
        )
        self._memory = group_memory(loader.empty, config, context, context, whole=self.whole)
        self._share = share
        self.tensors = loader.tensors

    def start(self, hidden: F32, position: int) -> ShardGroup:
        """Bring tokens to the device."""
        group = ShardGroup(self._memory, position, len(hidden), self._share, self.whole)
        group.stream.copy_from(hidden)
        return group

    def stages(self, group: ShardGroup) -> Iterator[Gather]:
        return shard_stages(self.layer, group, *self.rotation(group), self._share, self.whole)

    def rotation(self, group: ShardGroup) -> tuple[DeviceTensor, DeviceTensor]:
        """Return cosines and sines at the tokens' positions."""
        return self.cosines[group.places], self.sines[group.places]


class ShardedLayer:
    """A llama layer with its key and value cache, divided among the devices of a group.

    Args:
        group: the devices; each holds its share until it is closed.
        config: the layer. The number of devices divides `hidden` and `ffn`, and is at most `kv_heads`.
        weights: of the layer.
        context: positions of the cache.
        block_format: "q8_0", "q4_0" or "q4_1", in which the matrices are held; None: float16.

    Attributes: config, context.

    Raises:
        ValueError: a layer that cannot be divided so, naming the field; an unknown format.
        TypeError, ValueError: weights that are not the layer's.
        NpuOutOfMemoryError: a device has no room for its share.
    """

    def __init__(
        self,
        group: DeviceGroup,
        config: LayerConfig,
        weights: LayerWeights,
        *,
        context: int,
        block_format: str | None = None,
    ) -> None:
        check_shares(config, len(group))
        source = _checked_source(config, weights, context, block_format)
        self.config = config
        self.context = context
        self._group = group
        formats = () if block_format is None else (block_format,)
        self._shards = group.each(
            lambda index: _LayerShard(
                group.devices[index], source, Share(index, len(group)), context, formats
            )
        )

    def __call__(self, hidden: F32, position: int = 0) -> F32:
        """Bring tokens through the layer; their keys and values stay in the cache.

        Args:
            hidden: float32 [tokens, hidden], the residual stream.
            position: of the first token; those before it are in the cache.

        Returns: the residual stream behind the layer, which every device has.

        Raises:
            ValueError: another shape, or positions beyond the context.  TypeError: another dtype.
        """
        check_tokens(hidden, position, self.config, self.context)
        groups = [shard.start(hidden, position) for shard in self._shards]
        self._group.run([shard.stages(group) for shard, group in zip(self._shards, groups, strict=True)])
        result: F32 = groups[0].stream.to_numpy()
        return result

    @property
    def tensors(self) -> list[dict[str, DeviceTensor]]:
        """All tensors of each device, by name."""
        return [shard.tensors for shard in self._shards]


class SingleLayer:
    """The same layer on one device, in the commands of one program, as a language model runs it.

    Args, raises and call: as `ShardedLayer`, with a device in place of the group.
    """

    def __init__(
        self,
        device: Device,
        config: LayerConfig,
        weights: LayerWeights,
        *,
        context: int,
        block_format: str | None = None,
    ) -> None:
        source = _checked_source(config, weights, context, block_format)
        formats = () if block_format is None else (block_format,)
        self.config = config
        self.context = context
        self._device = device
        self._shard = _LayerShard(device, source, WHOLE, context, formats)

    def __call__(self, hidden: F32, position: int = 0) -> F32:
        check_tokens(hidden, position, self.config, self.context)
        shard = self._shard
        group = shard.start(hidden, position)
        with self._device.record() as program:
            _submit(shard.layer.stages(group, *shard.rotation(group), alone=True))
        with program:
            program.run()
        result: F32 = group.stream.to_numpy()
        return result

    @property
    def tensors(self) -> dict[str, DeviceTensor]:
        """All tensors, by name."""
        return self._shard.tensors


def check_tokens(hidden: NDArray[np.float32], position: int, config: LayerConfig, context: int) -> None:
    """Raise ValueError or TypeError unless a layer takes such tokens."""
    if not isinstance(hidden, np.ndarray) or hidden.dtype != np.float32:
        found = hidden.dtype if isinstance(hidden, np.ndarray) else type(hidden).__name__
        raise TypeError(f"the tokens are {found}; they must be a float32 array")
    if hidden.ndim != 2 or not len(hidden) or hidden.shape[1] != config.hidden:
        raise ValueError(f"the tokens have shape {hidden.shape}; the layer takes [tokens, {config.hidden}]")
    if position < 0 or position + len(hidden) > context:
        raise ValueError(
            f"{len(hidden)} tokens from position {position}: the context has {context} positions"
        )


def _checked_source(
    config: LayerConfig, weights: LayerWeights, context: int, block_format: str | None
) -> _LayerSource:
    weights.check(config)
    if context < 1:
        raise ValueError(f"context is {context}; it is at least 1")
    if block_format not in (None, *BLOCK_FORMATS):
        raise ValueError(f"there is no block format {block_format!r}; there are {', '.join(BLOCK_FORMATS)}")
    return _LayerSource(config, weights, block_format)
