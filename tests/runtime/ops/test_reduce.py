"""Sums, means, extremes and argmax over any axes, against float64."""

import itertools
from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import UNIT, assert_within, total_units

SHAPES = [(1,), (7,), (16,), (33,), (700,), (3, 5), (5, 1), (1, 5), (4, 300), (300, 4), (3, 70, 5)]
SHAPES += [(2, 3, 4, 5)]


def axes_of(rank: int) -> list[Any]:
    """Return None, every axis, the last one as -1, and every set of axes."""
    several = [each for count in range(2, rank + 1) for each in itertools.combinations(range(rank), count)]
    return [None, (), *range(rank), -1, *several]


CASES = [(shape, axis) for shape in SHAPES for axis in axes_of(len(shape))]


@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_sum_and_mean(npu: Device, shape: tuple[int, ...], axis: Any) -> None:
    x = normal(*shape)
    wide = x.astype(np.float64)
    magnitude = np.sum(np.abs(wide), axis=axis)
    count = x.size // magnitude.size
    bound = (count + 15) * UNIT * magnitude
    assert_within(npu.sum(x, axis), np.sum(wide, axis=axis), bound)
    assert_within(npu.mean(x, axis), np.mean(wide, axis=axis), bound / count + UNIT * magnitude / count)


@pytest.mark.parametrize(("shape", "axis"), CASES, ids=str)
def test_extremes_are_exact(npu: Device, shape: tuple[int, ...], axis: Any) -> None:
    x = normal(*shape)
    assert np.array_equal(npu.max(x, axis), np.max(x, axis=axis))
    assert np.array_equal(npu.min(x, axis), np.min(x, axis=axis))


@pytest.mark.parametrize(
    ("shape", "axis"), [(shape, axis) for shape, axis in CASES if not isinstance(axis, tuple)], ids=str
)
def test_argmax_is_the_first(npu: Device, shape: tuple[int, ...], axis: int | None) -> None:
    for x in (normal(*shape), np.round(normal(*shape)), np.zeros(shape, np.float32)):
        result = npu.argmax(x, axis)
        assert np.asarray(result).dtype == np.int32
        assert np.array_equal(result, np.argmax(x, axis=axis))


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), None], ids=str)
def test_keepdims(npu: Device, axis: Any) -> None:
    x = normal(3, 70, 5)
    assert np.array_equal(npu.max(x, axis, True), np.max(x, axis=axis, keepdims=True))
    assert npu.sum(x, axis, keepdims=True).shape == np.sum(x, axis=axis, keepdims=True).shape
    if not isinstance(axis, tuple):
        assert np.array_equal(npu.argmax(x, axis, True), np.argmax(x, axis=axis, keepdims=True))


@pytest.mark.parametrize("count", [16, 17, 511, 513, 4000, 9000])
def test_long_rows_and_columns(npu: Device, count: int) -> None:
    x = normal(2, count)
    wide = x.astype(np.float64)
    row = total_units(count) * UNIT * np.abs(wide).sum(axis=1)
    assert_within(npu.sum(x, 1), wide.sum(axis=1), row)
    assert np.array_equal(npu.argmax(x, 1), np.argmax(x, axis=1))
    if count > 1000:
        return
    column = total_units(count, row=False) * UNIT * np.abs(wide).sum(axis=1)
    assert_within(npu.sum(np.ascontiguousarray(x.T), 0), wide.sum(axis=1), column)
    assert np.array_equal(npu.argmax(np.ascontiguousarray(x.T), 0), np.argmax(x, axis=1))


def test_the_order_of_a_sum(npu: Device) -> None:
    """Along a row, element i goes to partial sum i mod 16, and these are added in order. A column is summed
    in ascending order."""
    x = normal(3, 45)
    partial = np.zeros((3, 16), np.float32)
    for i in range(45):
        partial[:, i % 16] += x[:, i]
    expected = partial[:, 0].copy()
    for i in range(1, 16):
        expected += partial[:, i]
    assert np.array_equal(npu.sum(x, 1), expected)
    down = np.zeros(45, np.float32)
    for row in x:
        down += row
    assert np.array_equal(npu.sum(x, 0), down)


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2)])
def test_gaps_in_out_change_no_bit(npu: Device, name: str, axis: Any) -> None:
    reduce = getattr(npu, name)
    x = normal(49, 5, 21)
    expected = reduce(x, axis)
    place = npu.tensor(np.zeros((*expected.shape[:-1], 3 * expected.shape[-1]), np.float32))
    reduce(x, axis, out=place[..., ::3])
    assert np.array_equal(place.to_numpy()[..., ::3], expected)
    assert not place.to_numpy()[..., 1::3].any()


def test_a_mean_of_one_value_is_that_value(npu: Device) -> None:
    for count in (1, 3, 7, 16, 100):
        x = np.full((2, count), 3.0, np.float32)
        assert np.array_equal(npu.mean(x, 1), [3.0, 3.0])
        assert np.array_equal(npu.mean(np.ascontiguousarray(x.T), 0), [3.0, 3.0])


@pytest.mark.parametrize("count", [5, 600])
@pytest.mark.parametrize("down", [False, True], ids=["row", "column"])
def test_corners(npu: Device, count: int, down: bool) -> None:
    x = normal(7, count)
    x[0, [1, 3]] = np.nan
    x[1, 2] = np.inf
    x[2, 2] = -np.inf
    x[3, [1, 2]] = np.inf, -np.inf
    x[4] = -np.inf
    x[5] = -0.0
    x[5, 3] = 0.0
    x[6, [2, 4]] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        expected = {op: getattr(np, op)(x, axis=1) for op in ("sum", "mean", "max", "min", "argmax")}
    given = np.ascontiguousarray(x.T) if down else x
    axis = 0 if down else 1
    for op in ("max", "min", "argmax"):
        assert np.array_equal(getattr(npu, op)(given, axis), expected[op], equal_nan=True)
    for op in ("sum", "mean"):
        assert_within(getattr(npu, op)(given, axis), expected[op], 0.0)
    assert np.array_equal(np.signbit(npu.max(given, axis)[5]), False)
    assert np.array_equal(np.signbit(npu.min(given, axis)[5]), True)


def test_views(npu: Device) -> None:
    values = normal(6, 40, 10)
    tensor = npu.tensor(values)
    pairs = [
        (tensor[:, ::2], values[:, ::2]),
        (tensor[..., 3:7], values[..., 3:7]),
        (tensor[..., ::3], values[..., ::3]),
        (tensor.T, values.T),
        (tensor.transpose(1, 2, 0), values.transpose(1, 2, 0)),
        (tensor[2, :, 4], values[2, :, 4]),
    ]
    for view, expected in pairs:
        for axis in axes_of(view.ndim):
            result = npu.max(view, axis)
            assert isinstance(result, DeviceTensor)
            assert np.array_equal(result.to_numpy(), np.max(expected, axis=axis))
        for axis in (None, *range(view.ndim)):
            assert np.array_equal(npu.argmax(view, axis).to_numpy(), np.argmax(expected, axis=axis))


def test_out(npu: Device) -> None:
    values = normal(6, 40)
    tensor, whole = npu.tensor(values), npu.tensor(np.zeros((40, 3), np.float32))
    assert npu.max(tensor, 0, out=whole[:, 1]) is not None
    expected = np.zeros((40, 3), np.float32)
    expected[:, 1] = values.max(axis=0)
    assert np.array_equal(whole.to_numpy(), expected)
    # into a part of the operand
    npu.max(tensor, 1, out=tensor[:, 0])
    assert np.array_equal(tensor.to_numpy()[:, 0], values.max(axis=1))
    assert np.array_equal(tensor.to_numpy()[:, 1:], values[:, 1:])
    index = npu.empty((6,), np.int32)
    assert npu.argmax(values, 1, out=index) is index
    assert np.array_equal(index.to_numpy(), np.argmax(values, axis=1))


def test_errors(npu: Device) -> None:
    x = normal(3, 5)
    refuses(ValueError, r"sum: axis 2 of an array of shape \(3, 5\)", npu.sum, x, 2)
    refuses(ValueError, r"names one axis twice.*\(3, 5\)", npu.max, x, (0, -2))
    refuses(ValueError, r"empty.*\(0, 5\)", npu.mean, np.zeros((0, 5), np.float32))
    refuses(TypeError, r"ndarray of float64", npu.min, x.astype(np.float64))
    refuses(TypeError, r"argmax.*ndarray of int32", npu.argmax, x.astype(np.int32))
    with pytest.raises(ValueError, match=r"out has shape \(3,\), the result has shape \(5,\)"):
        npu.sum(x, 0, out=npu.empty((3,)))
    refuses(TypeError, "out is float32, the result is int32", npu.argmax, x, 0, out=npu.empty((5,)))
