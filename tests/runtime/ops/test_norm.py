"""RMSNorm and LayerNorm against float64."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import Device
from echo_npu.reference.norm import layer_norm, rms_norm
from tests.arrays import normal
from tests.refusals import refuses
from tests.runtime.ops.accuracy import UNIT, assert_within, total_units

SHAPES = [(1,), (1, 1), (3, 2), (2, 16), (2, 17), (3, 33), (2, 3, 100), (2, 512), (2, 513), (3, 700)]


def layer_bound(x: Any, weight: Any, bias: Any, eps: float) -> NDArray[np.float64]:
    """Bound the rounding error. The mean's error is relative to the mean magnitude, not to the difference."""
    wide = x.astype(np.float64)
    count = x.shape[-1]
    units = total_units(count)
    centred = wide - wide.mean(axis=-1, keepdims=True)
    rate = 1 / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + eps)
    shift = (units + 2) * UNIT * np.mean(np.abs(wide), axis=-1, keepdims=True)
    # The shift moves an element by itself, and all of them together through the variance.
    moved = (shift + UNIT * np.abs(centred)) * rate * (1 + np.abs(centred * rate))
    scaled = (units / 2 + 8) * UNIT * np.abs(centred * rate) + moved
    factor = 1.0 if weight is None else np.abs(weight.astype(np.float64))
    last = 0.0 if bias is None else np.abs(bias.astype(np.float64))
    return np.asarray(scaled * factor + UNIT * (np.abs(centred * rate * factor) + last))


def rms_bound(expected: Any, count: int) -> NDArray[np.float64]:
    """Bound the rounding error: half the relative error of the sum of squares, rsqrt, and five roundings."""
    return np.asarray(np.abs(expected) * (total_units(count) / 2 + 8) * UNIT)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_rms_norm(npu: Device, shape: tuple[int, ...], weighted: bool) -> None:
    for spread in (1.0, 1e-3, 1e6):
        x, weight = normal(*shape) * np.float32(spread), normal(shape[-1], seed=1) if weighted else None
        eps = float(np.float32(1e-6))
        expected = rms_norm(x, weight, eps)
        assert_within(npu.rms_norm(x, weight, eps), expected, rms_bound(expected, shape[-1]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("vectors", [(), ("weight",), ("bias",), ("weight", "bias")], ids=str)
def test_layer_norm(npu: Device, shape: tuple[int, ...], vectors: tuple[str, ...]) -> None:
    for spread, offset in ((1.0, 0.0), (10.0, 3.0), (0.1, 50.0)):
        x = normal(*shape) * np.float32(spread) + np.float32(offset)
        given = {name: normal(shape[-1], seed=i + 1) for i, name in enumerate(vectors)}
        weight, bias = given.get("weight"), given.get("bias")
        eps = float(np.float32(1e-5))
        bound = layer_bound(x, weight, bias, eps)
        assert_within(npu.layer_norm(x, weight, bias, eps), layer_norm(x, weight, bias, eps), bound)


def test_a_row_longer_than_a_row_register(npu: Device) -> None:
    count = npu.capabilities.row_elements + 40
    x, weight, bias = normal(2, count), normal(count, seed=1), normal(count, seed=2)
    expected = rms_norm(x, weight, 1e-6)
    assert_within(npu.rms_norm(x, weight), expected, rms_bound(expected, count))
    assert_within(npu.rms_norm(x), rms_norm(x), rms_bound(rms_norm(x), count))
    for w, b in ((weight, bias), (None, bias), (weight, None), (None, None)):
        assert_within(npu.layer_norm(x, w, b), layer_norm(x, w, b), layer_bound(x, w, b, 1e-5))


@pytest.mark.parametrize("cols", [9, 700])
def test_corners(npu: Device, cols: int) -> None:
    x = normal(5, cols)
    x[0, 2] = np.nan
    x[1, 2] = np.inf
    x[2] = 0
    x[3] = 4.5
    weight = normal(cols, seed=1)
    with np.errstate(invalid="ignore"):
        expected = rms_norm(x, weight), layer_norm(x, weight)
    assert_within(npu.rms_norm(x, weight), expected[0], rms_bound(np.nan_to_num(expected[0]), cols))
    result = npu.layer_norm(x, weight)
    assert np.array_equal(np.isnan(result), np.isnan(expected[1]))
    assert np.array_equal(result[2:4], np.zeros((2, cols)))


def test_in_place_and_views(npu: Device) -> None:
    values, weight = normal(4, 6, 50), normal(50, seed=1)
    expected = npu.rms_norm(values, weight)
    tensor, vector = npu.tensor(values), npu.tensor(weight)
    commands = npu.counters()["commands"]
    assert npu.rms_norm(tensor, vector, out=tensor) is tensor
    assert npu.counters()["commands"] == commands + 1
    assert np.array_equal(tensor.to_numpy(), expected)
    tensor = npu.tensor(values)
    for view, array in (
        (tensor[1:3, ::2], values[1:3, ::2]),
        (tensor[..., 10:30], values[..., 10:30]),
        (tensor[..., ::5], values[..., ::5]),
        (tensor.T, values.T),
    ):
        array = np.ascontiguousarray(array)
        w = normal(array.shape[-1], seed=2)
        assert np.array_equal(npu.rms_norm(view, w).to_numpy(), npu.rms_norm(array, w))
        assert np.array_equal(npu.layer_norm(view, w).to_numpy(), npu.layer_norm(array, w))
    whole = npu.tensor(np.zeros((4, 6, 100), np.float32))
    npu.layer_norm(tensor, vector, out=whole[..., ::2])
    assert np.array_equal(whole.to_numpy()[..., ::2], npu.layer_norm(values, weight))
    assert not whole.to_numpy()[..., 1::2].any()


def test_errors(npu: Device) -> None:
    x = normal(4, 5)
    refuses(ValueError, r"weight has shape \(4,\), x has shape \(4, 5\)", npu.rms_norm, x, normal(4))
    with pytest.raises(ValueError, match=r"bias has shape \(1, 5\), x has shape \(4, 5\)"):
        npu.layer_norm(x, normal(5), normal(1, 5))
    refuses(TypeError, "x is ndarray of float16", npu.rms_norm, x.astype(np.float16))
    refuses(ValueError, "empty", npu.layer_norm, np.zeros((3, 0), np.float32))
    refuses(ValueError, r"out has shape \(5, 4\)", npu.rms_norm, x, out=npu.empty((5, 4)))
