"""What the tests of the operations share: a functional model of each configuration."""

from collections.abc import Iterator

import pytest

import echo_npu
from echo_npu import Device


@pytest.fixture(scope="session", params=["default", "small"])
def npu(request: pytest.FixtureRequest) -> Iterator[Device]:
    """Return a functional model; `small` has short registers, which a few hundred elements exceed."""
    with echo_npu.open("cmodel", config=request.param) as device:
        yield device
