"""What the tests of the runtime share."""

from collections.abc import Iterator

import pytest

import echo_npu
from echo_npu import Device


@pytest.fixture
def npu() -> Iterator[Device]:
    """A functional model of the default configuration."""
    with echo_npu.open("cmodel") as device:
        yield device
