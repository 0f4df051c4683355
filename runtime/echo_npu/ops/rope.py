"""Rotary position embedding."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.vector_command import RowIndices
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.operands import FLOAT16, float_out, kind, require_float32, upload
from echo_npu.ops.rows import line, overlap, row_commands, row_fits, run, target_for
from echo_npu.ops.scatter import INDEX_TYPES
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels import rope as kernels


def rope_tables(
    positions: Any, head_dim: int, base: float = 10000.0, *, interleaved: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Compute the tables of `rope`: cosine and sine of `position * base**(-2i / head_dim)`, in float64.

    Args:
        positions: [tokens], or a number of tokens, at positions 0, 1, ...
        head_dim: even.
        interleaved: give each value twice, as the interleaved convention reads it. `rope` also takes tables
            without that, but expands them at every call.

    Returns: float32 [tokens, head_dim / 2] each, or [tokens, head_dim] if `interleaved`.

    Raises:
        ValueError: an odd head_dim, or positions of more than one axis.
    """
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim is {head_dim}; it must be even")
    places = np.arange(positions) if np.ndim(positions) == 0 else np.asarray(positions)
    if places.ndim != 1:
        raise ValueError(f"positions has shape {places.shape}; it must have one axis")
    powers = np.arange(0, head_dim, 2, dtype=np.float64) / head_dim
    angles = places.astype(np.float64)[:, None] * np.float64(base) ** -powers
    if interleaved:
        angles = angles.repeat(2, axis=-1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rope(
    device: CommandDevice,
    x: Any,
    cos: Any,
    sin: Any,
    *,
    interleaved: bool = False,
    token_axis: int = -3,
    out: DeviceTensor | None = None,
    at: DeviceTensor | None = None,
) -> Any:
    """Rotate the pairs of each head: `(a * cos - b * sin, b * cos + a * sin)` (Su et al. 2021).

    Args:
        x: float32 [..., tokens, heads, head_dim], or [tokens, head_dim]; a DeviceTensor with any strides.
        cos, sin: float32 [tokens, head_dim / 2], see `rope_tables`; [tokens, head_dim] if interleaved.
        interleaved: the pairs are the elements (2i, 2i + 1); else (i, i + head_dim / 2).
        token_axis: the axis of the tokens in x: -2 for [..., heads, tokens, head_dim].
        out: a DeviceTensor of x's shape to write to. If it is float16, the result is rounded.
        at: int32 or int64 [tokens] on the device, for interleaved x [tokens, heads, head_dim] with whole
            tables: `out` is then [rows, heads, head_dim], and token t goes to its row at[t], as in
            `scatter_rows`.

    Returns: float32 of x's shape, or `out`.

    Raises:
        TypeError: a dtype other than float32, or no array; `at` of another type.
        ValueError: an odd head_dim, tables that do not fit x; an empty array; what `at` does not go with.
        NpuDeviceError: `at` names a row that `out` does not have, with the code BAD_INDEX.
    """
    require_float32("rope", x=x, cos=cos, sin=sin)
    if at is not None:
        return _rope_to_rows(device, x, cos, sin, out, at, plain=interleaved and token_axis == -3)
    if x.ndim < 2 or 0 in x.shape or x.shape[-1] % 2:
        raise ValueError(
            f"rope: x has shape {x.shape}; it must be [..., tokens, heads, head_dim], head_dim even"
        )
    axis = 0 if x.ndim == 2 else token_axis % x.ndim
    if axis == x.ndim - 1:
        raise ValueError(f"rope: token_axis is {token_axis}, the axis of head_dim of x of shape {x.shape}")
    tokens, width = x.shape[axis], x.shape[-1]
    fitting = [(tokens, width // 2), (tokens, width)] if interleaved else [(tokens, width // 2)]
    if cos.shape != sin.shape or cos.shape not in fitting:
        expected = " or ".join(str(shape) for shape in fitting)
        raise ValueError(
            f"rope: cos has shape {cos.shape}, sin has shape {sin.shape}; for x of shape {x.shape}, tokens "
            f"on axis {axis}, both must be {expected}"
        )
    made = float_out(device, "rope", out, x.shape)
    source = upload(device, x, "activation")
    given = [upload(device, each, "weight") for each in (cos, sin)]
    target = target_for(device, x.shape, out, [source, *given], dtype=made)
    half = made == FLOAT16
    tables, commands = given, list[Command]()
    if interleaved and cos.shape[-1] != width:
        tables, commands = _expanded(device, given)
    # The tables get an axis of one element for each axis of x that they lack.
    ones = (None,) * (x.ndim - axis - 2)
    tables = [each[(slice(None), *ones)] for each in tables]
    leading = x.shape[:-1]
    if interleaved:
        inputs = [line(each, leading, width) for each in (source, *tables)]
        program, cols, output = kernels.rope_pairs(half=half), width, line(target, leading, width)
    else:
        if target.strides[-1] != target.dtype.itemsize:
            raise ValueError(f"rope: out has strides {target.strides}; its last axis must be contiguous")
        cols = width // 2
        if not row_fits(device, cols):
            limit = device.capabilities.row_elements
            raise ValueError(f"rope: x has shape {x.shape}; half a head may have {limit} elements")
        halves = [source[..., :cols], source[..., cols:]]
        inputs = [line(each, leading, cols) for each in (*halves, *tables)]
        program = kernels.rope_halves(half=half)
        whole = line(target, leading, width)
        first = replace(whole.first, seg_len=cols, segs=2, seg_stride=cols * made.itemsize)
        output = replace(whole, first=first)
    commands += row_commands(device, program, leading, inputs, output, cols=cols)
    return run(device, f"rope {x.shape}{' interleaved' * interleaved}", commands, target, out, [x, cos, sin])


def _rope_to_rows(
    device: CommandDevice, x: Any, cos: Any, sin: Any, out: Any, at: Any, *, plain: bool
) -> DeviceTensor:
    """Do as `rope` with `at`."""
    if not isinstance(at, DeviceTensor) or at.dtype not in INDEX_TYPES:
        raise TypeError(f"rope: at is int32 or int64 on the device, got {kind(at)}")
    fits = isinstance(out, DeviceTensor) and out.ndim == 3 == x.ndim and out.shape[1:] == x.shape[1:]
    whole = fits and cos.shape == sin.shape == (x.shape[0], x.shape[2]) and at.shape == x.shape[:1]
    if not plain or not whole or 0 in x.shape or x.shape[2] % 2:
        raise ValueError(
            f"rope: with at of shape {at.shape}, x is interleaved [tokens, heads, head_dim], head_dim even, "
            f"tables are [tokens, head_dim] and out is [rows, heads, head_dim]; x has shape {x.shape}, "
            f"cos {cos.shape}, sin {sin.shape}, out {getattr(out, 'shape', None)}"
        )
    assert isinstance(out, DeviceTensor)
    made = float_out(device, "rope", out, out.shape)
    if out.strides[-1] != made.itemsize or out.strides[0] < out.shape[1] * out.strides[1]:
        raise ValueError(f"rope: out has strides {out.strides}; the elements of a row lie in their order")
    operands = [upload(device, each, "activation") for each in (x, at)]
    operands += [upload(device, each, "weight") for each in (cos, sin)]
    # No command that scatters reads its table, not even in place.
    source, at, *tables = [device.copy(each) if overlap(each, out) else each for each in operands]
    tokens, heads, width = source.shape
    # For each head, all tokens: the rows of a command are what indices are for.
    leading = (heads, tokens)
    rows = [source, *(each[:, None] for each in tables)]
    lines = [line(each.swapaxes(0, 1), leading, width) for each in rows]
    output = line(out.swapaxes(0, 1), (heads, len(out)), width)
    indices = RowIndices(at.ptr, len(out), wide=at.dtype.itemsize > 4, row_stride=at.strides[0])
    program = kernels.rope_pairs(half=made == FLOAT16)
    commands = row_commands(
        device, program, leading, lines, output, cols=width, keep_last=True, indices=indices
    )
    debug.npu(f"rope {x.shape} interleaved into {out.shape}")
    device.execute(commands)
    return out


def _expanded(device: CommandDevice, tables: list[DeviceTensor]) -> tuple[list[DeviceTensor], list[Command]]:
    """Return tables with each value twice, and the copies that fill them."""
    made = [device.empty((*each.shape[:-1], 2 * each.shape[-1])) for each in tables]
    commands: list[Command] = []
    for table, wide in zip(tables, made, strict=True):
        for first in (0, 1):
            commands += copy_commands(table, wide[..., first::2])
    return made, commands
