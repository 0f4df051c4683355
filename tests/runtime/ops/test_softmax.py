"""Softmax: scale, causal and additive masks, any axis, short and long rows, against float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import echo_npu
from echo_npu import Device, DeviceTensor
from echo_npu.reference.softmax import scores, softmax
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import TINY, UNIT, assert_within, total_units

LENGTHS = [1, 2, 15, 16, 17, 33, 100, 512, 513, 700]


def softmax_bound(x: Any, axis: int = -1, *, row: bool = True, **options: Any) -> NDArray[np.float64]:
    """Bound the rounding error of each share.

    The exponent's error is absolute, so the share's is relative. Scores computed before add their errors.
    """
    wide = scores(x, **options)
    expected = softmax(x, axis, **options)
    largest = wide.max(axis=axis, keepdims=True)
    finite = np.isfinite(wide) & np.isfinite(largest)
    spread = np.abs(np.subtract(wide, largest, where=finite, out=np.zeros_like(wide)))
    made = np.where(np.isfinite(wide), np.abs(wide), 0.0)
    exponent = spread + (made if options.get("mask") is not None or options.get("scale", 1.0) < 0 else 0.0)
    mean = np.sum(expected * exponent, axis=axis, keepdims=True)
    units = 12 + total_units(wide.shape[axis], row=row) + exponent + mean
    return np.asarray(expected * units * UNIT + 2 * TINY)


def check(npu: Device, x: Any, axis: int = -1, **options: Any) -> None:
    row = axis in (-1, x.ndim - 1)
    bound = softmax_bound(x, axis, row=row, **options)
    assert_within(npu.softmax(x, axis, **options), softmax(x, axis, **options), bound)


@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(npu: Device, length: int) -> None:
    check(npu, normal(3, length))
    check(npu, normal(2, 2, length) * 10)


def test_a_row_longer_than_a_row_register(npu: Device) -> None:
    check(npu, normal(2, npu.capabilities.row_elements))
    check(npu, normal(2, npu.capabilities.row_elements + 100), scale=0.5)


@pytest.mark.parametrize("scale", [1.0, 0.125, 3.7, 0.0, -1.0, -0.3])
@pytest.mark.parametrize("length", [17, 700])
def test_scale(npu: Device, scale: float, length: int) -> None:
    check(npu, normal(3, length) * 4, scale=float(np.float32(scale)))


@pytest.mark.parametrize(
    ("rows", "cols"), [(1, 1), (5, 5), (16, 16), (40, 40), (3, 50), (700, 700), (2, 700)]
)
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_causal(npu: Device, rows: int, cols: int, scale: float) -> None:
    check(npu, normal(rows, cols), causal=True, scale=scale)
    if rows < 100:
        check(npu, normal(2, 3, rows, cols), causal=True, scale=scale)


def test_causal_with_fewer_columns_than_rows_hides_whole_rows(npu: Device) -> None:
    result = npu.softmax(normal(4, 3), causal=True)
    assert np.isnan(result[0]).all()
    assert np.array_equal(result[1], [1.0, 0.0, 0.0])
    check(npu, normal(4, 3), causal=True)


@pytest.mark.parametrize(
    "shape", [(), (1,), (40,), (6, 40), (3, 1, 1), (2, 3, 6, 40), (3, 6, 1), (2, 1, 6, 40)], ids=str
)
@pytest.mark.parametrize("causal", [False, True])
def test_mask_broadcasts(npu: Device, shape: tuple[int, ...], causal: bool) -> None:
    mask = np.asarray(normal(*shape, seed=1), np.float32)
    check(npu, normal(2, 3, 6, 40), mask=mask, causal=causal, scale=0.5)


def test_mask_of_infinities_hides(npu: Device) -> None:
    for cols in (9, 700):
        mask = np.where(normal(4, cols, seed=1) > 0.3, np.float32(-np.inf), np.float32(0))
        mask[2] = -np.inf
        mask[3, 1:] = -np.inf
        mask[3, 0] = 0
        check(npu, normal(4, cols), mask=mask)
        result = npu.softmax(normal(4, cols), mask=mask)
        assert np.isnan(result[2]).all()
        assert np.array_equal(result[3], np.eye(1, cols, dtype=np.float32)[0])


@pytest.mark.parametrize("axis", [0, 1, 2, -3])
@pytest.mark.parametrize("scale", [1.0, 0.7, -0.7])
def test_axes(npu: Device, axis: int, scale: float) -> None:
    check(npu, normal(3, 20, 40), axis, scale=float(np.float32(scale)))
    check(npu, normal(40, 3, 1), axis, scale=float(np.float32(scale)))


@pytest.mark.parametrize("cols", [6, 700])
@pytest.mark.parametrize("axis", [0, 1])
def test_corners(npu: Device, cols: int, axis: int) -> None:
    x = normal(7, cols)
    x[0, 3] = np.nan
    x[1, 3] = np.inf
    x[2, 3] = -np.inf
    x[3] = -np.inf
    x[4, :4] = np.inf, -np.inf, np.nan, 0
    x[5] = 1e30
    x[6, 0] = 3e38
    given = np.ascontiguousarray(x.T) if axis == 0 else x
    with np.errstate(invalid="ignore"):
        expected = softmax(given, axis)
    assert np.isnan(expected).any()
    bound = 40 * UNIT * np.nan_to_num(expected) + (cols + 40) * UNIT
    assert_within(npu.softmax(given, axis), expected, bound)


def test_shares_of_equal_elements_are_equal(npu: Device) -> None:
    assert np.array_equal(npu.softmax(np.full((2, 64), 7.5, np.float32)), np.full((2, 64), 1 / 64))


def test_in_place_and_out(npu: Device) -> None:
    values = normal(4, 6, 50)
    expected = npu.softmax(values, scale=0.5)
    tensor = npu.tensor(values)
    commands = npu.counters()["commands"]
    assert npu.softmax(tensor, scale=0.5, out=tensor) is tensor
    assert npu.counters()["commands"] == commands + 1
    assert np.array_equal(tensor.to_numpy(), expected)
    for options in ({"causal": True}, {"mask": normal(6, 50, seed=3)}):
        tensor = npu.tensor(values)
        npu.softmax(tensor, out=tensor, **options)
        assert np.array_equal(tensor.to_numpy(), npu.softmax(values, **options))
    across = npu.tensor(values)
    npu.softmax(across, 1, out=across)
    assert np.array_equal(across.to_numpy(), npu.softmax(values, 1))
    long = normal(2, npu.capabilities.row_elements + 1)
    tensor = npu.tensor(long)
    npu.softmax(tensor, out=tensor)
    assert np.array_equal(tensor.to_numpy(), npu.softmax(long))


@pytest.mark.parametrize("options", [{}, {"scale": 0.125}, {"scale": -2.0}, {"causal": True}, {"axis": 1}])
@pytest.mark.parametrize("width", [50, 0])
def test_a_float16_result_is_the_rounded_one(npu: Device, options: dict[str, Any], width: int) -> None:
    values = normal(3, 6, width or npu.capabilities.row_elements + 1)
    tensor, out = npu.tensor(values), npu.tensor(np.full(values.shape, 7, np.float16))
    whole, commands = npu.empty(values.shape), []
    for target in (whole, out, whole, out):  # the first two load programs
        before = npu.counters()["commands"]
        assert npu.softmax(tensor, out=target, **options) is target
        commands.append(npu.counters()["commands"] - before)
    assert np.array_equal(out.to_numpy(), npu.cast(whole, np.float16).to_numpy())
    assert commands[2] == commands[3]


def test_views(npu: Device) -> None:
    values = normal(6, 8, 50)
    tensor = npu.tensor(values)
    for view, array in (
        (tensor[1:5, ::2], values[1:5, ::2]),
        (tensor[..., 5:25], values[..., 5:25]),
        (tensor[..., ::2], values[..., ::2]),
        (tensor.T, values.T),
    ):
        for axis in range(3):
            result = npu.softmax(view, axis)
            assert isinstance(result, DeviceTensor)
            row = npu.softmax(np.ascontiguousarray(array), axis)
            bound = softmax_bound(array, axis, row=False)
            assert_within(result.to_numpy(), row.astype(np.float64), 2 * bound)
    whole = npu.tensor(np.zeros((8, 6, 50), np.float32))
    npu.softmax(tensor, out=whole.swapaxes(0, 1))
    assert np.array_equal(whole.to_numpy().swapaxes(0, 1), npu.softmax(values))


@pytest.mark.parametrize(("cols", "last"), [(1, 0), (40, 0), (40, 15), (40, 39), (700, 31)])
@pytest.mark.parametrize("scale", [1.0, -0.3])
def test_columns_behind_a_number_in_device_memory_are_hidden(
    npu: Device, cols: int, last: int, scale: float
) -> None:
    """Bits are those of the visible columns alone, whatever the hidden ones are."""
    x = normal(2, 3, cols)
    x[..., last + 1 :: 2], x[..., last + 2 :: 2] = np.nan, np.inf
    limit = npu.tensor(np.array([last], np.int32))
    found = npu.softmax(x, scale=scale, last=limit)
    assert np.array_equal(found[..., : last + 1], npu.softmax(x[..., : last + 1].copy(), scale=scale))
    assert not found[..., last + 1 :].any()


def test_errors(npu: Device) -> None:
    x = normal(4, 5)
    number = npu.tensor(np.array([2], np.int32))
    refuses(TypeError, "last is int32 on the device, got int", npu.softmax, x, last=2)
    refuses(TypeError, "last is int32", npu.softmax, x, last=npu.tensor(np.array([2.0], np.float32)))
    refuses(ValueError, r"last has shape \(2,\)", npu.softmax, x, last=npu.empty(2, np.int32))
    with echo_npu.open("cmodel") as other:
        elsewhere = other.tensor(np.array([2], np.int32))
        refuses(ValueError, "belongs to another device", npu.softmax, x, last=elsewhere)
    refuses(ValueError, "neither causal nor a mask", npu.softmax, x, last=number, causal=True)
    refuses(ValueError, "neither causal nor a mask", npu.softmax, x, last=number, mask=x)
    refuses(ValueError, "mask and last are for the last axis", npu.softmax, x, 0, last=number)
    refuses(ValueError, r"axis 2 of an array of shape \(4, 5\)", npu.softmax, x, 2)
    with pytest.raises(ValueError, match=r"mask has shape \(3, 5\), the scores have \(4, 5\)"):
        npu.softmax(x, mask=normal(3, 5))
    with pytest.raises(ValueError, match=r"mask has shape \(2, 4, 5\), the scores have \(4, 5\)"):
        npu.softmax(x, mask=normal(2, 4, 5))
    refuses(ValueError, "causal, mask and last are for the last axis", npu.softmax, x, 0, causal=True)
    refuses(ValueError, r"\(5,\); causal needs", npu.softmax, normal(5), causal=True)
    with pytest.raises(TypeError, match="x is ndarray of float32, mask is ndarray of float64"):
        npu.softmax(x, mask=np.zeros((4, 5)))
    refuses(ValueError, r"out has shape \(5, 4\)", npu.softmax, x, out=npu.empty((5, 4)))
    refuses(ValueError, r"\(\)", npu.softmax, np.zeros((), np.float32))
