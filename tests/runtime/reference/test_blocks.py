"""The definition of products with block-quantised weights: against exact fractions, and against float64."""

from fractions import Fraction

import numpy as np
import pytest

from echo_npu import formats
from echo_npu.formats import FORMATS
from echo_npu.reference.blocks import block_floating_point, block_product, truth

each_format = pytest.mark.parametrize("name", FORMATS)


def rounded(value: Fraction) -> Fraction:
    """The float32 nearest to a value, ties to even; for values within float32's range."""
    if not value:
        return value
    exponent = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
    exponent -= abs(value) < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - 23, -149)
    return round(value / step) * step


def exact(value: np.floating | float) -> Fraction:
    return Fraction(float(value))


def by_fractions(x: np.ndarray, q: np.ndarray, d: np.ndarray, m: np.ndarray | None) -> Fraction:
    """One output, from one row and one column."""
    acc = Fraction(0)
    for block in range(x.size // 32):
        part = [exact(value) for value in x[32 * block : 32 * block + 32]]
        largest = max(map(abs, part))
        if not largest:
            continue
        e = 0
        while largest >= Fraction(2) ** e:
            e += 1
        while largest < Fraction(2) ** (e - 1):
            e -= 1
        integers = [min(max(round(value * Fraction(2) ** (15 - e)), -32768), 32767) for value in part]
        dot = sum(i * int(w) for i, w in zip(integers, q[32 * block :], strict=False))
        value = rounded(rounded(Fraction(dot)) * exact(d[block]))
        if m is not None:
            value = rounded(value + rounded(sum(integers) * exact(m[block])))
        acc = rounded(acc + rounded(value * Fraction(2) ** (e - 15)))
    return acc


def operands(name: str, m: int, k: int, n: int, seed: int) -> tuple[np.ndarray, formats.BlockParts]:
    random = np.random.default_rng(seed)
    x = random.standard_normal((m, k)) * np.exp2(random.integers(-30, 30, (m, k)))
    weights = random.standard_normal((n, k)) * np.exp2(random.integers(-8, 8, (n, 1)))
    blocks = formats.quantize(weights.astype(np.float32), name)
    return x.astype(np.float32), formats.block_parts(blocks, name)


@each_format
@pytest.mark.parametrize("scale", [0, -110, -135, 60])
def test_equals_exact_arithmetic(name: str, scale: int) -> None:
    x, parts = operands(name, 3, 96, 5, seed=scale + 200)
    x = np.ldexp(x, scale)
    x[1, 32:64] = 0
    x[2, 5] = np.ldexp(np.float32(1 - 2.0**-24), 32 + scale)  # its integer is limited
    result = block_product(x, parts.q, parts.d, parts.m)
    for row in range(3):
        for column in range(5):
            m = None if parts.m is None else parts.m[column]
            assert exact(result[row, column]) == by_fractions(x[row], parts.q[column], parts.d[column], m)


@each_format
@pytest.mark.parametrize("shape", [(1, 32, 1), (4, 64, 16), (7, 1024, 33)])
def test_is_close_to_float64(name: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, parts = operands(name, m, k, n, seed=k)
    true, bound = truth(x, parts.q, parts.d, parts.m)
    error = np.abs(block_product(x, parts.q, parts.d, parts.m) - true)
    assert (error <= bound).all()
    assert error.max() > 0


def test_integers_of_a_block() -> None:
    x = np.zeros(32, np.float32)
    x[:7] = [1.0, -1.0, 2.0**-15, 1.5 * 2.0**-14, 2.5 * 2.0**-14, -(2.0**-16), 0.999]
    i, e = block_floating_point(x)
    assert e == 1
    assert i[:7].tolist() == [16384, -16384, 0, 2, 2, 0, 16368]
    top = np.full(32, np.nextafter(np.float32(1), np.float32(0)))
    i, e = block_floating_point(np.where(np.arange(32) % 2, -top, top).astype(np.float32))
    assert (e, set(i.tolist())) == (0, {32767, -32768})
    i, e = block_floating_point(np.full(32, 2.0**-149, np.float32))
    assert (e, i[0]) == (-148, 16384)


def test_special_values() -> None:
    q = np.ones((2, 96), np.int8)
    d = np.ones((2, 3), np.float16)
    d[1, 1] = np.inf
    x = np.ones((4, 96), np.float32)
    x[1, 40] = np.nan
    x[2, 95] = -np.inf
    x[3, 32:64] = -0.0  # a block of zeros hides what its scale is
    result = block_product(x, q, d)
    assert result[0].tolist() == [96, np.inf]
    assert result[3].tolist() == [64, 64]
    assert result[1:3].view(np.uint32).tolist() == [[0x7FC00000] * 2] * 2
    assert not np.signbit(block_product(-0 * x[:1, :32], q[:, :32], d[:, :1])).any()
