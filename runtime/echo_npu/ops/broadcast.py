"""Elementwise programs on tensors of any strides, broadcast against each other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.commands.command import Command
from echo_npu.commands.strided import Loop, collapse
from echo_npu.commands.vector_command import MAX_SEGMENTS, Stream
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.operands import FLOAT32, check_out, upload
from echo_npu.ops.rows import Line, Parameter, broadcast_strides, overlap, row_commands, run
from echo_npu.tensor import DeviceTensor
from echo_npu.vector import Program


def is_array(value: Any) -> bool:
    """Return whether an operand is an array, not a number."""
    return isinstance(value, (np.ndarray, DeviceTensor))


def result_shape(op: str, operands: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the shape that the arrays among the operands broadcast to; ValueError names the shapes."""
    shapes = {name: value.shape for name, value in operands.items() if is_array(value)}
    named = ", ".join(f"{name} has shape {shape}" for name, shape in shapes.items())
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError(f"{op}: the shapes do not broadcast: {named}") from None
    if 0 in shape:
        raise ValueError(f"{op} of an empty array: {named}")
    return shape


def compute(
    device: CommandDevice,
    op: str,
    program: Program,
    operands: Mapping[str, Any],
    out: DeviceTensor | None,
    *,
    params: Sequence[Parameter] = (),
    dtype: DTypeLike = FLOAT32,
) -> Any:
    """Run an elementwise program.

    Args:
        op: the operation's name, for messages and the trace.
        operands: the arrays s0, s1, ..., by the names of the operation's arguments.
        out: a DeviceTensor of the broadcast shape to write to; it may be an operand.
        params: p0, p1, ...
        dtype: of the result.

    Raises:
        ValueError: shapes that do not broadcast, an empty array, or an `out` of another shape.
        TypeError: an `out` of another dtype.
    """
    shape = result_shape(op, operands)
    check_out(device, op, out, shape, dtype)
    uploaded: dict[int, DeviceTensor] = {}
    for value in operands.values():
        if id(value) not in uploaded:
            uploaded[id(value)] = upload(device, value, "activation")
    inputs = [uploaded[id(value)] for value in operands.values()]
    target = out
    if target is None or not _writable(target, inputs):
        target = device.empty(shape, dtype)
    commands = elementwise_commands(device, program, inputs, target, params=params)
    return run(device, f"{op} {shape}", commands, target, out, list(operands.values()))


def elementwise_commands(
    device: CommandDevice,
    program: Program,
    inputs: Sequence[DeviceTensor],
    output: DeviceTensor,
    *,
    params: Sequence[Parameter] = (),
) -> list[Command]:
    """Make the commands of an elementwise program; contiguous axes become one long row.

    Args:
        inputs: s0, s1, ...; their shapes broadcast to the output's.
    """
    tensors = [*inputs, output]
    loops = _loops(inputs, output)
    row = loops.pop() if loops else Loop(1, (0,) * len(tensors))
    sizes = [tensor.dtype.itemsize for tensor in tensors]
    packed = [row.count > 1 and row.strides[i] not in (0, size) for i, size in enumerate(sizes)]
    most = MAX_SEGMENTS if any(packed) else row.count
    commands: list[Command] = []
    for first in range(0, row.count, most):
        count = min(most, row.count - first)
        lines = [
            Line(
                Stream(
                    tensor.ptr + first * row.strides[i],
                    seg_len=1 if packed[i] or row.strides[i] == 0 else count,
                    segs=count if packed[i] else 1,
                    seg_stride=row.strides[i] if packed[i] else 0,
                    size=sizes[i],
                    pack=packed[i],
                    bcast=count > 1 and row.strides[i] == 0,
                ),
                tuple(loop.strides[i] for loop in loops),
            )
            for i, tensor in enumerate(tensors)
        ]
        leading = tuple(loop.count for loop in loops)
        commands += row_commands(device, program, leading, lines[:-1], lines[-1], cols=count, params=params)
    return commands


def _loops(inputs: Sequence[DeviceTensor], output: DeviceTensor) -> list[Loop]:
    shape = output.shape
    return collapse(
        shape, *(broadcast_strides(tensor.shape, tensor.strides, shape) for tensor in inputs), output.strides
    )


def _writable(out: DeviceTensor, inputs: Sequence[DeviceTensor]) -> bool:
    """Return whether one command can write `out` directly: it overlaps no input, or is one of them."""
    meets = [each for each in inputs if overlap(out, each)]
    loops = _loops(inputs, out)
    return not meets or (
        all((each.ptr, each.shape, each.strides) == (out.ptr, out.shape, out.strides) for each in meets)
        and all(each.dtype == out.dtype for each in meets)
        and len(loops) <= 2
        and (not loops or loops[-1].strides[-1] == out.dtype.itemsize)
    )
