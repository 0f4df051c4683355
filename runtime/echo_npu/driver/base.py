"""The interface between a device and what carries out its methods."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.command import Command
from echo_npu.vector.program import Program

STAND_IN_ENTRY: Final = 0x8000_0000
"""The entry of vector program i, while its place is not known yet, is this plus i."""


class DeviceDriver(ABC):
    """Memory, commands and vector programs of one device.

    `HardwareDriver` carries everything out. `RecordingDriver` takes its place while a program is recorded.
    The caller holds the device's lock.
    """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """How often the device was reset since it was opened."""

    def check_thread(self) -> None:  # noqa: B027  (any thread may use a device that is not recording)
        """Raise NpuRecordingError if this thread may not use the device."""

    # --- memory ---------------------------------------------------------------------------------------------

    @abstractmethod
    def malloc(self, region: str, nbytes: int) -> int:
        """Return the physical address of a new block. Raises as `RegionAllocator.malloc`."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give a block back; NpuPointerError unless `malloc` returned `address`."""

    def constants(self) -> AbstractContextManager[None]:
        """Allocate, inside the `with` block, blocks for what the host writes into them next."""
        return nullcontext()

    @abstractmethod
    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the device, after everything submitted before."""

    @abstractmethod
    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a copy of device memory, after everything submitted before."""

    # --- commands -------------------------------------------------------------------------------------------

    @abstractmethod
    def submit(self, commands: Sequence[Command]) -> None:
        """Submit through the command window."""

    @abstractmethod
    def submit_batch(self, commands: Sequence[Command]) -> None:
        """Submit through the ring."""

    @abstractmethod
    def wait(self, timeout_cycles: int | None) -> None:
        """Wait for everything submitted, at most so many cycles; None: while the device makes progress."""

    @abstractmethod
    def settle(self) -> None:
        """`wait` if anything was submitted since the last time."""

    @abstractmethod
    def limit(self, watchdog_cycles: int, *, protect_ring: bool) -> None:
        """Limit the cycles of a command (0: no limit), and protect the ring from writes of commands."""

    @abstractmethod
    def reset(self) -> None:
        """Reset the device softly."""

    # --- vector programs ------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, programs: Sequence[Program]) -> list[int]:
        """Return the entries of programs in program memory; load those that are missing.

        Raises:
            NpuProgramMemoryError: they do not fit, together with those asked for since the last submission.
        """

    @abstractmethod
    def entries_for_run(self, programs: Sequence[Program]) -> list[int]:
        """Do as `entries` for a submission that needs no other programs: all others may be evicted."""

    @abstractmethod
    def forget_programs(self) -> None:
        """Regard program memory as unknown: what was submitted writes it."""
