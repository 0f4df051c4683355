"""QuantizedLinear: its layout, its one product, and its error against float64."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor, Opcode, QuantizedLinear
from tests.refusals import Error, Words, refuses
from tests.runtime.ops.test_matmul import commands, normal

N, K = 24, 40


def by_hand(
    npu: Device, x: np.ndarray, weight: np.ndarray, scales: np.ndarray, bias: np.ndarray | None
) -> np.ndarray:
    """Compute the layer in numpy, float32, step by step."""
    q, rows = npu.quantize(x)
    value = (q.astype(np.int32) @ weight.T.astype(np.int32)).astype(np.float32)
    value = value * rows[..., None] * scales
    return value if bias is None else value + bias


@pytest.fixture
def layer(npu: Device) -> tuple[QuantizedLinear, np.ndarray, np.ndarray, np.ndarray]:
    weight = np.random.default_rng(1).integers(-127, 128, (N, K)).astype(np.int8)
    scales, bias = np.abs(normal(N)) / 100, normal(N, seed=1)
    return QuantizedLinear(npu, weight, scales, bias), weight, scales, bias


@pytest.mark.parametrize("leading", [(), (1,), (5,), (2, 3)])
def test_result_is_the_stated_one(npu: Device, layer: Any, leading: tuple[int, ...]) -> None:
    linear, weight, scales, bias = layer
    x = normal(*leading, K, seed=2)
    result = linear(x)
    assert result.shape == (*leading, N)
    assert np.array_equal(result, by_hand(npu, x, weight, scales, bias))
    assert np.array_equal(linear(x, activation="relu"), np.maximum(result, 0))
    assert np.array_equal(linear(x, activation="silu"), npu.silu(result))


def test_without_bias(npu: Device, layer: Any) -> None:
    _, weight, scales, _ = layer
    linear = QuantizedLinear(npu, weight, scales)
    x = normal(3, K)
    assert linear.bias is None
    assert np.array_equal(linear(x), by_hand(npu, x, weight, scales, None))


def test_one_product_and_nothing_is_laid_out_again(
    npu: Device, layer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    linear, *_ = layer
    x, out = npu.tensor(normal(4, K)), npu.empty((4, N))
    seen = commands(npu, monkeypatch)
    assert linear(x, out=out) is out
    assert [packet.opcode for packet in seen] == [Opcode.VECTOR, Opcode.VECTOR, Opcode.MATMUL]
    assert isinstance(linear(x), DeviceTensor)


def test_from_float_is_close(npu: Device) -> None:
    weight, bias, x = normal(N, K), normal(N, seed=1), normal(6, K, seed=2)
    linear = QuantizedLinear.from_float(npu, weight, bias)
    true = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    # Each factor is off by at most half a step of its row, 1/254 of the row's largest.
    largest = np.abs(x).max(axis=1)[:, None] * np.abs(weight).max(axis=1)
    bound = (np.abs(x).max(axis=1)[:, None] * np.abs(weight).sum(axis=1)) / 254
    bound += np.abs(weight).max(axis=1) * np.abs(x).sum(axis=1)[:, None] / 254 + K * largest / 254**2
    assert (np.abs(linear(x) - true) <= bound * 1.001).all()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((np.ones((N, K), np.float32), normal(N)), TypeError, ["weight is ndarray of float32"]),
        ((np.ones((N, K), np.int8), np.ones(N)), TypeError, ["scales is ndarray of float64"]),
        ((np.ones((N, K), np.int8), normal(N), [1.0]), TypeError, ["bias is list"]),
        ((np.ones((N, K), np.int8), normal(K)), ValueError, ["weight has shape (24, 40)", "(40,)"]),
        ((np.ones((N, K), np.int8), normal(N), normal(1)), ValueError, ["bias has shape (1,)"]),
        ((np.ones(K, np.int8), normal(K)), ValueError, ["weight has shape (40,)"]),
    ],
)
def test_wrong_layers_are_named(npu: Device, arguments: tuple[Any, ...], error: Error, words: Words) -> None:
    refuses(error, words, QuantizedLinear, npu, *arguments)


def test_wrong_inputs_are_named(npu: Device, layer: Any) -> None:
    linear, *_ = layer
    refuses(TypeError, "float64", linear, np.ones((2, K)))
    refuses(ValueError, r"\(2, 39\).*\(24, 40\)", linear, normal(2, K - 1))
    refuses(ValueError, r"shape=\(3, 24\).*\(2, 24\)", linear, normal(2, K), out=npu.empty((3, N)))


def test_a_recorded_layer_takes_new_inputs(npu: Device, layer: Any) -> None:
    linear, *_ = layer
    first, second = normal(4, K), normal(4, K, seed=1)
    with npu.record() as program:
        x = program.input("x", (4, K), np.float32)
        y = linear(x, activation="gelu")
    with program:
        for values in (first, second):
            program.run(x=values)
            assert np.array_equal(y.to_numpy(), linear(values, activation="gelu"))
