"""Gradients, the loss and the optimiser step of training."""

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.gather import device_indices
from echo_npu.ops.norm import check_normalised
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.reduce import reduction_commands
from echo_npu.ops.rows import (
    Parameter,
    column_commands,
    last_axis_commands,
    line,
    overlap,
    row_commands,
    row_fits,
    run,
    single,
    target_for,
)
from echo_npu.tensor import DeviceTensor
from echo_npu.vector import Program
from echo_npu.vector.kernels import norm, optimizers, reduce
from echo_npu.vector.kernels import training as kernels

Outs: TypeAlias = Sequence[DeviceTensor | None]
"""A tensor to write to for each of several results; None for a new one."""


def softmax_backward(
    device: CommandDevice, dy: Any, y: Any, *, scale: float = 1.0, out: DeviceTensor | None = None
) -> Any:
    """Compute the gradient of `y = softmax(scale * x)`, last axis: `scale * y * (dy - sum(dy * y))`.

    Args:
        dy: float32 [..., N], the gradient with respect to y; a DeviceTensor with any strides.
        y: float32 of dy's shape, the result of softmax.
        out: a DeviceTensor of that shape to write to; it may be dy or y.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that differ; an empty array, or one without axes.
    """
    _check_pair(device, "softmax_backward", "y", dy, y, out)
    left, right = (upload(device, each, "activation") for each in (dy, y))
    kept = row_fits(device, dy.shape[-1])
    target = target_for(device, dy.shape, out, [left, right], in_place=kept)
    program = kernels.softmax_backward(scaled=scale != 1.0, kept=kept)
    commands = last_axis_commands(device, program, [left, right], target, params=(np.float32(scale),))
    return run(device, f"softmax_backward {dy.shape}", commands, target, out, [dy, y])


def silu_backward(device: CommandDevice, dy: Any, x: Any, *, out: DeviceTensor | None = None) -> Any:
    """Compute the gradient of `x * sigmoid(x)`: `dy * s * (1 + x * (1 - s))`, s = sigmoid(x).

    Args:
        dy: float32 [..., N], the gradient with respect to the result; a DeviceTensor with any strides.
        x: float32 of dy's shape, the argument of silu.
        out: a DeviceTensor of that shape to write to; it may be dy or x.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that differ; an empty array, or one without axes.
    """
    return _elementwise(device, "silu_backward", kernels.silu_backward(), dy, x, out)


def gelu_backward(
    device: CommandDevice, dy: Any, x: Any, *, approximate: str = "none", out: DeviceTensor | None = None
) -> Any:
    """Compute the gradient of gelu, `x * Phi(x)`: `dy * (Phi(x) + x * phi(x))`, or of its form with tanh.

    Args:
        dy: float32 [..., N], the gradient with respect to the result; a DeviceTensor with any strides.
        x: float32 of dy's shape, the argument of gelu.
        approximate: "none" or "tanh", as for `gelu`.
        out: a DeviceTensor of that shape to write to; it may be dy or x.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: unknown `approximate`; shapes that differ; an empty array, or one without axes.
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu_backward: approximate is {approximate!r}; it must be "none" or "tanh"')
    program = kernels.gelu_tanh_backward() if approximate == "tanh" else kernels.gelu_backward()
    return _elementwise(device, "gelu_backward", program, dy, x, out)


def rms_norm_backward(
    device: CommandDevice, dy: Any, x: Any, weight: Any, eps: float = 1e-6, *, out: Outs | None = None
) -> tuple[Any, ...]:
    """Compute the gradients of `rms_norm(x, weight, eps)`.

    Args:
        dy: float32 [..., N], the gradient with respect to the result.
        x: float32 of dy's shape.
        weight: float32 [N].
        out: a DeviceTensor to write to for each result, or None for a new one; it may be an operand.

    Returns: (dx of x's shape, dweight [N]).

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that do not fit one another; an empty array, or one without axes.
    """
    return _norm_backward(device, "rms_norm_backward", dy, x, weight, eps, out)


def layer_norm_backward(
    device: CommandDevice, dy: Any, x: Any, weight: Any, eps: float = 1e-5, *, out: Outs | None = None
) -> tuple[Any, ...]:
    """Compute the gradients of `layer_norm(x, weight, bias, eps)`, which do not depend on the bias.

    Args:
        dy: float32 [..., N], the gradient with respect to the result.
        x: float32 of dy's shape.
        weight: float32 [N].
        out: a DeviceTensor to write to for each result, or None for a new one; it may be an operand.

    Returns: (dx of x's shape, dweight [N], dbias [N]).

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that do not fit one another; an empty array, or one without axes.
    """
    return _norm_backward(device, "layer_norm_backward", dy, x, weight, eps, out)


def cross_entropy(
    device: CommandDevice, logits: Any, targets: Any, *, out: DeviceTensor | None = None
) -> Any:
    """Compute the mean over rows of `log(sum(exp(logits))) - logits[target]`.

    Args:
        logits: float32 [..., V]; a DeviceTensor with any strides.
        targets: integers [...], 0 .. V - 1; a DeviceTensor is int32.
        out: a float32 DeviceTensor of shape () to write to.

    Returns: float32 of shape (). It is infinite if a target on the device is outside of 0 .. V - 1.

    Raises:
        TypeError: logits other than float32, targets that are no integers.
        ValueError: shapes that do not fit; an empty array.
        IndexError: numpy targets outside 0 .. V - 1.
    """
    numbers = _targets("cross_entropy", device, logits, targets)
    check_out(device, "cross_entropy", out, ())
    source = upload(device, logits, "activation")
    *leading, cols = source.shape
    losses = device.empty(leading or (1,))
    target = target_for(device, (), out, [source, numbers])
    commands = row_commands(
        device,
        kernels.cross_entropy(),
        leading,
        [line(source, leading, cols), single(numbers, leading, bcast=True)],
        single(losses if leading else losses[0], leading),
        cols=cols,
    )
    means, keep = reduction_commands(device, "mean", losses.reshape(-1), [0], target.reshape(1))
    commands += means
    result = run(device, f"cross_entropy {logits.shape}", commands, target, out, [logits, targets])
    del keep
    return result


def cross_entropy_backward(
    device: CommandDevice, logits: Any, targets: Any, *, dy: float = 1.0, out: DeviceTensor | None = None
) -> Any:
    """Compute the gradient of `cross_entropy` by the logits: `(softmax(logits) - onehot) * dy / rows`.

    Args:
        logits: float32 [..., V]; a DeviceTensor with any strides.
        targets: integers [...], 0 .. V - 1; a DeviceTensor is int32.
        dy: the gradient with respect to the loss.
        out: a DeviceTensor of the logits' shape to write to; it may be the logits.

    Returns: float32 of the logits' shape.

    Raises:
        TypeError: logits other than float32, targets that are no integers.
        ValueError: shapes that do not fit; an empty array.
        IndexError: numpy targets outside 0 .. V - 1.
    """
    numbers = _targets("cross_entropy_backward", device, logits, targets)
    check_out(device, "cross_entropy_backward", out, logits.shape)
    source = upload(device, logits, "activation")
    *leading, cols = source.shape
    kept = row_fits(device, cols)
    target = target_for(device, source.shape, out, [source, numbers], in_place=kept)
    commands = row_commands(
        device,
        kernels.cross_entropy_backward(kept=kept),
        leading,
        [line(source, leading, cols), single(numbers, leading, bcast=True)],
        line(target, leading, cols),
        cols=cols,
        params=(np.float32(dy / numbers.size),),
    )
    return run(device, f"cross_entropy_backward {logits.shape}", commands, target, out, [logits, targets])


def adamw_step(
    device: CommandDevice,
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
    """Do a step of AdamW (Loshchilov and Hutter 2019), with three commands in one submission.

    `m = beta0 * m + (1 - beta0) * g`, `v = beta1 * v + (1 - beta1) * g**2`, and
    `p = p * (1 - lr * weight_decay) - lr / (1 - beta0**step) * m / (sqrt(v) / sqrt(1 - beta1**step) + eps)`.

    Args:
        p: parameters, float32 of any shape.
        g, m, v: gradient and moving averages, of p's shape. Before the first step, m and v are zeros.
        step: from 1 on.

    Returns: the new (p, m, v). A DeviceTensor among them is overwritten and returned; it must be contiguous.

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: shapes that differ, an empty array, a tensor with gaps, a step below 1.
    """
    names = {"p": p, "g": g, "m": m, "v": v}
    require_float32("adamw_step", **names)
    shapes = ", ".join(f"{name} has shape {each.shape}" for name, each in names.items())
    if any(each.shape != p.shape for each in names.values()) or 0 in p.shape:
        raise ValueError(f"adamw_step: {shapes}; all must be the same, and not empty")
    if step < 1:
        raise ValueError(f"adamw_step: step is {step}; the first one is 1")
    placed = [upload(device, each, "activation") for each in names.values()]
    for name, tensor in zip(names, placed, strict=True):
        if not tensor.is_contiguous:
            raise ValueError(
                f"adamw_step: {name} has shape {tensor.shape} and strides {tensor.strides}; it must be "
                "contiguous"
            )
    param, grad, mean, square = (each.reshape(-1) for each in placed)

    def command(
        program: Program, inputs: Sequence[DeviceTensor], params: Sequence[Parameter]
    ) -> list[Command]:
        return last_axis_commands(device, program, inputs, inputs[0], params=params)

    decay = [np.float32(beta) for beta in betas]
    rest = [np.float32(1 - beta) for beta in betas]
    root, rate = np.float32((1 - betas[1] ** step) ** -0.5), np.float32(lr / (1 - betas[0] ** step))
    commands = [
        *command(optimizers.moving_average(), [mean, grad], (decay[0], rest[0])),
        *command(optimizers.moving_average(squared=True), [square, grad], (decay[1], rest[1])),
        *command(
            optimizers.adamw_update(),
            [param, mean, square],
            (np.float32(1 - lr * weight_decay), root, np.float32(eps), rate),
        ),
    ]
    run(device, f"adamw_step {p.shape}", commands, param, param, ())
    results = zip((p, m, v), (placed[0], placed[2], placed[3]), strict=True)
    return tuple(
        tensor if isinstance(given, DeviceTensor) else tensor.to_numpy() for given, tensor in results
    )


def _norm_backward(
    device: CommandDevice, op: str, dy: Any, x: Any, weight: Any, eps: float, out: Outs | None
) -> tuple[Any, ...]:
    """Compute (dx, dweight), and for layer_norm dbias, as the caller gets them."""
    check_normalised(op, x, weight=weight)
    _check_pair(device, op, "x", dy, x, None)
    biased = op == "layer_norm_backward"
    shapes = [x.shape, weight.shape, weight.shape] if biased else [x.shape, weight.shape]
    outs = _each_out(device, op, out, shapes)
    cols = x.shape[-1]
    operands = [upload(device, each, "activation") for each in (dy, x)]
    factors = upload(device, weight, "weight")
    targets = [
        device.empty(shape)
        if each is None or not each.is_contiguous
        else target_for(device, shape, each, [*operands, factors])
        for shape, each in zip(shapes, outs, strict=True)
    ]
    grad, source = (each.contiguous().reshape(-1, cols) for each in operands)
    dx, *vectors = (each.reshape(-1, cols) for each in targets)
    unit = device.empty(source.shape)
    kept = row_fits(device, cols)
    if biased:
        forward = norm.layer_norm(weighted=False, biased=False, kept=kept)
        backward = norm.layer_norm_backward(kept=kept)
    else:
        forward, backward = norm.rms_norm(weighted=False, kept=kept), norm.rms_norm_backward(kept=kept)
    params = (np.float32(eps), np.float32(1 / cols))
    commands = [
        *last_axis_commands(device, forward, [source], unit, params=params),
        *last_axis_commands(device, backward, [grad, source, factors], dx, params=params),
        *column_commands(device, reduce.dot_column(), [grad, unit], vectors[0]),
    ]
    if biased:
        commands += column_commands(device, reduce.reduction("add", column=True), [grad], vectors[1])
    debug.npu(f"{op} {x.shape}")
    results = [target if each is None else each for target, each in zip(targets, outs, strict=True)]
    for target, result in zip(targets, results, strict=True):
        if result is not target:
            commands += copy_commands(target, result)
    device.execute(commands)
    on_device = any(isinstance(each, DeviceTensor) for each in (dy, x, weight, *outs))
    return tuple(each if on_device else each.to_numpy() for each in results)


def _each_out(device: CommandDevice, op: str, out: Outs | None, shapes: Sequence[tuple[int, ...]]) -> Outs:
    """Check `out` and return an entry for each of several results."""
    if out is None:
        return [None] * len(shapes)
    if not isinstance(out, (tuple, list)) or len(out) != len(shapes):
        raise TypeError(f"{op}: out must be {len(shapes)} DeviceTensors or None, got {out!r}")
    for each, shape in zip(out, shapes, strict=True):
        check_out(device, op, each, shape)
    for one, other in itertools.combinations([each for each in out if each is not None], 2):
        if overlap(one, other):
            raise ValueError(f"{op}: tensors of out, of shapes {one.shape} and {other.shape}, share memory")
    return out


def _elementwise(
    device: CommandDevice, op: str, program: Program, dy: Any, x: Any, out: DeviceTensor | None
) -> Any:
    _check_pair(device, op, "x", dy, x, out)
    left, right = (upload(device, each, "activation") for each in (dy, x))
    target = target_for(device, dy.shape, out, [left, right], in_place=True)
    views = [left, right, target]
    if all(each.is_contiguous for each in views):
        views = [each.reshape(-1) for each in views]
    commands = last_axis_commands(device, program, views[:-1], views[-1])
    return run(device, f"{op} {dy.shape}", commands, target, out, [dy, x])


def _check_pair(
    device: CommandDevice, op: str, name: str, dy: Any, other: Any, out: DeviceTensor | None
) -> None:
    require_float32(op, **{"dy": dy, name: other})
    if dy.shape != other.shape or not dy.ndim or 0 in dy.shape:
        raise ValueError(
            f"{op}: dy has shape {dy.shape}, {name} has shape {other.shape}; they must be the "
            "same, with an axis, and not empty"
        )
    check_out(device, op, out, dy.shape)


def _targets(op: str, device: CommandDevice, logits: Any, targets: Any) -> DeviceTensor:
    require_float32(op, logits=logits)
    if not logits.ndim or 0 in logits.shape or np.shape(targets) != logits.shape[:-1]:
        raise ValueError(
            f"{op}: logits have shape {logits.shape}, targets {np.shape(targets)}: [..., V] and [...]"
        )
    return device_indices(op, device, targets, logits.shape[-1], "targets")
