"""Blocks of four bits whose codes stand for uneven steps: mxfp4, nvfp4, iq4_nl, iq4_xs."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.server.operations.device_numbers import DeviceNumbers, total
from echo_npu.server.operations.file_blocks.blocks import FileBlocks, looked_up
from echo_npu.vector.kernels import codes

E2M1: Final = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0)
"""Twice what four bits are as a float with two bits of exponent and one of mantissa; zero has one sign."""

CURVE: Final = (
    *(-127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0),
    *(1.0, 13.0, 25.0, 38.0, 53.0, 69.0, 89.0, 113.0),
)
"""The steps of iq4_nl and iq4_xs."""

NO_SCALE: Final = 1e-15
"""Groups whose numbers are all closer to 0 are zero."""

_BIASED: Final = 128.0
"""What a byte of mxfp4 is above the exponent of its scale, of values that are twice as large."""


def _e4m3_halves() -> NDArray[np.float32]:
    """Return half of what bytes are as floats without sign, four bits of exponent and three of mantissa."""
    byte = np.arange(256)
    exponent, mantissa = byte >> 3 & 15, byte & 7
    value = np.where(exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * 2.0 ** (exponent - 7.0))
    value[[0, 0x7F]] = 0
    return (value / 2).astype(np.float32)


_E4M3: Final = _e4m3_halves()[:, None]
_E4M3_ENDS: Final = 120.0
"""From this byte on, 256, scales are rounded to the greatest one."""
_E4M3_MOST: Final = 126.0
"""The byte of 448."""


def _values(blocks: FileBlocks, steps: tuple[float, ...], first: int, runs: int, size: int) -> DeviceNumbers:
    """Return the steps that the nibbles of runs of bytes stand for, [blocks, runs, 2 * size]."""
    found = looked_up(np.array(steps)[:, None], blocks.nibbles(first, runs, size))
    return found.reshape(-1, runs, 2 * size)


def _power(exponent: DeviceNumbers) -> DeviceNumbers:
    return exponent.function("power_of_two")


def mxfp4(blocks: FileBlocks) -> DeviceNumbers:
    """Exponent of a power of two, then 32 numbers."""
    scale = _power(blocks.unsigned(0, 1) - _BIASED)
    return _values(blocks, E2M1, 1, 1, 16).reshape(-1, 32) * scale


def to_mxfp4(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the greatest magnitude lie between 4 and 8 times the power of two."""
    x = values.columns(32)
    exponent = (abs(x).max().function("exponent") + (_BIASED - 3.0)).greatest(0.0)
    made.write(made.octets(0, 1), exponent.T)
    code = x.through(codes.closest_code(E2M1), _power(exponent - _BIASED))
    made.write(made.octets(1, 16), code.reshape(2, 16, -1).packed(16.0, 0).T)


def nvfp4(blocks: FileBlocks) -> DeviceNumbers:
    """Four scales of eight bits, then 16 numbers for each."""
    return (_values(blocks, E2M1, 4, 4, 8) * looked_up(_E4M3, blocks.unsigned(0, 4))).reshape(-1, 64)


def to_nvfp4(values: DeviceNumbers, made: FileBlocks) -> None:
    """Let the greatest magnitude of 16 numbers be 6 times the scale, which is rounded."""
    x = values.columns(16)
    wanted = abs(x).max() / 6.0
    small = (wanted * 512.0 + 0.5).truncated().least(7.0)
    eighths = (wanted.function("mantissa") * 8.0 + 0.5).truncated()
    # A mantissa that rounds to 16 eighths is the next exponent's.
    normal = eighths.plus(wanted.function("exponent") + 6.0, 8.0)
    normal = normal.where(normal < _E4M3_ENDS, _E4M3_MOST)
    byte = small.where(wanted < 2.0**-6, normal)
    made.write(made.octets(0, 4), byte.reshape(-1, 4))
    code = x.through(codes.closest_code(E2M1), looked_up(_E4M3, byte).reshape(*byte.shape))
    octets = code.reshape(2, 8, -1).packed(16.0, 0)
    made.write(made.octets(4, 4, 8), octets.reshape(8, -1, 4).transpose(1, 2, 0))


def iq4_nl(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, then 32 numbers."""
    return _values(blocks, CURVE, 2, 1, 16).reshape(-1, 32) * blocks.halves(0, 1)


def iq4_xs(blocks: FileBlocks) -> DeviceNumbers:
    """Scale, high and low bits of eight scales of six bits, then 32 numbers for each."""
    high = blocks.fields(blocks.words(2, 1), np.arange(0, 16, 2), 2)
    low = blocks.fields(blocks.octets(4, 4, 1), [0, 4], 4).reshape(-1, 8)
    scale = (low.plus(high, 16.0) - 32.0) * blocks.halves(0, 1)
    return (_values(blocks, CURVE, 8, 8, 16) * scale.reshape(-1, 8, 1)).reshape(-1, 256)


class _Curve:
    """Groups of 32 numbers, and the scale with which their codes come closest to them.

    Attributes:
        x: the numbers, [32, groups].
        codes: of the first trial, [32, groups].
        scale: the best one, [1, groups].
    """

    def __init__(self, values: DeviceNumbers, trials: int) -> None:
        self.x = values.columns(32)
        self._square = self.x * self.x
        most = self.x.extreme()
        self.codes, scaled, whole = self._sums(1.0 / (most / (-CURVE[0] if trials else CURVE[0])))
        scale = (scaled / whole).or_zero(whole > 0.0)
        best = scale * scaled
        for trial in range(-trials, trials + 1) if trials else ():
            _, scaled, whole = self._sums((CURVE[0] + trial) / most)
            better = (whole > 0.0) * (scaled * scaled > best * whole)
            closer = scaled / whole
            scale = closer.where(better, scale)
            best = (closer * scaled).where(better, best)
        self.scale = scale.or_zero(abs(most) >= NO_SCALE)

    def nearest(self, factor: DeviceNumbers) -> DeviceNumbers:
        """Return the codes of the numbers times a factor."""
        return (self.x * factor).through(codes.nearest_code(CURVE))

    def _sums(self, factor: DeviceNumbers) -> tuple[DeviceNumbers, DeviceNumbers, DeviceNumbers]:
        """Return the codes with a factor, and both sums of the scale that fits them by least squares."""
        code = self.nearest(factor)
        step = looked_up(np.array(CURVE)[:, None], code).reshape(*code.shape)
        weighted = self._square * step
        return code, total(weighted, self.x), total(weighted, step)


def to_iq4_nl(values: DeviceNumbers, made: FileBlocks) -> None:
    """Take codes with the number farthest from 0 at the lowest step, then the scale that fits them best."""
    found = _Curve(values, 0)
    code = found.codes.or_zero(found.scale)
    made.write_halves(0, found.scale.T)
    made.write(made.octets(2, 16), code.reshape(2, 16, -1).packed(16.0, 0).T)


def to_iq4_xs(values: DeviceNumbers, made: FileBlocks) -> None:
    """Search a scale for each 32 numbers, round it to six bits, and take the codes with that one."""
    found = _Curve(values, 7)
    scales = found.scale.reshape(-1, 8)
    whole = scales.extreme(-1) * (-1 / 32)
    number = (scales * whole.inverse()).nearest_within(-32.0, 31.0)
    code = found.nearest((number * whole).reshape(1, -1).inverse())
    made.write_halves(0, whole)
    low, high = (number + 32.0).split(16.0)
    made.write(made.octets(2, 2), high.reshape(-1, 2, 4).packed(4.0, 2))
    made.write(made.octets(4, 4), low.reshape(-1, 4, 2).packed(16.0, 2))
    octets = code.reshape(2, 16, -1).packed(16.0, 0)
    made.write(made.octets(8, 8, 16), octets.reshape(16, -1, 8).transpose(1, 2, 0))
