"""What the options of the backends of real hardware share."""

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from echo_npu.backends.base import check_number
from echo_npu.backends.board.files import SystemFiles
from echo_npu.backends.board.transport import Transport

CLOCK_MHZ: Final = (1e-6, 1e5)
"""The least and the most clock of an NPU, in MHz."""


@dataclass(frozen=True, slots=True)
class CardOptions(ABC):
    """The options of a backend besides the configuration.

    Attributes: clock_mhz (the NPU's clock).
    """

    @property
    @abstractmethod
    def clock_mhz(self) -> float: ...

    @abstractmethod
    def open(self, files: SystemFiles) -> Transport:
        """Open the card."""


def check_offset(name: str, value: object, multiple: int, size: int) -> None:
    """Raise TypeError or ValueError unless `value` is a multiple of `multiple`, with room behind it.

    `size` bytes from there on end at 2^63 or below: system calls take no offset beyond.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it must be a whole number")
    if not 0 <= value <= (1 << 63) - size or value % multiple:
        raise ValueError(f"{name} is {value}; it must be a multiple of {multiple} up to 2^63 - {size}")


def check_path(name: str, value: object) -> None:
    """Raise TypeError or ValueError unless `value` is text that a file can be named by."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it must be a path as text")
    try:
        possible = value != "" and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{name} is {value!r}; no file has such a name")


def check_clock(value: object) -> None:
    """Raise TypeError or ValueError unless `value` can be a clock in MHz."""
    check_number("clock_mhz", value, *CLOCK_MHZ)
