"""Quantising to super-blocks whose groups have a scale alone: q3_K, q6_K.

Each step is the one of ggml's reference, in its order, for all groups at once. So the bytes are the same.
"""

import numpy as np

from echo_npu.server.operations.device_numbers import DeviceNumbers, total
from echo_npu.server.operations.file_blocks.blocks import FileBlocks
from echo_npu.server.operations.file_blocks.requantising import requantised, stored_halves, write_pairs
from echo_npu.server.operations.file_blocks.uneven import NO_SCALE


def _one_by_one(x: DeviceNumbers, most: int) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Change the steps of one number after the other while the fit becomes better, five times around.

    Args:
        x: [elements of a group, groups].
        most: steps below 0.

    Returns: the scales [1, groups], and steps from 0 on.
    """
    extreme = x.extreme()
    square = x * x
    weighted = square * x
    limits = -float(most), most - 1.0
    steps = (x * (limits[0] / extreme)).nearest_within(*limits)
    scaled, whole = total(weighted, steps), total(square, steps, steps)
    for element in range(5 * x.shape[0]):
        at = slice(element % x.shape[0], element % x.shape[0] + 1)
        own, weight = steps[at], weighted[at]
        rest, others = scaled - weight * own, whole - square[at] * own * own
        new = (x[at] * others / rest).nearest_within(*limits)
        more, all_whole = rest + weight * new, others + square[at] * new * new
        fits = more * more * whole > scaled * scaled * all_whole
        better = (rest > 0.0) * new.differs(own) * (all_whole > 0.0) * fits
        x.emitter.device.copy(new.where(better, own).tensor, out=own.tensor)
        scaled, whole = more.where(better, scaled), all_whole.where(better, whole)
    return _from_zero((scaled / whole).or_zero(whole > 0.0), steps, extreme, most)


def _all_scales(x: DeviceNumbers, most: int) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Try scales a little smaller and larger; take the one that fits best. As `_one_by_one`."""
    extreme = x.extreme()
    square = x * x
    weighted = square * x

    def tried(numerator: float) -> tuple[DeviceNumbers, DeviceNumbers, DeviceNumbers]:
        number = (x * (numerator / extreme)).nearest_within(-float(most), most - 1.0)
        return number, total(weighted, number), total(square, number, number)

    steps, scaled, whole = tried(-float(most))
    scale = (scaled / whole).or_zero(whole)
    best = scale * scaled
    for trial in (*range(-9, 0), *range(1, 10)):
        number, scaled, whole = tried(-float(np.float32(most) + np.float32(0.1) * np.float32(trial)))
        better = (whole > 0.0) * (scaled * scaled > best * whole)
        found = scaled / whole
        steps, scale = number.where(better, steps), found.where(better, scale)
        best = (found * scaled).where(better, best)
    return _from_zero(scale, steps, extreme, most)


def _from_zero(
    scale: DeviceNumbers, steps: DeviceNumbers, extreme: DeviceNumbers, most: int
) -> tuple[DeviceNumbers, DeviceNumbers]:
    there = abs(extreme) >= NO_SCALE
    return scale.or_zero(there), (steps + float(most)).or_zero(there)


def to_q3_k(values: DeviceNumbers, made: FileBlocks) -> None:
    """Search the steps one by one; the largest scale is stored as -32."""
    x = values.columns(16)
    scale, searched = _one_by_one(x, 4)
    scales = scale.reshape(-1, 16)
    largest = scales.extreme(-1)
    factor = largest.inverse(-32.0)
    stored = stored_halves(made, 108, (1.0 / factor).or_zero(largest))
    number = (scales * factor).nearest_within(-32.0, 31.0)
    low, high = (number + 32.0).or_zero(largest).split(16.0)
    made.write(made.octets(96, 8), low.reshape(-1, 2, 8).packed(16.0, 1))
    made.write(made.octets(104, 4), high.reshape(-1, 4, 4).packed(4.0, 1))
    low, high = requantised(x, (number * stored).reshape(1, -1), searched, -4.0, 3.0).split(4.0)
    write_pairs(made, 32, low)
    bits = high.reshape(16, -1, 8, 2)
    octets = bits.packed(2.0, 2)
    made.write(made.octets(0, 2, 16), octets.transpose(1, 2, 0))


def to_q6_k(values: DeviceNumbers, made: FileBlocks) -> None:
    """Try 19 scales for each group; the largest one is stored as -128."""
    x = values.columns(16)
    scale, searched = _all_scales(x, 32)
    scales = scale.reshape(-1, 16)
    largest = scales.extreme(-1)
    there = abs(largest) >= NO_SCALE
    factor = (-128.0 / largest).or_zero(there)
    stored = stored_halves(made, 208, (1.0 / factor).or_zero(there))
    number = (scales * factor).nearest().least(127.0)
    made.write(made.octets(192, 16), number)
    steps = requantised(x, (number * stored).reshape(1, -1), searched, -32.0, 31.0)
    whole = steps.reshape(16, -1, 16).or_zero(there).reshape(16, -1, 2, 4, 2)
    low, high = whole.split(16.0)
    octets = high.packed(4.0, 3)
    made.write(made.octets(128, 2, 2, 16), octets.transpose(1, 2, 3, 0))
    octets = low.reshape(16, -1, 2, 2, 2, 2).packed(16.0, 3)
    made.write(made.octets(0, 2, 2, 2, 16), octets.transpose(1, 2, 3, 4, 0))
