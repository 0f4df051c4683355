"""Types that the device only moves, and tensors in blocks that are joined, on the functional model."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import formats
from echo_npu.server.operations.base import MOST_ITEM
from echo_npu.server.protocol import GraphTensor, RequestKind, TensorFlag
from tests.runtime.server.server_client import ServerClient, node
from tests.runtime.server.test_operations import packed_weights, part, unpacked

RANDOM = np.random.default_rng(11)


def moved(
    client: ServerClient, shape: tuple[int, ...], item: int, name: str = "q5_K"
) -> tuple[GraphTensor, NDArray[np.uint8]]:
    """Allocate a dense tensor of four dimensions of blocks; return it and its bytes, random ones."""
    data = RANDOM.integers(0, 256, (*shape, item)).astype(np.uint8)
    address = client.number(RequestKind.ALLOCATE, data.size)
    place = client.memory[address : address + data.size].reshape(data.shape)
    place[...] = data
    steps = data.strides[3::-1]
    return GraphTensor(name, TensorFlag.INPUT, shape[::-1], steps, address, item=item), place


def turned(tensor: GraphTensor, *order: int) -> GraphTensor:
    """Return the tensor with its dimensions in another order."""
    return replace(
        tensor,
        elements=tuple(tensor.elements[axis] for axis in order),
        steps=tuple(tensor.steps[axis] for axis in order),
    )


def computed(client: ServerClient, op: str, target: GraphTensor, *sources: Any, **parameters: Any) -> None:
    made = node(op, target, *sources, **parameters)
    assert client.supports(made)
    client.graph(made)


@pytest.mark.parametrize("item", [1, 3, 8, 18, 22, 144, 210, MOST_ITEM])
@pytest.mark.parametrize("op", ["CPY", "CONT", "DUP"])
def test_blocks_of_any_size_are_moved_as_they_are(client: ServerClient, op: str, item: int) -> None:
    source, data = moved(client, (2, 3, 2, 3), item)
    wanted = data.copy()
    for order in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2), (1, 0, 2, 3)):
        view = turned(source, *order)
        target, got = moved(client, view.elements[::-1], item)
        computed(client, op, target, view)
        axes = [3 - axis for axis in order[::-1]]
        assert np.array_equal(got, wanted.transpose(*axes, 4))
    assert np.array_equal(data, wanted)


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_rows_in_tiles_are_copied_within_a_tensor(client: ServerClient, name: str) -> None:
    form = formats.named_format(name)
    blocks = RANDOM.integers(0, 256, (40, form.row_bytes(96))).astype(np.uint8)
    tensor = packed_weights(client, name, blocks, (1, 1, 40, 96))
    computed(client, "CPY", tensor, tensor)
    assert np.array_equal(unpacked(client, tensor).reshape(blocks.shape), blocks)
    for first, second in ((0, 3), (5, 0)):
        views = [part(tensor, (30, 1, 1), tensor.steps[1:], each) for each in (first, second)]
        computed(client, "CPY", views[1], views[0])
        blocks[second : second + 30] = blocks[first : first + 30].copy()
        assert np.array_equal(unpacked(client, tensor).reshape(blocks.shape), blocks)


def test_a_copy_between_shapes_and_into_a_part(client: ServerClient) -> None:
    source, data = moved(client, (1, 4, 3, 2), 34)
    target, got = moved(client, (2, 2, 2, 3), 34)
    computed(client, "CPY", target, source)
    assert np.array_equal(got.reshape(-1), data.reshape(-1))
    computed(client, "CPY", target, turned(source, 0, 2, 1, 3))
    assert np.array_equal(got.reshape(-1), data.swapaxes(1, 2).reshape(-1))
    whole, around = moved(client, (1, 4, 5, 4), 34)
    wanted = around.copy()
    inside = replace(whole, elements=(2, 3, 4, 1), address=whole.address + 34)
    computed(client, "CPY", inside, source)
    wanted[:, :, :3, 1:3] = data
    assert np.array_equal(around, wanted)
    # With gaps on both sides, and of another shape.
    whole, around = moved(client, (2, 4, 5, 4), 34)
    view = replace(inside, elements=(3, 2, 2, 2), steps=whole.steps, address=whole.address + 34)
    before, wanted = wanted, around.copy()
    computed(client, "CPY", view, turned(inside, 0, 2, 1, 3))
    wanted[:2, :2, :2, 1:4] = before[:, :, :3, 1:3].swapaxes(1, 2).reshape(2, 2, 2, 3, 34)
    assert np.array_equal(around, wanted)


def test_joined_repeated_and_picked_rows(client: ServerClient) -> None:
    (left, one), (right, other) = moved(client, (1, 2, 3, 2), 22), moved(client, (1, 2, 4, 2), 22)
    target, got = moved(client, (1, 2, 7, 2), 22)
    computed(client, "CONCAT", target, left, right, parameters={0: 1})
    assert np.array_equal(got, np.concatenate([one, other], axis=2))
    target, got = moved(client, (1, 2, 6, 4), 22)
    computed(client, "REPEAT", target, left)
    assert np.array_equal(got, np.tile(one, (1, 1, 2, 2, 1)))
    target, got = moved(client, (1, 2, 3, 2), 22)
    numbers = np.array([[3, 0, 3], [1, 2, 0]], np.int32)
    computed(client, "GET_ROWS", target, right, client.put(numbers))
    assert np.array_equal(got[0], np.stack([other[0, i][numbers[i]] for i in range(2)]))


ITEMS = {
    "nothing": ("q5_K", 0),
    "another size": ("q5_K", 176 // 2),
    "another name": ("q4_K", 176),
    "a type that has a size": ("f32", 176),
    "a type in tiles": ("q8_0", 176),
    "too large": ("q5_K", MOST_ITEM + 1),
    "far too large": ("q5_K", (1 << 64) - 1),
}


@pytest.mark.parametrize(("name", "item"), ITEMS.values(), ids=ITEMS)
def test_what_is_no_copy_between_equal_types_is_refused(client: ServerClient, name: str, item: int) -> None:
    tensor, _ = moved(client, (1, 1, 2, 64), 176)
    other = replace(tensor, type=name, item=item)
    assert client.supports(node("CPY", tensor, tensor))
    assert not client.supports(node("CPY", tensor, other))
    assert not client.supports(node("CPY", other, tensor))
    if name not in ("q4_K", "q5_K") or not 0 < item <= MOST_ITEM:
        assert not client.supports(node("CPY", other, other))


@pytest.mark.parametrize("op", ["SQR", "ADD", "MUL_MAT", "SET_ROWS", "SUM_ROWS", "FILL", "PAD", "OUT_PROD"])
def test_nothing_is_computed_of_what_is_only_moved(client: ServerClient, op: str) -> None:
    """Not even where the operation looks at the other tensors alone."""
    floats = client.room((1, 1, 2, 2))
    tensor = replace(floats, type="f64x", item=4)
    for chosen in itertools.product((tensor, floats), repeat=3):
        if tensor in chosen:
            assert not client.supports(node(op, *chosen))


def test_steps_are_whole_elements(client: ServerClient) -> None:
    tensor, _ = moved(client, (1, 1, 2, 3), 22)
    for step, taken in ((66, True), (88, True), (77, False), (67, False)):
        view = replace(tensor, steps=(22, step, 2 * step, 2 * step))
        assert client.supports(node("CPY", tensor, view)) == taken


# --- tensors in tiles ---------------------------------------------------------------------------------------


def in_blocks(
    client: ServerClient, name: str, shape: tuple[int, int, int, int]
) -> tuple[GraphTensor, NDArray[np.uint8]]:
    """Bring random blocks to the device, in tiles; return the tensor and [..., row bytes]."""
    rows = int(np.prod(shape[:3]))
    values = RANDOM.standard_normal((rows, shape[3]), dtype=np.float32)
    blocks = formats.quantize(values, name).reshape(*shape[:3], -1)
    return packed_weights(client, name, blocks, shape), blocks


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
@pytest.mark.parametrize("dimension", range(4))
def test_tensors_in_blocks_are_joined(client: ServerClient, name: str, dimension: int) -> None:
    shape, axis = [2, 2, 19, 64], 3 - dimension
    left, one = in_blocks(client, name, (2, 2, 19, 64))
    shape[axis] = 96 if dimension == 0 else 5
    right, other = in_blocks(client, name, (shape[0], shape[1], shape[2], shape[3]))
    shape[axis] += 64 if dimension == 0 else one.shape[axis]
    target, _ = in_blocks(client, name, (shape[0], shape[1], shape[2], shape[3]))
    computed(client, "CONCAT", target, left, right, parameters={0: dimension})
    wanted = np.concatenate([one, other], axis=axis)
    assert np.array_equal(unpacked(client, target).reshape(wanted.shape), wanted)


def test_parts_of_tensors_in_blocks_are_joined(client: ServerClient) -> None:
    whole, blocks = in_blocks(client, "q4_0", (1, 1, 40, 32))
    left, right = part(whole, (7, 1, 1), whole.steps[1:], 20), part(whole, (5, 1, 1), whole.steps[1:], 2)
    target, _ = in_blocks(client, "q4_0", (1, 1, 12, 32))
    computed(client, "CONCAT", target, left, right, parameters={0: 1})
    wanted = np.concatenate([blocks[0, 0, 20:27], blocks[0, 0, 2:7]])
    assert np.array_equal(unpacked(client, target), wanted.reshape(-1))


@pytest.mark.parametrize("name", sorted(formats.FORMATS))
def test_experts_in_blocks_are_a_part_of_larger_ones(client: ServerClient, name: str) -> None:
    whole, blocks = in_blocks(client, name, (1, 5, 40, 64))
    exact = formats.dequantize(blocks.reshape(200, -1), name).reshape(5, 40, 64)
    row, matrix, _ = whole.steps[1:]
    rows = RANDOM.standard_normal((3, 2, 64), dtype=np.float32)
    numbers = np.array([[0, 3], [2, 2], [1, 0]], np.int32)
    for shape, along, first, experts in (
        ((20, 4), (row, matrix), 7, exact[:4, 7:27]),  # of each, rows inside tiles
        ((16, 4), (row, matrix), 16, exact[:4, 16:32]),
        ((40, 4), (row, matrix), 40, exact[1:]),  # the last of them, which fill tiles
        ((5, 4), (matrix, row), 2, exact[:, 2:6].swapaxes(0, 1)),
    ):
        weights = part(whole, (*shape, 1), (*along, 5 * matrix), first)
        target = client.room((3, 2, shape[0]))
        computed(client, "MUL_MAT_ID", target, weights, client.put(rows), client.put(numbers))
        wanted = np.einsum("tunk,tuk->tun", experts[numbers], rows)
        assert np.abs(client.read(target)[0] - wanted).max() < 1e-4 * np.abs(wanted).max()


def test_rows_in_blocks_are_not_joined_inside_a_tile(client: ServerClient) -> None:
    for depth, taken in ((32, False), (64, True), (96, False)):
        left, _ = in_blocks(client, "q8_0", (1, 1, 3, depth))
        right, _ = in_blocks(client, "q8_0", (1, 1, 3, 64))
        target, _ = in_blocks(client, "q8_0", (1, 1, 3, depth + 64))
        assert client.supports(node("CONCAT", target, left, right, parameters={0: 0})) == taken
