"""A linear layer with weights in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from echo_npu.formats import PackedMatrix
from echo_npu.ops.matmul import Activation
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.operands import FLOAT32, kind, upload
from echo_npu.ops.packed import PackedTensor
from echo_npu.tensor import DeviceTensor


class BlockLinear:
    """`activation(x @ weight.T + bias)` with weights in ggml's blocks, as one product.

    Weights and bias are uploaded once; the weights stay in their blocks.

    Args:
        device: holds the weights and computes.
        weight: [N, K]: packed weights, or what `echo_npu.formats.pack` takes.
        name: the block format; None where the weights are in one.
        bias: float32 [N], or None.

    Attributes: device, weight (PackedTensor), bias (float32 [N] DeviceTensor or None).

    Raises:
        TypeError: a bias of another dtype, or as `echo_npu.formats.pack`.
        ValueError: shapes that do not fit one another, or as `echo_npu.formats.pack`.
    """

    def __init__(
        self,
        device: OpMethods,
        weight: PackedTensor | PackedMatrix | Any,
        name: str | None = None,
        bias: Any = None,
    ) -> None:
        if bias is not None and (not isinstance(bias, (np.ndarray, DeviceTensor)) or bias.dtype != FLOAT32):
            raise TypeError(f"BlockLinear takes a float32 bias, got {kind(bias)}")
        if not isinstance(weight, PackedTensor):
            weight = PackedTensor.upload(device, weight, name)
        if bias is not None and bias.shape != weight.shape[:1]:
            raise ValueError(f"BlockLinear: bias has shape {bias.shape}, weight has shape {weight.shape}")
        self.device = device
        self.weight: PackedTensor = weight
        self.bias = None if bias is None else upload(device, bias, "weight")

    def __call__(
        self, x: Any, *, activation: Activation | None = None, out: DeviceTensor | None = None
    ) -> Any:
        """Apply the layer.

        Args:
            x: float32 or float16 [..., K], or [K].
            activation, out: as in `Device.matmul`.

        Returns: float32 [..., N]; a DeviceTensor if `x` or `out` is one.

        Raises: as `Device.matmul`.
        """
        result = self.device.matmul(x, self.weight, bias=self.bias, activation=activation, out=out)
        # The bias is on the device, which says nothing of where the caller's arrays are.
        on_device = isinstance(x, DeviceTensor) or out is not None
        return result if on_device or isinstance(result, np.ndarray) else result.to_numpy()
