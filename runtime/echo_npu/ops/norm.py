"""Normalisations over the last axis."""

from typing import Any

import numpy as np

from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.rows import last_axis_commands, row_fits, run, target_for
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import norm as kernels


def rms_norm(
    device: CommandDevice, x: Any, weight: Any = None, eps: float = 1e-6, *, out: DeviceTensor | None = None
) -> Any:
    """Compute `x / sqrt(mean(x**2) + eps) * weight` over the last axis (Zhang and Sennrich 2019).

    Args:
        x: float32 [..., N]; a DeviceTensor with any strides.
        weight: float32 [N]; None: ones.
        eps: rounded to float32.
        out: a DeviceTensor of x's shape to write to; it may be x.

    Returns: float32 of x's shape. Squares are summed in float32: for elements from about 1.8e19 on they are
        infinite, and the result is zero.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: a weight of another shape than [N]; an empty array, or one without axes.
    """
    return _normalise(device, "rms_norm", x, {"weight": weight}, eps, out)


def layer_norm(
    device: CommandDevice,
    x: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *,
    out: DeviceTensor | None = None,
) -> Any:
    """Compute `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis.

    var is the mean of `(x - mean)**2`.

    Args:
        x: float32 [..., N]; a DeviceTensor with any strides.
        weight, bias: float32 [N]; None: ones, zeros.
        eps: rounded to float32.
        out: a DeviceTensor of x's shape to write to; it may be x.

    Returns: float32 of x's shape (Ba, Kiros and Hinton 2016).

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: a weight or bias of another shape than [N]; an empty array, or one without axes.
    """
    return _normalise(device, "layer_norm", x, {"weight": weight, "bias": bias}, eps, out)


def _normalise(
    device: CommandDevice, op: str, x: Any, vectors: dict[str, Any], eps: float, out: DeviceTensor | None
) -> Any:
    given = {name: each for name, each in vectors.items() if each is not None}
    check_normalised(op, x, **given)
    check_out(device, op, out, x.shape)
    source = upload(device, x, "activation")
    placed = {name: upload(device, each, "weight") for name, each in given.items()}
    cols = x.shape[-1]
    kept = row_fits(device, cols)
    weighted = "weight" in given
    if op == "rms_norm":
        program = kernels.rms_norm(weighted=weighted, kept=kept)
    else:
        program = kernels.layer_norm(weighted=weighted, biased="bias" in given, kept=kept)
    target = target_for(device, x.shape, out, [source, *placed.values()], in_place=kept)
    params = (np.float32(eps), np.float32(1 / cols))
    commands = last_axis_commands(device, program, [source, *placed.values()], target, params=params)
    return run(device, f"{op} {x.shape}", commands, target, out, [x, *given.values()])


def check_normalised(op: str, x: Any, **vectors: Any) -> None:
    """Refuse an x without axes, and vectors that are not as long as its last axis: TypeError, ValueError."""
    require_float32(op, x=x, **vectors)
    if not x.ndim or 0 in x.shape:
        raise ValueError(f"{op} of x of shape {x.shape}: it needs an axis, and no empty one")
    for name, vector in vectors.items():
        if vector.shape != x.shape[-1:]:
            raise ValueError(f"{op}: {name} has shape {vector.shape}, x has shape {x.shape}")
