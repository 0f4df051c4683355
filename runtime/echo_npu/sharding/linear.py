"""A linear layer whose columns are divided among devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.formats import PackedMatrix, pack
from echo_npu.language.share import even_runs
from echo_npu.ops.operands import FLOAT16, FLOAT32
from echo_npu.ops.packed import PackedTensor
from echo_npu.sharding.devices import DeviceGroup, Gather
from echo_npu.tensor import DeviceTensor


class ShardedLinear:
    """`x @ weight.T + bias`, with the rows of `weight` divided equally among the devices of a group.

    Args:
        group: the devices; each holds its rows until it is closed.
        weight: [N, K], float32 or float16, or packed blocks.
        name: a block format, in which float32 weights are to be held.
        bias: float32 [N], or None.

    Attributes: columns (each device's, as slices).

    Raises:
        TypeError: weights or a bias of another dtype.
        ValueError: N that the number of devices does not divide, or a bias of another shape.
    """

    def __init__(
        self,
        group: DeviceGroup,
        weight: NDArray[Any] | PackedMatrix,
        *,
        name: str | None = None,
        bias: NDArray[np.float32] | None = None,
    ) -> None:
        if isinstance(weight, np.ndarray) and name is not None:
            weight = pack(weight, name)
        if not isinstance(weight, (np.ndarray, PackedMatrix)) or (
            isinstance(weight, np.ndarray) and weight.dtype not in (FLOAT32, FLOAT16)
        ):
            raise TypeError(
                f"ShardedLinear: weight is {_kind(weight)}; it is float32, float16 or packed blocks"
            )
        if weight.ndim != 2:
            raise ValueError(f"ShardedLinear: weight has shape {weight.shape}; it is [N, K]")
        outputs = weight.shape[0]
        if outputs % len(group):
            raise ValueError(
                f"ShardedLinear: weight has {outputs} rows, which {len(group)} devices cannot divide equally"
            )
        if bias is not None and (not isinstance(bias, np.ndarray) or bias.dtype != FLOAT32):
            raise TypeError(f"ShardedLinear: bias is {_kind(bias)}; it is float32")
        if bias is not None and bias.shape != (outputs,):
            raise ValueError(f"ShardedLinear: bias has shape {bias.shape}, weight has shape {weight.shape}")
        self._group = group
        self._shape = weight.shape
        self._dtype = FLOAT32 if isinstance(weight, PackedMatrix) else weight.dtype
        self.columns = even_runs(outputs, len(group))
        self._weights: list[DeviceTensor | PackedTensor] = []
        self._biases: list[DeviceTensor | None] = []
        for device, own in zip(group.devices, self.columns, strict=True):
            self._weights.append(_placed(device, weight, own))
            self._biases.append(None if bias is None else device.tensor(bias[own], region="weight"))

    def __call__(self, x: NDArray[Any]) -> NDArray[np.float32]:
        """Apply the layer, and gather the result on every device.

        Args:
            x: [..., K], of the weights' dtype; float32 for weights in blocks.

        Returns: float32 [..., N].

        Raises:
            TypeError: another dtype.  ValueError: another K, or no rows.
        """
        if not isinstance(x, np.ndarray) or x.dtype != self._dtype:
            raise TypeError(f"ShardedLinear: x is {_kind(x)}; these weights multiply {self._dtype}")
        if not x.ndim or x.shape[-1] != self._shape[1] or not x.size:
            raise ValueError(f"ShardedLinear: x has shape {x.shape}, weight has shape {self._shape}")
        rows = x.reshape(-1, self._shape[1])
        inputs = [device.tensor(rows) for device in self._group.devices]
        outputs = [device.empty((len(rows), self._shape[0])) for device in self._group.devices]
        self._group.run(
            [self._pass(index, *ends) for index, ends in enumerate(zip(inputs, outputs, strict=True))]
        )
        result: NDArray[np.float32] = outputs[0].to_numpy()
        return result.reshape(*x.shape[:-1], -1)

    def _pass(self, index: int, rows: DeviceTensor, out: DeviceTensor) -> Iterator[Gather]:
        own = self.columns[index]
        self._group.devices[index].matmul(
            rows,
            self._weights[index],
            trans_b=isinstance(self._weights[index], DeviceTensor),
            bias=self._biases[index],
            out=out[:, own],
        )
        yield Gather(out, own)


def _kind(value: object) -> str:
    """Return what a value is, for a message: an array's dtype, or a type."""
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__


def _placed(device: Device, weight: NDArray[Any] | PackedMatrix, own: slice) -> DeviceTensor | PackedTensor:
    if isinstance(weight, PackedMatrix):
        return PackedTensor.upload(device, weight.part(own.start, own.stop))
    return device.tensor(weight[own], region="weight")
