"""The memory of tokens that go through the layers together."""

from collections.abc import Iterator

import numpy as np
import pytest

import echo_npu
from echo_npu import Device
from echo_npu.language.group import GroupMemory, TokenGroup, group_memory
from echo_npu.models.gguf_model import GgufModel

ROWS, CONTEXT = 6, 40


@pytest.fixture
def device() -> Iterator[Device]:
    with echo_npu.open("cmodel") as made:
        yield made


@pytest.fixture
def memory(device: Device, model: GgufModel) -> GroupMemory:
    return group_memory(lambda name, shape, dtype: device.empty(shape, dtype), model.config, ROWS, CONTEXT)


def test_shapes(memory: GroupMemory, model: GgufModel) -> None:
    config, group = model.config, TokenGroup(memory, 7, 3)
    assert (group.count, group.places) == (3, slice(7, 10))
    assert group.stream.shape == group.delta.shape == group.normed.shape == (3, config.hidden)
    assert group.scores.shape == group.shares.shape == (config.kv_heads, config.group, 3, 10)
    assert group.query.dtype == group.shares.dtype == group.embedded.dtype == np.float16
    assert group.embedded.shape == (3, config.hidden)
    assert group.swish.shape == (3, config.ffn)


def test_rows_of_scores_begin_at_whole_beats(memory: GroupMemory) -> None:
    assert memory.scores.strides[-2] % 128 == 0


def test_pieces_lie_apart(memory: GroupMemory, model: GgufModel) -> None:
    group, width = TokenGroup(memory, 0, 4), model.config.ffn
    pieces = [group.gate(slice(0, 16)), group.gate(slice(16, width))]
    assert [piece.shape for piece in pieces] == [(4, 16), (4, width - 16)]
    assert all(piece.is_contiguous for piece in pieces)
    assert pieces[0].ptr + pieces[0].nbytes == pieces[1].ptr


def test_the_streams_take_turns(memory: GroupMemory) -> None:
    group = TokenGroup(memory, 0, 1)
    first, second = group.stream.ptr, group.other_stream.ptr
    assert first != second
    group.turn()
    assert (group.stream.ptr, group.other_stream.ptr) == (second, first)


@pytest.mark.parametrize("count", [1, 3])
def test_heads_of_a_key_head(device: Device, memory: GroupMemory, model: GgufModel, count: int) -> None:
    config, group = model.config, TokenGroup(memory, 0, count)
    values = np.arange(count * config.q_width, dtype=np.float32).reshape(count, -1)
    group.mixed.copy_from(values)
    expected = values.reshape(count, config.kv_heads, config.group, config.head_dim).transpose(1, 2, 0, 3)
    assert np.array_equal(group.by_key_head(group.mixed).to_numpy(), expected)
    rows = group.as_rows(group.by_key_head(group.mixed))
    assert np.array_equal(rows.to_numpy(), expected[:, :, 0] if count == 1 else expected)
    cached = device.empty((config.kv_heads, 5, config.head_dim))
    assert group.for_rows(cached).ndim == rows.ndim
