"""Pooling against float64."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.reference.pool import avg_pool2d, max_pool2d
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import UNIT, assert_within

CASES = [
    ((1, 1, 1, 1), 1, 1, 0),
    ((2, 3, 8, 8), 2, 2, 0),
    ((2, 3, 9, 7), (3, 2), (2, 1), 0),
    ((1, 2, 10, 70), 3, 1, 1),
    ((1, 2, 7, 9), (1, 3), 2, (0, 1)),
    ((1, 2, 7, 9), (3, 1), 2, (1, 0)),
    ((2, 1, 12, 12), 5, 3, 2),
    ((1, 1, 9, 40), (2, 9), 1, 0),
    ((2, 3, 7, 12), (1, 5), (2, 1), 0),
    ((1, 1, 6, 600), (6, 600), 1, 0),
]


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else value


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), CASES, ids=str)
def test_pooling(npu: Device, shape: tuple[int, ...], kernel: Any, stride: Any, padding: Any) -> None:
    x = normal(*shape)
    sizes = pair(kernel), pair(stride), pair(padding)
    assert np.array_equal(npu.max_pool2d(x, kernel, stride=stride, padding=padding), max_pool2d(x, *sizes))
    count = sizes[0][0] * sizes[0][1]
    bound = (count + 2) * UNIT * avg_pool2d(np.abs(x), *sizes)
    assert_within(npu.avg_pool2d(x, kernel, stride=stride, padding=padding), avg_pool2d(x, *sizes), bound)


@pytest.mark.parametrize("dilation", [2, (1, 3), (3, 1)], ids=str)
def test_elements_of_a_window_may_be_apart(npu: Device, dilation: Any) -> None:
    x = normal(2, 2, 9, 14)
    for kernel, stride, padding in ((2, 1, 0), ((3, 2), (2, 3), 1), ((1, 6), 1, (0, 2))):
        expected = max_pool2d(x, pair(kernel), pair(stride), pair(padding), pair(dilation))
        found = npu.max_pool2d(x, kernel, stride=stride, padding=padding, dilation=dilation)
        assert np.array_equal(found, expected)


def test_the_stride_is_the_kernel_unless_given(npu: Device) -> None:
    x = normal(1, 2, 9, 9)
    assert np.array_equal(npu.max_pool2d(x, (3, 2)), max_pool2d(x, (3, 2), (3, 2)))


@pytest.mark.parametrize("kernel", [2, 5])
def test_corners(npu: Device, kernel: int) -> None:
    x = normal(1, 1, 10, 40)
    x[0, 0, 3, 3] = np.nan
    x[0, 0, 7, 20] = np.inf
    x[0, 0, :, 30:] = -np.inf
    size = (kernel, kernel)
    assert np.array_equal(npu.max_pool2d(x, kernel), max_pool2d(x, size, size), equal_nan=True)
    with np.errstate(invalid="ignore"):
        expected = avg_pool2d(x, size, size)
    assert_within(npu.avg_pool2d(x, kernel), expected, 40 * UNIT)


def test_padding_is_never_the_maximum(npu: Device) -> None:
    x = np.full((1, 1, 4, 4), -5.0, np.float32)
    assert np.array_equal(npu.max_pool2d(x, 3, stride=1, padding=1), np.full((1, 1, 4, 4), -5.0))


def test_views_and_out(npu: Device) -> None:
    values = normal(2, 3, 8, 20)
    tensor = npu.tensor(values)
    for view, array in (
        (tensor[:, ::2, 1:, 3:17], values[:, ::2, 1:, 3:17]),
        (tensor[..., ::2], values[..., ::2]),
        (tensor.swapaxes(2, 3), values.swapaxes(2, 3)),
    ):
        assert np.array_equal(npu.max_pool2d(view, 2).to_numpy(), max_pool2d(array, (2, 2), (2, 2)))
    out = npu.tensor(np.zeros((3, 2, 4, 10), np.float32))
    npu.avg_pool2d(tensor, 2, out=out.swapaxes(0, 1))
    assert np.array_equal(out.to_numpy().swapaxes(0, 1), npu.avg_pool2d(values, 2))


def test_errors(npu: Device) -> None:
    x = normal(1, 2, 5, 6)
    refuses(ValueError, r"x has shape \(2, 5, 6\)", npu.max_pool2d, x[0], 2)
    refuses(ValueError, r"\(1, 2, 5, 6\); a kernel of \(6, 6\)", npu.avg_pool2d, x, 6)
    refuses(ValueError, "stride is 0", npu.max_pool2d, x, 2, stride=0)
    refuses(ValueError, r"padding is \(1, -1\)", npu.max_pool2d, x, 2, padding=(1, -1))
    refuses(ValueError, "dilation is 0", npu.max_pool2d, x, 2, dilation=0)
    refuses(ValueError, r"a kernel of \(5, 9\)", npu.max_pool2d, x, (3, 5), dilation=2)
    refuses(TypeError, "ndarray of float64", npu.avg_pool2d, x.astype(np.float64), 2)
