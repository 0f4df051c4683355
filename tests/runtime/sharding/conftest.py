"""Groups of functional models."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import echo_npu
from echo_npu.sharding import DeviceGroup

MakeGroup = Callable[[int], DeviceGroup]


@pytest.fixture
def make_group() -> Iterator[MakeGroup]:
    """Returns a function that opens so many devices and groups them."""
    with ExitStack() as stack:

        def make(count: int) -> DeviceGroup:
            devices = [stack.enter_context(echo_npu.open("cmodel")) for _ in range(count)]
            return stack.enter_context(DeviceGroup(devices))

        yield make
