"""Elementwise arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from echo_npu import debug
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.packets import add_packets
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device


def add(device: Device, a: Any, b: Any, alpha: float = 1.0, *, out: DeviceTensor | None = None) -> Any:
    """`a + alpha * b`, elementwise in float32: one rounded product, one rounded sum.

    Args:
        a, b: float32, of one shape. A DeviceTensor must be contiguous.
        alpha: rounded to float32.
        out: a contiguous DeviceTensor of that shape to write to; it may be `a` or `b`.

    Returns: float32 of that shape; a DeviceTensor if `a`, `b` or `out` is one.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that differ (nothing is broadcast), an empty array, or a tensor with gaps.
    """
    require_float32("add", a=a, b=b)
    if a.shape != b.shape:
        raise ValueError(f"add: a has shape {a.shape}, b has shape {b.shape}; they must be the same")
    if 0 in a.shape:
        raise ValueError(f"add of an empty array: a has shape {a.shape}")
    check_out("add", out, a.shape)
    on_device = any(isinstance(end, DeviceTensor) for end in (a, b, out))
    left = upload(device, a, "activation")
    right = left if a is b else upload(device, b, "activation")
    target = device.empty(a.shape) if out is None else out
    for name, tensor in (("a", left), ("b", right), ("out", target)):
        if not tensor.is_contiguous:
            raise ValueError(
                f"add: {name} has shape {tensor.shape} and strides {tensor.strides}; it must be contiguous "
                "(use contiguous())"
            )
    debug.npu(f"ADD_TENSOR {a.shape} alpha={alpha}")
    device.execute(add_packets(left.ptr, right.ptr, target.ptr, left.size, alpha=alpha))
    return target if on_device else target.to_numpy()
