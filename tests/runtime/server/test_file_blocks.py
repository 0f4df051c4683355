"""Tensors in blocks as a file has them, turned into floats and made of floats by graphs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from numpy.typing import NDArray

from echo_npu.server import graphs
from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks import grids, tensors
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.formats import FILE_FORMATS
from echo_npu.server.protocol import AnswerStatus, GraphTensor, RequestKind, TensorFlag
from tests.runtime.server.server_client import AnswerError, ServerClient, node
from tests.runtime.server.test_moved_types import computed, turned

RANDOM = np.random.default_rng(17)
KNOWN = [name for name in FILE_FORMATS if name not in ("q1_0", "q2_0")]
"""Types of which the package gguf computes the values."""


def blocks(client: ServerClient, name: str, shape: tuple[int, ...]) -> tuple[GraphTensor, NDArray[np.uint8]]:
    """Allocate a dense tensor of four dimensions of blocks; return it and its bytes, random finite ones."""
    form = FILE_FORMATS[name]
    data = RANDOM.integers(0, 256, (*shape, form.size)).astype(np.uint8)
    data[..., slice(0, 1) if name == "mxfp4" else slice(1, None, 2)] &= 0x3F  # exponents
    address = client.number(RequestKind.ALLOCATE, data.size)
    place = client.memory[address : address + data.size].reshape(data.shape)
    place[...] = data
    return GraphTensor(
        name, TensorFlag.INPUT, shape[::-1], data.strides[3::-1], address, item=form.size
    ), place


def values_of(name: str, data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the values of blocks [..., bytes], float32 [..., elements]."""
    rows = np.ascontiguousarray(data).reshape(-1, data.shape[-1])
    found = quants.dequantize(rows, GGMLQuantizationType[name.upper()])
    return found.astype(np.float32).reshape(*data.shape[:-1], -1)


@pytest.mark.parametrize("name", KNOWN)
def test_copies_and_rows_have_the_values_of_the_blocks(client: ServerClient, name: str) -> None:
    width = 2 * FILE_FORMATS[name].elements
    source, data = blocks(client, name, (2, 1, 3, 2))
    wanted = values_of(name, data).reshape(2, 1, 3, width)
    target = client.room((2, 1, 3, width))
    computed(client, "CPY", target, source)
    assert np.array_equal(client.read(target), wanted)
    index = client.put(np.array([[[2, 0, 2, 1]], [[1, 1, 0, 2]]], np.int32))
    out = client.room((2, 1, 4, width))
    computed(client, "GET_ROWS", out, source, replace(index, elements=(4, 1, 2, 1)))
    numbers = client.read(index).reshape(2, 4)
    rows = np.stack([wanted[i, 0, numbers[i]] for i in range(2)])
    assert np.array_equal(client.read(out)[:, 0], rows)
    half = client.room((2, 1, 4, width), np.float16)
    computed(client, "GET_ROWS", half, source, replace(index, elements=(4, 1, 2, 1)))
    with np.errstate(over="ignore"):
        assert np.array_equal(client.read(half)[:, 0], rows.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
def test_permuted_blocks_become_any_float_in_any_shape(client: ServerClient, dtype: Any) -> None:
    source, data = blocks(client, "q5_1", (2, 3, 4, 1))
    view = turned(source, 0, 2, 1, 3)
    exact = values_of("q5_1", data).reshape(2, 3, 4, 32).swapaxes(1, 2)
    target = client.room((6, 8, 2, 8), dtype)
    computed(client, "CONT", target, view)
    got = client.read(target).reshape(exact.shape)
    if dtype is np.uint16:
        bits = exact.view(np.uint32)
        wanted = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    else:
        wanted = exact.astype(dtype)
    assert np.array_equal(got, wanted)
    apart = turned(client.room((4, 2, 3, 32), dtype), 0, 3, 1, 2)
    computed(client, "CPY", apart, view)
    assert np.array_equal(client.read(apart), wanted.reshape(client.read(apart).shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", [name for name, form in FILE_FORMATS.items() if form.quantise])
def test_floats_become_blocks_wherever_they_lie(client: ServerClient, name: str, dtype: Any) -> None:
    """Copies, permuted ones among them, and rows by their numbers all make the same blocks of a row."""
    rows = RANDOM.normal(size=(1, 3, 2, 2 * FILE_FORMATS[name].elements))
    source = client.put(rows.astype(dtype))
    dense, made = blocks(client, name, (1, 3, 2, 2))
    computed(client, "CPY", dense, source)
    assert not np.array_equal(made[0, 0], made[0, 1])
    wanted = made.copy()
    view, got = blocks(client, name, (1, 2, 3, 2))
    computed(client, "CPY", view, turned(source, 0, 2, 1, 3))
    assert np.array_equal(got, wanted.swapaxes(1, 2))
    cache, kept = blocks(client, name, (1, 3, 5, 2))
    before = kept.copy()
    index = client.put(np.array([4, 1], np.int64))
    computed(client, "SET_ROWS", cache, source, index, cache)
    before[:, :, [4, 1]] = wanted
    assert np.array_equal(kept, before)
    error = rows.astype(dtype).astype(np.float32) - read_back(client, dense, rows.shape)
    assert np.abs(error).max() < np.abs(rows).max()


def read_back(client: ServerClient, tensor: GraphTensor, shape: tuple[int, ...]) -> NDArray[np.float32]:
    target = client.room(shape)
    computed(client, "CPY", target, tensor)
    return client.read(target)


def test_rows_are_written_by_numbers_that_the_graph_computes(client: ServerClient) -> None:
    rows = client.put(RANDOM.normal(size=(1, 1, 2, 64)).astype(np.float32))
    cache, kept = blocks(client, "q5_0", (1, 1, 4, 2))
    dense, made = blocks(client, "q5_0", (1, 1, 2, 2))
    computed(client, "CPY", dense, rows)
    given = client.put(np.array([3.0, 0.0], np.float32))
    numbers = client.room((2,), np.int32)
    before = kept.copy()
    client.graph(node("CPY", numbers, given), node("SET_ROWS", cache, rows, numbers, cache))
    before[0, 0, [3, 0]] = made[0, 0]
    assert np.array_equal(kept, before)


def test_a_graph_is_replayed_with_other_rows_and_numbers(client: ServerClient) -> None:
    rows = client.put(RANDOM.normal(size=(1, 1, 2, 256)).astype(np.float32))
    cache, kept = blocks(client, "q6_K", (1, 1, 6, 1))
    index = client.put(np.array([5, 0], np.int64))
    out = client.room((1, 1, 6, 256))
    made = node("SET_ROWS", cache, rows, index, cache), node("CPY", out, cache)
    client.graph(*made, key=7)
    for numbers in ([1, 4], [2, 3]):
        client.write(rows, RANDOM.normal(size=(1, 1, 2, 256)).astype(np.float32))
        client.write(index, np.array(numbers, np.int64).reshape(1, 1, 1, 2))
        client.number(RequestKind.RUN, 7)
        assert np.array_equal(client.read(out), values_of("q6_K", kept).reshape(1, 1, 6, 256))
        error = client.read(out)[0, 0, numbers] - client.read(rows)[0, 0]
        assert np.abs(error).max() < 0.2


@pytest.mark.parametrize("number", [-1, 3])
def test_a_number_of_no_row_is_an_error(client: ServerClient, number: int) -> None:
    table, _ = blocks(client, "iq4_nl", (1, 1, 3, 1))
    index = client.put(np.array([0, number], np.int32))
    with pytest.raises(AnswerError, match="BAD_INDEX"):
        client.graph(node("GET_ROWS", client.room((2, 32)), table, index))
    rows = client.put(np.ones((2, 32), np.float32))
    with pytest.raises(AnswerError, match=f"SET_ROWS: .*{number}.* of 3 rows"):
        client.graph(node("SET_ROWS", table, rows, index, table))


def test_what_takes_more_than_one_part_is_the_same(
    client: ServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = client.put(RANDOM.normal(size=(1, 1, 5, 512)).astype(np.float32))
    whole, first = blocks(client, "q3_K", (1, 1, 5, 2))
    computed(client, "CPY", whole, source)
    values = read_back(client, whole, (1, 1, 5, 512))
    monkeypatch.setattr(tensors, "_AT_A_TIME", 3 * 256)
    parts, second = blocks(client, "q3_K", (1, 1, 5, 2))
    computed(client, "CPY", parts, source)
    assert np.array_equal(first, second)
    assert np.array_equal(read_back(client, parts, (1, 1, 5, 512)), values)


def test_a_graph_that_becomes_too_long_ends_inside_a_node(
    client: ServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = []
    form = FILE_FORMATS["q5_0"]

    def counted(values: DeviceNumbers, made: FileBlocks) -> None:
        parts.append(values.shape)
        assert form.quantise is not None
        form.quantise(values, made)

    monkeypatch.setitem(FILE_FORMATS, "q5_0", replace(form, quantise=counted))
    monkeypatch.setattr(tensors, "_AT_A_TIME", 32)
    monkeypatch.setattr(graphs, "MOST_COMMANDS", 100)
    target, _ = blocks(client, "q5_0", (1, 1, 50, 1))
    floats = client.put(RANDOM.normal(size=(1, 1, 50, 32)).astype(np.float32))
    with pytest.raises(AnswerError, match="more than 100 commands"):
        client.graph(node("CPY", target, floats))
    assert len(parts) < 6


@pytest.mark.parametrize("known", [True, False])
def test_lists_are_those_of_their_matrices(client: ServerClient, known: bool) -> None:
    """Four times three matrices share two times three lists, which the graph computes or not."""
    rows = RANDOM.normal(size=(4, 3, 2, 32)).astype(np.float32)
    cache, kept = blocks(client, "q5_0", (4, 3, 5, 1))
    dense, made = blocks(client, "q5_0", (4, 3, 2, 1))
    source = client.put(rows)
    computed(client, "CPY", dense, source)
    numbers = np.stack([RANDOM.permutation(5)[:2] for _ in range(6)]).reshape(1, 2, 3, 2)
    before = kept.copy()
    for outer, inner in np.ndindex(4, 3):
        before[outer, inner, numbers[0, outer % 2, inner]] = made[outer, inner]
    if known:
        client.graph(node("SET_ROWS", cache, source, client.put(numbers.astype(np.int64)), cache))
    else:
        given, index = client.put(numbers.astype(np.float32)), client.room(numbers.shape, np.int32)
        client.graph(node("CPY", index, given), node("SET_ROWS", cache, source, index, cache))
    assert np.array_equal(kept, before)


def test_the_last_of_equal_numbers_stays(client: ServerClient) -> None:
    rows = RANDOM.normal(size=(4, 8)).astype(np.float32)
    target = client.put(np.zeros((3, 8), np.float32))
    source, index = client.put(rows), client.put(np.array([0, 1, 1, 2], np.int64))
    client.graph(node("SET_ROWS", target, source, index, target))
    assert np.array_equal(client.read(target)[0, 0], rows[[0, 2, 3]])


def test_copies_within_a_tensor(client: ServerClient) -> None:
    source, data = blocks(client, "q5_0", (1, 1, 6, 2))
    wanted = data.copy()
    computed(client, "CPY", source, source)
    assert np.array_equal(data, wanted)
    part = replace(source, elements=(2, 4, 1, 1))
    computed(client, "CPY", replace(part, address=part.address + 44), part)
    wanted[0, 0, 1:5] = wanted[0, 0, :4].copy()
    assert np.array_equal(data, wanted)
    computed(client, "CPY", part, replace(part, address=part.address + 2 * 44))
    wanted[0, 0, :4] = wanted[0, 0, 2:6].copy()
    assert np.array_equal(data, wanted)
    floats = client.put(RANDOM.normal(size=(6, 8)).astype(np.float32))
    exact = client.read(floats)[0, 0]
    few = replace(floats, elements=(8, 5, 1, 1))
    computed(client, "CPY", replace(few, address=few.address + 32), few)
    assert np.array_equal(client.read(floats)[0, 0], np.concatenate([exact[:1], exact[:5]]))


def test_tensors_lie_in_memory(client: ServerClient) -> None:
    source, _ = blocks(client, "q5_0", (1, 1, 2, 1))
    target = client.room((2, 32))
    for address in (len(client.memory) - 10, len(client.memory)):
        for made in (
            node("CPY", target, replace(source, address=address)),
            node("CPY", replace(target, address=address), source),
        ):
            assert client.supports(made)
            with pytest.raises(AnswerError, match="does not lie in memory") as caught:
                client.graph(made)
            assert caught.value.status == AnswerStatus.BAD_ARGUMENT


def reason(client: ServerClient, made: Any) -> str:
    assert not client.supports(made)
    with pytest.raises(AnswerError) as caught:
        client.graph(made)
    return str(caught.value)


def test_what_the_device_does_not_change_is_refused_in_words(
    client: ServerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, _ = blocks(client, "iq2_s", (1, 1, 2, 1))
    floats = client.room((2, 256))
    assert "f32 to iq2_s" in reason(client, node("CPY", grid, floats))
    index = client.put(np.array([0, 1], np.int32))
    assert "f32 to iq2_s" in reason(client, node("SET_ROWS", grid, floats, index, grid))
    five, _ = blocks(client, "q5_K", (1, 1, 2, 1))
    assert "blocks of 88 bytes in q5_K" in reason(
        client, node("CPY", floats, replace(five, elements=(2, 2, 1, 1), steps=(88, 176, 352, 352), item=88))
    )
    assert "q5_K and i32" in reason(client, node("CPY", client.room((2, 256), np.int32), five))
    assert "other numbers of elements" in reason(client, node("CPY", client.room((2, 128)), five))
    assert "q5_K and q8_1" in reason(client, node("CPY", five, replace(five, type="q8_1", item=88)))
    monkeypatch.setattr(grids, "find_spec", lambda name: None)
    assert "iq2_s without the package gguf" in reason(client, node("CPY", floats, grid))
    assert client.supports(node("CPY", floats, five))
