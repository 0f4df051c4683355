"""The greatest elements along the last axis, found one after another.

A row lies in blocks, and a table holds the greatest element of each that is not taken yet, with its place.
Each result is the table's greatest; its block is then read once more for the one that follows it. So a row of
N elements is read twice at first, and a block of about the square root of N for each further result.
"""

import math
from collections.abc import Iterator
from typing import Any, Final, SupportsIndex

import numpy as np

from echo_npu import debug
from echo_npu.commands.builders import gather_command
from echo_npu.commands.command import Command
from echo_npu.commands.integers import checked_integer
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.driver.command_device import CommandDevice
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.operands import check_out, require_float32, upload
from echo_npu.ops.rows import last_axis_commands
from echo_npu.ops.shape import fill_commands
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.counting import counting
from echo_npu.vector.kernels.fill import fill
from echo_npu.vector.kernels.selection import greatest_of, next_greatest, replace_at

_WORD: Final = 4
_LEAST_BLOCK: Final = 16
_BEFORE_ALL: Final = np.int32(2**31 - 1)
"""Bits of an element that comes before every other one: a NaN that no operation makes."""


def top_k(
    device: CommandDevice,
    x: Any,
    k: SupportsIndex,
    *,
    out: tuple[DeviceTensor, DeviceTensor] | None = None,
) -> tuple[Any, Any]:
    """Find the k greatest elements along the last axis, in falling order, and their places.

    Of equal elements the first comes first; NaN is greater than any number. A NaN is returned as the
    canonical one, and -0 as +0.

    Args:
        x: float32 [..., N], N at most 2**24; a DeviceTensor with any strides.
        k: how many, 1 .. N.
        out: two DeviceTensors of the results' shape to write to, float32 and int32.

    Returns: (float32 [..., k], int32 [..., k]).

    Raises:
        TypeError: a dtype other than float32, or no array.
        ValueError: k out of its range, no last axis, an empty array, or too long a row.
    """
    require_float32("top_k", x=x)
    if not x.ndim or 0 in x.shape or x.shape[-1] > 1 << 24:
        raise ValueError(f"top_k takes [..., N] with 1 to 2**24 elements in a row; x has shape {x.shape}")
    length = x.shape[-1]
    count = checked_integer("k", k, 1, length)
    shape = (*x.shape[:-1], count)
    for name, index, dtype in (("values", 0, np.float32), ("places", 1, np.int32)):
        check_out(device, f"top_k {name}", None if out is None else out[index], shape, dtype)
    search = _Search(device, upload(device, x, "activation"), count)
    values, places = out or (device.empty(shape), device.empty(shape, np.int32))
    commands = list(search.commands())
    for found, target in ((search.values, values), (search.places, places)):
        commands += copy_commands(found.reshape(*shape), target)
    debug.npu(f"top_k {x.shape}, {count}")
    device.execute(commands)
    if out is not None or isinstance(x, DeviceTensor):
        return values, places
    return values.to_numpy(), places.to_numpy()


class _Search:
    """The memory of a search, and its commands.

    Attributes:
        values, places: what is found, [rows, k].
    """

    def __init__(self, device: CommandDevice, x: DeviceTensor, count: int) -> None:
        self._device = device
        self._count = count
        length = x.shape[-1]
        # A power of two, so that a place shifted is the number of its block.
        self._shift = max(math.ceil(math.log2(length) / 2), int(math.log2(_LEAST_BLOCK)))
        self._width = 1 << self._shift
        self._blocks = -(-length // self._width)
        self._before: list[Command] = []
        self._rows = self._in_blocks(x.contiguous().reshape(-1, length))
        # Of each block the element that was taken last, and its place: at first none, and the block's start.
        self._none = device.empty((2, self._blocks), np.int32)
        self._table = device.empty((2, self._blocks), np.int32)
        self._block = device.empty((self._width,))
        self._next = device.empty((2,), np.int32)
        # For each result: the element, its place, and the number of its block.
        rows = self._rows.shape[0]
        self._found = device.empty((rows, 3, count))
        strides = (3 * count * _WORD, _WORD)
        self.values = self._found[:, 0]
        place = self._found.ptr + count * _WORD
        self.places = DeviceTensor.borrow(device, place, (rows, count), strides, np.dtype(np.int32))

    def _in_blocks(self, x: DeviceTensor) -> DeviceTensor:
        """Return rows of whole blocks; what is past their end comes after every element of theirs."""
        rows, length = x.shape
        whole = self._blocks * self._width
        if length == whole:
            return x
        padded = self._device.empty((rows, whole))
        self._before += fill_commands(self._device, padded, -math.inf)
        self._before += copy_commands(x, padded[:, :length])
        return padded

    def commands(self) -> Iterator[Command]:
        """Yield the commands of the search, in order."""
        yield from self._before
        first, starts = self._none[0], self._none[1]
        yield from last_axis_commands(self._device, fill(), [], first, params=(_BEFORE_ALL,))
        numbers = (np.int32(0), np.int32(self._width))
        yield from last_axis_commands(self._device, counting(whole=True), [], starts, params=numbers)
        for row in range(self._rows.shape[0]):
            yield from self._row(self._rows[row].ptr, self._found[row].ptr)

    def _row(self, row: int, found: int) -> Iterator[Command]:
        """Yield the commands of one row; both are addresses."""
        count, blocks, width = self._count, self._blocks, self._width
        below = blocks * _WORD  # from the table's elements to their places
        yield self._next_greatest(
            blocks,
            Stream(row, width, row_stride=width * _WORD),
            Stream(self._none.ptr, bcast=True, row_stride=_WORD),
            Stream(self._none.ptr + below, bcast=True, row_stride=_WORD),
            Stream(self._table.ptr, 1, 2, row_stride=_WORD, seg_stride=below),
        )
        for index in range(count):
            element, place, block = (found + (part * count + index) * _WORD for part in range(3))
            yield self._greatest_of(element)
            if index == count - 1:
                return
            yield gather_command(
                row, block, self._block.ptr, rows=1, row_bytes=width * _WORD, table_rows=blocks
            )
            yield self._next_greatest(
                1,
                Stream(self._block.ptr, width),
                Stream(element, bcast=True),
                Stream(place, bcast=True),
                Stream(self._next.ptr, 1, 2, seg_stride=_WORD),
            )
            yield self._replace_at(block)

    def _next_greatest(
        self, rows: int, elements: Stream, element: Stream, place: Stream, output: Stream
    ) -> Command:
        program = next_greatest()
        return vector_command(
            self._device.load_program(program),
            rows=rows,
            cols=self._width,
            inputs=[elements, element, place],
            output=output,
            params=(np.int32(-self._width),),
            passes=program.passes,
        ).command()

    def _greatest_of(self, found: int) -> Command:
        """Take the table's greatest element."""
        program, blocks = greatest_of(), self._blocks
        return vector_command(
            self._device.load_program(program),
            rows=1,
            cols=blocks,
            inputs=[Stream(self._table.ptr, blocks), Stream(self._table.ptr + blocks * _WORD, blocks)],
            output=Stream(found, 1, 3, seg_stride=self._count * _WORD),
            params=(np.int32(self._shift),),
            passes=program.passes,
        ).command()

    def _replace_at(self, block: int) -> Command:
        """Put what follows the taken element into the table, elements and places alike."""
        program, blocks = replace_at(), self._blocks
        row = blocks * _WORD
        return vector_command(
            self._device.load_program(program),
            rows=2,
            cols=blocks,
            inputs=[
                Stream(self._table.ptr, blocks, row_stride=row),
                Stream(self._next.ptr, bcast=True, row_stride=_WORD),
                Stream(block, bcast=True),
            ],
            output=Stream(self._table.ptr, blocks, row_stride=row),
            passes=program.passes,
        ).command()
