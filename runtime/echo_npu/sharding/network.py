"""A language model whose layers and head are divided among devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import LaterCounters
from echo_npu.device import Device
from echo_npu.driver.status import KnownCounters
from echo_npu.language.group import GroupMemory, group_memory
from echo_npu.language.network import Network, check_step
from echo_npu.language.runnable_step import RunnableStep
from echo_npu.language.share import Share, check_shares
from echo_npu.models.gguf_model import GgufModel
from echo_npu.sharding.devices import DeviceGroup, Gather, Spent
from echo_npu.sharding.layer import ShardGroup, shard_stages
from echo_npu.tensor import DeviceTensor


class NetworkShard(Network):
    """One device's share of a model. Embedding and norms are whole on every device.

    Args: as `Network`, and the number of its device among all.
    """

    def __init__(self, device: Device, source: GgufModel, share: Share, **options: Any) -> None:
        self._share = share
        self._whole = source.config
        super().__init__(device, source, share=share, **options)
        self.ids = self._loader.empty("tokens", (self._memories[0].rows,), np.int32)

    def _group_memories(self, rows: int) -> list[GroupMemory]:
        return [group_memory(self._loader.empty, self.config, rows, self.context, whole=self._whole)]

    def shard_step(self, position: int, count: int | None) -> Iterator[Gather]:
        """Submit the device's commands of a step, and say what is gathered in between.

        Args:
            count: of the tokens in `ids`; None: the token in `next`.
        """
        ids = self.next if count is None else self.ids[:count]
        group = ShardGroup(self._memories[0], position, len(ids), self._share, self._whole)
        self._embed(group, ids)
        for layer in self._layers:
            yield from shard_stages(layer, group, *self._rotation_of(group), self._share, self._whole)
        rows = len(self.logits) if self._every_logit else 1
        rows = min(rows, len(ids))
        found, first = self.logits[:rows], self._share.index == 0
        self._find_logits(group, rows, found[:, self._own_tokens])
        yield Gather(found, self._own_tokens, receives=first)
        if first:
            self._find_next(found[rows - 1 :])
        yield Gather(self.next.reshape(1, 1), slice(0, int(first)), receives=not first)


class ShardedNetwork:
    """The first layers of a model on the devices of a group; text is generated with it as with `Network`.

    Args:
        group: the devices. Their number divides the model's hidden and feed-forward width, and is at most
            the number of its key heads.
        on_layer: called before each layer's weights are brought to the devices, with its number.
        Others as `Network`.

    Attributes: as `Network`; `next`, `logits` and `candidates` are the first device's.

    Raises: as `Network`, and ValueError for a model that cannot be divided so, naming the field.
    """

    def __init__(
        self,
        group: DeviceGroup,
        source: GgufModel,
        *,
        on_layer: Callable[[int], None] = lambda index: None,
        **options: Any,
    ) -> None:
        check_shares(source.config, len(group))
        self._group = group

        def load(index: int) -> NetworkShard:
            said = {"on_layer": on_layer} if index == 0 else {}
            return NetworkShard(group.devices[index], source, Share(index, len(group)), **said, **options)

        # One after the other: they read the same file.
        self._shards = [load(index) for index in range(len(group))]
        first = self._shards[0]
        self.context, self.layers = first.context, first.layers
        self.next: DeviceTensor = first.next
        self.logits: DeviceTensor = first.logits
        self.candidates = first.candidates

    @property
    def vocabulary(self) -> int:
        """Number of tokens that the model knows."""
        return self._shards[0].vocabulary

    @property
    def tensors(self) -> dict[str, DeviceTensor]:
        """All tensors of all devices; a name begins with the device's number."""
        return {
            f"device {index}: {name}": tensor
            for index, shard in enumerate(self._shards)
            for name, tensor in shard.tensors.items()
        }

    def counters_later(self) -> LaterCounters:
        """Return the busy cycles of the steps so far, in each phase those of its slowest device."""
        return KnownCounters({"busy_cycles": self._group.spent().critical})

    @property
    def spent(self) -> Spent:
        """What the devices have spent on all steps so far."""
        return self._group.spent()

    def set_next(self, token: int) -> None:
        """Choose the token that `record_next` reads."""
        for shard in self._shards:
            shard.set_next(token)

    def record_prompt(self, position: int, count: int) -> ShardedStep:
        """Return the step of `count` tokens from `position` on; as `Network.record_prompt`."""
        check_step(position, count, self.context)
        return ShardedStep(self._group, self._shards, position, count)

    def record_next(self, position: int) -> ShardedStep:
        """Return the step of the token that is in `next`, at `position`; ValueError beyond the context."""
        check_step(position, 1, self.context)
        return ShardedStep(self._group, self._shards, position, None)

    def bound(self, position: int, count: int) -> int:
        """Return the least cycles of a step: those of the device that has the most to do."""
        return max(shard.bound(position, count) for shard in self._shards)


class ShardedStep(RunnableStep):
    """A step of a model on several devices, which records its phases as it runs."""

    def __init__(
        self, group: DeviceGroup, shards: list[NetworkShard], position: int, count: int | None
    ) -> None:
        self._group = group
        self._shards = shards
        self._position = position
        self._count = count

    def run(self, **inputs: NDArray[np.int32]) -> None:
        """Run the step on all devices.

        Args:
            inputs: `ids`, int32 [count], for a step of a prompt.

        Raises:
            TypeError: other inputs.  ValueError: another number of tokens.  NpuError: a device failed.
        """
        if set(inputs) != (set() if self._count is None else {"ids"}):
            raise TypeError(f"the step has {'no input' if self._count is None else 'the input ids'}")
        for shard in self._shards if self._count is not None else ():
            shard.ids[: self._count].copy_from(inputs["ids"])
        self._group.run([shard.shard_step(self._position, self._count) for shard in self._shards])
