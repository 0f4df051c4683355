"""The interface between the primitives of a card and the driver that reaches it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.spec.registers import REGISTERS

WINDOW_BYTES: Final = max(each.offset + each.width // 8 for each in REGISTERS.values())
"""From the start of the register window to the end of its last register."""


class Transport(ABC):
    """One card, opened and locked, by the files of one kernel driver.

    Every method raises NpuCardLostError where the driver says that the card has gone, and NpuTransferError
    where an access failed otherwise. Addresses and ranges were checked by the caller.

    Attributes: device (the card, as it was opened).
    """

    device: str

    @abstractmethod
    def load(self, offset: int) -> int:
        """Read the 32-bit register at `offset` bytes in the register window."""

    @abstractmethod
    def store(self, offset: int, value: int) -> None:
        """Write a 32-bit register."""

    @abstractmethod
    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a copy of device memory from a physical address of the NPU."""

    @abstractmethod
    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Write device memory; what is written is there for the NPU when this returns."""

    def identified(self) -> None:  # noqa: B027  (most cards need nothing more)
        """The card is an ECHO NPU: do what needs a write, such as letting it reach host memory."""

    def arm(self) -> None:  # noqa: B027  (most drivers leave interrupts enabled)
        """Enable the interrupt at the host, where the driver disables it each time."""

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Wait for an event of the interrupt and take it; return whether there was one."""

    def info(self) -> dict[str, Any]:
        """Return facts about the card, for people."""
        return {}

    @abstractmethod
    def close(self) -> None:
        """Give everything back, the lock last. Idempotent."""
