"""Two functional models: one to run a layer on, one to compare it with."""

from collections.abc import Iterator

import pytest

import echo_npu
from echo_npu import Device


@pytest.fixture
def device() -> Iterator[Device]:
    with echo_npu.open("cmodel") as opened:
        yield opened


@pytest.fixture
def twin() -> Iterator[Device]:
    with echo_npu.open("cmodel") as opened:
        yield opened
