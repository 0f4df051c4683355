"""Values of super-blocks of 256 elements whose scales are numbers too: q2_K, q3_K, q4_K, q5_K, q6_K."""

from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks.blocks import BITS, NIBBLES, PAIRS, FileBlocks


def _pairs(blocks: FileBlocks, first: int) -> DeviceNumbers:
    """Return numbers of two bits of 64 bytes, [blocks, 2, 4, 32]."""
    return blocks.fields(blocks.octets(first, 2, 1, 32), PAIRS, 2)


def _high_bits(blocks: FileBlocks, first: int) -> DeviceNumbers:
    """Return the bits of 32 bytes, [blocks, 8, 32]: the lowest ones come first."""
    return blocks.fields(blocks.octets(first, 1, 32), BITS[:, None], 1)


def q2_k(blocks: FileBlocks) -> DeviceNumbers:
    """Scales and minima of 16 groups, numbers, then a scale of scales and one of minima."""
    factors = blocks.octets(0, 16, 1)
    scale = blocks.fields(factors, 0, 4) * blocks.halves(80, 1, 1)
    least = blocks.fields(factors, 4, 4) * blocks.halves(82, 1, 1)
    return (_pairs(blocks, 16).reshape(-1, 16, 16) * scale - least).reshape(-1, 256)


def q3_k(blocks: FileBlocks) -> DeviceNumbers:
    """Third bits of the numbers, their low ones, scales of 16 groups in six bits, then a scale of scales."""
    high = _high_bits(blocks, 0).reshape(-1, 2, 4, 32)
    number = (_pairs(blocks, 32).plus(high, 4.0) - 4.0).reshape(-1, 16, 16)
    low = blocks.fields(blocks.octets(96, 1, 8), NIBBLES, 4).reshape(-1, 16)
    more = blocks.fields(blocks.octets(104, 1, 4), PAIRS, 2).reshape(-1, 16)
    scale = (low.plus(more, 16.0) - 32.0) * blocks.halves(108, 1)
    return (number * scale.reshape(-1, 16, 1)).reshape(-1, 256)


def _scales_and_minima(blocks: FileBlocks) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Return the scales and the minima of 8 groups, [blocks, 8, 1] each.

    Twelve bytes have six bits of the first four scales, of the first four minima, then four bits of the other
    scales and minima. Their highest two bits are above the six.
    """
    device = blocks.emitter.device
    first, last = blocks.octets(4, 2, 4), blocks.octets(12, 1, 4)
    whole = device.empty((blocks.tensor.shape[0], 2, 8))
    more = blocks.fields(last, NIBBLES, 4).plus(blocks.fields(first, 6, 2), 16.0)
    device.copy(blocks.fields(first, 0, 6).tensor, out=whole[:, :, :4])
    device.copy(more.tensor, out=whole[:, :, 4:])
    both = DeviceNumbers(blocks.emitter, whole) * blocks.halves(0, 2, 1)
    return both[:, 0].reshape(-1, 8, 1), both[:, 1].reshape(-1, 8, 1)


def q4_k(blocks: FileBlocks) -> DeviceNumbers:
    """A scale of scales and one of minima, scales and minima of 8 groups, numbers."""
    scale, least = _scales_and_minima(blocks)
    return (blocks.nibbles(16, 4, 32).reshape(-1, 8, 32) * scale - least).reshape(-1, 256)


def q5_k(blocks: FileBlocks) -> DeviceNumbers:
    """As q4_K, with the fifth bits of the numbers in front of them."""
    scale, least = _scales_and_minima(blocks)
    number = blocks.nibbles(48, 4, 32).reshape(-1, 8, 32).plus(_high_bits(blocks, 16), 16.0)
    return (number * scale - least).reshape(-1, 256)


def q6_k(blocks: FileBlocks) -> DeviceNumbers:
    """Low four bits of the numbers, high two bits, scales of 16 groups, then a scale of scales."""
    high = blocks.fields(blocks.octets(128, 2, 1, 32), PAIRS, 2).reshape(-1, 256)
    number = (blocks.nibbles(0, 2, 64).plus(high, 16.0) - 32.0).reshape(-1, 16, 16)
    scale = blocks.signed(192, 16) * blocks.halves(208, 1)
    return (number * scale.reshape(-1, 16, 1)).reshape(-1, 256)
