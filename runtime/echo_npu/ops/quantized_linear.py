"""A linear layer with int8 weights; the device quantises its activations."""

from __future__ import annotations

from typing import Any

import numpy as np

from echo_npu.ops.matmul import Activation
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.operands import FLOAT32, kind, require_float32, upload
from echo_npu.tensor import DeviceTensor


class QuantizedLinear:
    """`activation(x @ (scales * weight).T + bias)`, with x quantised to int8 row by row (docs/numerics.md).

    Weights, scales and bias are uploaded once. A call is `device.quantize` and one `device.matmul`, with the
    rows' scales, the weights' scales and the bias.

    Args:
        device: holds the weights and computes.
        weight: int8 [N, K].
        scales: float32 [N], one for each output.
        bias: float32 [N], or None.

    Attributes: device, weight (int8 [N, K]), scales and bias (float32 [N]), as DeviceTensors.

    Raises:
        TypeError: other dtypes, or no arrays.  ValueError: shapes that do not fit one another.
    """

    def __init__(self, device: OpMethods, weight: Any, scales: Any, bias: Any = None) -> None:
        named = f"weight is {kind(weight)}, scales is {kind(scales)}, bias is {kind(bias)}"
        vectors = [scales] if bias is None else [scales, bias]
        arrays = all(isinstance(each, (np.ndarray, DeviceTensor)) for each in (weight, *vectors))
        if not arrays or weight.dtype != np.int8 or any(each.dtype != FLOAT32 for each in vectors):
            raise TypeError(f"QuantizedLinear takes int8 weights and float32 scales and biases: {named}")
        shapes = f"weight has shape {weight.shape}, scales has shape {scales.shape}"
        shapes += "" if bias is None else f", bias has shape {bias.shape}"
        if weight.ndim != 2 or 0 in weight.shape or any(each.shape != weight.shape[:1] for each in vectors):
            raise ValueError(
                f"QuantizedLinear takes weights [N, K] and a scale and bias for each N: {shapes}"
            )
        self.device = device
        self.weight = upload(device, weight, "weight").contiguous()
        columns = device.empty((len(vectors), weight.shape[0]), region="weight")
        for row, vector in enumerate(vectors):
            device.copy(upload(device, vector, "weight"), out=columns[row])
        self.scales = columns[0]
        self.bias = columns[1] if bias is not None else None

    @classmethod
    def from_float(cls, device: OpMethods, weight: Any, bias: Any = None) -> QuantizedLinear:
        """Quantise weights, float32 [N, K], on the device, with a scale for each output.

        Raises: as `Device.quantize` and the class.
        """
        require_float32("QuantizedLinear", weight=weight)
        quantized, scales = device.quantize(upload(device, weight, "weight"))
        return cls(device, quantized, scales, bias)

    def __call__(
        self, x: Any, *, activation: Activation | None = None, out: DeviceTensor | None = None
    ) -> Any:
        """Apply the layer.

        Args:
            x: float32 [..., K], or [K].
            activation: as in `Device.matmul`.
            out: a contiguous float32 DeviceTensor [..., N] to write to.

        Returns: float32 [..., N]; a DeviceTensor if `x` or `out` is one.

        Raises:
            TypeError: a dtype other than float32, or no array.  ValueError: shapes that do not fit.
        """
        require_float32("QuantizedLinear", x=x)
        outputs, inputs = self.weight.shape
        if not x.ndim or x.shape[-1] != inputs or 0 in x.shape:
            raise ValueError(f"QuantizedLinear: x has shape {x.shape}, weight has shape {self.weight.shape}")
        shape = (*x.shape[:-1], outputs)
        if out is not None and (out.shape != shape or not out.is_contiguous):
            raise ValueError(f"QuantizedLinear: out is {out}, it must be contiguous, of shape {shape}")
        quantized, row_scales = self.device.quantize(upload(self.device, x, "activation"))
        target = self.device.empty(shape) if out is None else out
        self.device.matmul(
            quantized.reshape(-1, inputs),
            self.weight,
            trans_b=True,
            row_scale=row_scales.reshape(-1),
            col_scale=self.scales,
            bias=self.bias,
            activation=activation,
            out=target.reshape(-1, outputs),
        )
        return target if isinstance(x, DeviceTensor) or out is not None else target.to_numpy()
