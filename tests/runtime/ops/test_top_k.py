"""The greatest elements and their places, against a stable sort."""

import numpy as np
import pytest
from numpy.typing import NDArray

from echo_npu import Device
from tests.arrays import normal
from tests.refusals import refuses

SHAPES = [(1,), (2,), (16,), (17,), (255,), (256,), (257,), (1000,), (3, 40), (2, 3, 33)]


def expected(x: NDArray[np.float32], k: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Falling elements with their places; NaN is the greatest, equal ones stay in order."""
    keys = np.where(np.isnan(x), np.inf, x)
    order = np.lexsort((-keys, ~np.isnan(x)), axis=-1)[..., :k]
    return np.take_along_axis(x, order, axis=-1), order


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_falling_elements_with_their_places(npu: Device, shape: tuple[int, ...]) -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45], np.float32)
    draw = np.random.default_rng(len(shape) + shape[-1])
    for x in (
        normal(*shape),
        np.round(normal(*shape)),
        np.zeros(shape, np.float32),
        draw.choice(special, shape),
        np.full(shape, -np.inf, np.float32),
    ):
        for k in {1, min(5, shape[-1]), min(40, shape[-1])}:
            values, places = npu.top_k(x, k)
            wanted, order = expected(x, k)
            assert np.array_equal(places, order)
            assert np.array_equal(values, wanted, equal_nan=True)
            assert (values.dtype, places.dtype) == (np.float32, np.int32)


def test_all_of_a_row(npu: Device) -> None:
    x = np.round(normal(2, 50))
    values, places = npu.top_k(x, 50)
    assert np.array_equal(places, expected(x, 50)[1])
    assert np.array_equal(values, -np.sort(-x, axis=-1))


def test_views_and_given_results(npu: Device) -> None:
    x = normal(30, 4)
    given = npu.empty((4, 3)), npu.empty((4, 3), np.int32)
    values, places = npu.top_k(npu.tensor(x).transpose(1, 0), 3, out=given)
    assert (values, places) == given
    wanted, order = expected(x.T, 3)
    assert np.array_equal(values.to_numpy(), wanted)
    assert np.array_equal(places.to_numpy(), order)


def test_what_is_refused(npu: Device) -> None:
    x = normal(3, 5)
    for k in (0, 6, -1):
        refuses(ValueError, "k", npu.top_k, x, k)
    refuses(TypeError, "float32", npu.top_k, x.astype(np.float64), 1)
    refuses(ValueError, "shape", npu.top_k, np.zeros((3, 0), np.float32), 1)
    refuses(ValueError, "shape", npu.top_k, np.array(1, np.float32), 1)
    wrong = npu.empty((3, 2)), npu.empty((3, 2))
    refuses((TypeError, ValueError), "places", npu.top_k, x, 2, out=wrong)
