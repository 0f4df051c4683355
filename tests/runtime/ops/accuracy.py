"""Compare results with float64, within a stated bound."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
UNIT = 2.0**-24
"""Half a unit in the last place of 1.0: the relative error of one rounding."""

TINY = 2.0**-149
"""The least float32: below the normal numbers, errors are absolute."""


def total_units(count: int, *, row: bool = True) -> float:
    """Return the roundings of one element in a sum. A row has 16 partial sums, a column has one."""
    return -(-count // 16) + 15 if row else count


def assert_within(result: Any, expected: Any, bound: Any) -> None:
    """Check that infinities and NaN are the expected ones, and all else is within `bound` (absolute)."""
    wide, truth = np.asarray(result, np.float64), np.asarray(expected, np.float64)
    assert wide.shape == truth.shape
    assert np.asarray(result).dtype == np.float32
    assert np.array_equal(np.isnan(wide), np.isnan(truth))
    infinite = np.isinf(truth)
    assert np.array_equal(np.isinf(wide), infinite)
    assert np.array_equal(wide[infinite], truth[infinite])
    finite = np.isfinite(truth)
    error = np.abs(wide[finite] - truth[finite])
    allowed = np.broadcast_to(bound, truth.shape)[finite]
    worst = np.max(error / np.maximum(allowed, TINY), initial=0.0)
    assert worst <= 1.0, f"the error is {worst:.3g} of the bound"
