"""Device memory: every address line, and a march over a part of each region."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.selftest.records import SelfTestError

_BLOCK: Final = 1 << 16
_TAG: Final = 0x9E37_79B9


def check_address_lines(npu: Device) -> str:
    """Write a word of its own at every power of two of the address, then read all of them.

    Where memory does not begin at 0, at every power of two of the offset in it, too.

    Two address lines that are connected, or one that is stuck, make two of the words one. What was there is
    put back.
    """
    memory = npu.capabilities.memory
    powers = [0, *(1 << bit for bit in range(2, memory.end.bit_length()))]
    addresses = sorted(
        {at for power in powers for at in (power, memory.weight.base + power) if memory.region_of(at, 4)}
    )
    saved = [npu.backend.read_mem(address, 4) for address in addresses]
    words = [np.array([_TAG * (index + 1) & 0xFFFF_FFFF], "<u4") for index in range(len(addresses))]
    try:
        for address, word in zip(addresses, words, strict=True):
            npu.backend.write_mem(address, word.view(np.uint8))
        for address, word in zip(addresses, words, strict=True):
            _compare(npu.backend.read_mem(address, 4), word, address)
    finally:
        for address, content in reversed(list(zip(addresses, saved, strict=True))):
            npu.backend.write_mem(address, content)
    return f"{len(addresses)} addresses in {memory.size >> 20} MiB"


def check_march(npu: Device, nbytes: int) -> str:
    """March over a part of each region in the order of March C-, a block of 64 KiB at a time.

    Every word holds its own address, or that inverted, so that a wrong word tells which one it is.

    Args:
        nbytes: of each region, rounded up to blocks, as far as there is room.
    """
    tried = []
    for region in npu.capabilities.memory.regions.values():
        room = npu.memory_statistics()[region.name].largest_free_block
        blocks = min(-(-nbytes // _BLOCK), room // _BLOCK)
        start = npu.malloc(blocks * _BLOCK, region.name)
        try:
            _march(npu, [start + _BLOCK * index for index in range(blocks)])
        finally:
            npu.free(start)
        tried.append(f"{blocks * _BLOCK / 2**20:g} MiB of {region.name} memory")
    return ", ".join(tried)


def _march(npu: Device, places: list[int]) -> None:
    def step(order: list[int], expected: bool | None, written: bool | None) -> None:
        """Read the plain (False) or inverted (True) pattern, and write it, block by block."""
        for place in order:
            if expected is not None:
                _compare(npu.backend.read_mem(place, _BLOCK), _pattern(place, expected), place)
            if written is not None:
                npu.backend.write_mem(place, _pattern(place, written).view(np.uint8))

    down = places[::-1]
    step(places, None, False)
    step(places, False, True)
    step(places, True, False)
    step(down, False, True)
    step(down, True, False)
    step(places, False, None)


def _pattern(place: int, inverted: bool) -> NDArray[np.uint32]:
    words = np.arange(place, place + _BLOCK, 4, dtype="<u8").astype("<u4")
    return ~words if inverted else words


def _compare(found: NDArray[np.uint8], expected: NDArray[np.uint32], start: int) -> None:
    words = found.view("<u4")
    wrong = np.flatnonzero(words != expected)
    if wrong.size:
        first = int(wrong[0])
        differing = int(words[first] ^ expected[first])
        raise SelfTestError(
            f"memory 0x{start + 4 * first:08x} reads 0x{words[first]:08x} in place of "
            f"0x{expected[first]:08x} (bits 0x{differing:08x}; {wrong.size} of {words.size} words differ)"
        )
