"""What the tests of the runtime share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import echo_npu


@pytest.fixture
def npu() -> Iterator[echo_npu.Device]:
    """A functional model of the default configuration."""
    with echo_npu.open("cmodel") as device:
        yield device
