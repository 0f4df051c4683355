"""Products of every type give the same bits on the RTL as on the functional model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, QuantizedLinear
from tests.arrays import elements, normal
from tests.rtlmodel.simulated import STALLS, open_rtl

pytestmark = pytest.mark.sim

TYPES = ["float32", "uint16", "float16", "int8"]  # uint16 holds the bits of bfloat16


@pytest.fixture(scope="module", params=[0.0, STALLS], ids=["without stalls", "with stalls"])
def pair(request: pytest.FixtureRequest, config: str) -> Iterator[tuple[Device, Device]]:
    """An RTL simulation and a functional model."""
    with (
        open_rtl(config, stalls=request.param, seed=5) as rtl,
        echo_npu.open("cmodel", config=config) as model,
    ):
        yield rtl, model


def assert_same(pair: tuple[Device, Device], call: Any) -> None:
    ours, theirs = (np.ascontiguousarray(call(device)) for device in pair)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert np.array_equal(ours.view(np.uint8), theirs.view(np.uint8))


def test_the_device_has_every_type(pair: tuple[Device, Device]) -> None:
    assert {device.capabilities.data_types for device in pair} == {("fp32", "bf16", "fp16", "int8")}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("activation", [None, "relu", "silu", "gelu", "gelu_tanh"])
def test_layers(pair: tuple[Device, Device], name: str, activation: str | None) -> None:
    """Ragged layers with scales, bias and activation, in float32 and their own type, weights stored either
    way."""
    m, k, n = 21, 75, 37
    a, b = elements(name, m, k), elements(name, k, n, seed=1)
    steps = {"row_scale": normal(m, seed=2) / 50, "col_scale": normal(n, seed=3), "bias": normal(n, seed=4)}
    for trans_b in (False, True):
        stored = np.ascontiguousarray(b.T) if trans_b else b
        for out_dtype in (None, name):

            def call(npu: Device, stored: Any = stored, **options: Any) -> Any:
                return npu.matmul(a, stored, activation=activation, **steps, **options)

            options = {"trans_b": trans_b, "out_dtype": out_dtype}
            assert_same(pair, lambda npu, call=call, options=options: call(npu, **options))


@pytest.mark.parametrize("name", TYPES)
def test_batches_of_heads(pair: tuple[Device, Device], name: str) -> None:
    query, key = elements(name, 9, 17, 24), elements(name, 3, 17, 24, seed=1)
    grouped = query.reshape(3, 3, 17, 24)
    assert_same(pair, lambda npu: npu.matmul(grouped, key[:, None], trans_b=True, alpha=24**-0.5))


def test_int8_sums(pair: tuple[Device, Device]) -> None:
    a, b = elements("int8", 19, 260), elements("int8", 260, 23)
    assert_same(pair, lambda npu: npu.matmul(a, b, out_dtype="int32"))
    exact = a.astype(np.int32) @ b.astype(np.int32)
    assert np.array_equal(pair[0].matmul(a, b, out_dtype="int32"), exact)


def test_a_quantised_layer(pair: tuple[Device, Device]) -> None:
    weight, bias, x = normal(40, 70), normal(40, seed=1), normal(3, 6, 70, seed=2)
    assert_same(pair, lambda npu: QuantizedLinear.from_float(npu, weight, bias)(x, activation="silu"))


def test_the_comparison_sees_another_bias(pair: tuple[Device, Device]) -> None:
    a, b, bias = elements("int8", 3, 8), elements("int8", 8, 5), normal(5)
    first = pair[0].matmul(a, b, bias=bias)
    bias[4] += 200
    assert not np.array_equal(first, pair[1].matmul(a, b, bias=bias))
