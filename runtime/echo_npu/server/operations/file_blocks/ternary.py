"""Blocks of -1, 0 and 1 times a scale: tq1_0 and tq2_0."""

from typing import Final

import numpy as np

from echo_npu.server.operations.device_numbers import DeviceNumbers, packed
from echo_npu.server.operations.file_blocks.blocks import PAIRS, FileBlocks, looked_up

_DIGITS: Final = np.array(
    [[(byte * 3**place % 256) * 3 // 256 for place in range(5)] for byte in range(256)], np.float32
)
"""The digits to the base 3 of the fraction that a byte is of 256."""

_RUNS: Final = ((0, 32, 5), (32, 16, 5), (48, 4, 4))
"""Of tq1_0: the first byte of a run, its bytes, the digits of each. The first digits of all come first."""


def tq1_0(blocks: FileBlocks) -> DeviceNumbers:
    """Five digits in a byte, then a scale: (digit - 1) * scale."""
    device = blocks.emitter.device
    numbers = DeviceNumbers(blocks.emitter, device.empty((blocks.tensor.shape[0], 256)))
    end = 0
    for first, size, digits in _RUNS:
        found = looked_up(_DIGITS, blocks.unsigned(first, size))[:, :, :digits].transpose(0, 2, 1)
        place = numbers.tensor[:, end : end + size * digits].reshape(-1, digits, size)
        device.copy(found.tensor, out=place)
        end += size * digits
    return (numbers - 1.0) * blocks.halves(52, 1)


def tq2_0(blocks: FileBlocks) -> DeviceNumbers:
    """Two bits for each element, then a scale: (number - 1) * scale."""
    numbers = blocks.fields(blocks.octets(0, 2, 1, 32), PAIRS, 2).reshape(-1, 256)
    return (numbers - 1.0) * blocks.halves(64, 1)


def _scaled(values: DeviceNumbers) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Return the scales [1, blocks], the greatest magnitudes, and the digits 0 to 2, [256, blocks]."""
    x = values.columns(256)
    scale = abs(x).max()
    return scale, (x * scale.inverse()).rounded() + 1.0


def to_tq1_0(values: DeviceNumbers, made: FileBlocks) -> None:
    """Round the fraction that five digits are up to a byte, so that its first digits are theirs."""
    scale, digits = _scaled(values)
    made.write_halves(52, scale.T)
    end = 0
    for first, size, count in _RUNS:
        run = digits[end : end + size * count].reshape(count, size, -1)
        number = packed([run[place] for place in reversed(range(count))], 3.0)
        fraction = number * (256.0 * 3 ** (5 - count)) + 242.0
        made.write(made.octets(first, size), (fraction / 243.0).truncated().T)
        end += size * count


def to_tq2_0(values: DeviceNumbers, made: FileBlocks) -> None:
    """Put two bits for each element into bytes."""
    scale, digits = _scaled(values)
    parts = digits.reshape(2, 4, 32, -1)
    octets = parts.packed(4.0, 1)
    made.write(made.octets(0, 2, 32), octets.transpose(2, 0, 1))
    made.write_halves(64, scale.T)
