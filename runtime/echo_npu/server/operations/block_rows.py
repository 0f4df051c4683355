"""Rows of tensors in blocks: where they lie in packed tiles, copies of them, their values, and quantising."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.formats import BLOCK, TILE_COLUMNS, TILE_DEPTH, BlockFormat, named_format
from echo_npu.ops.packed import PackedTensor
from echo_npu.server.operations.base import Emitter, most_bytes, require, whole_elements
from echo_npu.server.operations.constants import constant
from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.protocol import GraphTensor
from echo_npu.tensor import DeviceTensor

Numbers = NDArray[np.int64]

MOST_BLOCK_ROWS: Final = 1 << 14
"""Rows of blocks take some commands each."""

_BYTE: Final = np.dtype(np.uint8)
_WORD: Final = np.dtype(np.uint16)


@dataclass(frozen=True)
class BlockRows:
    """Some rows of a tensor in blocks.

    Attributes:
        form: of the blocks.
        depth: elements of a row.
        scales: the addresses of the rows' first scales, int64 of any shape.
        quants: the addresses of their first quants.
    """

    form: BlockFormat
    depth: int
    scales: Numbers
    quants: Numbers

    @property
    def across(self) -> int:
        """The tiles of a row."""
        return self.form.tiles(1, self.depth)[1]

    @property
    def heads(self) -> int:
        """The float16 numbers of a block: the scale, and the minimum if there is one."""
        return self.form.head_bytes // 2

    def __getitem__(self, index: Any) -> "BlockRows":
        return BlockRows(self.form, self.depth, self.scales[index], self.quants[index])

    def flat(self) -> "BlockRows":
        """Return the rows in one list."""
        return self[...].reshaped(-1)

    def reshaped(self, *shape: int) -> "BlockRows":
        """Return the rows in another order of axes' counts."""
        return BlockRows(self.form, self.depth, self.scales.reshape(shape), self.quants.reshape(shape))

    def columns(self, first: int, end: int) -> "BlockRows":
        """Return the elements from one on, which begins a tile, to another one of each row."""
        along = first // TILE_DEPTH * self.form.tile_bytes
        return BlockRows(self.form, end - first, self.scales + along, self.quants + along)

    def steps(self) -> Numbers:
        """Return the bytes to the next scales and the next quants in a list of rows, [rows - 1, 2]."""
        return np.stack([np.diff(self.scales), np.diff(self.quants)], axis=-1)


def check_block_rows(device: Device, tensor: GraphTensor) -> None:
    """Raise UnsupportedError unless a tensor consists of whole rows of one in blocks."""
    form = named_format(tensor.type)
    whole = whole_elements(tensor)
    row = form.row_bytes(whole[0]) or 1
    require(whole[0] % BLOCK == 0 and tensor.elements[0] == whole[0], "a part of rows in blocks")
    moves = (
        count > 1 and step % row for count, step in zip(tensor.elements[1:], tensor.steps[1:], strict=True)
    )
    require(not tensor.offset % row and not any(moves), "a part of rows in blocks")
    # Even if they repeat in memory: each has an address of its own.
    require(math.prod(tensor.elements[1:]) * row < most_bytes(device), "more rows than fit into memory")


def block_rows(tensor: GraphTensor) -> BlockRows:
    """Return the rows of a tensor that `check_block_rows` passes: [outer, inner, rows].

    Raises: ValueError if they are not inside the whole tensor.
    """
    form, whole = named_format(tensor.type), whole_elements(tensor)
    depth, columns = whole[:2]
    row = form.row_bytes(depth)
    numbers: Numbers = np.full((1, 1, 1), tensor.offset // row, np.int64)
    for axis, (count, step) in enumerate(zip(tensor.elements[:0:-1], tensor.steps[:0:-1], strict=True)):
        places = np.arange(count, dtype=np.int64) * (step // row)
        numbers = numbers + places.reshape([-1 if each == axis else 1 for each in range(3)])
    if numbers.max() >= math.prod(whole[1:]):
        raise ValueError(f"row {numbers.max()} of a tensor of {whole} elements")
    matrix, number = np.divmod(numbers, columns)
    start = tensor.address - tensor.offset + matrix * form.packed_bytes(columns, depth)
    return _in_tiles(form, depth, start, number)


def fresh_rows(emitter: Emitter, form: BlockFormat, depth: int, count: int) -> tuple[PackedTensor, BlockRows]:
    """Allocate a packed matrix of `count` rows; return it and its rows, a list."""
    tiles = emitter.device.empty((*form.tiles(count, depth), form.tile_bytes), np.uint8)
    rows = _in_tiles(form, depth, np.int64(tiles.ptr), np.arange(count, dtype=np.int64))
    return PackedTensor(tiles, form, (count, depth)), rows


def _in_tiles(form: BlockFormat, depth: int, start: Any, number: Numbers) -> BlockRows:
    """Return rows by their numbers in matrices that start at addresses."""
    down, column = np.divmod(number, TILE_COLUMNS)
    tile = start + down * (form.tiles(1, depth)[1] * form.tile_bytes)
    return BlockRows(form, depth, tile + 2 * column, tile + form.quants_at + 2 * form.quant_bytes * column)


def runs(*lists: Numbers) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
    """Cut lists of steps where one changes or is not positive; yield first row, rows and the steps."""
    steps = np.concatenate(lists, axis=-1)
    first = 0
    while first <= len(steps):
        last = first
        if last < len(steps) and (steps[first] > 0).all():
            last += 1
            while last < len(steps) and (steps[last] == steps[first]).all():
                last += 1
        along = tuple(steps[first].tolist()) if last > first else (0,) * steps.shape[1]
        yield first, last - first + 1, along
        first = last + 1


def copy_rows(emitter: Emitter, source: BlockRows, target: BlockRows) -> None:
    """Copy a list of rows to as many others of the same form and depth, the tiles' padding with them."""
    device, form, across = emitter.device, source.form, source.across
    for first, count, along in runs(source.steps(), target.steps()):
        emitter.check_size()
        for which, dtype, size, step in (
            ("scales", _WORD, 2 * source.heads, TILE_COLUMNS * 2),
            ("quants", _BYTE, 2 * form.quant_bytes, 1),
        ):
            part = int(which == "quants")
            shape = (count, across, size)
            ends = [
                DeviceTensor.borrow(
                    device,
                    int(getattr(rows, which)[first]),
                    shape,
                    (along[part + offset], form.tile_bytes, step),
                    dtype,
                )
                for rows, offset in ((source, 0), (target, 2))
            ]
            device.copy(ends[0], out=ends[1])


def packed_rows(emitter: Emitter, rows: BlockRows) -> PackedTensor:
    """Return a list of rows as a matrix: where they lie if they fill tiles in order, else copied together."""
    form, depth, count = rows.form, rows.depth, len(rows.quants)
    start = int(rows.quants[0]) - form.quants_at
    there = _in_tiles(form, depth, np.int64(start), np.arange(count, dtype=np.int64))
    if np.array_equal(rows.quants, there.quants) and np.array_equal(rows.scales, there.scales):
        down, across = form.tiles(count, depth)
        strides = (across * form.tile_bytes, form.tile_bytes, 1)
        tiles = DeviceTensor.borrow(emitter.device, start, (down, across, form.tile_bytes), strides, _BYTE)
        return PackedTensor(tiles, form, (count, depth))
    packed, target = fresh_rows(emitter, form, depth, count)
    copy_rows(emitter, rows, target)
    return packed


def packed_matrices(emitter: Emitter, rows: BlockRows) -> DeviceTensor:
    """Return matrices of rows [matrices, rows] as tiles, uint8 [matrices, bytes of one].

    They are where they lie if they fill tiles in order, else copied together.
    """
    form, depth, (count, columns) = rows.form, rows.depth, rows.quants.shape
    size = form.packed_bytes(columns, depth)

    def places(start: int) -> BlockRows:
        starts = start + size * np.arange(count, dtype=np.int64)[:, None]
        return _in_tiles(form, depth, starts, np.arange(columns, dtype=np.int64)[None])

    start = int(rows.quants[0, 0]) - form.quants_at
    there = places(start)
    if np.array_equal(rows.quants, there.quants) and np.array_equal(rows.scales, there.scales):
        return DeviceTensor.borrow(emitter.device, start, (count, size), (size, 1), _BYTE)
    table = emitter.device.empty((count, size), np.uint8)
    copy_rows(emitter, rows.flat(), places(table.ptr).flat())
    return table


def identity_of(emitter: Emitter) -> DeviceTensor:
    """Return the identity that `values_of` takes."""
    return constant(emitter, np.eye(TILE_DEPTH, dtype=np.float32))


def values_of(emitter: Emitter, rows: BlockRows, identity: DeviceTensor) -> DeviceTensor:
    """Return the values of a list of rows, float32 [elements of a row, rows]: products with the identity."""
    device, depth = emitter.device, rows.depth
    packed = packed_rows(emitter, rows)
    values = device.empty((depth, len(rows.quants)))
    for first in range(0, depth, TILE_DEPTH):
        emitter.check_size()
        size = min(TILE_DEPTH, depth - first)
        tile = first // TILE_DEPTH
        part = PackedTensor(packed.tiles[:, tile : tile + 1], packed.format, (packed.shape[0], size))
        device.matmul(identity[:size, :size], part, out=values[first : first + size])
    return values


# --- quantising ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantised:
    """Rows of blocks, dense.

    Attributes:
        heads: the scales, then the minima if there are any: float16 as uint16 [rows, blocks] each.
        quants: uint8 [rows, blocks, bytes].
    """

    heads: tuple[DeviceTensor, ...]
    quants: DeviceTensor


def quantised(emitter: Emitter, values: DeviceTensor, form: BlockFormat) -> Quantised:
    """Quantise float32 rows [rows, K] as ggml does on a CPU, operation by operation.

    In four bits that is its reference. In eight it is the code for AVX, which multiplies by 127 / max(abs(x))
    and rounds halves to even. The reference multiplies by the reciprocal of the scale and rounds them away
    from 0.
    """
    count, depth = values.shape
    x = DeviceNumbers(emitter, values).reshape(count, depth // BLOCK, BLOCK)
    least = x.min(-1) if form.minimum else None
    if form.bits == 8:
        most = abs(x).max(-1)
        scale = most / 127.0
        whole = (x * most.inverse(127.0)).nearest()
        quants = emitter.device.cast(whole.tensor, "int8")
    else:
        scale = x.extreme(-1) / -8.0 if least is None else (x.max(-1) - least) / 15.0
        scaled = (x if least is None else x - least) * scale.inverse()
        whole = (scaled + (0.5 + form.offset)).truncated().least(15.0)
        halves = whole.reshape(count, depth // BLOCK, 2, BLOCK // 2)
        quants = emitter.device.cast(halves.packed(16.0, 2).tensor, "uint8")
    heads = [scale] if least is None else [scale, least]
    made = (emitter.device.cast(each.tensor, "float16").reshape(count, -1) for each in heads)
    return Quantised(tuple(made), quants)


def write_rows(emitter: Emitter, source: Quantised, target: BlockRows) -> None:
    """Write rows into tiles, in their order: later ones over earlier ones at the same place."""
    device, form = emitter.device, target.form
    blocks = target.depth // BLOCK
    for first, count, (scales, quants) in runs(target.steps()):
        emitter.check_size()
        rows = slice(first, first + count)
        # A tile has two blocks of a row; the last one may have one.
        for tile, tiles, wide in ((0, blocks // 2, 2), (blocks // 2, blocks % 2, 1)):
            if not tiles:
                continue
            cut = slice(2 * tile, 2 * tile + tiles * wide)
            for index, head in enumerate(source.heads):
                start = int(target.scales[first]) + tile * form.tile_bytes + index * 4 * TILE_COLUMNS
                place = DeviceTensor.borrow(
                    device,
                    start,
                    (count, tiles, wide),
                    (scales, form.tile_bytes, 2 * TILE_COLUMNS),
                    head.dtype,
                )
                device.copy(head[rows, cut].reshape(count, tiles, wide), out=place)
            start = int(target.quants[first]) + tile * form.tile_bytes
            place = DeviceTensor.borrow(
                device,
                start,
                (count, tiles, wide * form.quant_bytes),
                (quants, form.tile_bytes, 1),
                source.quants.dtype,
            )
            device.copy(source.quants[rows, cut].reshape(*place.shape), out=place)
