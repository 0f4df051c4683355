"""Elementwise functions of one argument, and the error that a result may have."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

TRIGONOMETRIC_LIMIT: Final = 2.0**20
"""sin and cos of an argument of this magnitude or more are NaN."""

EXACT_TRIGONOMETRY: Final = 32768.0
"""The bound of sin and cos is one ulp larger for arguments beyond this magnitude."""

_LEAST_EXPONENT: Final = -149


@dataclass(frozen=True, slots=True)
class Function:
    """A function and its bound.

    Attributes:
        truth: float64 to float64, exact to far less than the float32 ulp.
        ulp: the greatest error of the NPU, in units in the last place of the true value.
    """

    truth: Callable[[F64], F64]
    ulp: float


def ulp_error(result: NDArray[np.float32], truth: F64) -> F64:
    """Return the error in units in the last place of a float32 of the true value's magnitude.

    A wrong special value (infinity, NaN, or the sign of a zero) is an infinite error. Whether the true value
    overflows depends on its rounding.

    Args:
        result: float32.
        truth: float64 of the same shape.
    """
    with np.errstate(all="ignore"):
        expected = truth.astype(np.float32)
        _, exponent = np.frexp(truth)
        error = np.abs(result.astype(np.float64) - truth)
        error = np.ldexp(error, -np.maximum(exponent - 24, _LEAST_EXPONENT))
    special = ~np.isfinite(expected) | ~np.isfinite(result) | (truth == 0)
    same = np.where(np.isnan(expected), np.isnan(result), expected == result)
    same &= np.isnan(expected) | (np.signbit(expected) == np.signbit(result))
    # At the border to infinity, an error of one ulp is the step from the greatest number.
    border = ~np.isnan(result) & (np.abs(truth) > 3.4028234e38) & (np.abs(result) > 3.4028233e38)
    border &= np.isfinite(truth) & (np.signbit(truth) == np.signbit(result))
    return np.where(special, np.where(same, 0.0, np.where(border, 1.0, np.inf)), error)


def sigmoid(x: F64) -> F64:
    """Compute `1 / (1 + exp(-x))`."""
    small = np.exp(-np.abs(x))
    result: F64 = np.where(x < 0, small, 1.0) / (1 + small)
    return result


def silu(x: F64) -> F64:
    """Compute `x / (1 + exp(-x))`; -0 at -infinity."""
    return _times(x, sigmoid(x))


def gelu(x: F64) -> F64:
    """Compute `x * (1 + erf(x / sqrt(2))) / 2`; -0 at -infinity."""
    return _times(x, normal_cdf(x))


def normal_cdf(x: F64) -> F64:
    """Compute `erfc(-x / sqrt(2)) / 2`, the standard normal distribution."""
    argument = (-x * math.sqrt(0.5)).ravel()
    return 0.5 * np.fromiter(map(math.erfc, argument), np.float64, x.size).reshape(x.shape)


def gelu_tanh(x: F64) -> F64:
    """Compute `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))`; -0 at -infinity."""
    return _times(x, sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _times(x: F64, share: F64) -> F64:
    """Return x * share, with the limit -0 at -infinity."""
    return np.where(x == -np.inf, -0.0, x * share)


def _trigonometric(function: Callable[[F64], F64]) -> Callable[[F64], F64]:
    def limited(x: F64) -> F64:
        return np.where(np.abs(x) < TRIGONOMETRIC_LIMIT, function(x), np.nan)

    return limited


FUNCTIONS: Final[dict[str, Function]] = {
    "reciprocal": Function(lambda x: 1 / x, 0.52),
    "sqrt": Function(np.sqrt, 0.5),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 0.54),
    "exp": Function(np.exp, 0.52),
    "log": Function(np.log, 1.0),
    "sin": Function(_trigonometric(np.sin), 2.0),
    "cos": Function(_trigonometric(np.cos), 2.0),
    "tanh": Function(np.tanh, 2.0),
    "sigmoid": Function(sigmoid, 1.6),
    "silu": Function(silu, 3.0),
    "gelu": Function(gelu, 4.5),
    "gelu_tanh": Function(gelu_tanh, 4.0),
}
"""Every elementary function of one argument, by the name of its operation."""

POWER_ULP: Final = 3.0
"""The bound of a power; its truth is `numpy.power` in float64."""


def allowed(name: str, x: NDArray[np.float32]) -> F64:
    """Return the bound of one of FUNCTIONS at each argument, in ulp of the true value."""
    beyond = (name in ("sin", "cos")) & (np.abs(x) > EXACT_TRIGONOMETRY)
    return FUNCTIONS[name].ulp + beyond.astype(np.float64)
