"""Each operation of the models stays within the bound that it states, and a result beyond it is found."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import Device
from echo_npu.models import operations
from echo_npu.models.operations import Operation
from echo_npu.models.truth import F32, Truth
from echo_npu.ops.rope import rope_tables


def _random(*shape: int, scale: float = 1.0, seed: int = 0) -> F32:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def _run(
    device: Device, operation: Operation, *inputs: NDArray[Any], dtype: Any = np.float32
) -> tuple[NDArray[Any], Truth]:
    truth = operation.truth(*inputs)
    out = device.empty(truth.value.shape, dtype)
    operation.run(device, [device.tensor(each) for each in inputs], out)
    result = out.to_numpy()
    assert truth.error(result) <= truth.bound
    return result, truth


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
@pytest.mark.parametrize("width", [1, 7, 64, 576, 1300])
def test_rms_norm(device: Device, width: int, scale: float) -> None:
    x, weight = _random(9, width, scale=scale), _random(width, seed=1)
    result, truth = _run(device, operations.RmsNorm(1e-5), x, weight)
    result[2, width // 2] *= np.float32(1 + 1e-4)
    assert truth.error(result) > truth.bound


@pytest.mark.parametrize("tokens", [1, 16, 500])
def test_rope(device: Device, tokens: int) -> None:
    tables = rope_tables(tokens, 16, 1e5, interleaved=True)
    result, _ = _run(device, operations.Rope(1e5), _random(tokens, 3, 16), *tables)
    # A rotation keeps lengths, and does nothing at position 0.
    assert np.array_equal(result[0], _random(tokens, 3, 16)[0])
    pairs = result.reshape(tokens, 3, 8, 2), _random(tokens, 3, 16).reshape(tokens, 3, 8, 2)
    assert np.allclose(*(np.linalg.norm(each, axis=-1) for each in pairs), rtol=1e-6)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("tokens", [1, 2, 17, 300])
def test_causal_softmax(device: Device, tokens: int, scale: float) -> None:
    x = _random(2, 3, tokens, tokens, scale=scale)
    result, _ = _run(device, operations.Softmax(0.125, causal=True), x)
    assert np.all(np.triu(result, 1) == 0)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_softmax_of_a_long_row(device: Device, scale: float) -> None:
    longer = device.capabilities.row_elements + 5
    result, _ = _run(device, operations.Softmax(), _random(1, longer, scale=scale))
    assert result.sum(dtype=np.float64) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 60.0, 1000.0])
def test_silu(device: Device, scale: float) -> None:
    _run(device, operations.Silu(), _random(4, 1000, scale=scale))


def test_elementwise(device: Device) -> None:
    a, b, row = _random(7, 33), _random(7, 33, seed=1), _random(33, seed=2)
    _run(device, operations.Add(), a, b)
    _run(device, operations.Add(), a, row)
    _run(device, operations.Mul(), a, b)
    result, truth = _run(device, operations.Relu(), a)
    result[0, np.argmin(a[0])] = np.float32(1e-20)
    assert truth.error(result) > truth.bound


@pytest.mark.parametrize("trans_b", [False, True])
def test_matmul(device: Device, trans_b: bool) -> None:
    a, b = _random(2, 3, 5, 40), _random(2, 1, 40, 9, seed=1)
    operation = operations.Matmul(trans_b=trans_b)
    stored = np.ascontiguousarray(b.swapaxes(-1, -2)) if trans_b else b
    result, _ = _run(device, operation, a, stored)
    assert np.allclose(result, a @ b, atol=1e-5)
    assert operation.macs([a.shape, stored.shape]) == 2 * 3 * 5 * 40 * 9
    assert operation.size([a.shape, stored.shape], result.shape) == "6 x 5x40x9"


def test_embedding(device: Device) -> None:
    table, ids = _random(50, 12), np.array([49, 0, 7, 7], np.int32)
    result, _ = _run(device, operations.Embedding(), table, ids)
    assert np.array_equal(result, table[ids])


def test_convolution(device: Device) -> None:
    x, weight, bias = _random(3, 2, 9, 8), _random(5, 2, 3, 2, seed=1), _random(5, seed=2)
    operation = operations.Conv2d()
    result, truth = _run(device, operation, x, weight, bias)
    assert result.shape == (3, 5, 7, 7)
    one = np.sum(x[1, :, 4:7, 3:5] * weight[2], dtype=np.float64) + bias[2]
    assert truth.value[1, 2, 4, 3] == pytest.approx(one, rel=1e-5)
    assert operation.macs([x.shape, weight.shape, bias.shape]) == 3 * 5 * 7 * 7 * 2 * 3 * 2


def test_pooling(device: Device) -> None:
    x = _random(2, 3, 6, 10)
    result, _ = _run(device, operations.MaxPool2d(2), x)
    assert result[1, 2, 1, 4] == x[1, 2, 2:4, 8:10].max()


def test_argmax(device: Device) -> None:
    x = np.array([[1, 3, 3, 2], [-1, -2, -3, -4]], np.float32)
    result, _ = _run(device, operations.ArgMax(), x, dtype=np.int32)
    assert result.tolist() == [1, 0]
