"""Encode numbers inside instructions and commands."""

import numpy as np


def immediate_bits(value: float | np.floating | np.integer) -> int:
    """Return the 32 bits of an immediate: a Python or numpy float as float32, an integer as int32 or uint32.

    Raises:
        ValueError: an integer outside -2**31..2**32-1, or a finite float beyond float32.
        TypeError: a bool or something else.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"an immediate is a number, got {value!r} ({type(value).__name__})")
    if isinstance(value, (int, np.integer)):
        number = int(value)
        if not -(2**31) <= number < 2**32:
            raise ValueError(f"immediate {number} does not fit 32 bits")
        return number & 0xFFFF_FFFF
    with np.errstate(over="ignore"):
        rounded = np.float32(value)
    if np.isinf(rounded) and not np.isinf(value):
        raise ValueError(f"immediate {value!r} is beyond float32")
    return int(rounded.view(np.uint32))
