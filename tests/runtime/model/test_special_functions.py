"""The instructions exp, rcp and rsqrt: tables, error against float64, special values, rounding."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu.model import special_functions
from echo_npu.model import vector_alu as alu
from echo_npu.model.special_functions import Words, exp, rcp, rsqrt
from echo_npu.spec.special_functions import COEFFICIENTS, LOG2_E, SEGMENTS
from spec.special_functions import LOG2_E_BITS, tables

pytestmark = pytest.mark.usefixtures("without_warnings")

INFINITY = 0x7F80_0000
NAN = 0x7FC0_0000
SIGN = 0x8000_0000
BOUNDS = {"exp": 0.52, "rcp": 0.52, "rsqrt": 0.54}
"""In ulp, as docs/numerics.md states them."""
PART = 1 << 21


def bits(*values: float) -> Words:
    return np.array(values, np.float32).view(np.uint32)


def error(found: Words, true: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance of float32 results from true finite values, in ulp of the true value."""
    _, power = np.frexp(true)
    ulp = np.ldexp(1.0, np.maximum(power - 24, -149))
    distance: NDArray[np.float64] = np.abs(found.view(np.float32).astype(np.float64) - true) / ulp
    return distance


def test_the_model_has_the_tables_of_the_generator() -> None:
    assert tables() == list(zip(*COEFFICIENTS, strict=True))
    assert len(tables()) == 3 * SEGMENTS


def test_the_factor_of_the_exponent_has_more_bits_than_it_needs() -> None:
    """Its error, times the greatest exponent, stays below the bits of a fraction that are used."""
    distance = abs(Fraction(LOG2_E, 1 << LOG2_E_BITS) - Fraction(1 / math.log(2)))
    assert distance * 128 < Fraction(1, 1 << 34)


@pytest.mark.parametrize("part", range(4))
def test_rcp_of_every_mantissa(part: int) -> None:
    a = np.arange(part * PART, (part + 1) * PART, dtype=np.uint32) | bits(1.0)
    assert error(rcp(a), 1 / a.view(np.float32).astype(np.float64)).max() < BOUNDS["rcp"]


@pytest.mark.parametrize("part", range(8))
def test_rsqrt_of_every_mantissa_and_parity(part: int) -> None:
    a = np.arange(part * PART, (part + 1) * PART, dtype=np.uint32) + bits(1.0)
    assert a.view(np.float32).max() < 4
    assert error(rsqrt(a), 1 / np.sqrt(a.view(np.float32).astype(np.float64))).max() < BOUNDS["rsqrt"]


@pytest.mark.parametrize("part", range(4))
def test_a_step_after_rcp_is_correctly_rounded(part: int) -> None:
    """Newton's step gives the nearest reciprocal of every mantissa: `div` is correctly rounded by it."""
    a = np.arange(part * PART, (part + 1) * PART, dtype=np.uint32) | bits(1.0)
    rough = rcp(a)
    step = alu.fma(rough, alu.fnma(a, rough, np.broadcast_to(bits(1.0), a.shape)), rough)
    nearest = (1 / a.view(np.float32).astype(np.float64)).astype(np.float32)
    assert np.array_equal(step.view(np.float32), nearest)
    assert not np.array_equal(rough, step)


@pytest.mark.parametrize("part", range(8))
def test_a_step_after_rsqrt_gives_the_nearest_root(part: int) -> None:
    """The residual of a * rsqrt(a) corrects it to the nearest root of every mantissa, as `sqrt` has it."""
    a = np.arange(part * PART, (part + 1) * PART, dtype=np.uint32) + bits(1.0)
    rough = rsqrt(a)
    root, half = alu.mul(a, rough), alu.mul(rough, np.broadcast_to(bits(0.5), a.shape))
    step = alu.fma(alu.fnma(root, root, a), half, root)
    assert np.array_equal(step.view(np.float32), np.sqrt(a.view(np.float32)))
    assert not np.array_equal(root, step)


def neighbourhoods() -> Words:
    """Return the arguments of exp about the borders of all segments, and of all ranges of the result."""
    borders = np.arange(-150 * SEGMENTS, 128 * SEGMENTS) / SEGMENTS * math.log(2)
    middle = borders.astype(np.float32).view(np.uint32)
    around = np.arange(-32, 32, dtype=np.int64)[:, None] + middle[None, :].astype(np.int64)
    return (around & 0xFFFF_FFFF).astype(np.uint32).reshape(-1)


def evenly(sign: int) -> Words:
    """Return arguments of exp that cover the bit patterns up to 110 evenly."""
    return np.arange(0, int(bits(110.0)[0]), 499, dtype=np.uint32) | np.uint32(sign)


def moderate(sign: int) -> Words:
    """Return arguments of exp with every third mantissa of some exponents."""
    return np.arange(int(bits(0.25)[0]), int(bits(4.0)[0]), 3, dtype=np.uint32) | np.uint32(sign)


@pytest.mark.parametrize(
    "arguments",
    [neighbourhoods(), evenly(0), evenly(SIGN), moderate(0), moderate(SIGN)],
    ids=["borders", "positive", "negative", "positive, moderate", "negative, moderate"],
)
def test_exp(arguments: Words) -> None:
    """Within the bound where the result is finite, subnormal results too; infinite exactly beyond."""
    checked = 0
    for a in np.array_split(arguments, -(-arguments.size // PART)):
        x = a.view(np.float32).astype(np.float64)
        with np.errstate(over="ignore"):
            true = np.exp(x)
        overflows = true >= 2.0**128 - 2.0**103
        found = exp(a)
        assert np.all(found[overflows] == INFINITY)
        rest = ~overflows & ~np.isnan(x)
        assert error(found[rest], true[rest]).max() < BOUNDS["exp"]
        checked += int(np.count_nonzero(rest))
    assert checked > 0.8 * arguments.size


SPECIAL = [
    (exp, 0x0000_0000, 0x3F80_0000),
    (exp, 0x8000_0000, 0x3F80_0000),
    (exp, 0x0000_0001, 0x3F80_0000),
    (exp, 0x807F_FFFF, 0x3F80_0000),
    (exp, INFINITY, INFINITY),
    (exp, INFINITY | SIGN, 0),
    (exp, 0x42B1_7217, 0x7F7F_FF84),  # the greatest that is finite
    (exp, 0x42B1_7218, INFINITY),
    (exp, 0x42FF_FFFF, INFINITY),
    (exp, 0x4300_0000, INFINITY),
    (exp, 0xC2CF_F1B4, 0x0000_0001),  # the least that is not zero
    (exp, 0xC2CF_F1B5, 0),
    (exp, 0xC2FF_FFFF, 0),
    (exp, 0xC300_0000, 0),
    (exp, 0xFF7F_FFFF, 0),
    (rcp, 0x0000_0000, INFINITY),
    (rcp, 0x8000_0000, INFINITY | SIGN),
    (rcp, INFINITY, 0),
    (rcp, INFINITY | SIGN, SIGN),
    (rcp, 0x3F80_0000, 0x3F80_0000),
    (rcp, 0xC000_0000, 0xBF00_0000),
    (rcp, 0x0020_0000, INFINITY),  # 2^-128
    (rcp, 0x0020_0001, 0x7F7F_FFF8),
    (rcp, 0x8000_0001, INFINITY | SIGN),
    (rcp, 0x7F00_0000, 0x0040_0000),
    (rcp, 0x7F7F_FFFF, 0x0020_0000),
    (rcp, 0xFE80_0000, 0x8080_0000),
    (rsqrt, 0x0000_0000, INFINITY),
    (rsqrt, 0x8000_0000, INFINITY | SIGN),
    (rsqrt, INFINITY, 0),
    (rsqrt, INFINITY | SIGN, NAN),
    (rsqrt, 0x8000_0001, NAN),
    (rsqrt, 0xBF80_0000, NAN),
    (rsqrt, 0x3F80_0000, 0x3F80_0000),
    (rsqrt, 0x4080_0000, 0x3F00_0000),
    (rsqrt, 0x0000_0002, 0x6480_0000),  # 2^-148
    (rsqrt, 0x0080_0000, 0x5F00_0000),
    (rsqrt, 0x7F7F_FFFF, 0x1F80_0000),
]


@pytest.mark.parametrize(("function", "argument", "result"), SPECIAL)
def test_special_values(function: Callable[[Words], Words], argument: int, result: int) -> None:
    assert hex(function(np.array([argument], np.uint32))[0]) == hex(result)


@pytest.mark.parametrize("function", [exp, rcp, rsqrt])
@pytest.mark.parametrize("argument", [0x7F80_0001, 0x7FC0_0000, 0xFFFF_FFFF, 0xFF80_0001])
def test_nan_is_canonical(function: Callable[[Words], Words], argument: int) -> None:
    assert function(np.array([argument], np.uint32))[0] == NAN


@pytest.mark.parametrize("name", BOUNDS)
def test_every_exponent(name: str) -> None:
    """rcp and rsqrt of every size, subnormals too, have the error of the mantissa in [1, 4), rounded once."""
    function = getattr(special_functions, name)
    random = np.random.default_rng(7)
    a = np.arange(256, dtype=np.uint32).repeat(4096) << np.uint32(23)
    a |= random.integers(0, 1 << 23, a.size, np.uint32)
    a = np.concatenate([a, np.arange(1, 4096, dtype=np.uint32)])
    a = a[(a < INFINITY) & (a != 0)]
    x = a.view(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        true = np.exp(x) if name == "exp" else 1 / x if name == "rcp" else 1 / np.sqrt(x)
    finite = true < 2.0**128 - 2.0**103
    assert np.all(function(a[~finite]) == INFINITY)
    assert error(function(a[finite]), true[finite]).max() < BOUNDS[name]
