"""The allocator compared with a map of every allocated unit."""

import itertools
import random

import pytest

from echo_npu.driver.allocator import RegionAllocator
from echo_npu.errors import NpuOutOfMemoryError, NpuPointerError
from echo_npu.spec.memory_map import ACTIVATION, MEMORY_REGIONS, WEIGHT, Region
from tests.refusals import refuses


@pytest.mark.parametrize("region", MEMORY_REGIONS.values(), ids=lambda region: region.name)
def test_addresses_are_aligned_inside_and_never_zero(region: Region) -> None:
    allocator = RegionAllocator(region)
    pointers = [allocator.malloc(size) for size in (1, 63, 64, 65, 4096)]
    for pointer in pointers:
        assert pointer % 64 == 0
        assert pointer > 0
        assert region.contains(pointer)
    assert [b - a for a, b in itertools.pairwise(pointers)] == [64, 64, 64, 128]


def test_first_fit_takes_the_lowest_hole_and_neighbours_merge() -> None:
    allocator = RegionAllocator(ACTIVATION)
    a, b, c, d = (allocator.malloc(128) for _ in range(4))
    allocator.free(a)
    allocator.free(c)
    assert allocator.malloc(129) > d
    assert allocator.malloc(64) == a
    assert allocator.malloc(128) == c
    allocator.free(c)
    allocator.free(b)
    assert allocator.malloc(256) == a + 64


def test_from_the_top() -> None:
    allocator = RegionAllocator(ACTIVATION)
    assert allocator.malloc(100, from_top=True) == ACTIVATION.end - 128
    assert allocator.malloc(64, from_top=True) == ACTIVATION.end - 192
    assert allocator.malloc(64) == ACTIVATION.base
    allocator.free(ACTIVATION.end - 128)
    assert allocator.malloc(64, from_top=True) == ACTIVATION.end - 64
    allocator.free(ACTIVATION.end - 64)
    allocator.free(ACTIVATION.end - 192)
    allocator.free(ACTIVATION.base)
    assert allocator.largest_free_block == ACTIVATION.size


def test_the_whole_region_can_be_had_and_had_again() -> None:
    for region in (WEIGHT, ACTIVATION):
        allocator = RegionAllocator(region)
        everything = allocator.largest_free_block
        assert everything == region.size - (64 if region.base == 0 else 0)
        pointer = allocator.malloc(everything)
        with pytest.raises(NpuOutOfMemoryError) as caught:
            allocator.malloc(1)
        error = caught.value
        assert (error.region, error.asked, error.largest_free_block) == (region.name, 1, 0)
        allocator.free(pointer)
        assert allocator.malloc(everything) == pointer


def test_out_of_memory_names_region_size_and_largest_block() -> None:
    allocator = RegionAllocator(Region("tiny", 0x1000, 512))
    keep = [allocator.malloc(64) for _ in range(8)]
    for pointer in keep[::2]:
        allocator.free(pointer)
    with pytest.raises(
        NpuOutOfMemoryError, match="tiny region: asked for 65 bytes, the largest free block has 64"
    ) as caught:
        allocator.malloc(65)
    assert isinstance(caught.value, MemoryError)
    assert allocator.statistics().free == 256


@pytest.mark.parametrize("nbytes", [0, -1])
def test_sizes_below_one_are_refused(nbytes: int) -> None:
    refuses(ValueError, f"nbytes is {nbytes}", RegionAllocator(ACTIVATION).malloc, nbytes)


def test_wrong_pointers_are_refused_and_change_nothing() -> None:
    allocator = RegionAllocator(ACTIVATION)
    pointer = allocator.malloc(256)
    refuses(NpuPointerError, "inside the allocation", allocator.free, pointer + 64)
    refuses(NpuPointerError, "not an allocation", allocator.free, pointer + 4096)
    allocator.free(pointer)
    refuses(NpuPointerError, "twice", allocator.free, pointer)
    assert allocator.statistics().free == ACTIVATION.size


def test_random_traffic_never_overlaps_and_accounts_for_every_byte() -> None:
    rng = random.Random(7)
    region = Region("test", 0x4000, 64 * 256)
    allocator = RegionAllocator(region)
    owner = [0] * 256  # one entry a 64-byte unit
    live: dict[int, int] = {}
    for step in range(1, 5000):
        if live and rng.random() < 0.5:
            pointer = rng.choice(list(live))
            for unit in range(live.pop(pointer)):
                owner[(pointer - region.base) // 64 + unit] = 0
            allocator.free(pointer)
        else:
            nbytes = rng.randint(1, 64 * 20)
            units = -(-nbytes // 64)
            holes = "".join("x" if unit else "." for unit in owner)
            expected = holes.find("." * units)
            if expected < 0:
                refuses(NpuOutOfMemoryError, None, allocator.malloc, nbytes)
                continue
            pointer = allocator.malloc(nbytes)
            assert pointer == region.base + 64 * expected
            owner[expected : expected + units] = [step] * units
            live[pointer] = units
        figures = allocator.statistics()
        assert figures.used == 64 * sum(1 for unit in owner if unit)
        assert figures.used + figures.free == figures.capacity == region.size
        assert figures.blocks == len(live)
        holes = "".join("x" if unit else "." for unit in owner)
        assert figures.largest_free_block == 64 * max(map(len, holes.split("x")))
    assert figures.peak_used >= figures.used
    assert figures.allocations - figures.frees == figures.blocks


def test_a_retained_block_stays_until_it_is_freed_and_released() -> None:
    allocator = RegionAllocator(ACTIVATION)
    block = allocator.malloc(64)
    allocator.retain(block)
    allocator.retain(block)
    allocator.free(block)
    refuses(NpuPointerError, "freed twice", allocator.free, block)
    allocator.release(block)
    assert allocator.malloc(64) != block
    allocator.release(block)
    assert allocator.malloc(64) == block
    allocator.retain(block)
    allocator.release(block)
    assert allocator.block_at(block) == (block, 64)
    refuses(NpuPointerError, "not an allocation", allocator.retain, block + 128)


def test_a_retained_block_can_change_hands() -> None:
    allocator = RegionAllocator(ACTIVATION)
    block = allocator.malloc(64)
    allocator.retain(block)
    allocator.free(block)
    allocator.adopt(block)
    allocator.release(block)
    assert allocator.block_at(block) == (block, 64)
    allocator.free(block)
    assert allocator.block_at(block) is None


def test_the_block_in_which_an_address_lies() -> None:
    allocator = RegionAllocator(ACTIVATION)
    first, second = allocator.malloc(100), allocator.malloc(64)
    assert allocator.block_at(first + 127) == (first, 128)
    assert allocator.block_at(second) == (second, 64)
    assert allocator.block_at(second + 64) is None
    allocator.free(first)
    assert allocator.block_at(first) is None
    assert allocator.block_at(second + 63) == (second, 64)


def test_the_blocks_that_a_range_meets() -> None:
    allocator = RegionAllocator(ACTIVATION)
    first, second, third = (allocator.malloc(size) for size in (128, 64, 64))
    assert allocator.blocks_in(first + 127, 1) == [(first, 128)]
    assert allocator.blocks_in(first + 127, 2) == [(first, 128), (second, 64)]
    assert allocator.blocks_in(first, 1 << 20) == [(first, 128), (second, 64), (third, 64)]
    allocator.free(second)
    assert allocator.blocks_in(second, 64) == []
    assert allocator.blocks_in(second, 65) == [(third, 64)]
    assert allocator.blocks_in(third + 64, 64) == []
