"""im2col and convolution against float64."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.reference.pool import conv2d, windows
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import UNIT, assert_within
from tests.runtime.ops.test_pool import pair

CASES = [
    ((1, 1, 1, 1), 1, (1, 1), 1, 0),
    ((2, 3, 8, 8), 4, (3, 3), 1, 1),
    ((3, 2, 9, 7), 5, (3, 2), (2, 1), (0, 1)),
    ((2, 1, 12, 40), 6, (5, 5), 1, 2),
    ((1, 4, 5, 5), 3, (5, 5), 1, 0),
    ((2, 5, 6, 6), 2, (1, 1), 2, 0),
]


@pytest.mark.parametrize(("shape", "filters", "kernel", "stride", "padding"), CASES, ids=str)
def test_convolution(
    npu: Device, shape: tuple[int, ...], filters: int, kernel: tuple[int, int], stride: Any, padding: Any
) -> None:
    x, weight = normal(*shape), normal(filters, shape[1], *kernel, seed=1)
    bias = normal(filters, seed=2)
    sizes = pair(stride), pair(padding)
    taps = windows(x, kernel, *sizes)
    columns = npu.im2col(x, kernel, stride=stride, padding=padding)
    expected = taps.transpose(0, 1, 4, 5, 2, 3).reshape(columns.shape)
    assert np.array_equal(columns, expected)
    for given in (None, bias):
        magnitude = conv2d(np.abs(x), np.abs(weight), None if given is None else np.abs(given), *sizes)
        bound = (weight[0].size + 2) * UNIT * magnitude
        result = npu.conv2d(x, weight, given, stride=stride, padding=padding)
        assert_within(result, conv2d(x, weight, given, *sizes), bound)


def test_a_batch_is_few_commands(npu: Device) -> None:
    """There is a command for each row of the kernel, one for the product, and one for the bias."""
    x, weight, bias = npu.tensor(normal(20, 2, 8, 8)), npu.tensor(normal(4, 2, 3, 3)), npu.tensor(normal(4))
    npu.conv2d(x, weight, bias)
    commands = npu.counters()["commands"]
    npu.conv2d(x, weight, bias)
    assert npu.counters()["commands"] == commands + 5


def test_out_and_views(npu: Device) -> None:
    values, weight = normal(2, 3, 8, 9), normal(4, 3, 3, 3, seed=1)
    tensor, out = npu.tensor(values), npu.tensor(np.zeros((2, 8, 6, 7), np.float32))
    npu.conv2d(tensor, weight, out=out[:, ::2])
    assert np.array_equal(out.to_numpy()[:, ::2], npu.conv2d(values, weight))
    turned = npu.conv2d(tensor.swapaxes(2, 3), weight)
    assert np.array_equal(turned.to_numpy(), npu.conv2d(np.ascontiguousarray(values.swapaxes(2, 3)), weight))
    columns = npu.empty((2, 27, 42))
    assert npu.im2col(tensor, 3, out=columns) is columns
    assert np.array_equal(columns.to_numpy(), npu.im2col(values, 3))


def test_errors(npu: Device) -> None:
    x, weight = normal(1, 3, 5, 6), normal(4, 3, 2, 2)
    with pytest.raises(ValueError, match=r"x has shape \(1, 3, 5, 6\), weight has shape \(4, 2, 2, 2\)"):
        npu.conv2d(x, weight[:, :2])
    with pytest.raises(ValueError, match=r"bias has shape \(3,\), weight has shape \(4, 3, 2, 2\)"):
        npu.conv2d(x, weight, normal(3))
    refuses(TypeError, "weight is ndarray of float64", npu.conv2d, x, weight.astype(np.float64))
    refuses(ValueError, r"kernel of \(6, 2\)", npu.conv2d, x, normal(4, 3, 6, 2))
    refuses(ValueError, "kernel is 0", npu.im2col, x, 0)
