"""Device memory: refusals of the host, and operations that nobody may do to it."""

import os
import resource
from collections.abc import Iterator

import numpy as np
import pytest

from echo_npu.errors import NpuError, NpuHostError
from echo_npu.model.memory import DeviceMemory


@pytest.fixture
def small_files() -> Iterator[None]:
    """Limit this process to files of a MiB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_host_that_grants_no_memory_is_named(small_files: None) -> None:
    before = open_files()
    with pytest.raises(NpuHostError, match="device memory") as caught:
        DeviceMemory()
    assert isinstance(caught.value, (NpuError, OSError))
    assert caught.value.errno
    assert open_files() == before


@pytest.mark.parametrize("size", [0, 4096, 1 << 30])
def test_nobody_can_cut_or_lengthen_it(size: int) -> None:
    memory = DeviceMemory()
    try:
        memory.write(0x1000, np.arange(4, dtype=np.uint8))
        with open(memory.share_path, "r+b") as other, pytest.raises(PermissionError):
            os.ftruncate(other.fileno(), size)
        assert memory.read(0x1000, 4).tolist() == [0, 1, 2, 3]
    finally:
        memory.close()
