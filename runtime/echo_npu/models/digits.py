"""scikit-learn's handwritten digits, in the form that LeNet-5 takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.models.extras import require
from echo_npu.models.truth import F32

SIDE = 32
"""Height and width of an image, pixels."""


@dataclass(frozen=True, slots=True)
class Digits:
    """Images float32 [count, 1, 32, 32], -1 for paper and 1 for ink; labels int64 [count], 0..9."""

    images: F32
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, index: Any) -> Digits:
        """Return some of them, by anything that indexes an array."""
        return Digits(self.images[index], self.labels[index])


def load_digits(held_out: float = 0.2, seed: int = 0) -> tuple[Digits, Digits]:
    """Load the images to train with and the images held out, shuffled by `seed`.

    Args:
        held_out: share of the images that is held out, 0..1.

    The data set (UCI Optical Recognition of Handwritten Digits, test part, 1797 images) has 8x8 pixels of 0
    to 16; each becomes a square of 4x4.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    data = require("sklearn.datasets").load_digits()
    small = np.asarray(data.images, np.float32) / np.float32(8) - np.float32(1)
    images = np.kron(small, np.ones((SIDE // 8, SIDE // 8), np.float32))[:, None]
    everything = Digits(images, np.asarray(data.target, np.int64))
    order = np.random.default_rng(seed).permutation(len(everything))
    cut = round(held_out * len(order))
    return everything.take(order[cut:]), everything.take(order[:cut])
