"""How tensors become rows, batches and segments of commands."""

import math

import numpy as np

from echo_npu import Device
from echo_npu.commands.packets import MAX_ROWS
from echo_npu.commands.vector_command import Stream
from echo_npu.ops.rows import Line, line, overlap, row_commands, single, target_for
from echo_npu.vector.kernels.fill import fill
from tests.arrays import normal
from tests.refusals import refuses


def test_a_line_is_dense_packed_or_one_element(npu: Device) -> None:
    tensor = npu.tensor(normal(6, 8))
    assert line(tensor, (6,), 8) == Line(Stream(tensor.ptr, 8), (32,))
    assert line(tensor[:, ::2], (6,), 4) == Line(Stream(tensor.ptr, 1, 4, seg_stride=8, pack=True), (32,))
    assert line(tensor[:, 1:2], (6,), 8) == Line(Stream(tensor.ptr + 4, 1, bcast=True), (32,))
    assert line(tensor[0], (5, 6), 8) == Line(Stream(tensor.ptr, 8), (0, 0))
    assert line(tensor[0, 0], (), 8) == Line(Stream(tensor.ptr, 1, bcast=True), ())
    assert line(tensor[:, :1], (6,), 1) == Line(Stream(tensor.ptr, 1), (32,))
    assert single(tensor[0], (3, 8), bcast=True) == Line(Stream(tensor.ptr, 1, bcast=True), (0, 4))


def test_more_pieces_than_a_row_has_segments(npu: Device) -> None:
    tensor = npu.empty((1 << 20, 2))
    refuses(ValueError, r"\(1048576,\).*1048576 separate pieces.*contiguous", line, tensor[:, 0], (), 1 << 20)


def commands(npu: Device, leading: tuple[int, ...], strides: tuple[int, ...], **options: bool) -> list[tuple]:
    """(rows, batches) of each command; nothing is executed."""
    output = Line(Stream(0x1000_0000, 1), strides)
    found = []
    for command in row_commands(npu, fill(), leading, [], output, cols=1, params=(0.0,), **options):
        words = np.frombuffer(command.slots[1], np.uint32)
        found.append((command.packet.m, int(words[2]), int(words[3])))
    return found


def test_axes_become_rows_batches_and_commands(npu: Device) -> None:
    assert commands(npu, (), ()) == [(1, 1, 1)]
    assert commands(npu, (3, 4), (16, 4)) == [(12, 1, 1)]
    assert commands(npu, (3, 4), (32, 4)) == [(4, 3, 1)]
    assert commands(npu, (2, 3, 4), (256, 32, 4)) == [(4, 3, 2)]
    assert commands(npu, (5, 2, 3, 4), (2048, 256, 32, 4)) == [(4, 3, 2)] * 5
    assert commands(npu, (3, 4), (16, 4), keep_last=True) == [(4, 3, 1)]


def test_more_rows_than_a_command_has(npu: Device) -> None:
    found = commands(npu, (MAX_ROWS + 5,), (4,))
    assert [rows for rows, _, _ in found] == [MAX_ROWS, 5]
    assert math.prod(found[0][1:]) == 1


def test_where_results_go(npu: Device) -> None:
    tensor = npu.tensor(normal(6, 8))
    other = npu.empty((6, 8))
    assert overlap(tensor, tensor[5:])
    assert not overlap(tensor[:3], tensor[3:])
    assert target_for(npu, (6, 8), other, [tensor]) is other
    assert target_for(npu, (6, 8), tensor, [tensor]) is not tensor
    assert target_for(npu, (6, 8), tensor, [tensor], in_place=True) is tensor
    left, right = tensor[:, :4], tensor[:, 4:]
    assert target_for(npu, (6, 4), left, [right], in_place=True) is not left
    assert target_for(npu, (6, 4), left, [left], in_place=True) is not left
