"""Make VECTOR commands for tensors: map their axes to elements of a row, rows, batches and segments."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.packets import MAX_ROWS
from echo_npu.commands.strided import Loop, chunks, collapse
from echo_npu.commands.vector_command import MAX_SEGMENTS, RowIndices, Stream, vector_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.vector import Program

Parameter: TypeAlias = float | np.floating[Any] | np.integer[Any]


@dataclass(frozen=True, slots=True)
class Line:
    """One operand of a row program.

    Attributes:
        first: the first row, without strides to others.
        strides: bytes, for each of the leading axes; each index of these has its own row.
    """

    first: Stream
    strides: tuple[int, ...]


def line(tensor: DeviceTensor, leading: Sequence[int], cols: int) -> Line:
    """Return the last axis of a tensor as the row of `cols` elements; its axes broadcast to (*leading, cols).

    Raises:
        ValueError: an axis with gaps of more than 2**20 - 1 elements.
    """
    if not tensor.ndim:
        tensor = tensor[None]
    strides = broadcast_strides(tensor.shape[:-1], tensor.strides[:-1], leading)
    (count, step), size = (tensor.shape[-1], tensor.strides[-1]), tensor.dtype.itemsize
    if cols > 1 and (count == 1 or step == 0):
        return Line(Stream(tensor.ptr, 1, size=size, bcast=True), strides)
    if count == 1 or step == size:
        return Line(Stream(tensor.ptr, count, size=size), strides)
    check_segments(tensor, count)
    return Line(Stream(tensor.ptr, 1, count, seg_stride=step, size=size, pack=True), strides)


def single(tensor: DeviceTensor, leading: Sequence[int], *, bcast: bool = False) -> Line:
    """Return a tensor with one element for each row: an output, or with `bcast` an input for the whole
    row."""
    strides = broadcast_strides(tensor.shape, tensor.strides, leading)
    return Line(Stream(tensor.ptr, 1, size=tensor.dtype.itemsize, bcast=bcast), strides)


def check_segments(tensor: DeviceTensor, count: int) -> None:
    """Raise ValueError for more segments than a row can have."""
    if count > MAX_SEGMENTS:
        raise ValueError(
            f"a tensor of shape {tensor.shape} and strides {tensor.strides}: {count} separate pieces in a "
            f"row, at most {MAX_SEGMENTS} (use contiguous())"
        )


def broadcast_strides(
    shape: Sequence[int], strides: Sequence[int], leading: Sequence[int]
) -> tuple[int, ...]:
    """Return strides for the axes of `leading`, 0 where the shape is broadcast."""
    own = [stride if size > 1 else 0 for size, stride in zip(shape, strides, strict=True)]
    return (0,) * (len(leading) - len(own)) + tuple(own)


def row_commands(
    device: CommandDevice,
    program: Program,
    leading: Sequence[int],
    inputs: Sequence[Line],
    output: Line,
    *,
    cols: int,
    params: Sequence[Parameter] = (),
    repeats: int = 1,
    keep_last: bool = False,
    indices: RowIndices | None = None,
) -> list[Command]:
    """Return the commands that run a program once for each index of the leading axes.

    Args:
        inputs: s0, s1, ...
        cols: elements of the row as the program sees it.
        params: p0, p1, ...
        keep_last: the program's operand `row` is the index of the last leading axis; else axes may be merged.
        indices: with keep_last, where the results of the last leading axis go along the output's; that may
            be longer. There is an index for each, the same ones for all other axes.
    """
    entry = device.load_program(program)
    lines = [*inputs, output]
    strides = [each.strides for each in lines]
    none = Loop(1, (0,) * len(lines))
    if keep_last:
        rows = Loop(leading[-1], tuple(each[-1] for each in strides))
        loops = collapse(leading[:-1], *(each[:-1] for each in strides))
    else:
        loops = collapse(leading, *strides)
        rows = loops.pop() if loops else none
    commands: list[Command] = []
    for chunk in chunks(loops, len(lines)):
        for first in range(0, rows.count, MAX_ROWS):
            begins = [first * stride for stride in rows.strides]
            named = indices
            if indices is not None:
                begins[-1] = 0  # the whole table
                named = replace(indices, address=indices.address + first * (indices.row_stride or 0))
            streams = [
                replace(
                    each.first,
                    address=each.first.address + chunk.offsets[i] + begins[i],
                    row_stride=rows.strides[i],
                    batch_strides=chunk.strides[i],
                )
                for i, each in enumerate(lines)
            ]
            commands.append(
                vector_command(
                    entry,
                    rows=min(rows.count - first, MAX_ROWS),
                    cols=cols,
                    inputs=streams[:-1],
                    output=streams[-1],
                    params=params,
                    repeats=repeats,
                    batch=chunk.batch,
                    passes=program.passes,
                    indices=named,
                ).command()
            )
    return commands


def last_axis_commands(
    device: CommandDevice,
    program: Program,
    inputs: Sequence[DeviceTensor],
    output: DeviceTensor,
    *,
    params: Sequence[Parameter] = (),
    keep_last: bool = False,
) -> list[Command]:
    """Make the commands that run a program along the last axis; inputs broadcast to the output's shape."""
    *leading, cols = output.shape
    lines = [line(each, leading, cols) for each in (*inputs, output)]
    return row_commands(
        device, program, leading, lines[:-1], lines[-1], cols=cols, params=params, keep_last=keep_last
    )


def column_commands(
    device: CommandDevice,
    program: Program,
    inputs: Sequence[DeviceTensor],
    output: DeviceTensor,
    *,
    params: Sequence[Parameter] = (),
) -> list[Command]:
    """Return the commands that run a program down the second to last axis.

    Args:
        inputs: of one shape [..., N, B], the last axis contiguous.
        output: [..., N, B], or [..., 1, B], the last axis contiguous.
    """
    *leading, repeats, width = inputs[0].shape
    length = device.capabilities.vector_length
    check_segments(inputs[0], repeats)
    commands: list[Command] = []
    for first, block in ((0, length), (width - width % length, width % length)):
        count = (width // length) if block == length else 1
        if not (count and block):
            continue

        def block_line(tensor: DeviceTensor, first: int = first, block: int = block) -> Line:
            strides = (*tensor.strides[:-2], block * tensor.strides[-1])
            (segs, _), (step, element) = tensor.shape[-2:], tensor.strides[-2:]
            address, size = tensor.ptr + first * element, tensor.dtype.itemsize
            return Line(Stream(address, block, segs, seg_stride=step, size=size), strides)

        commands += row_commands(
            device,
            program,
            (*leading, count),
            [block_line(each) for each in inputs],
            block_line(output),
            cols=block,
            params=params,
            repeats=repeats,
        )
    return commands


def row_fits(device: CommandDevice, cols: int) -> bool:
    """Return whether a row register holds a row."""
    return cols <= device.capabilities.row_elements


# --- results ------------------------------------------------------------------------------------------------


def overlap(a: DeviceTensor, b: DeviceTensor) -> bool:
    """Return whether the ranges from the first to the last byte of both share a byte."""
    return a.ptr < b.ptr + _extent(b) and b.ptr < a.ptr + _extent(a)


def _extent(tensor: DeviceTensor) -> int:
    steps = zip(tensor.shape, tensor.strides, strict=True)
    return tensor.dtype.itemsize + sum((size - 1) * stride for size, stride in steps)


def target_for(
    device: CommandDevice,
    shape: Sequence[int],
    out: DeviceTensor | None,
    operands: Sequence[DeviceTensor],
    *,
    dtype: DTypeLike = np.float32,
    in_place: bool = False,
    contiguous: bool = False,
) -> DeviceTensor:
    """Return what the commands write: `out`, or a new tensor if there is none or it overlaps an operand.

    Args:
        in_place: write directly to an `out` that is an operand if all operands are dense, so the command has
            a single loop of rows.
        contiguous: never write directly to an `out` with gaps.
    """
    if out is None or (contiguous and not out.is_contiguous):
        return device.empty(shape, dtype)
    meets = [each for each in operands if overlap(out, each)]
    dense = out.is_contiguous and all(each.is_contiguous for each in operands)
    same = in_place and dense and all(_same(each, out) for each in meets)
    return out if same or not meets else device.empty(shape, dtype)


def _same(a: DeviceTensor, b: DeviceTensor) -> bool:
    return (a.ptr, a.shape, a.strides, a.dtype) == (b.ptr, b.shape, b.strides, b.dtype)


def run(
    device: CommandDevice,
    what: str,
    commands: Sequence[Command],
    target: DeviceTensor,
    out: DeviceTensor | None,
    operands: Sequence[Any],
) -> Any:
    """Execute commands, copy the result to `out`, and return it as an operation does.

    Args:
        what: the operation, for the debug trace.
        operands: the caller's arguments; if one is a DeviceTensor, the result is one.
    """
    debug.npu(what)
    copies = [] if out is None or out is target else copy_commands(target, out)
    device.execute([*commands, *copies])
    if out is not None:
        return out
    on_device = any(isinstance(each, DeviceTensor) for each in operands)
    return target if on_device else target.to_numpy()
