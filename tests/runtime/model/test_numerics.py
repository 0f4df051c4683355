"""The arithmetic of the functional model, compared with scalar float32 in the order of the contract."""

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu.model import numerics
from echo_npu.model.numerics import add_fp32, matmul_fp32, matmul_int8
from echo_npu.spec.data_types import CANONICAL_NAN
from tests.runtime.model.test_epilogue import SPECIAL32

F32 = NDArray[np.float32]

SPECIALS = SPECIAL32.view(np.float32)


def bits(values: F32) -> NDArray[np.uint32]:
    """Return bit patterns, so that NaNs and signs of zeros compare exactly."""
    return np.ascontiguousarray(values).view(np.uint32)


def canonical(values: F32) -> F32:
    """Return the same values with canonical NaNs."""
    return np.where(np.isnan(values), np.uint32(CANONICAL_NAN).view(np.float32), values)


def matmul_by_hand(a: F32, b: F32) -> F32:
    """Compute one output at a time, one float32 operation at a time."""
    result = np.empty((a.shape[0], b.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for row in range(a.shape[0]):
            for column in range(b.shape[1]):
                total = np.float32(0.0)
                for k in range(a.shape[1]):
                    total = np.float32(total + np.float32(a[row, k] * b[k, column]))
                result[row, column] = total
    return canonical(result)


def mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> F32:
    """Draw ordinary values of many magnitudes with special ones among them."""
    values = (rng.standard_normal(shape) * 10.0 ** rng.integers(-20, 20, shape)).astype(np.float32)
    strewn = rng.random(shape) < 0.02
    values[strewn] = rng.choice(SPECIALS, int(strewn.sum()))
    return values


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 1, 1), (1, 300, 1), (3, 7, 5), (16, 16, 16), (17, 33, 15), (1, 40, 70), (70, 40, 1), (2, 129, 8)],
)
def test_matmul_is_bit_exact(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m * 10007 + k * 101 + n)
    for make in (mixed, lambda r, s: r.standard_normal(s, dtype=np.float32)):
        a, b = make(rng, (m, k)), make(rng, (k, n))
        assert np.array_equal(bits(matmul_fp32(a, b)), bits(matmul_by_hand(a, b)))


@pytest.mark.parametrize("rows", [1, 9, 64, 65, 130])
@pytest.mark.parametrize("columns", [1, 15, 16, 513, 5000])
def test_blocking_does_not_show(rows: int, columns: int) -> None:
    rng = np.random.default_rng(rows * 7919 + columns)
    depth = 37
    a, b = mixed(rng, (rows, depth)), mixed(rng, (depth, columns))
    expected = np.zeros((rows, columns), np.float32)
    with np.errstate(all="ignore"):
        for k in range(depth):
            expected += a[:, k, None] * b[None, k, :]
    assert np.array_equal(bits(matmul_fp32(a, b)), bits(canonical(expected)))


def test_a_long_sum_in_several_steps_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    a, b = mixed(rng, (4, 1000)), mixed(rng, (1000, 8))
    expected = bits(matmul_by_hand(a, b))
    monkeypatch.setattr(numerics, "_PRODUCT_BYTES", 4096)
    assert np.array_equal(bits(matmul_fp32(a, b)), expected)


def test_matmul_takes_strided_views() -> None:
    rng = np.random.default_rng(4)
    a, b = mixed(rng, (20, 30)), mixed(rng, (40, 20))
    assert np.array_equal(bits(matmul_fp32(a.T, b.T)), bits(matmul_by_hand(a.T.copy(), b.T.copy())))


def test_a_negative_zero_product_gives_positive_zero() -> None:
    """The accumulator starts at +0.0, and +0.0 + -0.0 is +0.0."""
    a, b = np.array([[-0.0]], np.float32), np.array([[1.0]], np.float32)
    assert bits(matmul_fp32(a, b))[0, 0] == 0


def test_subnormals_are_kept() -> None:
    tiny = np.array([[2.0**-126]], np.float32)
    assert bits(matmul_fp32(tiny, np.array([[0.5]], np.float32)))[0, 0] == 0x00400000


def integers_by_hand(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute with Python integers, then modulo 2**32."""
    rows, columns = a.tolist(), b.T.tolist()
    exact = [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in rows]
    return np.array([[value % 2**32 for value in row] for row in exact], np.uint32).view(np.int32)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (3, 7, 5), (1, 1023, 4), (2, 1024, 3), (3, 1025, 2), (2, 3100, 5)]
)
def test_int8_products_are_exact(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m * 10007 + k * 101 + n)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((m, k), (k, n)))
    result = matmul_int8(a, b)
    assert result.dtype == np.int32
    assert np.array_equal(result, integers_by_hand(a, b))
    assert np.array_equal(matmul_int8(a.T.copy().T, b.T.copy().T), result)


def test_int8_extremes_add_up_to_the_limit_of_an_exact_panel() -> None:
    lowest = np.full((1, 2048), -128, np.int8)
    assert matmul_int8(lowest, lowest.T)[0, 0] == 2048 * 2**14
    assert matmul_int8(lowest, np.full((2048, 1), 127, np.int8))[0, 0] == -2048 * 128 * 127


def test_int8_sums_wrap() -> None:
    depth = 2**17 + 1  # of 2**14 each: 2**31 + 2**14
    lowest = np.full((1, depth), -128, np.int8)
    assert matmul_int8(lowest, lowest.T)[0, 0] == -(2**31) + 2**14


@pytest.mark.parametrize("alpha", [1.0, 0.0, -0.7, np.inf, np.nan, 1e-40])
def test_add_is_bit_exact_on_all_pairs_of_specials(alpha: float) -> None:
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(SPECIALS, SPECIALS))
    scale = np.float32(alpha)
    with np.errstate(all="ignore"):
        expected = [np.float32(x + np.float32(scale * y)) for x, y in zip(a, b, strict=True)]
        plain = a + b
    result = bits(add_fp32(a, b, scale))
    assert np.array_equal(result, bits(canonical(np.array(expected, np.float32))))
    if alpha == 1.0:
        assert np.array_equal(result, bits(canonical(plain)))


def test_results_do_not_share_the_operands() -> None:
    a = np.ones((2, 2), np.float32)
    result = add_fp32(a, a, np.float32(1))
    assert not np.shares_memory(result, a)
