"""Types and epilogue of a product, compared with the definition, one number at a time."""

import itertools
import struct
from typing import Any

import numpy as np
import pytest

from echo_npu.model.epilogue import Epilogue, store, widen
from echo_npu.model.numerics import matmul_fp32, matmul_int8
from echo_npu.spec.data_types import DataType, OutType
from tests.runtime import matmul_definition as definition

SPECIAL32 = np.array(
    [0, 1 << 31, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF800001, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
     0x7FC00001, 0x7F800001, 0xFF812345, 0x3F7FFFFF, 0x33800000, 0x4B800001],
    np.uint32,
)  # fmt: skip
SPECIAL16 = np.array(
    [0, 0x8000, 1, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0x7C01, 0x3F80, 0x7F80,
     0x7F7F, 0xFF80, 0x0080, 0x007F],
    np.uint16,
)  # fmt: skip
OUTS = {OutType.FLOAT32: "fp32", OutType.OWN: "own", OutType.INT32: "int32"}
BITS = {DataType.FP32: np.uint32, DataType.BF16: np.uint16, DataType.FP16: np.uint16, DataType.INT8: np.int8}


def float32(bits: int) -> np.float32:
    return np.float32(struct.unpack("<f", struct.pack("<I", bits))[0])


def operands(rng: np.random.Generator, dtype: DataType, shape: tuple[int, int], strewn: float) -> np.ndarray:
    """Draw bits of ordinary numbers with special values among them."""
    if dtype == DataType.INT8:
        numbers = rng.integers(-128, 128, shape).astype(np.int8)
        return np.where(rng.random(shape) < strewn, rng.choice(np.array([-128, 127, 0]), shape), numbers)
    values = rng.standard_normal(shape, dtype=np.float32)
    if dtype == DataType.FP32:
        bits, special = values.view(np.uint32), SPECIAL32
    elif dtype == DataType.BF16:
        bits, special = (values.view(np.uint32) >> 16).astype(np.uint16), SPECIAL16
    else:
        bits, special = values.astype(np.float16).view(np.uint16), SPECIAL16
    return np.where(rng.random(shape) < strewn, rng.choice(special, shape), bits)


def computed(a: np.ndarray, b: np.ndarray, dtype: DataType, out: OutType, epilogue: Epilogue) -> np.ndarray:
    """Compute the functional model's result in the definition's form: bits, or integers."""
    if dtype == DataType.INT8:
        sums: Any = matmul_int8(a.astype(np.int8), b.astype(np.int8))
    else:
        left, right = (each.astype(BITS[dtype]).view(dtype.storage) for each in (a, b))
        sums = matmul_fp32(widen(left, dtype), widen(right, dtype))
    if out == OutType.INT32:
        return np.asarray(sums).astype(np.int64)
    result = store(epilogue.apply(sums), dtype, out)
    assert result.dtype == np.dtype(out.storage(dtype))
    as_stored = BITS[dtype] if out == OutType.OWN else np.uint32
    return np.ascontiguousarray(result).view(as_stored).astype(np.int64)


def check(a: np.ndarray, b: np.ndarray, dtype: DataType, out: OutType, **steps: Any) -> None:
    """Compare the bits of the model and of the definition. `steps` are the fields of Epilogue."""
    plain = {name: np.asarray(value).tolist() for name, value in steps.items() if value is not None}
    expected = definition.result(a, b, dtype.label, OUTS[out], **plain)
    found = computed(a, b, dtype, out, Epilogue(**steps))
    assert np.array_equal(found, expected), np.argwhere(found != expected)[0]


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("strewn", [0.0, 0.05, 1.0])
@pytest.mark.parametrize("k", [1, 3, 40])
def test_products(dtype: DataType, strewn: float, k: int) -> None:
    rng = np.random.default_rng(1000 * dtype + k)
    a, b = operands(rng, dtype, (7, k), strewn), operands(rng, dtype, (k, 9), strewn)
    for out in OutType:
        if out != OutType.INT32 or dtype == DataType.INT8:
            check(a, b, dtype, out)


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
@pytest.mark.parametrize("out", [OutType.FLOAT32, OutType.OWN])
def test_every_combination_of_steps(dtype: DataType, out: OutType) -> None:
    """Scales and biases have ordinary values, zeros, infinities, NaN and subnormals."""
    rng = np.random.default_rng(2000 + dtype)
    size = 0.02 if dtype == DataType.INT8 else 1.0  # so that not all saturate
    for special, steps in itertools.product((False, True), itertools.product((False, True), repeat=5)):
        a, b = operands(rng, dtype, (6, 11), 0.05 * special), operands(rng, dtype, (11, 8), 0.05 * special)
        vectors = [rng.standard_normal(length, dtype=np.float32) for length in (6, 8, 8)]
        if special:
            for vector in vectors:
                strewn = rng.random(vector.shape) < 0.4
                vector[strewn] = rng.choice(SPECIAL32, int(strewn.sum())).view(np.float32)
        alpha = float32(int(rng.choice(SPECIAL32))) if special else np.float32(0.3 * size)
        named = zip(("alpha", "row_scale", "column_scale", "bias"), (alpha, *vectors), steps[:4], strict=True)
        check(a, b, dtype, out, **{name: value for name, value, step in named if step}, relu=steps[4])


@pytest.mark.parametrize("dtype", DataType, ids=lambda dtype: dtype.label)
def test_rounding_to_the_own_type(dtype: DataType) -> None:
    """Any bit pattern, and both sides of the middle between two numbers."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 3000, dtype=np.uint32)
    ties = (rng.integers(0, 1 << 16, 3000, dtype=np.uint32) << 16) + 0x8000
    halves = np.arange(-140.0, 140.0, 0.5, dtype=np.float32).view(np.uint32)
    near = np.arange(0x477FD000, 0x47801000, 0x123, dtype=np.uint32)  # about the largest fp16
    parts = [bits, ties, ties - 1, ties + 1, halves, halves - 1, halves + 1, near, SPECIAL32]
    patterns = np.concatenate(parts).astype(np.uint32)
    found = store(patterns.view(np.float32), dtype, OutType.OWN).view(BITS[dtype]).tolist()
    for pattern, got in zip(patterns.tolist(), found, strict=True):
        value = float(struct.unpack("<f", struct.pack("<I", pattern))[0])
        if dtype == DataType.FP32:
            assert got == pattern  # earlier steps make NaN canonical
        else:
            assert got == definition.stored(value, dtype.label), hex(pattern)


@pytest.mark.parametrize("dtype", [DataType.BF16, DataType.FP16])
def test_widening_is_exact_for_every_pattern(dtype: DataType) -> None:
    patterns = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)
    wide = widen(patterns.view(dtype.storage), dtype)
    assert wide.dtype == np.float32
    for pattern, value in zip(patterns.tolist(), wide.tolist(), strict=True):
        expected = definition.widened(pattern, dtype.label)
        assert definition.float32_bits(value) == definition.float32_bits(expected)


def test_relu_of_zeros_and_nan() -> None:
    values = np.array([[-0.0, 0.0, -1e-45, 1e-45, np.nan, -np.inf, np.inf]], np.float32)
    result = Epilogue(relu=True).apply(values).view(np.uint32)[0].tolist()
    assert result == [0, 0, 0, 1, 0x7FC00000, 0, 0x7F800000]


def test_int32_sums_are_rounded_once() -> None:
    sums = np.array([[2**24 + 1, 2**24 + 3, -(2**31), 2**31 - 1, 2**25 + 2]], np.int32)
    assert Epilogue().apply(sums).tolist() == [[2.0**24, 2.0**24 + 4, -(2.0**31), 2.0**31, 2.0**25]]


def test_names_of_types() -> None:
    assert [dtype.label for dtype in DataType] == ["fp32", "bf16", "fp16", "int8"]
    assert [dtype.itemsize for dtype in DataType] == [4, 2, 2, 1]
    assert [OutType.OWN.itemsize(dtype) for dtype in DataType] == [4, 2, 2, 1]
    assert [out.itemsize(DataType.INT8) for out in OutType] == [4, 1, 4]
