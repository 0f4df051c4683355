"""What stands between a device as programs use it and the hardware."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.packets import Command
from echo_npu.vector.program import Program


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
        """NpuRecordingError where this thread may not use the device."""

    # --- memory ---------------------------------------------------------------------------------------------

    @abstractmethod
    def malloc(self, region: str, nbytes: int) -> int:
        """The physical address of a new block. Raises as `RegionAllocator.malloc`."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give a block back; NpuPointerError unless `malloc` returned `address`."""

    def constants(self) -> AbstractContextManager[None]:
        """Blocks allocated inside the `with` block hold what the host writes into them next."""
        return nullcontext()

    @abstractmethod
    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes of the host to the device, after everything submitted before."""

    @abstractmethod
    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """A copy of device memory, after everything submitted before."""

    # --- commands -------------------------------------------------------------------------------------------

    @abstractmethod
    def submit(self, commands: Sequence[Command]) -> None:
        """Submit through the command window."""

    @abstractmethod
    def submit_batch(self, commands: Sequence[Command]) -> None:
        """Submit through the ring."""

    @abstractmethod
    def wait(self, timeout_cycles: int | None) -> None:
        """Wait for everything submitted; at most so many cycles, None: as long as something moves."""

    @abstractmethod
    def settle(self) -> None:
        """`wait` if anything was submitted since the last time."""

    @abstractmethod
    def limit(self, watchdog_cycles: int, *, protect_ring: bool) -> None:
        """Bound the time of commands (0: not at all), and keep them from writing to the ring."""

    @abstractmethod
    def reset(self) -> None:
        """Soft reset."""

    # --- vector programs ------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, programs: Sequence[Program]) -> list[int]:
        """Where programs are in program memory; those that are missing are loaded.

        Raises:
            NpuProgramMemoryError: they do not fit, together with those asked for since the last submission.
        """

    @abstractmethod
    def entries_for_run(self, programs: Sequence[Program]) -> list[int]:
        """`entries` for a submission that needs no other programs: all others may leave."""

    @abstractmethod
    def forget_programs(self) -> None:
        """What was submitted writes program memory itself: nothing is known to be loaded any more."""
