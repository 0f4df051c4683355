"""Bring a model's weights, or one device's share of them, to a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.device import Device
from echo_npu.formats import PackedMatrix
from echo_npu.language.layer import NetworkLayer
from echo_npu.language.projection import BlockProjection, HalfProjection, Projection, joined, place
from echo_npu.language.share import WHOLE, Share
from echo_npu.models.layer_types import LayerConfig
from echo_npu.models.truth import F32
from echo_npu.ops.packed import PackedTensor
from echo_npu.tensor import DeviceTensor


class WeightSource(Protocol):
    """Where weights come from; `GgufModel` describes the methods."""

    @property
    def config(self) -> LayerConfig: ...

    def layer_tensor(self, index: int, weight: str) -> str: ...

    def layer_vectors(self, index: int) -> dict[str, F32]: ...

    def packed(self, name: str) -> PackedMatrix | None: ...

    def half(self, name: str) -> NDArray[np.float16]: ...


class WeightLoader:
    """Brings weights to a device, and allocates tensors.

    Args:
        device: takes them.
        formats: names of the block formats that stay as they are; other weights are rounded to float16.
        share: which rows of the layers' matrices it takes.

    Attributes: tensors (everything that it has made, by name).
    """

    def __init__(self, device: Device, formats: Sequence[str], share: Share = WHOLE) -> None:
        self._device = device
        self._formats = tuple(formats)
        self._share = share
        self.tensors: dict[str, DeviceTensor] = {}

    def place(self, name: str, values: NDArray[Any]) -> DeviceTensor:
        """Bring values to the device."""
        self.tensors[name] = place(self._device, values)
        return self.tensors[name]

    def empty(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> DeviceTensor:
        """Allocate a tensor of zeros: what a step leaves unwritten is then the same on every device."""
        made = self._device.empty(shape, dtype)
        self._device.memset(made.ptr, 0, made.nbytes)
        self.tensors[name] = made
        return made

    def layer(
        self, source: WeightSource, index: int, keys: DeviceTensor, values: DeviceTensor
    ) -> NetworkLayer:
        """Bring a layer, whose cache is `keys` and `values`, float16 [context, kv_heads, head_dim] each."""
        vectors = source.layer_vectors(index)

        def projection(name: str, *weights: str) -> Projection:
            names = [source.layer_tensor(index, weight) for weight in weights]
            rows = [self._share.rows(source.config, weight) for weight in weights]
            return self.projection(f"layer {index}: {name}", source, names, rows)

        return NetworkLayer(
            self._device,
            self._share.config(source.config),
            attention_norm=self.place(f"layer {index}: attention norm", vectors["attn_norm"]),
            query=projection("q", "wq"),
            key_value=projection("k, v", "wk", "wv"),
            output=projection("output", "wo"),
            ffn_norm=self.place(f"layer {index}: ffn norm", vectors["ffn_norm"]),
            gate=projection("gate", "w_gate"),
            up=projection("up", "w_up"),
            down=projection("down", "w_down"),
            keys=keys,
            values=values,
        )

    def projection(
        self,
        name: str,
        source: WeightSource,
        tensors: Sequence[str],
        rows: Sequence[slice],
        placed: DeviceTensor | None = None,
    ) -> Projection:
        """Bring rows of weights, [out, in] each; their outputs will lie side by side.

        Args:
            placed: the same weights, all rows in float16, if they are on the device already.
        """
        packed = [source.packed(each) for each in tensors]
        kept = [
            each.part(own.start, own.stop)
            for each, own in zip(packed, rows, strict=True)
            if each is not None and each.format.name in self._formats
        ]
        if len(kept) < len(packed):
            if placed is not None:
                return HalfProjection(self._device, placed[rows[0]])
            whole = [source.half(each)[own] for each, own in zip(tensors, rows, strict=True)]
            return HalfProjection(self._device, self.place(name, np.concatenate(whole)))
        parts = joined(kept)
        names = [name] if len(parts) == 1 else [f"{name}, part {number}" for number in range(len(parts))]
        return BlockProjection(
            self._device,
            [
                PackedTensor(self.place(each, part.data), part.format, part.shape)
                for each, part in zip(names, parts, strict=True)
            ],
        )
