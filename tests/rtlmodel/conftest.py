"""What the tests of the backend rtlmodel share."""

import os
from collections.abc import Iterator

import pytest

import echo_npu
from tests.rtlmodel.simulated import BENCHMARKED, open_rtl


@pytest.fixture(scope="session")
def config() -> str:
    """The hardware configuration under test: ECHO_NPU_CONFIG, else default."""
    return os.environ.get("ECHO_NPU_CONFIG") or "default"


@pytest.fixture
def npu(config: str) -> Iterator[echo_npu.Device]:
    """A new simulated device for each test."""
    with open_rtl(config) as device:
        yield device


@pytest.fixture(scope="module")
def pair(config: str) -> Iterator[tuple[echo_npu.Device, echo_npu.Device]]:
    """An RTL simulation and a functional model."""
    with open_rtl(config) as rtl, echo_npu.open("cmodel", config=config) as model:
        yield rtl, model


@pytest.fixture(scope="module")
def device() -> Iterator[echo_npu.Device]:
    """An RTL simulation of the configuration of the benchmarks."""
    with echo_npu.open("rtlmodel", config=BENCHMARKED) as opened:
        yield opened
