"""Blocks of even steps: q5_0, q5_1, q1_0, q2_0."""

from typing import Final

import numpy as np

from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks.blocks import BITS, FileBlocks

_PAIRS: Final = np.arange(0, 8, 2)
"""Shifts to the numbers of two bits of a byte."""


def _five_bits(blocks: FileBlocks, first: int) -> DeviceNumbers:
    """Return 32 numbers: their fifth bits from `first` on, the others behind these."""
    high = blocks.fields(blocks.octets(first, 4, 1), BITS, 1).reshape(-1, 32)
    return blocks.nibbles(first + 4, 1, 16).plus(high, 16.0)


def _write_five_bits(blocks: FileBlocks, first: int, codes: DeviceNumbers) -> None:
    """Write 32 numbers of a block, given as columns [32, blocks]."""
    low, high = codes.split(16.0)
    bits = high.reshape(4, 8, -1)
    blocks.write(blocks.octets(first, 4), bits.packed(2.0, 1).T)
    blocks.write(blocks.octets(first + 4, 16), low.reshape(2, 16, -1).packed(16.0, 0).T)


def q5_0(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, fifth bits, low bits: (number - 16) * scale."""
    return (_five_bits(blocks, 2) - 16.0) * blocks.halves(0, 1)


def to_q5_0(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the number that is farthest from 0 be -16 steps."""
    x = values.columns(32)
    scale = x.extreme() / -16.0
    made.write_halves(0, scale.T)
    _write_five_bits(made, 2, (x * scale.inverse() + 16.5).truncated().least(31.0))


def q5_1(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, minimum, fifth bits, low bits: number * scale + minimum."""
    return _five_bits(blocks, 4) * blocks.halves(0, 1) + blocks.halves(2, 1)


def to_q5_1(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the least number be 0 steps and the greatest one 31."""
    x = values.columns(32)
    least = x.min()
    scale = (x.max() - least) / 31.0
    made.write_halves(0, scale.T)
    made.write_halves(2, least.T)
    _write_five_bits(made, 4, ((x - least) * scale.inverse() + 0.5).truncated())


def q1_0(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, then a bit for each element: the scale, or with 0 its negative."""
    scale = blocks.halves(0, 1)
    bits = blocks.fields(blocks.octets(2, 16, 1), BITS, 1).reshape(-1, 128)
    return scale.where(bits, -scale)


def to_q1_0(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the scale be the mean magnitude."""
    x = values.columns(128)
    made.write_halves(0, (abs(x).sum() / 128.0).T)
    bits = (x >= 0.0).reshape(16, 8, -1)
    made.write(made.octets(2, 16), bits.packed(2.0, 1).T)


def q2_0(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, then two bits for each element: (number - 1) * scale."""
    numbers = blocks.fields(blocks.octets(2, 16, 1), _PAIRS, 2).reshape(-1, 64)
    return (numbers - 1.0) * blocks.halves(0, 1)


def to_q2_0(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the scale be the greatest magnitude."""
    x = values.columns(64)
    scale = abs(x).max()
    numbers = ((x * scale.inverse()).rounded() + 1.0).clamp(0.0, 3.0).reshape(16, 4, -1)
    made.write_halves(0, scale.T)
    made.write(made.octets(2, 16), numbers.packed(4.0, 1).T)
