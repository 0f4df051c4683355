"""Operations on arrays, made of commands.

Every operation takes numpy arrays or `DeviceTensor`s. From numpy arrays alone comes a numpy array, else a
DeviceTensor. All arithmetic is the device's; what it cannot do is an error, never done elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu import debug
from echo_npu.packets import (
    MAX_ROWS,
    ExtensionPacket,
    NpuCommandPacket,
    add_packets,
    matmul_packets,
    memcpy_packets,
)
from echo_npu.strided import Loop, chunks, collapse
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device

_FLOAT32 = np.dtype(np.float32)


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
    _require_float32("matmul", a=a, b=b)
    if out_dtype is not None and np.dtype(out_dtype) != _FLOAT32:
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
    _check_out("matmul", out, shape)

    on_device = any(isinstance(end, DeviceTensor) for end in (a, b, out))
    left = _upload(device, a, "activation")
    right = _upload(device, b, "weight")
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
    packets = _matmul_commands(left2, right2, target2, batch, alpha)
    debug.npu(f"MATMUL {a.shape} x {b.shape}{flags} -> {shape}")
    device.execute(packets)
    return target if on_device else target.to_numpy()


def _matmul_commands(
    a: DeviceTensor, b: DeviceTensor, c: DeviceTensor, batch: tuple[int, ...], alpha: float | None
) -> list[NpuCommandPacket | ExtensionPacket]:
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
    _require_float32("add", a=a, b=b)
    if a.shape != b.shape:
        raise ValueError(f"add: a has shape {a.shape}, b has shape {b.shape}; they must be the same")
    if 0 in a.shape:
        raise ValueError(f"add of an empty array: a has shape {a.shape}")
    _check_out("add", out, a.shape)
    on_device = any(isinstance(end, DeviceTensor) for end in (a, b, out))
    left = _upload(device, a, "activation")
    right = left if a is b else _upload(device, b, "activation")
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


def copy(device: Device, src: Any, *, out: DeviceTensor | None = None) -> Any:
    """A copy of `src`, in row-major order, made by the device's MEMCPY.

    Args:
        src: an array of any dtype, or a DeviceTensor with any strides.
        out: a DeviceTensor of the same shape and dtype to write to; their memory may not overlap.

    Returns: `out`, or a new array of the kind that `src` is.

    Raises:
        TypeError: no array, or dtypes that differ.  ValueError: shapes that differ, or an empty array.
    """
    if not isinstance(src, (np.ndarray, DeviceTensor)):
        raise TypeError(f"copy takes a numpy array or a DeviceTensor, got {type(src).__name__}")
    if 0 in src.shape:
        raise ValueError(f"copy of an empty array: src has shape {src.shape}")
    if out is not None and out.dtype != src.dtype:
        raise TypeError(f"copy: src is {src.dtype}, out is {out.dtype}")
    _check_out("copy", out, src.shape)
    source = _upload(device, src, "activation")
    target = device.empty(src.shape, src.dtype) if out is None else out
    debug.npu(f"MEMCPY {src.shape} {src.dtype}")
    device.execute(_copy_commands(source, target))
    return target if isinstance(src, DeviceTensor) or out is not None else target.to_numpy()


def _copy_commands(src: DeviceTensor, dst: DeviceTensor) -> list[NpuCommandPacket | ExtensionPacket]:
    item = src.dtype.itemsize
    loops = collapse(src.shape, src.strides, dst.strides)
    nbytes = item
    if loops and loops[-1].strides == (item, item):
        nbytes *= loops.pop().count
    rows = Loop(1, (0, 0))
    if loops and loops[-1].strides[1] >= nbytes and loops[-1].count <= MAX_ROWS:
        rows = loops.pop()
    packets: list[NpuCommandPacket | ExtensionPacket] = []
    for chunk in chunks(loops, 2):
        packets += memcpy_packets(
            src.ptr + chunk.offsets[0],
            dst.ptr + chunk.offsets[1],
            nbytes,
            rows=rows.count,
            row_strides=rows.strides,
            batch=chunk.batch,
            src_batch_strides=chunk.strides[0],
            dst_batch_strides=chunk.strides[1],
        )
    return packets


def _require_float32(op: str, **operands: Any) -> None:
    names = ", ".join(f"{name} is {_kind(value)}" for name, value in operands.items())
    for value in operands.values():
        if not isinstance(value, (np.ndarray, DeviceTensor)) or value.dtype != _FLOAT32:
            raise TypeError(f"{op} takes float32 numpy arrays or DeviceTensors: {names}")


def _kind(value: Any) -> str:
    if isinstance(value, (np.ndarray, DeviceTensor)):
        return f"{type(value).__name__} of {value.dtype}"
    return type(value).__name__


def _check_out(op: str, out: DeviceTensor | None, shape: Sequence[int]) -> None:
    if out is None:
        return
    if not isinstance(out, DeviceTensor):
        raise TypeError(f"{op}: out must be a DeviceTensor, got {type(out).__name__}")
    if out.shape != tuple(shape):
        raise ValueError(f"{op}: out has shape {out.shape}, the result has shape {tuple(shape)}")
    if op != "copy" and out.dtype != _FLOAT32:
        raise TypeError(f"{op}: out is {out.dtype}, the result is float32")


def _upload(device: Device, value: NDArray[Any] | DeviceTensor, region: str) -> DeviceTensor:
    if isinstance(value, DeviceTensor):
        if value.device is not device:
            raise ValueError(f"a DeviceTensor of shape {value.shape} belongs to another device")
        return value
    return device.tensor(value, region=region)
