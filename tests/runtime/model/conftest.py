"""What the tests of the functional model share."""

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture
def without_warnings() -> Iterator[None]:
    """Let numpy overflow, divide by zero and make NaNs in silence."""
    with np.errstate(all="ignore"):
        yield
