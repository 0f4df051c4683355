"""Memory above 4 GiB on the functional model: every operand's high word, and the new borders."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import echo_npu
from echo_npu import Device
from echo_npu.commands.builders import memcpy_packets
from echo_npu.errors import NpuOutOfMemoryError, NpuPointerError
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode
from tests.large_memory import GIB, WORK, Borders, refusals, refused
from tests.refusals import refuses


@pytest.fixture
def npu() -> Iterator[Device]:
    with echo_npu.open("cmodel", config="large") as device:
        yield device


@pytest.mark.parametrize("work", WORK)
def test_operands_above_4_gib(npu: Device, work: Callable[[Device], tuple[np.ndarray, np.ndarray]]) -> None:
    found, expected = work(npu)
    assert np.array_equal(found, expected)
    assert np.any(expected)


def test_the_map_comes_from_the_device(npu: Device) -> None:
    memory = npu.capabilities.memory
    assert (memory.weight.base, memory.weight.end) == (4 * GIB, 12 * GIB)
    assert (memory.activation.base, memory.activation.end) == (12 * GIB, 20 * GIB)
    assert npu.backend.read_reg(regs.CAP_MEMORY) == 8192 << 16 | 8192


def test_both_regions_can_be_allocated_to_the_last_byte(npu: Device) -> None:
    for name, region in npu.capabilities.memory.regions.items():
        free = npu.memory_statistics()[name].largest_free_block
        address = npu.malloc(free, name)
        assert address % 64 == 0
        assert region.contains(address, free)
        refuses(NpuOutOfMemoryError, name, npu.malloc, 1, name)
        npu.free(address)
        refuses(NpuOutOfMemoryError, name, npu.malloc, free + 1, name)


def test_operands_outside_of_memory_are_refused(npu: Device) -> None:
    at, good = Borders.of(npu), 8 * GIB
    outside = int(ErrorCode.OUT_OF_RANGE)
    assert refusals(npu) == [
        (outside, at.weight - 8),
        (outside, at.weight - 1),
        (outside, at.weight_end - 7),
        (outside, at.weight_end - 7),
        (outside, at.activation - 1),
        (outside, at.activation_end - 7),
        (outside, at.activation_end),
        (outside, at.activation + (1 << 35)),
        (outside, good + (1 << 63)),
        (outside, 0x1000),
        (outside, 0x1000_0000),
        (int(ErrorCode.REGISTER_WINDOW), 0x2000_0000),
        (int(ErrorCode.OVERLAP), good),
        (outside, at.weight),
        (outside, at.activation),
        (int(ErrorCode.BAD_INDEX), good),
    ]


def test_the_host_reaches_memory_and_nothing_else(npu: Device) -> None:
    at = Borders.of(npu)
    eight = np.zeros(8, np.uint8)
    for address in (0, at.weight - 4, at.weight_end - 4, at.activation - 4, at.activation_end - 4):
        refuses(NpuPointerError, None, npu.memcpy, eight, address, 8)
        refuses(NpuPointerError, None, npu.backend.read_mem, address, 8)
        refuses(NpuPointerError, None, npu.backend.write_mem, address, eight)


def test_the_ring_and_its_guard_lie_above_4_gib(npu: Device) -> None:
    npu.submit_batch(memcpy_packets(4 * GIB + 64, 12 * GIB + 64, 8))
    npu.wait()
    base = npu.backend.read_reg(regs.RING_BASE) | npu.backend.read_reg(regs.RING_BASE_HIGH) << 32
    assert base == 20 * GIB - 1024 * 64
    npu.limit(protect_ring=True)
    npu.submit_batch(memcpy_packets(4 * GIB + 64, 12 * GIB + 64, 8))
    npu.wait()
    assert refused(npu, memcpy_packets(4 * GIB, base + 64, 8)) == (ErrorCode.PROTECTED, base + 64)
    assert refused(npu, memcpy_packets(4 * GIB, base - 8, 8)) == (0, 0)


def test_untouched_memory_takes_none_of_the_host(npu: Device) -> None:
    npu.malloc(6 * GIB, "weight")
    assert sum(end - start for start, end in npu.backend.memory.extents()) < 4 << 20  # type: ignore[attr-defined]
