"""The operations of models, each as a call on a device and as float64 truth.

`Operation.run` calls the public operation of `Device` and nothing else. The bounds follow from those of
docs/ops.md; u is half an ulp, `truth.UNIT`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.models.truth import F64, UNIT, Truth, accumulation_bound, exact
from echo_npu.tensor import DeviceTensor

Array = NDArray[Any]
Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Operation(ABC):
    """One operation of the device, with its settings.

    Attributes: op: its name in reports.
    """

    op: ClassVar[str]

    def run(self, npu: Device, inputs: Sequence[DeviceTensor], out: DeviceTensor) -> None:
        """Compute `out` from `inputs` on `npu`, with the method of the device that is called `op`."""
        getattr(npu, self.op)(*inputs, **self.settings(), out=out)

    def settings(self) -> dict[str, Any]:
        """Return the keyword arguments of the device's method: the fields of the operation."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @abstractmethod
    def truth(self, *inputs: Array) -> Truth:
        """Return the result in float64, from the inputs as the device has them."""

    def macs(self, inputs: Shapes) -> int:
        """Return the multiply-accumulates of the matrix engine for inputs of these shapes."""
        return 0

    def size(self, inputs: Shapes, out: tuple[int, ...]) -> str:
        """Return the size of the work, for people."""
        return _times(out)


def _times(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _wide(*arrays: Array) -> list[F64]:
    return [array.astype(np.float64) for array in arrays]


@dataclass(frozen=True, slots=True)
class Matmul(Operation):
    """`a @ b`, with `trans_b` `a @ b.T`; leading axes are batches."""

    trans_b: bool = False

    op: ClassVar[str] = "matmul"

    def truth(self, *inputs: Array) -> Truth:
        a, b = _wide(*inputs)
        if self.trans_b:
            b = b.swapaxes(-1, -2)
        return Truth(a @ b, np.abs(a) @ np.abs(b), accumulation_bound(a.shape[-1]))

    def _dims(self, inputs: Shapes) -> tuple[int, int, int, int]:
        a, b = inputs
        batch = np.broadcast_shapes(a[:-2], b[:-2])
        return int(np.prod(batch, dtype=int)), a[-2], a[-1], b[-2 if self.trans_b else -1]

    def macs(self, inputs: Shapes) -> int:
        batch, m, k, n = self._dims(inputs)
        return batch * m * k * n

    def size(self, inputs: Shapes, out: tuple[int, ...]) -> str:
        batch, *dims = self._dims(inputs)
        return f"{batch} x {_times(dims)}" if batch > 1 else _times(dims)


@dataclass(frozen=True, slots=True)
class Add(Operation):
    """`a + b`, with numpy's broadcasting."""

    op: ClassVar[str] = "add"

    def truth(self, *inputs: Array) -> Truth:
        a, b = _wide(*inputs)
        return Truth(a + b, np.abs(a) + np.abs(b), UNIT)


@dataclass(frozen=True, slots=True)
class Mul(Operation):
    """`a * b`, with numpy's broadcasting."""

    op: ClassVar[str] = "mul"

    def truth(self, *inputs: Array) -> Truth:
        a, b = _wide(*inputs)
        return Truth(a * b, np.abs(a * b), UNIT)


@dataclass(frozen=True, slots=True)
class Embedding(Operation):
    """Rows of a table: `table[ids]`."""

    op: ClassVar[str] = "embedding"

    def truth(self, *inputs: Array) -> Truth:
        table, ids = inputs
        return exact(table[ids].astype(np.float64))


@dataclass(frozen=True, slots=True)
class RmsNorm(Operation):
    """`x / sqrt(mean(x**2) + eps) * weight` over the last axis."""

    eps: float

    op: ClassVar[str] = "rms_norm"

    def truth(self, *inputs: Array) -> Truth:
        x, weight = _wide(*inputs)
        value = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.eps) * weight
        # The sum of squares has 16 partial results, which are then added up; the root halves its error. The
        # other roundings: mean, eps, the root (2 ulp), two products.
        chain = x.shape[-1] // 16 + 17
        return Truth(value, np.abs(value), (chain / 2 + 8) * UNIT)


@dataclass(frozen=True, slots=True)
class Rope(Operation):
    """Rotary embedding of [tokens, heads, head_dim], pairs (2i, 2i+1), by `position * base**(-2i/head_dim)`.

    The other inputs are the tables of cosines and sines. The truth is the rotation by the angle itself: the
    tables' rounding is part of the error.
    """

    base: float

    op: ClassVar[str] = "rope"

    def settings(self) -> dict[str, Any]:
        return {"interleaved": True}

    def truth(self, *inputs: Array) -> Truth:
        (x,) = _wide(inputs[0])
        width = x.shape[-1]
        frequency = self.base ** (-np.arange(0, width, 2, dtype=np.float64) / width)
        angle = np.outer(np.arange(len(x)), frequency)[:, None, :]
        cos, sin = np.cos(angle), np.sin(angle)
        even, odd = x[..., 0::2], x[..., 1::2]
        value, magnitude = np.empty_like(x), np.empty_like(x)
        value[..., 0::2] = even * cos - odd * sin
        value[..., 1::2] = even * sin + odd * cos
        magnitude[..., 0::2] = np.abs(even * cos) + np.abs(odd * sin)
        magnitude[..., 1::2] = np.abs(even * sin) + np.abs(odd * cos)
        return Truth(value, magnitude, 4 * UNIT)


@dataclass(frozen=True, slots=True)
class Softmax(Operation):
    """`softmax(scale * x)` over the last axis; causal: element j of row i counts only if j <= i."""

    scale: float = 1.0
    causal: bool = False

    op: ClassVar[str] = "softmax"

    def truth(self, *inputs: Array) -> Truth:
        (x,) = _wide(*inputs)
        scaled = x * float(np.float32(self.scale))
        seen = np.ones(x.shape[-2:], bool)
        if self.causal:
            seen = np.tril(seen)
        scaled = np.where(seen, scaled, -np.inf)
        largest = scaled.max(axis=-1, keepdims=True)
        odds = np.exp(scaled - largest)
        value = odds / odds.sum(axis=-1, keepdims=True)
        # The rounded difference from the maximum is an exponent: its absolute error is the result's relative
        # error. The same holds for the scaled values, at both ends of the difference. Further roundings: the
        # sum (16 partial results), exp, the division. Errors of the other terms' exponents weigh at most 1/e.
        spread = np.where(seen, np.abs(scaled), 0.0) + np.abs(largest)
        return Truth(value, value * (1.0 + 2.0 * spread), (x.shape[-1] // 16 + 32) * UNIT)


@dataclass(frozen=True, slots=True)
class Silu(Operation):
    """`x * sigmoid(x)`."""

    op: ClassVar[str] = "silu"

    def truth(self, *inputs: Array) -> Truth:
        (x,) = _wide(*inputs)
        # exp of a negative number only, which cannot overflow.
        small = np.exp(-np.abs(x))
        value = x * np.where(x >= 0, 1.0, small) / (1.0 + small)
        return Truth(value, np.abs(value), 8 * UNIT)


@dataclass(frozen=True, slots=True)
class Relu(Operation):
    """`max(x, 0)`."""

    op: ClassVar[str] = "relu"

    def truth(self, *inputs: Array) -> Truth:
        (x,) = _wide(*inputs)
        return exact(np.maximum(x, 0.0))


@dataclass(frozen=True, slots=True)
class Conv2d(Operation):
    """Convolution with stride 1 and without padding.

    The inputs are x [batch, channels, height, width], weight [out, channels, rows, columns] and bias [out].
    """

    op: ClassVar[str] = "conv2d"

    def truth(self, *inputs: Array) -> Truth:
        x, weight, bias = _wide(*inputs)
        windows = np.lib.stride_tricks.sliding_window_view(x, weight.shape[2:], axis=(2, 3))

        def convolve(patches: F64, kernel: F64, offset: F64) -> F64:
            value: F64 = np.einsum("bcyxij,ocij->boyx", patches, kernel, optimize=True)
            return value + offset[:, None, None]

        magnitude = convolve(np.abs(windows), np.abs(weight), np.abs(bias))
        return Truth(convolve(windows, weight, bias), magnitude, accumulation_bound(weight[0].size))

    def macs(self, inputs: Shapes) -> int:
        (batch, _, height, width), (features, channels, rows, columns), _ = inputs
        return batch * features * channels * rows * columns * (height - rows + 1) * (width - columns + 1)


@dataclass(frozen=True, slots=True)
class MaxPool2d(Operation):
    """The largest of each square of `window` x `window` elements of [batch, channels, height, width]."""

    window: int

    op: ClassVar[str] = "max_pool2d"

    def settings(self) -> dict[str, Any]:
        return {"kernel": self.window}

    def truth(self, *inputs: Array) -> Truth:
        (x,) = _wide(*inputs)
        batch, channels, height, width = x.shape
        side = self.window
        return exact(x.reshape(batch, channels, height // side, side, width // side, side).max(axis=(3, 5)))


@dataclass(frozen=True, slots=True)
class ArgMax(Operation):
    """The index of the largest element of the last axis, the first of equal ones."""

    op: ClassVar[str] = "argmax"

    def settings(self) -> dict[str, Any]:
        return {"axis": -1}

    def truth(self, *inputs: Array) -> Truth:
        return exact(np.argmax(inputs[0], axis=-1).astype(np.float64))
