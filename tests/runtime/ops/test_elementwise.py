"""Elementwise operations: values, corners, broadcasting, views, in place, refused arguments."""

from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, DeviceTensor
from echo_npu.reference.elementwise import FUNCTIONS, POWER_ULP, allowed, ulp_error
from tests.arrays import normal
from tests.refusals import Error, Words, refuses
from tests.runtime.ops.accuracy import F32
from tests.runtime.ops.elementwise_cases import (
    BINARY,
    CASES,
    EXACT_UNARY,
    UNARY,
    arguments,
    call_unary,
    pairs,
)


def assert_equal(result: Any, expected: Any) -> None:
    """Check for the same float32 values; any NaN equals any NaN, and -0 is not 0."""
    assert isinstance(result, np.ndarray)
    assert result.dtype == np.float32
    wanted = np.asarray(expected, dtype=np.float32)
    assert result.shape == wanted.shape
    same = (result == wanted) & (np.signbit(result) == np.signbit(wanted))
    wrong = ~(same | (np.isnan(result) & np.isnan(wanted)))
    assert not wrong.any(), (result[wrong][:5], wanted[wrong][:5])


@pytest.mark.parametrize("name", UNARY)
def test_a_function_is_within_its_bound(npu: Device, name: str) -> None:
    x = arguments(2000)
    result = call_unary(name, npu, x)
    with np.errstate(all="ignore"):
        if name in EXACT_UNARY:
            assert_equal(result, EXACT_UNARY[name](x))
            return
        error = ulp_error(result, FUNCTIONS[name].truth(x.astype(np.float64)))
    worst = int(np.argmax(error - allowed(name, x)))
    assert error[worst] <= allowed(name, x)[worst], (x[worst], result[worst])


def test_the_bound_can_fail(npu: Device) -> None:
    x = np.linspace(-20, 20, 999, dtype=np.float32)
    result = npu.exp(x)
    for wrong in (np.nextafter(result, np.float32(0)), -result):
        assert ulp_error(wrong, np.exp(x.astype(np.float64))).max() > FUNCTIONS["exp"].ulp
    assert np.isinf(ulp_error(np.array([np.nan], np.float32), np.array([1.0])))[0]
    assert np.isinf(ulp_error(np.array([-0.0], np.float32), np.array([0.0])))[0]


@pytest.mark.parametrize("name", [name for name in BINARY if name != "div"])
def test_two_operands_are_numpys_to_the_bit(npu: Device, name: str) -> None:
    a, b = pairs()
    with np.errstate(all="ignore"):
        expected = BINARY[name](a, b)
    if name in ("minimum", "maximum"):
        # numpy does not define which of two zeros it gives
        zeros = (a == 0) & (b == 0)
        expected[zeros] = np.where(np.signbit(a[zeros]), a[zeros], b[zeros])
        if name == "maximum":
            expected[zeros] = np.where(np.signbit(a[zeros]), b[zeros], a[zeros])
    assert_equal(getattr(npu, name)(a, b), expected)


def test_a_normal_quotient_is_correctly_rounded(npu: Device) -> None:
    a, b = pairs()
    more = np.random.default_rng(3).uniform(1, 2, (2, 30000)).astype(np.float32)
    a, b = np.concatenate([a, more[0]]), np.concatenate([b, more[1]])
    result = npu.div(a, b)
    with np.errstate(all="ignore"):
        expected = a / b
        subnormal = (np.abs(expected) < 2.0**-126) & (expected != 0)
        assert_equal(result[~subnormal], expected[~subnormal])
        truth = a.astype(np.float64) / b
    assert subnormal.any()
    assert np.all(ulp_error(result, truth)[subnormal] <= 0.75)


@pytest.mark.parametrize("exponent", [-3.0, -2.5, -1.0, -0.37, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 7.0, 33.0, 1e30])
@pytest.mark.parametrize("kind", [float, np.float32])
def test_powers(npu: Device, exponent: float, kind: type) -> None:
    x = arguments(2000)
    result = npu.pow(x, kind(exponent))
    with np.errstate(all="ignore"):
        truth = np.power(x.astype(np.float64), np.float64(np.float32(exponent)))
    error = ulp_error(result, truth)
    assert error.max() <= POWER_ULP, x[np.argmax(error)]


@pytest.mark.parametrize("exponent", [np.inf, -np.inf, np.nan, 0, -1e30, 2**40 + 1])
def test_powers_of_special_exponents(npu: Device, exponent: float) -> None:
    x = np.array([0, 0.5, 1, 2, np.inf, np.nan, -0.0, -0.5, -1, -2, -np.inf], np.float32)
    with np.errstate(all="ignore"):
        assert_equal(npu.pow(x, exponent), np.power(x, np.float32(exponent)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((5, 700), (700,)),
        ((5, 700), (5, 1)),
        ((700,), (1,)),
        ((3, 1, 40), (4, 1)),
        ((2, 3, 4, 5, 6), (3, 1, 5, 1)),
        ((2, 1, 4, 1, 6), (1, 3, 1, 5, 1)),
        ((), (3, 5)),
        ((1,), (1, 1)),
        ((40, 1), (1, 40)),
    ],
    ids=str,
)
def test_operands_broadcast(npu: Device, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    left, right = normal(*a, seed=1), normal(*b, seed=2)
    assert_equal(npu.sub(left, right), np.asarray(left - right))
    assert_equal(npu.mul(right, left), np.asarray(right * left))
    scaled = np.asarray(left + np.float32(0.3) * right)
    assert_equal(npu.add(left, right, alpha=0.3), scaled)


@pytest.mark.parametrize("number", [2, 0.1, np.float32(0.1), np.int64(3), np.float64(1e300)])
def test_a_number_is_an_operand(npu: Device, number: Any) -> None:
    x = normal(3, 50)
    with np.errstate(all="ignore"):
        rounded = np.float32(number)
        assert_equal(npu.sub(x, number), x - rounded)
        assert_equal(npu.sub(number, x), rounded - x)
        assert_equal(npu.div(number, x), rounded / x)
        assert_equal(npu.add(number, x), rounded + x)
        assert_equal(npu.lt(x, number), x < rounded)


def test_views_of_any_strides(npu: Device) -> None:
    values = normal(4, 6, 5, 7)
    x = npu.tensor(values)
    for view, same in (
        (x[:, ::2], values[:, ::2]),
        (x[..., ::3], values[..., ::3]),
        (x.transpose(3, 1, 0, 2), values.transpose(3, 1, 0, 2)),
        (x[1, 2, :, 3], values[1, 2, :, 3]),
        (x.T[2:, :, 1], values.T[2:, :, 1]),
    ):
        assert_equal(npu.mul(view, view).to_numpy(), same * same)
        assert_equal(npu.neg(view).to_numpy(), -same)
        target = npu.tensor(np.full(values.shape, 9, np.float32)).T
        out = target[tuple(slice(0, size) for size in view.shape) + (0,) * (4 - view.ndim)]
        if out.shape == view.shape:
            assert npu.abs(view, out=out) is out
            assert_equal(out.to_numpy(), np.abs(same))


def test_a_result_in_a_view_leaves_the_rest_alone(npu: Device) -> None:
    x, values = npu.tensor(np.full((6, 40), 9, np.float32)), normal(6, 20)
    npu.exp(values, out=x[:, 1::2])
    assert_equal(x[:, 1::2].to_numpy(), npu.exp(values))
    assert_equal(x[:, ::2].to_numpy(), np.full((6, 20), 9))


@pytest.mark.parametrize("shape", [(40,), (6, 40), (3, 4, 300)], ids=str)
def test_in_place(npu: Device, shape: tuple[int, ...]) -> None:
    values, row = normal(*shape), normal(shape[-1], seed=1)
    x = npu.tensor(values)
    assert npu.mul(x, 2.0, out=x) is x
    assert_equal(x.to_numpy(), values * 2)
    npu.add(x, npu.tensor(row), out=x)
    assert_equal(x.to_numpy(), values * 2 + row)
    npu.sub(x, x, out=x)
    assert_equal(x.to_numpy(), values * 0 + 0)


def test_an_operand_that_shares_memory_with_the_result(npu: Device) -> None:
    values = normal(8, 8)
    x = npu.tensor(values)
    npu.sub(x, x.T, out=x)
    assert_equal(x.to_numpy(), values - values.T)
    y = npu.tensor(values.ravel())
    npu.add(y[1:], y[:-1], out=y[1:])
    assert_equal(y[1:].to_numpy(), values.ravel()[1:] + values.ravel()[:-1])
    assert_equal(y[:1].to_numpy(), values.ravel()[:1])


def test_the_kind_of_the_result(npu: Device) -> None:
    x = normal(3, 4)
    tensor = npu.tensor(x)
    assert isinstance(npu.mul(x, x), np.ndarray)
    for result in (
        npu.mul(tensor, x),
        npu.mul(x, tensor),
        npu.exp(tensor),
        npu.exp(x, out=npu.empty((3, 4))),
    ):
        assert isinstance(result, DeviceTensor)


def test_a_long_dense_tensor_is_one_command(npu: Device) -> None:
    x = npu.tensor(normal(7, 30, 50))
    npu.add(npu.mul(npu.relu(x), x), 1.0)  # loads the programs
    before = npu.counters()["commands"]
    npu.relu(x)
    npu.mul(x, x)
    npu.add(x, 1.0)
    assert npu.counters()["commands"] == before + 3


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (None, 0.5), (-0.5, None), (1, -1), (np.nan, 1)])
def test_clamp(npu: Device, low: float | None, high: float | None) -> None:
    x = arguments()
    expected = x if low is None else np.maximum(x, np.float32(low))
    expected = expected if high is None else np.minimum(expected, np.float32(high))
    assert_equal(npu.clamp(x, low, high), expected)


def test_clamp_to_arrays(npu: Device) -> None:
    x, low, high = normal(5, 60), normal(60, seed=1), normal(5, 1, seed=2)
    assert_equal(npu.clamp(x, low, high), np.minimum(np.maximum(x, low), high))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.float32])
def test_where(npu: Device, dtype: Any) -> None:
    condition = np.array([0, 1, -0.0, 2, 127, np.nan], np.float32)
    if dtype is not np.float32:
        condition = condition[:5].astype(dtype)
    a, b = normal(3, condition.size), normal(condition.size, seed=1)
    assert_equal(npu.where(condition, a, b), np.where(condition, a, b))
    assert_equal(npu.where(condition, a, 7.0), np.where(condition, a, np.float32(7)))
    assert_equal(npu.where(condition[:, None], 1.0, 7.0), np.where(condition[:, None], 1.0, 7.0))
    assert_equal(npu.masked_fill(a, condition, -np.inf), np.where(condition, -np.inf, a))


def test_where_keeps_the_bits_of_a_nan(npu: Device) -> None:
    x = np.array([0x7F80_0123, 0xFFC0_0001], np.uint32).view(np.float32)
    result = npu.where(np.array([True, False]), x, x)
    assert np.array_equal(result.view(np.uint32), x.view(np.uint32))


def test_addcmul_and_addcdiv(npu: Device) -> None:
    x, a, b = normal(5, 60), normal(60, seed=1), normal(5, 1, seed=2)
    wide = x.astype(np.float64)
    for result, part in ((npu.addcmul(x, a, b, 0.3), a * b), (npu.addcdiv(x, a, b, 0.3), a / b)):
        expected = wide + np.float64(np.float32(0.3)) * part  # both are exact enough to be rounded once
        assert_equal(result, expected.astype(np.float32))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda npu, x: npu.mul(x, normal(4)), ValueError, ["mul", "(3, 5)", "(4,)", "broadcast"]),
        (lambda npu, x: npu.mul(x, x.astype(np.float64)), TypeError, ["mul", "float32", "float64"]),
        (lambda npu, x: npu.exp(x.astype(np.int32)), TypeError, ["exp", "int32"]),
        (lambda npu, x: npu.exp(2.0), TypeError, ["exp", "float"]),
        (lambda npu, x: npu.mul(2.0, 3), TypeError, ["mul", "array"]),
        (lambda npu, x: npu.mul(x, True), TypeError, ["mul", "bool"]),
        (lambda npu, x: npu.mul(x, "3"), TypeError, ["mul", "str"]),
        (lambda npu, x: npu.mul(x, [1.0]), TypeError, ["mul", "list"]),
        (lambda npu, x: npu.exp(x[:0]), ValueError, ["exp", "empty", "(0, 5)"]),
        (lambda npu, x: npu.exp(x, out=npu.empty((5, 3))), ValueError, ["exp", "(5, 3)", "(3, 5)"]),
        (lambda npu, x: npu.exp(x, out=npu.empty((3, 5), np.int32)), TypeError, ["exp", "int32"]),
        (lambda npu, x: npu.exp(x, out=x), TypeError, ["exp", "ndarray"]),
        (lambda npu, x: npu.pow(x, x), TypeError, ["pow", "exponent", "ndarray"]),
        (lambda npu, x: npu.clamp(x), ValueError, ["clamp", "minimum"]),
        (lambda npu, x: npu.clamp(x, "0"), TypeError, ["clamp", "min", "str"]),
        (lambda npu, x: npu.gelu(x, "erf"), ValueError, ["gelu", "erf", "tanh"]),
        (lambda npu, x: npu.where(1.0, x, x), TypeError, ["where", "condition", "float"]),
        (lambda npu, x: npu.where(x > 0, x, x.astype(np.float16)), TypeError, ["where", "float16"]),
        (lambda npu, x: npu.masked_fill(x, x, x), TypeError, ["masked_fill", "value"]),
        (lambda npu, x: npu.addcmul(x, x, x, "1"), TypeError, ["addcmul", "value", "str"]),
    ],
)
def test_what_is_refused_is_named(npu: Device, call: Any, error: Error, words: Words) -> None:
    x: F32 = normal(3, 5)
    refuses(error, words, call, npu, x)


def test_a_tensor_of_another_device_is_refused(npu: Device) -> None:
    with echo_npu.open("cmodel") as other, pytest.raises(ValueError, match="another device"):
        npu.mul(npu.tensor(normal(3)), other.tensor(normal(3)))


@pytest.mark.parametrize("name", CASES)
def test_every_case_runs(npu: Device, name: str) -> None:
    result = CASES[name](npu)
    assert isinstance(result, np.ndarray)
    assert result.size


def test_more_separate_elements_than_a_row_has_segments(npu: Device) -> None:
    x = npu.empty((2**20 + 40, 2))
    npu.mul(npu.full(x.shape, 3.0), 1.0, out=x)
    values = normal(2**20 + 40)
    npu.add(values, 0.0, out=x[:, 1])
    assert_equal(npu.neg(x[:, 1]).to_numpy(), -(values + 0))
    assert_equal(x[:, 0].to_numpy(), np.full(values.shape, 3))
