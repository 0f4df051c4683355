"""The digits in the form of LeNet-5's input."""

import numpy as np
import pytest

from echo_npu.models import load_digits

pytest.importorskip("sklearn")


def test_images() -> None:
    known, held_out = load_digits()
    assert (len(known), len(held_out)) == (1438, 359)
    assert known.images.shape == (1438, 1, 32, 32)
    assert known.images.dtype == np.float32
    assert known.images.flags.c_contiguous
    assert (known.images.min(), known.images.max()) == (-1, 1)
    # Every pixel is a square of 4x4.
    squares = known.images.reshape(-1, 8, 4, 8, 4)
    assert np.all(squares == squares[:, :, :1, :, :1])


def test_nothing_is_in_both_parts() -> None:
    known, held_out = load_digits(seed=3)
    seen = {image.tobytes() for image in known.images}
    again = [image for image in held_out.images if image.tobytes() in seen]
    assert len(again) == 0
    assert set(np.unique(held_out.labels)) == set(range(10))


def test_the_seed_decides_the_parts() -> None:
    first, again, other = (load_digits(seed=seed)[1] for seed in (1, 1, 2))
    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)
