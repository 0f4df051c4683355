"""Matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from echo_npu import debug
from echo_npu.ops.operands import FLOAT32, check_out, require_float32, upload
from echo_npu.packets import ExtensionPacket, NpuCommandPacket, matmul_packets
from echo_npu.strided import chunks, collapse
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device


def matmul(
    device: Device,
    a: Any,
    b: Any,
    *,
    trans_a: bool = False,
    trans_b: bool = False,
    alpha: float | None = None,
    out_dtype: DTypeLike | None = None,
    out: DeviceTensor | None = None,
) -> Any:
    """`alpha * (op(a) @ op(b))` in float32, with the shapes of `numpy.matmul`: batches and vectors too.

    Args:
        a: float32 [..., M, K], or [..., K, M] with `trans_a`, or [K].
        b: float32 [..., K, N], or [..., N, K] with `trans_b`, or [K].
        alpha: multiplies the finished product, with one rounding (None: not at all).
        out_dtype: float32, the only one so far.
        out: a DeviceTensor of the result's shape to write to; it may be a view whose last axis is contiguous.

    Returns: float32 [..., M, N]; a DeviceTensor if `a`, `b` or `out` is one.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that do not fit one another, or strides that a command cannot express.
    """
    require_float32("matmul", a=a, b=b)
    if out_dtype is not None and np.dtype(out_dtype) != FLOAT32:
        raise TypeError(f"out_dtype is {np.dtype(out_dtype)}; matmul of float32 operands gives float32")
    shapes = f"a has shape {a.shape}, b has shape {b.shape}"
    flags = "".join(f", {name}=True" for name, flag in (("trans_a", trans_a), ("trans_b", trans_b)) if flag)
    if 0 in (a.ndim, b.ndim) or (trans_a and a.ndim < 2) or (trans_b and b.ndim < 2):
        raise ValueError(f"matmul takes matrices, or vectors without a transpose flag: {shapes}{flags}")
    if 0 in (*a.shape, *b.shape):
        raise ValueError(f"matmul of an empty array: {shapes}")
    inner_a = a.shape[-2 if trans_a else -1]
    inner_b = b.shape[-1 if trans_b or b.ndim == 1 else -2]
    if inner_a != inner_b:
        raise ValueError(f"matmul: the inner dimensions {inner_a} and {inner_b} differ: {shapes}{flags}")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"matmul: the batch dimensions do not broadcast: {shapes}") from None
    rows = () if a.ndim == 1 else (a.shape[-1 if trans_a else -2],)
    columns = () if b.ndim == 1 else (b.shape[-2 if trans_b else -1],)
    shape = (*batch, *rows, *columns)
    check_out("matmul", out, shape)

    on_device = any(isinstance(end, DeviceTensor) for end in (a, b, out))
    left = upload(device, a, "activation")
    right = upload(device, b, "weight")
    target = device.empty(shape) if out is None else out
    left2, right2, target2 = left, right, target
    if a.ndim == 1:
        left2 = left[None, :]
        target2 = target2[..., None, :] if b.ndim > 1 else target2[..., None]
    if b.ndim == 1:
        right2 = right[:, None]
        target2 = target2[..., None]
    if trans_a:
        left2 = left2.swapaxes(-1, -2)
    if trans_b:
        right2 = right2.swapaxes(-1, -2)
    packets = matmul_commands(left2, right2, target2, batch, alpha)
    debug.npu(f"MATMUL {a.shape} x {b.shape}{flags} -> {shape}")
    device.execute(packets)
    return target if on_device else target.to_numpy()


def matmul_commands(
    a: DeviceTensor, b: DeviceTensor, c: DeviceTensor, batch: tuple[int, ...], alpha: float | None
) -> list[NpuCommandPacket | ExtensionPacket]:
    """The MATMULs of `c = alpha * (a @ b)`: a [..., M, K], b [..., K, N], c [*batch, M, N], as views."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    row_a, trans_a = _matrix_layout("a", a)
    row_b, trans_b = _matrix_layout("b", b)
    row_c, trans_c = _matrix_layout("out", c)
    if trans_c:
        raise ValueError(f"out has shape {c.shape} and strides {c.strides}: its last axis must be contiguous")
    loops = collapse(batch, *(_batch_strides(tensor, batch) for tensor in (a, b, c)))
    packets: list[NpuCommandPacket | ExtensionPacket] = []
    for chunk in chunks(loops, 3):
        packets += matmul_packets(
            a.ptr + chunk.offsets[0],
            b.ptr + chunk.offsets[1],
            c.ptr + chunk.offsets[2],
            m,
            k,
            n,
            trans_a=trans_a,
            trans_b=trans_b,
            alpha=alpha,
            row_strides=(row_a, row_b, row_c),
            batch=chunk.batch,
            src1_batch_strides=chunk.strides[0],
            src2_batch_strides=chunk.strides[1],
            dst_batch_strides=chunk.strides[2],
        )
    return packets


def _matrix_layout(name: str, tensor: DeviceTensor) -> tuple[int, bool]:
    """How the last two axes are stored: bytes between rows (0: dense), and whether transposed."""
    (rows, columns), (down, right) = tensor.shape[-2:], tensor.strides[-2:]
    if (columns == 1 or right == 4) and (rows == 1 or down >= 4 * columns):
        return (down if rows > 1 and down != 4 * columns else 0), False
    if (rows == 1 or down == 4) and (columns == 1 or right >= 4 * rows):
        return (right if columns > 1 and right != 4 * rows else 0), True
    raise ValueError(
        f"{name} has shape {tensor.shape} and strides {tensor.strides}: one of the last two axes must be "
        "contiguous (use contiguous())"
    )


def _batch_strides(tensor: DeviceTensor, batch: tuple[int, ...]) -> list[int]:
    """The tensor's stride for each batch axis, 0 where it is broadcast."""
    own_shape, own_strides = tensor.shape[:-2], tensor.strides[:-2]
    missing = len(batch) - len(own_shape)
    strides = [stride if size > 1 else 0 for size, stride in zip(own_shape, own_strides, strict=True)]
    return [0] * missing + strides
