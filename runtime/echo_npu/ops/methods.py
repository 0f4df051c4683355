"""The operations as methods of `Device`: each one hands over to the function of its family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.locking import locked
from echo_npu.ops import (
    attention,
    conv,
    copy,
    gather,
    matmul,
    norm,
    pool,
    reduce,
    rope,
    softmax,
    training,
)
from echo_npu.ops import shape as layout
from echo_npu.ops.elementwise_methods import ElementwiseMethods
from echo_npu.ops.windows import Size
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device


def _device(methods: OpMethods) -> Device:
    return cast("Device", methods)


class OpMethods(ElementwiseMethods):
    """What `Device` inherits. The documentation is with the functions."""

    @locked
    def matmul(
        self,
        a: Any,
        b: Any,
        *,
        trans_a: bool = False,
        trans_b: bool = False,
        alpha: float | None = None,
        out_dtype: DTypeLike | None = None,
        out: DeviceTensor | None = None,
    ) -> Any:
        """`a @ b`, with the shapes of `numpy.matmul`. See `echo_npu.ops.matmul.matmul`."""
        return matmul.matmul(
            _device(self), a, b, trans_a=trans_a, trans_b=trans_b, alpha=alpha, out_dtype=out_dtype, out=out
        )

    @locked
    def copy(self, src: Any, *, out: DeviceTensor | None = None) -> Any:
        """A copy of `src` that the device makes. See `echo_npu.ops.copy.copy`."""
        return copy.copy(_device(self), src, out=out)

    # --- reductions -----------------------------------------------------------------------------------------

    @locked
    def sum(
        self, x: Any, axis: reduce.Axes = None, keepdims: bool = False, *, out: DeviceTensor | None = None
    ) -> Any:
        """The sum over axes. See `echo_npu.ops.reduce.reduction`."""
        return reduce.reduction(_device(self), "sum", x, axis=axis, keepdims=keepdims, out=out)

    @locked
    def mean(
        self, x: Any, axis: reduce.Axes = None, keepdims: bool = False, *, out: DeviceTensor | None = None
    ) -> Any:
        """The mean over axes. See `echo_npu.ops.reduce.reduction`."""
        return reduce.reduction(_device(self), "mean", x, axis=axis, keepdims=keepdims, out=out)

    @locked
    def max(
        self, x: Any, axis: reduce.Axes = None, keepdims: bool = False, *, out: DeviceTensor | None = None
    ) -> Any:
        """The maximum over axes. See `echo_npu.ops.reduce.reduction`."""
        return reduce.reduction(_device(self), "max", x, axis=axis, keepdims=keepdims, out=out)

    @locked
    def min(
        self, x: Any, axis: reduce.Axes = None, keepdims: bool = False, *, out: DeviceTensor | None = None
    ) -> Any:
        """The minimum over axes. See `echo_npu.ops.reduce.reduction`."""
        return reduce.reduction(_device(self), "min", x, axis=axis, keepdims=keepdims, out=out)

    @locked
    def argmax(
        self,
        x: Any,
        axis: SupportsIndex | None = None,
        keepdims: bool = False,
        *,
        out: DeviceTensor | None = None,
    ) -> Any:
        """The position of the greatest element, int32. See `echo_npu.ops.reduce.argmax`."""
        return reduce.argmax(_device(self), x, axis=axis, keepdims=keepdims, out=out)

    # --- transformers ---------------------------------------------------------------------------------------

    @locked
    def softmax(
        self,
        x: Any,
        axis: SupportsIndex = -1,
        *,
        scale: float = 1.0,
        causal: bool = False,
        mask: Any = None,
        out: DeviceTensor | None = None,
    ) -> Any:
        """Softmax of `scale * x + mask`. See `echo_npu.ops.softmax.softmax`."""
        return softmax.softmax(_device(self), x, axis=axis, scale=scale, causal=causal, mask=mask, out=out)

    @locked
    def rms_norm(
        self, x: Any, weight: Any = None, eps: float = 1e-6, *, out: DeviceTensor | None = None
    ) -> Any:
        """`x / sqrt(mean(x**2) + eps) * weight`. See `echo_npu.ops.norm.rms_norm`."""
        return norm.rms_norm(_device(self), x, weight, eps, out=out)

    @locked
    def layer_norm(
        self,
        x: Any,
        weight: Any = None,
        bias: Any = None,
        eps: float = 1e-5,
        *,
        out: DeviceTensor | None = None,
    ) -> Any:
        """`(x - mean) / sqrt(var + eps) * weight + bias`. See `echo_npu.ops.norm.layer_norm`."""
        return norm.layer_norm(_device(self), x, weight, bias, eps, out=out)

    @staticmethod
    def rope_tables(
        positions: Any, head_dim: int, base: float = 10000.0, *, interleaved: bool = False
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The constants (cos, sin) of `rope`. See `echo_npu.ops.rope.rope_tables`."""
        return rope.rope_tables(positions, head_dim, base, interleaved=interleaved)

    @locked
    def rope(
        self,
        x: Any,
        cos: Any,
        sin: Any,
        *,
        interleaved: bool = False,
        token_axis: int = -3,
        out: DeviceTensor | None = None,
    ) -> Any:
        """Rotary position embedding. See `echo_npu.ops.rope.rope`."""
        return rope.rope(_device(self), x, cos, sin, interleaved=interleaved, token_axis=token_axis, out=out)

    @locked
    def attention(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool = False,
        scale: float | None = None,
        mask: Any = None,
        out: DeviceTensor | None = None,
    ) -> Any:
        """`softmax(scale * q @ k^T + mask) @ v`. See `echo_npu.ops.attention.attention`."""
        return attention.attention(_device(self), q, k, v, causal=causal, scale=scale, mask=mask, out=out)

    @locked
    def embedding(self, table: Any, ids: Any, *, out: DeviceTensor | None = None) -> Any:
        """`table[ids]`. See `echo_npu.ops.gather.embedding`."""
        return gather.embedding(_device(self), table, ids, out=out)

    # --- data movement --------------------------------------------------------------------------------------

    @locked
    def cat(self, arrays: Sequence[Any], axis: SupportsIndex = 0, *, out: DeviceTensor | None = None) -> Any:
        """Arrays one after another along an axis. See `echo_npu.ops.shape.cat`."""
        return layout.cat(_device(self), arrays, axis, out=out)

    @locked
    def clone(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """A copy of x. See `echo_npu.ops.copy.copy`."""
        return copy.copy(_device(self), x, out=out)

    @locked
    def contiguous(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """x in row-major order without gaps. See `echo_npu.ops.shape.contiguous`."""
        return layout.contiguous(_device(self), x, out=out)

    @locked
    def permute(self, x: Any, axes: Sequence[int], *, out: DeviceTensor | None = None) -> Any:
        """A dense copy with the axes in another order. See `echo_npu.ops.shape.permute`."""
        return layout.permute(_device(self), x, axes, out=out)

    @locked
    def transpose(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """A dense copy with the last two axes exchanged. See `echo_npu.ops.shape.permute`."""
        return layout.transpose(_device(self), x, out=out)

    @locked
    def full(self, shape: int | Sequence[int], value: float) -> DeviceTensor:
        """A new tensor with one value everywhere. See `echo_npu.ops.shape.full`."""
        return layout.full(_device(self), shape, value)

    # --- images ---------------------------------------------------------------------------------------------

    @locked
    def im2col(
        self,
        x: Any,
        kernel: Size,
        *,
        stride: Size = 1,
        padding: Size = 0,
        out: DeviceTensor | None = None,
    ) -> Any:
        """The windows of images as columns. See `echo_npu.ops.conv.im2col`."""
        return conv.im2col(_device(self), x, kernel, stride=stride, padding=padding, out=out)

    @locked
    def conv2d(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        *,
        stride: Size = 1,
        padding: Size = 0,
        out: DeviceTensor | None = None,
    ) -> Any:
        """Convolution of images. See `echo_npu.ops.conv.conv2d`."""
        return conv.conv2d(_device(self), x, weight, bias, stride=stride, padding=padding, out=out)

    @locked
    def max_pool2d(
        self,
        x: Any,
        kernel: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        out: DeviceTensor | None = None,
    ) -> Any:
        """The greatest element of each window. See `echo_npu.ops.pool.max_pool2d`."""
        return pool.max_pool2d(_device(self), x, kernel, stride=stride, padding=padding, out=out)

    @locked
    def avg_pool2d(
        self,
        x: Any,
        kernel: Size,
        *,
        stride: Size | None = None,
        padding: Size = 0,
        out: DeviceTensor | None = None,
    ) -> Any:
        """The mean of each window. See `echo_npu.ops.pool.avg_pool2d`."""
        return pool.avg_pool2d(_device(self), x, kernel, stride=stride, padding=padding, out=out)

    # --- training -------------------------------------------------------------------------------------------

    @locked
    def softmax_backward(
        self, dy: Any, y: Any, *, scale: float = 1.0, out: DeviceTensor | None = None
    ) -> Any:
        """The gradient of softmax, from its result. See `echo_npu.ops.training.softmax_backward`."""
        return training.softmax_backward(_device(self), dy, y, scale=scale, out=out)

    @locked
    def silu_backward(self, dy: Any, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The gradient of silu. See `echo_npu.ops.training.silu_backward`."""
        return training.silu_backward(_device(self), dy, x, out=out)

    @locked
    def gelu_backward(
        self, dy: Any, x: Any, *, approximate: str = "none", out: DeviceTensor | None = None
    ) -> Any:
        """The gradient of gelu. See `echo_npu.ops.training.gelu_backward`."""
        return training.gelu_backward(_device(self), dy, x, approximate=approximate, out=out)

    @locked
    def rms_norm_backward(self, dy: Any, x: Any, weight: Any, eps: float = 1e-6) -> tuple[Any, ...]:
        """The gradients (dx, dweight) of rms_norm. See `echo_npu.ops.training.rms_norm_backward`."""
        return training.rms_norm_backward(_device(self), dy, x, weight, eps)

    @locked
    def layer_norm_backward(self, dy: Any, x: Any, weight: Any, eps: float = 1e-5) -> tuple[Any, ...]:
        """(dx, dweight, dbias) of layer_norm. See `echo_npu.ops.training.layer_norm_backward`."""
        return training.layer_norm_backward(_device(self), dy, x, weight, eps)

    @locked
    def cross_entropy(self, logits: Any, targets: Any, *, out: DeviceTensor | None = None) -> Any:
        """The mean cross entropy. See `echo_npu.ops.training.cross_entropy`."""
        return training.cross_entropy(_device(self), logits, targets, out=out)

    @locked
    def cross_entropy_backward(
        self, logits: Any, targets: Any, *, dy: float = 1.0, out: DeviceTensor | None = None
    ) -> Any:
        """The gradient of cross_entropy. See `echo_npu.ops.training.cross_entropy_backward`."""
        return training.cross_entropy_backward(_device(self), logits, targets, dy=dy, out=out)

    @locked
    def adamw_step(
        self,
        p: Any,
        g: Any,
        m: Any,
        v: Any,
        *,
        step: int,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> tuple[Any, ...]:
        """A step of AdamW. See `echo_npu.ops.training.adamw_step`."""
        return training.adamw_step(
            _device(self), p, g, m, v, step=step, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay
        )
