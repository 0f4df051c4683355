"""Values of super-blocks whose codes name points of grids, which the package gguf has.

They are iq1_s, iq1_m, iq2_xxs, iq2_xs, iq2_s, iq3_xxs and iq3_s.
"""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks.blocks import BITS, FileBlocks, looked_up
from echo_npu.tensor import DeviceTensor

_GROUPS: Final = 8


def _signs() -> NDArray[np.float64]:
    """Return the eight signs that seven bits stand for, [128, 8]: an even number of them is negative."""
    seven = np.arange(128)[:, None] >> np.arange(7) & 1
    return 1.0 - 2.0 * np.concatenate([seven, seven.sum(axis=1, keepdims=True) % 2], axis=1)


_SIGNS: Final = _signs()


def has_grids() -> bool:
    """Return whether the package with the grids is installed."""
    return find_spec("gguf") is not None


@cache
def _grid(name: str) -> NDArray[np.float32]:
    """Return a grid, [points, numbers of a point]."""
    form: Any = getattr(import_module("gguf.quants"), name)
    form.init_grid()
    points: NDArray[np.float32] = form.grid.reshape(form.grid_shape)
    return points


def _signed(name: str, codes: DeviceNumbers, signs: DeviceNumbers) -> DeviceNumbers:
    """Return the points of a grid's codes with signs, [blocks, 8, 32]."""
    return looked_up(_grid(name), codes).reshape(-1, _GROUPS, 32) * signs.reshape(-1, _GROUPS, 32)


def _sign_octets(blocks: FileBlocks, first: int) -> DeviceNumbers:
    """Return the signs that a bit each says, [blocks, 32, 8]."""
    return 1.0 - blocks.fields(blocks.octets(first, 32, 1), BITS, 1) * 2.0


def _sevens(blocks: FileBlocks, low: DeviceTensor, high: DeviceTensor) -> tuple[DeviceNumbers, DeviceNumbers]:
    """Return the signs [blocks, 8, 4, 8] and the scales [blocks, 8] of words of 32 bits.

    A word has four times seven bits, then four.

    Args:
        low, high: the words' halves, uint16 [blocks, 8].
    """
    device = blocks.emitter.device
    numbers = device.empty((blocks.tensor.shape[0], _GROUPS, 4))
    third = blocks.fields(low, 14, 2).plus(blocks.fields(high, 0, 5), 4.0)
    sevens = blocks.fields(low, 0, 7), blocks.fields(low, 7, 7), third, blocks.fields(high, 5, 7)
    for index, each in enumerate(sevens):
        device.copy(each.tensor, out=numbers[:, :, index])
    return looked_up(_SIGNS, DeviceNumbers(blocks.emitter, numbers)), blocks.fields(high, 12, 4)


def _half_and(blocks: FileBlocks, number: DeviceNumbers, factor: float) -> DeviceNumbers:
    """Return scale * (0.5 + number) * factor of numbers [blocks, ...]."""
    return (number + 0.5) * blocks.halves(0, *(1,) * (len(number.shape) - 1)) * factor


def iq2_xxs(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; for each 32 elements four codes of eight bits, then signs and a scale."""
    words = blocks.words(2, _GROUPS, 4)
    signs, number = _sevens(blocks, words[:, :, 2], words[:, :, 3])
    codes = blocks.fields(blocks.words(2, _GROUPS, 4, 1)[:, :, :2], [0, 8], 8)
    scale = _half_and(blocks, number, 0.25).reshape(-1, _GROUPS, 1)
    return (_signed("IQ2_XXS", codes, signs) * scale).reshape(-1, 256)


def _nibble_scales(blocks: FileBlocks, first: int) -> DeviceNumbers:
    """Return what 16 numbers each are multiplied by, [blocks, 16, 1]."""
    numbers = blocks.fields(blocks.octets(first, _GROUPS, 1), [0, 4], 4)
    return _half_and(blocks, numbers, 0.25).reshape(-1, 16, 1)


def iq2_xs(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; for each 8 elements a code of nine bits and signs of seven; scales of 16 elements."""
    words = blocks.words(2, 32)
    points = _signed("IQ2_XS", blocks.fields(words, 0, 9), looked_up(_SIGNS, blocks.fields(words, 9, 7)))
    return (points.reshape(-1, 16, 16) * _nibble_scales(blocks, 66)).reshape(-1, 256)


def iq2_s(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; low eight bits of the codes; signs; two more bits of the codes; scales of 16 elements."""
    high = blocks.fields(blocks.octets(66, _GROUPS, 1), [0, 2, 4, 6], 2)
    codes = blocks.unsigned(2, _GROUPS, 4).plus(high, 256.0)
    points = _signed("IQ2_S", codes, _sign_octets(blocks, 34))
    return (points.reshape(-1, 16, 16) * _nibble_scales(blocks, 74)).reshape(-1, 256)


def iq3_xxs(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; a code of eight bits for each 4 elements; for each 32 signs and a scale."""
    words = blocks.words(66, _GROUPS, 2)
    signs, number = _sevens(blocks, words[:, :, 0], words[:, :, 1])
    scale = _half_and(blocks, number, 0.5).reshape(-1, _GROUPS, 1)
    return (_signed("IQ3_XXS", blocks.unsigned(2, 64), signs) * scale).reshape(-1, 256)


def iq3_s(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; low eight bits of the codes; the ninth ones; signs; scales of 32 elements."""
    high = blocks.fields(blocks.octets(66, _GROUPS, 1), BITS, 1)
    codes = blocks.unsigned(2, _GROUPS, 8).plus(high, 256.0)
    numbers = blocks.fields(blocks.octets(106, 4, 1), [0, 4], 4).reshape(-1, _GROUPS)
    scale = (numbers * 2.0 + 1.0) * blocks.halves(0, 1)
    points = _signed("IQ3_S", codes, _sign_octets(blocks, 74))
    return (points * scale.reshape(-1, _GROUPS, 1)).reshape(-1, 256)


def _shifted(codes: DeviceNumbers, negative: DeviceNumbers, scale: DeviceNumbers) -> DeviceNumbers:
    """Return scale * (point +- 1/8), [blocks, 256].

    Args:
        codes: of points, [blocks, 32].
        negative: 1 or 0, and scale: both broadcast to [blocks, 8, 4, 8].
    """
    points = looked_up(_grid("IQ1_S"), codes.reshape(-1, 32)).reshape(-1, _GROUPS, 4, 8)
    return ((points + (0.125 - negative * 0.25)) * scale).reshape(-1, 256)


def iq1_s(blocks: FileBlocks) -> DeviceNumbers:
    """Scale; low eight bits of the codes; for each 32 elements three bits of four codes, a scale, a shift."""
    words = blocks.words(34, _GROUPS)
    high = blocks.fields(blocks.words(34, _GROUPS, 1), [0, 3, 6, 9], 3)
    scale = (blocks.fields(words, 12, 3) * 2.0 + 1.0) * blocks.halves(0, 1)
    negative = blocks.fields(words, 15, 1).reshape(-1, _GROUPS, 1, 1)
    codes = blocks.unsigned(2, _GROUPS, 4).plus(high, 256.0)
    return _shifted(codes, negative, scale.reshape(-1, _GROUPS, 1, 1))


def iq1_m(blocks: FileBlocks) -> DeviceNumbers:
    """Low eight bits of the codes; three more and a shift each; four words of scales and a float16's bits."""
    emitter, device = blocks.emitter, blocks.emitter.device
    more = blocks.octets(32, 16, 1)
    high = blocks.fields(more, [0, 4], 3).reshape(-1, 32)
    negative = blocks.fields(more, [3, 7], 1).reshape(-1, _GROUPS, 4, 1)
    words = blocks.words(48, 4, 1)
    number = blocks.fields(words, [0, 3, 6, 9], 3) * 2.0 + 1.0
    bits = blocks.fields(words, 12, 4).packed(16.0, 1)
    half = device.cast(device.cast(bits.tensor, "int32"), "int16").view(np.float16)
    scale = number.reshape(-1, 16) * DeviceNumbers(emitter, device.cast(half, "float32"))
    spread = DeviceNumbers(emitter, scale.reshape(-1, 16, 1).tensor.broadcast_to(scale.shape[0], 16, 2))
    return _shifted(blocks.unsigned(0, 32).plus(high, 256.0), negative, spread.reshape(-1, _GROUPS, 4, 1))
