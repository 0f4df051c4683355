"""What the accuracy scoreboard knows of values that meet no finite bound."""

import numpy as np
import pytest

from tb.scoreboards.accuracy import _Value


def unknown() -> _Value:
    return _Value(np.zeros(2), np.array([np.nan, 0.0]))


def test_an_unknown_value_times_infinity_is_unknown() -> None:
    value = unknown()
    with np.errstate(invalid="ignore"):
        value.scale(np.array([np.inf, np.inf]))
    assert np.isnan(value.bound[0])
    assert np.isnan(value.true).tolist() == [False, True]  # zero times infinity is NaN for sure


@pytest.mark.parametrize("operation", ["scale", "add"])
def test_an_unknown_value_that_meets_a_nan_is_one(operation: str) -> None:
    value = unknown()
    getattr(value, operation)(np.array([np.nan, np.nan]))
    assert np.isnan(value.true).all()


def test_a_guess_that_became_infinite_is_no_nan_beside_the_other_infinity() -> None:
    value = unknown()
    value.add(np.array([np.inf, np.inf]))
    with np.errstate(invalid="ignore"):
        value.add(np.array([-np.inf, -np.inf]))
    assert np.isnan(value.true).tolist() == [False, True]
