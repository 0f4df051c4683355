"""Elementwise operations and casts give the same bits on the RTL as on the functional model."""

import numpy as np
import pytest

from echo_npu import Device
from tests.runtime.ops.elementwise_cases import CASES, arguments

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_the_functional_model(pair: tuple[Device, Device], name: str) -> None:
    ours, theirs = (np.ascontiguousarray(CASES[name](device)) for device in pair)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    assert np.array_equal(ours.view(np.uint8), theirs.view(np.uint8))


def test_the_comparison_sees_another_function(pair: tuple[Device, Device]) -> None:
    x = arguments()
    y = x.copy()
    y[40] += 1
    assert not np.array_equal(pair[0].neg(x).view(np.uint8), pair[1].neg(y).view(np.uint8))
