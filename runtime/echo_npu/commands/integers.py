"""Checks of integer arguments."""

import operator
from typing import SupportsIndex


def integer(name: str, value: SupportsIndex) -> int:
    """Return `value` as an int; TypeError names the argument and the value. A bool is no integer here."""
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r} ({type(value).__name__})") from None


def checked_integer(name: str, value: SupportsIndex, low: int, high: int) -> int:
    """Return `value` as an int in `low..high`; TypeError or ValueError names the field and the value."""
    number = value if type(value) is int else integer(name, value)
    if not low <= number <= high:
        shown = f"{number} (0x{number:x})" if number > 0xFFFF else str(number)
        raise ValueError(f"{name} is {shown}; it must lie in {low}..{high}")
    return number
