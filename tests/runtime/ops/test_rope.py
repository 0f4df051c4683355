"""Rotary position embedding, both conventions, compared with float64."""

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, DeviceTensor, ErrorCode, NpuDeviceError
from echo_npu.reference.rope import angles, rope
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import TINY, UNIT, assert_within

SHAPES = [(1, 1, 2), (3, 2, 4), (5, 3, 16), (5, 1, 64), (2, 4, 3, 32), (4, 2, 100), (3, 2, 200)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("token_axis", [-3, -2])
def test_rope(npu: Device, shape: tuple[int, ...], interleaved: bool, token_axis: int) -> None:
    x = normal(*shape)
    tokens, width = shape[token_axis], shape[-1]
    angle = angles(np.arange(tokens), width)
    cos, sin = npu.rope_tables(tokens, width)
    result = npu.rope(x, cos, sin, interleaved=interleaved, token_axis=token_axis)
    moved = x if token_axis == -2 else x.swapaxes(-2, -3)
    expected = rope(moved, angle, interleaved)
    magnitude = np.abs(rope(np.abs(moved), np.zeros_like(angle), interleaved))
    pairs = magnitude + partner(magnitude, interleaved)
    if token_axis == -3:
        expected, pairs = expected.swapaxes(-2, -3), pairs.swapaxes(-2, -3)
    assert_within(result, expected, 3 * UNIT * pairs + 2 * TINY)


def partner(x: np.ndarray, interleaved: bool) -> np.ndarray:
    """Return the other element of each pair."""
    if interleaved:
        return x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)
    return np.roll(x, x.shape[-1] // 2, axis=-1)


def test_expanded_tables_give_the_same(npu: Device) -> None:
    x = normal(7, 3, 12)
    wide = npu.rope_tables(7, 12, interleaved=True)
    assert wide[0].shape == (7, 12)
    narrow = npu.rope_tables(7, 12)
    assert np.array_equal(wide[0][:, ::2], narrow[0])
    assert np.array_equal(npu.rope(x, *wide, interleaved=True), npu.rope(x, *narrow, interleaved=True))


def test_positions(npu: Device) -> None:
    cos, sin = npu.rope_tables(np.array([5, 0, 30000]), 8, base=500.0)
    angle = angles([5, 0, 30000], 8, 500.0)
    assert np.array_equal(cos, np.cos(angle).astype(np.float32))
    assert np.array_equal(sin, np.sin(angle).astype(np.float32))
    x = normal(3, 8)
    assert np.array_equal(npu.rope(x, cos, sin), npu.rope(x[:, None], cos, sin)[:, 0])


@pytest.mark.parametrize("interleaved", [False, True])
def test_position_zero_changes_nothing(npu: Device, interleaved: bool) -> None:
    x = normal(1, 4, 32)
    assert np.array_equal(npu.rope(x, *npu.rope_tables(1, 32), interleaved=interleaved), x)


@pytest.mark.parametrize("interleaved", [False, True])
def test_corners(npu: Device, interleaved: bool) -> None:
    x = normal(3, 2, 8)
    x[1, 0, 2] = np.nan
    x[1, 1, 5] = np.inf
    x[2, 0, 0] = -np.inf
    with np.errstate(invalid="ignore"):
        expected = rope(x.swapaxes(0, 1), angles(np.arange(3), 8), interleaved).swapaxes(0, 1)
    result = npu.rope(x, *npu.rope_tables(3, 8), interleaved=interleaved)
    assert_within(result, expected, 1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_views_and_out(npu: Device, interleaved: bool) -> None:
    """Query and key heads lie side by side; the result goes into a cache with gaps."""
    values = normal(6, 5, 16)
    tensor, cache = npu.tensor(values), npu.tensor(np.zeros((6, 2, 3, 16), np.float32))
    tables = npu.rope_tables(6, 16)
    expected = npu.rope(np.ascontiguousarray(values[:, 2:]), *tables, interleaved=interleaved)
    result = npu.rope(tensor[:, 2:], *tables, interleaved=interleaved, out=cache[:, 1])
    assert isinstance(result, DeviceTensor)
    assert np.array_equal(cache.to_numpy()[:, 1], expected)
    assert not cache.to_numpy()[:, 0].any()
    npu.rope(tensor, *tables, interleaved=interleaved, out=tensor)
    assert np.array_equal(tensor.to_numpy()[:, 2:], expected)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_float16_result_is_the_rounded_one(npu: Device, interleaved: bool) -> None:
    values, tables = normal(5, 3, 16), npu.rope_tables(5, 16)
    cache = npu.tensor(np.zeros((5, 2, 3, 16), np.float16))
    npu.rope(npu.tensor(values), *tables, interleaved=interleaved, out=cache[:, 1])
    expected = npu.cast(npu.rope(values, *tables, interleaved=interleaved), np.float16)
    assert np.array_equal(cache.to_numpy()[:, 1], expected)
    assert not cache.to_numpy()[:, 0].any()
    with pytest.raises(TypeError, match="out is int16"):
        npu.rope(values, *tables, out=npu.empty(values.shape, np.int16))


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("index", "target"), [(np.int32, np.float16), (np.int64, np.float32)])
def test_tokens_go_to_the_rows_that_device_memory_names(
    npu: Device, heads: int, index: type, target: type
) -> None:
    x, tables = normal(5, heads, 16), npu.rope_tables(5, 16, interleaved=True)
    rows = np.array([7, 0, 10, 3, 7], index)  # of equal ones the last one stays
    cache = npu.tensor(np.zeros((2, 11, heads, 16), target))
    given = npu.tensor(rows)
    assert npu.rope(npu.tensor(x), *tables, interleaved=True, out=cache[1], at=given).ptr == cache[1].ptr
    expected = np.zeros((11, heads, 16), target)
    expected[rows] = npu.cast(npu.rope(x, *tables, interleaved=True), target)
    assert np.array_equal(cache.to_numpy()[1], expected)
    assert not cache.to_numpy()[0].any()
    wide = npu.tensor(np.zeros((4, heads, 32), target))
    last = [each[3:4] for each in (x, *tables)]
    npu.rope(*last, interleaved=True, out=wide[..., 16:], at=given[3:4])
    assert np.array_equal(wide.to_numpy()[3, :, 16:], expected[3])


def test_operands_among_the_rows_that_device_memory_names(npu: Device) -> None:
    """Tokens, tables and places that lie in `out` count as they were before."""
    x, tables = normal(3, 2, 8), npu.rope_tables(3, 8, interleaved=True)
    places = np.array([6, 1, 0], np.int32)
    before = np.zeros((9, 2, 8), np.float32)
    before[:3], before[3:6, 0], before[6:, 0], before[3, 1, :3] = x, *tables, places.view(np.float32)
    cache = npu.tensor(before)
    there = DeviceTensor.borrow(npu, cache[3, 1].ptr, (3,), (4,), np.dtype(np.int32))
    npu.rope(cache[:3], cache[3:6, 0], cache[6:, 0], interleaved=True, out=cache, at=there)
    before[places] = npu.rope(x, *tables, interleaved=True)
    assert np.array_equal(cache.to_numpy().view(np.uint32), before.view(np.uint32))


def test_what_rows_in_device_memory_do_not_go_with(npu: Device) -> None:
    x, tables = normal(4, 2, 8), npu.rope_tables(4, 8, interleaved=True)
    at, out = npu.tensor(np.arange(4, dtype=np.int32)), npu.empty((9, 2, 8))
    refuses(TypeError, "at is int32 or int64 on the device, got list", npu.rope, x, *tables, at=[1])
    good = {"interleaved": True, "out": out, "at": at}
    for wrong in (
        {"interleaved": False},
        {"token_axis": -2},
        {"out": None},
        {"out": npu.empty((9, 3, 8))},
        {"at": at[:3]},
    ):
        refuses(ValueError, r"out is \[rows, heads, head_dim\]", npu.rope, x, *tables, **(good | wrong))
    refuses(ValueError, "tables are", npu.rope, x, *npu.rope_tables(4, 8), **good)
    odd = {"cos": tables[0][:, :7], "sin": tables[1][:, :7], "out": npu.empty((9, 2, 7))}
    refuses(ValueError, "head_dim even", npu.rope, normal(4, 2, 7), **(good | odd))
    refuses(ValueError, r"x has shape \(\)", npu.rope, np.ones((), np.float32), *tables, **good)
    with echo_npu.open("cmodel") as other:
        for wrong in ({"out": other.empty((9, 2, 8))}, {"at": other.tensor(np.arange(4, dtype=np.int32))}):
            refuses(ValueError, "belongs to another device", npu.rope, x, *tables, **(good | wrong))
    turned = npu.empty((9, 8, 2)).swapaxes(1, 2)
    refuses(ValueError, "out has strides", npu.rope, x, *tables, **(good | {"out": turned}))
    beyond = npu.tensor(np.array([0, 9, 1, 2], np.int32))
    with pytest.raises(NpuDeviceError) as caught:
        npu.rope(x, *tables, **(good | {"at": beyond}))
    npu.clear_error()
    assert (caught.value.code, caught.value.address) == (ErrorCode.BAD_INDEX, beyond.ptr + 4)


def test_errors(npu: Device) -> None:
    tables = npu.rope_tables(4, 8)
    with pytest.raises(ValueError, match=r"cos has shape \(4, 4\).*x of shape \(5, 2, 8\).*\(5, 4\)"):
        npu.rope(normal(5, 2, 8), *tables)
    with pytest.raises(ValueError, match=r"must be \(4, 4\) or \(4, 8\)"):
        npu.rope(normal(4, 2, 8), tables[0][:2], tables[1], interleaved=True)
    refuses(ValueError, r"\(4, 2, 7\).*even", npu.rope, normal(4, 2, 7), *tables)
    with pytest.raises(TypeError, match="sin is ndarray of float64"):
        npu.rope(normal(4, 2, 8), tables[0], tables[1].astype(np.float64))
    refuses(ValueError, "head_dim is 7", npu.rope_tables, 4, 7)
    refuses(ValueError, r"positions has shape \(2, 2\)", npu.rope_tables, np.zeros((2, 2)), 8)
    with pytest.raises(ValueError, match="out has strides"):
        npu.rope(normal(4, 2, 8), *tables, out=npu.empty((4, 2, 16))[..., ::2])
    half = npu.capabilities.row_elements + 1
    with pytest.raises(ValueError, match="half a head"):
        npu.rope(normal(1, 1, 2 * half), np.ones((1, half), np.float32), np.ones((1, half), np.float32))
