"""Truth and bound of a result."""

import numpy as np
import pytest

from echo_npu.models.truth import UNIT, Truth, accumulation_bound, exact


def test_error_is_relative_to_the_magnitude() -> None:
    truth = Truth(np.array([1.0, -2.0]), np.array([4.0, 8.0]), UNIT)
    assert truth.error(np.array([1.0, -2.0], np.float32)) == 0
    assert truth.error(np.array([1.5, -2.0], np.float32)) == 0.125
    assert truth.error(np.array([1.0, -1.0], np.float32)) == 0.125


def test_not_a_number_is_no_error_within_a_bound() -> None:
    assert not exact(np.ones(2)).error(np.array([1.0, np.nan], np.float32)) <= 1.0


def test_another_shape_is_refused() -> None:
    truth = Truth(np.zeros((2, 3)), np.ones((2, 3)), 0.0)
    with pytest.raises(ValueError, match=r"\(3, 2\)"):
        truth.error(np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("terms", [1, 7, 4096])
def test_accumulation_bound_holds_where_every_step_rounds_the_same_way(terms: int) -> None:
    total = np.float32(0)
    for _ in range(terms):
        total += np.float32(1 + 2**-23) * np.float32(1 + 2**-23)
    true = terms * (1 + 2**-23) ** 2
    assert abs(float(total) - true) <= accumulation_bound(terms) * true
