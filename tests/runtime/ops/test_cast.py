"""Casts, and quantisation to int8."""

from typing import Any

import numpy as np
import pytest

from echo_npu import Device, DeviceTensor
from tests.arrays import normal
from tests.refusals import Error, Words, refuses
from tests.runtime.ops.accuracy import F32
from tests.runtime.ops.elementwise_cases import arguments, quantizable


def bfloat16_bits(x: F32) -> Any:
    """Round to the nearest, ties to even, by the definition: the nearer of the two neighbours."""
    bits = x.view(np.uint32).astype(np.uint64)
    low, rest = bits >> np.uint64(16), bits & np.uint64(0xFFFF)
    up = (rest > 0x8000) | ((rest == 0x8000) & (low & np.uint64(1) == 1))
    return np.where(np.isnan(x), 0x7FC0, low + up).astype(np.uint16)


def every_half() -> Any:
    return np.arange(2**16, dtype=np.uint32).astype(np.uint16)


def test_to_float16(npu: Device) -> None:
    sizes = (normal(4000) * np.float32(size) for size in (2.0**-15, 60000))
    x = np.concatenate([arguments(4000), *sizes])
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    result = npu.cast(x, np.float16)
    assert result.dtype == np.float16
    bits = np.where(np.isnan(x), 0x7E00, expected.view(np.uint16))
    assert np.array_equal(result.view(np.uint16), bits)


def test_to_bfloat16(npu: Device) -> None:
    x = np.concatenate([arguments(4000), (every_half().astype(np.uint32) << 16 | 0x8000).view(np.float32)])
    result = npu.cast(x, "bfloat16")
    assert np.array_equal(result.view(np.uint16), bfloat16_bits(x))


def test_every_float16_and_bfloat16_back(npu: Device) -> None:
    bits = every_half()
    for source, expected in (
        (bits.view(np.float16), bits.view(np.float16).astype(np.float32)),
        (bits, (bits.astype(np.uint32) << 16).view(np.float32)),
    ):
        result = npu.cast(source, np.float32)
        assert result.dtype == np.float32
        assert np.array_equal(result, expected, equal_nan=True)
        numbers = ~np.isnan(expected)
        assert np.array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def test_to_int32(npu: Device) -> None:
    x = np.array([0, -0.0, 0.9, -0.9, 1.5, -2.5, 3e9, -3e9, np.inf, -np.inf, np.nan, 2**24 + 2], np.float32)
    most, least = 2**31 - 1, -(2**31)
    expected = [0, 0, 0, 0, 1, -2, most, least, most, least, 0, 2**24 + 2]
    result = npu.cast(x, np.int32)
    assert result.dtype == np.int32
    assert result.tolist() == expected


@pytest.mark.parametrize("dtype", [np.int32, np.int16, np.int8, np.uint8, bool])
def test_from_integers(npu: Device, dtype: Any) -> None:
    info = np.iinfo(np.uint8 if dtype is bool else dtype)
    values = np.random.default_rng(0).integers(info.min, info.max, 500, dtype=np.int64, endpoint=True)
    x = np.array([info.min, info.max, 0, 1, *values], np.int64).astype(dtype)
    assert np.array_equal(npu.cast(x, np.float32), x.astype(np.float32))


def test_one_short_type_to_another(npu: Device) -> None:
    x = np.array([1.0, -0.0, 65504, 1e-7, np.inf], np.float16)
    bits = bfloat16_bits(x.astype(np.float32))
    assert np.array_equal(npu.cast(x, "bfloat16").view(np.uint16), bits)
    with np.errstate(over="ignore"):
        expected = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float16)
    assert np.array_equal(npu.cast(bits, np.float16), expected)


def test_views_and_out(npu: Device) -> None:
    values = normal(6, 40)
    x = npu.tensor(values)
    half = npu.cast(x[:, ::3].T, np.float16)
    assert isinstance(half, DeviceTensor)
    assert np.array_equal(half.to_numpy(), values[:, ::3].T.astype(np.float16))
    out = npu.empty((6, 40), np.uint16)
    assert npu.cast(x, "bfloat16", out=out) is out
    assert np.array_equal(out.to_numpy(), bfloat16_bits(values))
    wide = npu.empty((14, 6))
    npu.cast(half, np.float32, out=wide)
    assert np.array_equal(wide.to_numpy(), values[:, ::3].T.astype(np.float16).astype(np.float32))


@pytest.mark.parametrize(
    ("x", "dtype", "error", "words"),
    [
        (np.zeros(3), np.float32, TypeError, ["float64", "float32", "one of"]),
        (np.zeros(3, np.float32), np.int64, TypeError, ["float32", "int64", "one of"]),
        (3.0, np.float16, TypeError, ["float"]),
        (np.zeros((0, 3), np.float32), np.float16, ValueError, ["empty", "(0, 3)"]),
    ],
)
def test_casts_that_are_refused(npu: Device, x: Any, dtype: Any, error: Error, words: Words) -> None:
    refuses(error, words, npu.cast, x, dtype)
    refuses(TypeError, "out is float32", npu.cast, np.zeros(3, np.float32), np.float16, out=npu.empty(3))


def test_quantize_by_its_definition(npu: Device) -> None:
    x = quantizable()
    q, scales = npu.quantize(x)
    assert (q.dtype, scales.dtype) == (np.int8, np.float32)
    assert (q.shape, scales.shape) == (x.shape, x.shape[:-1])
    with np.errstate(all="ignore"):
        expected = np.max(np.abs(x), axis=-1) / np.float32(127)
        quotient = np.clip(x / expected[:, None], -127, 127)
    assert np.array_equal(scales, expected, equal_nan=True)
    assert np.array_equal(q, np.rint(np.where(np.isnan(quotient), 0, quotient)).astype(np.int8))
    assert scales[1] == 0
    assert not q[1].any()
    assert np.abs(q[0].astype(int)).max() == 127


def test_quotients_next_to_a_tie(npu: Device) -> None:
    scale = np.float32(0.1)
    halves = (np.arange(-126, 127) + np.float32(0.5)) * scale
    beside = np.concatenate([np.nextafter(halves, np.float32(step)) for step in (-100, 100)])
    x = np.concatenate([[127 * scale], halves, beside]).astype(np.float32)[None]
    q, scales = npu.quantize(x)
    assert np.array_equal(q, np.clip(np.rint(x / scales[:, None]), -127, 127).astype(np.int8))


@pytest.mark.parametrize("shape", [(1,), (700,), (3, 4, 50), (5, 1)], ids=str)
def test_quantize_and_back(npu: Device, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    q, scales = npu.quantize(x)
    back = npu.dequantize(q, scales)
    assert np.array_equal(back, q.astype(np.float32) * scales[..., None])
    assert np.all(np.abs(back - x) <= scales[..., None] * 0.50001)


def test_quantize_views(npu: Device) -> None:
    values = normal(40, 6)
    q, scales = npu.quantize(npu.tensor(values).T)
    assert isinstance(q, DeviceTensor)
    assert isinstance(scales, DeviceTensor)
    same_q, same_scales = npu.quantize(np.ascontiguousarray(values.T))
    assert np.array_equal(q.to_numpy(), same_q)
    assert np.array_equal(scales.to_numpy(), same_scales)
    out = npu.empty((40, 6)).T
    assert npu.dequantize(q, scales, out=out) is out
    assert np.array_equal(out.to_numpy(), npu.dequantize(same_q, same_scales))


def test_what_is_refused_is_named(npu: Device) -> None:
    x = normal(3, 5)
    refuses(TypeError, r"quantize.*float64", npu.quantize, x.astype(np.float64))
    refuses(ValueError, r"quantize.*\(\)", npu.quantize, np.array(1, np.float32))
    q, scales = npu.quantize(x)
    refuses(TypeError, r"float32.*float32", npu.dequantize, x, scales)
    refuses(ValueError, r"\(3, 5\).*\(5,\)", npu.dequantize, q, np.zeros(5, np.float32))
    refuses(ValueError, r"\(5, 3\).*\(3, 5\)", npu.dequantize, q, scales, out=npu.empty((5, 3)))


@pytest.mark.parametrize("target", [np.int32, np.int16, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize("source", [np.int32, np.int16, np.int8, np.uint8, np.bool_])
def test_between_integers(npu: Device, source: Any, target: Any) -> None:
    x = np.array([0, 1, 2, 127, 128, 255, 256, -1, -128, 2**24 + 1, -(2**31), 2**31 - 1]).astype(source)
    assert np.array_equal(npu.cast(x, target), x.astype(target))


@pytest.mark.parametrize("target", [np.int16, np.int8, np.uint8, np.bool_])
def test_from_float32_to_small_integers(npu: Device, target: Any) -> None:
    x = np.array([0.0, -0.0, 0.5, 1.9, 100.7, 3e-45], np.float32)
    assert np.array_equal(npu.cast(x, target), x.astype(target))
    assert npu.cast(np.array([np.nan, -2.0], np.float32), np.bool_).all()
