"""The interface of backends: five primitives and a name."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from echo_npu.errors import DeviceClosedError
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.spec.memory_map import REGISTERS
from echo_npu.vector.program import Program


class DeviceTimeline(Protocol):
    """The part of a device's timeline with which callers name what it shows."""

    def describe(self, programs: Sequence[Program]) -> None:
        """Give the names of vector programs that one LOAD_PROGRAM loads, one after another."""

    def span(self, name: str) -> AbstractContextManager[None]:
        """Show what the device does inside the `with` block under one name."""


class LaterCounters(Protocol):
    """The performance counters as they were at one moment."""

    @property
    def known(self) -> bool:
        """Whether `wait` returns at once."""

    def wait(self) -> dict[str, int]:
        """Return the counters by name, in lower case. Raises as `Backend.settle`."""


class Backend(ABC):
    """A device, or a model of one, behind five primitives.

    Time passes on the device only while a primitive runs. The primitives are not thread-safe: `Device` adds
    the lock. `name` is the module's name in `echo_npu.backends`.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    has_cycles: ClassVar[bool]
    """Whether cycles and bus beats are counted; if not, those counters read 0."""
    shares_memory: ClassVar[bool] = False
    """Whether a device of this backend can have a `shared_memory`."""

    @classmethod
    @abstractmethod
    def open(cls, config: str, options: Mapping[str, Any]) -> Backend:
        """Return a new device of the hardware configuration `config`.

        Raises:
            ValueError: the configuration does not exist, or the value of an option is wrong.
            TypeError: an option that this backend does not have.
        """

    @abstractmethod
    def read_reg(self, offset: int) -> int:
        """Return the 32-bit register at `offset` (bytes, multiple of 4). NpuBusError if the device
        refuses."""

    @abstractmethod
    def write_reg(self, offset: int, value: int) -> None:
        """Write a 32-bit register. NpuBusError if the device refuses."""

    @abstractmethod
    def read_mem(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a copy of device memory from a physical address. NpuPointerError outside of memory."""

    @abstractmethod
    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        """Write the bytes of a one-dimensional uint8 array. NpuPointerError outside of memory."""

    @abstractmethod
    def wait_irq(self, timeout_cycles: int) -> bool:
        """Wait at most `timeout_cycles` until the interrupt is high; return whether it is high."""

    def run(self, ops: Sequence[RegisterOp]) -> list[int]:
        """Do register operations in order. Results: a read's value, 0 for a write, for a wait whether it is
        high.

        A backend in another process does them in one round trip.
        """
        results = []
        for op in ops:
            if isinstance(op, ReadReg):
                results.append(self.read_reg(op.offset))
            elif isinstance(op, WriteReg):
                self.write_reg(op.offset, op.value)
                results.append(0)
            else:
                results.append(int(self.wait_irq(op.timeout_cycles)))
        return results

    def info(self) -> dict[str, Any]:
        """Return facts about this open backend, for people."""
        return {}

    def ready(self) -> None:  # noqa: B027  (a backend may not care)
        """Set-up is done; tracing starts here."""

    @property
    def shared_memory(self) -> DeviceMemory | None:
        """Device memory as the host maps it; None: only `read_mem` and `write_mem` reach it."""
        return None

    @property
    def reset_cycles(self) -> int:
        """How many cycles the driver gives a soft reset to end."""
        return 1_000_000

    @property
    def timeline(self) -> DeviceTimeline | None:
        """The timeline of the device; None if there is none."""
        return None

    @property
    def waves_hint(self) -> str:
        """How to get a waveform of what the device did, as a sentence."""
        return "A waveform: open the device on the backend rtlmodel with waves=True."

    def exposed(self, address: int, nbytes: int) -> None:  # noqa: B027
        """Note that the host may write these bytes of shared memory by itself, until its next command."""

    def counters_later(self) -> LaterCounters | None:
        """Return the counters as they are now, for a device that is idle; None: read the registers."""
        return None

    def settle(self) -> None:  # noqa: B027  (a backend may have nothing outstanding)
        """Return when everything that the device did has been checked, on a backend that checks behind."""

    def abandon(self) -> None:  # noqa: B027
        """Let `close` drop what is outstanding: the program that used the device has failed."""

    def close(self) -> None:  # noqa: B027  (a backend may have nothing to give back)
        """Give everything back. Idempotent."""


class BatchBackend(Backend):
    """A backend whose primitive for registers is `run`: a single access is a batch of one."""

    @abstractmethod
    def run(self, ops: Sequence[RegisterOp]) -> list[int]: ...

    def read_reg(self, offset: int) -> int:
        return self.run([ReadReg(offset)])[0]

    def write_reg(self, offset: int, value: int) -> None:
        self.run([WriteReg(offset, value)])

    def wait_irq(self, timeout_cycles: int) -> bool:
        return bool(self.run([WaitIrq(timeout_cycles)])[0])


def check_open(*, closed: bool, owner: int) -> None:
    """Raise DeviceClosedError if a device is closed, or belongs to a process `owner` that is not this one."""
    if closed:
        raise DeviceClosedError("the device is closed")
    if os.getpid() != owner:
        raise DeviceClosedError(f"the device belongs to process {owner}; a forked child opens its own")


def check_register(offset: int, value: int = 0) -> None:
    """Raise ValueError unless `offset` is a word in the register window and `value` is a u32."""
    if not 0 <= offset < REGISTERS.size or offset % 4:
        raise ValueError(f"register offset is 0x{offset:x}; it is a multiple of 4 below 0x{REGISTERS.size:x}")
    if not 0 <= value < 1 << 32:
        raise ValueError(f"register value is {value}; it must fit 32 bits")


def refuse_options(backend: str, options: Mapping[str, Any], known: Sequence[str] = ()) -> None:
    """Raise TypeError if an option is not among the `known` ones."""
    for option in options:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise TypeError(f"the backend {backend} has no option {option!r}; {has}")


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raise TypeError or ValueError unless an option's value is a whole number from `low` to `high`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it must be a whole number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must lie in {low}..{high}")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raise TypeError or ValueError unless an option's value is a number from `low` to `high`."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r} ({type(value).__name__}); it must be a number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must lie in {low:g}..{high:g}")
