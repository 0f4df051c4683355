"""Quantising to super-blocks whose groups have a scale and a minimum: q2_K, q4_K, q5_K.

Each step is the one of ggml's reference, in its order, for all groups at once. So the bytes are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echo_npu.server.operations.device_numbers import DeviceNumbers, packed, total
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.requantising import requantised, stored_halves, write_pairs


@dataclass(frozen=True)
class _Found:
    """What a search found.

    Attributes:
        scale: of a step, [1, groups].
        depth: how far the lowest step is below 0, [1, groups].
        steps: of each number, [elements of a group, groups].
    """

    scale: DeviceNumbers
    depth: DeviceNumbers
    steps: DeviceNumbers


def _search(
    x: DeviceNumbers, weights: DeviceNumbers, most: int, trials: Sequence[np.float32], *, squares: bool
) -> _Found:
    """Search the scale and the minimum with the least weighted error.

    Args:
        x: [elements of a group, groups].
        weights: of the errors, likewise.
        most: the highest number of steps.
        trials: what is added to `most` in each trial before it is divided by the span of the group.
        squares: whether errors are squared.
    """
    weight, weighted_x = total(weights), total(weights, x)
    least, greatest = x.min().least(0.0), x.max()
    differ = least.differs(greatest)

    def steps_of(factor: DeviceNumbers, start: DeviceNumbers) -> DeviceNumbers:
        return ((x - start) * factor).nearest_within(0.0, float(most))

    def error(scale: DeviceNumbers, start: DeviceNumbers, steps: DeviceNumbers) -> DeviceNumbers:
        difference = steps * scale + start - x
        return total(weights, difference * difference if squares else abs(difference))

    factor = float(most) / (greatest - least)
    scale, steps = 1.0 / factor, steps_of(factor, least)
    best = error(scale, least, steps)
    for trial in trials:
        # A minimum that a trial found is the start of the next one.
        tried = steps_of(float(trial + np.float32(most)) / (greatest - least), least)
        weighted = weights * tried
        sum_l, sum_l2, sum_xl = total(weighted), total(weighted, tried), total(weighted, x)
        divisor = weight * sum_l2 - sum_l * sum_l
        closer = (weight * sum_xl - weighted_x * sum_l) / divisor
        start = (sum_l2 * weighted_x - sum_l * sum_xl) / divisor
        positive = start > 0.0
        closer = (sum_xl / sum_l2).where(positive, closer)
        start = start.least(0.0)
        found = error(closer, start, tried)
        better = (divisor > 0.0) * (found < best)
        best, scale = found.where(better, best), closer.where(better, scale)
        least, steps = start.where(better, least), tried.where(better, steps)
    return _Found(scale.or_zero(differ), -least, steps.or_zero(differ))


def _trials(first: float, step: float, count: int) -> list[np.float32]:
    return [np.float32(first) + np.float32(step) * np.float32(each) for each in range(count + 1)]


def _stored(
    made: FileBlocks, first: int, parts: DeviceNumbers, groups: int, most: float
) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Write the scale of scales or of minima at a byte; return it and the numbers [blocks, groups] for it."""
    of_blocks = parts.reshape(-1, groups)
    largest = of_blocks.max(-1).greatest(0.0)
    numbers = (of_blocks * largest.inverse(most)).nearest().least(most)
    return stored_halves(made, first, largest / most), numbers


def to_q2_k(values: DeviceNumbers, made: FileBlocks) -> None:
    """Search with the magnitudes as weights."""
    x = values.columns(16)
    found = _search(x, abs(x), 3, _trials(-0.5, 0.1, 15), squares=False)
    scale, scales = _stored(made, 80, found.scale, 16, 15.0)
    depth, depths = _stored(made, 82, found.depth, 16, 15.0)
    made.write(made.octets(0, 16), packed([scales, depths], 16.0))
    above = x + (depths * depth).reshape(1, -1)
    write_pairs(made, 16, requantised(above, (scales * scale).reshape(1, -1), found.steps, 0.0, 3.0))


def _four_or_five_bits(
    made: FileBlocks, values: DeviceNumbers, most: int, trials: Sequence[np.float32]
) -> DeviceNumbers:
    """Write scales and minima of 8 groups from the fifth byte on; return the steps [32, blocks, 8]."""
    x = values.columns(32)
    weights = (total(x, x) / 32.0).sqrt() + abs(x)
    found = _search(x, weights, most, trials, squares=True)
    factors, lows = [], []
    for first, part in ((0, found.scale), (2, found.depth)):
        factor, numbers = _stored(made, first, part, 8, 63.0)
        low, high = numbers[:, 4:].split(16.0)
        made.write(made.octets(4 + 2 * first, 4), numbers[:, :4].plus(high, 64.0))
        factors.append((numbers * factor).reshape(1, -1))
        lows.append(low)
    made.write(made.octets(12, 4), packed(lows, 16.0))
    scale, depth = factors
    return requantised(x + depth, scale, found.steps, 0.0, float(most)).reshape(32, -1, 8)


def _write_nibbles(made: FileBlocks, first: int, numbers: DeviceNumbers) -> None:
    """Write numbers of four bits, [32, blocks, 8]."""
    octets = numbers.reshape(32, -1, 4, 2).packed(16.0, 3)
    made.write(made.octets(first, 4, 32), octets.transpose(1, 2, 0))


def to_q4_k(values: DeviceNumbers, made: FileBlocks) -> None:
    """Search with the magnitudes and their root mean square as weights."""
    _write_nibbles(made, 16, _four_or_five_bits(made, values, 15, _trials(-1.0, 0.1, 20)))


def to_q5_k(values: DeviceNumbers, made: FileBlocks) -> None:
    """Search as for q4_K."""
    low, bits = _four_or_five_bits(made, values, 31, _trials(-0.5, 0.1, 15)).split(16.0)
    made.write(made.octets(16, 32), bits.packed(2.0, 2).T)
    _write_nibbles(made, 48, low)
