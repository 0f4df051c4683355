"""The expected result of an operation in float64, and the error that is allowed."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]

UNIT = 2.0**-24
"""The largest relative error of one float32 rounding."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The expected result of an operation.

    Attributes:
        value: float64, computed from the operation's inputs as they were before it ran.
        magnitude: float64, same shape; `abs(result - value) / magnitude` is the relative error.
        bound: the largest relative error allowed.
    """

    value: F64
    magnitude: F64
    bound: float

    def error(self, result: NDArray[Any]) -> float:
        """Return the largest relative error of `result`, NaN if one is NaN; ValueError for another shape."""
        if result.shape != self.value.shape:
            raise ValueError(f"the result has shape {result.shape}; the truth has {self.value.shape}")
        difference = np.abs(result.astype(np.float64) - self.value)
        # Below 2**-100 float32 runs into its subnormals, where errors are absolute.
        return float(np.max(difference / (self.magnitude + 2.0**-100)))


def exact(value: F64) -> Truth:
    """Return the truth of an operation that rounds nothing."""
    return Truth(value, np.abs(value), 0.0)


def accumulation_bound(terms: int) -> float:
    """Return the bound of a float32 sum of `terms` rounded products, relative to the sum of their magnitudes.

    It is the standard bound (Higham, Accuracy and Stability, 3.1), n*u / (1 - n*u), with one rounding for
    each product or addition that a term can pass through, and one for a step on the finished sum.
    """
    steps = (terms + 1) * UNIT
    return steps / (1.0 - steps)
