"""Casts between types, and quantisation to int8."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.broadcast import compute
from echo_npu.ops.operands import FLOAT32, check_out, kind, require_float32, upload
from echo_npu.ops.rows import line, row_commands, run, single, target_for
from echo_npu.ops.types import named_type, type_name
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import cast as kernels


def cast(device: CommandDevice, x: Any, dtype: DTypeLike | str, *, out: DeviceTensor | None = None) -> Any:
    """Convert the elements to another type: between integers directly, else through float32.

    bfloat16 is the dtype of that name if the package ml_dtypes is installed, else its bits in uint16. A
    uint16 array counts as bfloat16.

    Args:
        x: float32, float16, bfloat16, int32, int16, int8, uint8 or bool.
        dtype: one of these. To a float: nearest, ties to even. To bool: whether it is not zero. To another
            integer: from a float toward zero as int32, saturating, NaN is 0; of that the low bits.
        out: a DeviceTensor of that shape and dtype to write to.

    Returns: x's shape, that dtype; a DeviceTensor if `x` or `out` is one.

    Raises:
        TypeError: a type that is not listed, or no array.
        ValueError: an empty array, or `out` of another shape.
    """
    if not isinstance(x, (np.ndarray, DeviceTensor)):
        raise TypeError(f"cast takes a numpy array or a DeviceTensor, got {kind(x)}")
    source, target = type_name(x.dtype), type_name(dtype)
    if source not in kernels.FROM or target not in kernels.TO:
        raise TypeError(
            f"cast: x is {kind(x)} and dtype is {target}; x can be one of {', '.join(kernels.FROM)}, "
            f"dtype one of {', '.join(kernels.TO)}"
        )
    made = named_type(target, x.dtype if out is None else out.dtype)
    return compute(device, "cast", kernels.cast(source, target), {"x": x}, out, dtype=made)


def quantize(device: CommandDevice, x: Any) -> tuple[Any, Any]:
    """Quantise rows to int8: `scale = max(abs(row)) / 127`, `q = round(x / scale)` within +-127.

    Both quotients are rounded to float32, ties to even, and q again to an integer, ties to even. Where
    x / scale is NaN, q is 0: in a row of zeros (scale 0), with infinite scale or with NaN.

    Args:
        x: float32 [..., N].

    Returns: (q, scales): int8 [..., N] and float32 [...]; DeviceTensors if x is one.

    Raises:
        TypeError: a dtype other than float32, or no array.  ValueError: an empty array, or no axis.
    """
    require_float32("quantize", x=x)
    if not x.ndim or 0 in x.shape:
        raise ValueError(f"quantize takes rows: x has shape {x.shape}")
    *leading, cols = x.shape
    source = upload(device, x, "activation")
    scales, q = device.empty(leading), device.empty(x.shape, np.int8)
    row = line(source, leading, cols)
    device.load_programs([kernels.quantize_scales(), kernels.quantize()])
    commands = [
        *row_commands(device, kernels.quantize_scales(), leading, [row], single(scales, leading), cols=cols),
        *row_commands(
            device,
            kernels.quantize(),
            leading,
            [row, single(scales, leading, bcast=True)],
            line(q, leading, cols),
            cols=cols,
        ),
    ]
    result = run(device, f"quantize {x.shape}", commands, q, None, [x])
    return result, scales if isinstance(x, DeviceTensor) else scales.to_numpy()


def dequantize(device: CommandDevice, q: Any, scales: Any, *, out: DeviceTensor | None = None) -> Any:
    """Multiply each row by its scale, rounded to float32.

    Args:
        q: int8 [..., N].
        scales: float32 [...].
        out: a float32 DeviceTensor of q's shape to write to.

    Returns: float32 [..., N]; a DeviceTensor if `q`, `scales` or `out` is one.

    Raises:
        TypeError: other dtypes, or no arrays.  ValueError: shapes that do not fit, or an empty array.
    """
    arrays = all(isinstance(each, (np.ndarray, DeviceTensor)) for each in (q, scales))
    if not arrays or q.dtype != np.int8 or scales.dtype != FLOAT32:
        raise TypeError(f"dequantize takes int8 and float32 arrays: q is {kind(q)}, scales is {kind(scales)}")
    if not q.ndim or 0 in q.shape or scales.shape != q.shape[:-1]:
        raise ValueError(
            f"dequantize: q has shape {q.shape}, scales has shape {scales.shape}; one scale for each row of q"
        )
    check_out(device, "dequantize", out, q.shape)
    *leading, cols = q.shape
    inputs = [upload(device, each, "activation") for each in (q, scales)]
    target = target_for(device, q.shape, out, inputs)
    commands = row_commands(
        device,
        kernels.dequantize(),
        leading,
        [line(inputs[0], leading, cols), single(inputs[1], leading, bcast=True)],
        line(target, leading, cols),
        cols=cols,
    )
    return run(device, f"dequantize {q.shape}", commands, target, out, [q, scales])
