"""Checks of integer arguments."""

import operator
from typing import SupportsIndex


def checked_integer(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Return `value` as an int in `low..high`; TypeError or ValueError names the field and the value."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})") from None
    if not low <= number <= high:
        shown = f"{number} (0x{number:x})" if number > 0xFFFF else str(number)
        raise ValueError(f"{name} is {shown}; it must lie in {low}..{high}")
    return number
