"""What all super-blocks take once the scales of their groups are found."""

from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks.blocks import FileBlocks


def stored_halves(blocks: FileBlocks, first: int, values: DeviceNumbers) -> DeviceNumbers:
    """Write numbers [blocks, 1] as float16; return what was stored."""
    blocks.write_halves(first, values)
    return blocks.halves(first, 1)


def requantised(
    x: DeviceNumbers, scale: DeviceNumbers, searched: DeviceNumbers, least: float, most: float
) -> DeviceNumbers:
    """Return steps from 0 on with the scales that are stored.

    Args:
        x: the numbers above the minima, [elements of a group, groups].
        scale: as it is stored, [1, groups].
        searched: the steps of the search, which stay where that scale is 0.
        least, most: limits of x / scale.
    """
    return ((x / scale).nearest_within(least, most) - least).where(scale, searched)


def write_pairs(blocks: FileBlocks, first: int, numbers: DeviceNumbers) -> None:
    """Write numbers of two bits, given as columns [16, groups], to 64 bytes of each block."""
    octets = numbers.reshape(16, -1, 2, 4, 2).packed(4.0, 3)
    blocks.write(blocks.octets(first, 2, 2, 16), octets.transpose(1, 2, 3, 0))
