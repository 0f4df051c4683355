"""Devices that work at the same time, in phases between which they exchange results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.tensor import DeviceTensor

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Gather:
    """What a device gives to the others and gets from them at the end of a phase.

    Attributes:
        whole: contiguous [rows, columns] on the device, of the same shape and dtype on all of them.
        own: the columns that the device has computed; may be empty. Each column is one device's own.
        receives: whether the device gets the columns of the others.
    """

    whole: DeviceTensor
    own: slice
    receives: bool = True


@dataclass(slots=True)
class Spent:
    """What a group has spent.

    Attributes:
        cycles: busy cycles of each device; 0 on a backend without cycles.
        critical: the sum, over all phases, of the cycles of the phase's slowest device.
        phases: how often the devices have met.
        traffic: bytes that devices received from other devices, all together.
    """

    cycles: list[int] = field(default_factory=list)
    critical: int = 0
    phases: int = 0
    traffic: int = 0

    def since(self, before: Spent) -> Spent:
        """Return what was spent after an earlier moment."""
        return Spent(
            [now - then for now, then in zip(self.cycles, before.cycles, strict=True)],
            self.critical - before.critical,
            self.phases - before.phases,
            self.traffic - before.traffic,
        )


class DeviceGroup:
    """Devices that compute the parts of one result; a context manager, which ends its threads alone.

    Each device has a thread, so simulations run at the same time. Copies between devices go through the host,
    which takes no cycles of a device.

    Args:
        devices: at least one, each of them once.

    Attributes: devices.

    Raises:
        ValueError: no device, or one twice.
    """

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)
        if not self.devices or len(set(map(id, self.devices))) < len(self.devices):
            raise ValueError(
                f"a group has at least one device and each of them once, got {len(self.devices)}"
            )
        self._threads = ThreadPoolExecutor(len(self.devices), "echo-npu")
        self._spent = Spent([0] * len(self.devices))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.devices)

    def close(self) -> None:
        """End the threads. Idempotent."""
        self._threads.shutdown()

    def spent(self) -> Spent:
        """Return what all runs together have spent so far."""
        spent = self._spent
        return Spent(list(spent.cycles), spent.critical, spent.phases, spent.traffic)

    def each(self, function: Callable[[int], _T]) -> list[_T]:
        """Call a function with each device's place in the group, at the same time, and return its results.

        Every call has ended when this returns or raises; of several errors, the first device's is raised.
        """
        calls = [self._threads.submit(function, index) for index in range(len(self.devices))]
        errors = [call.exception() for call in calls]
        for error in errors:
            if error is not None:
                raise error
        return [call.result() for call in calls]

    def run(self, passes: Sequence[Iterator[Gather]]) -> None:
        """Run one generator for each device to its end, phase by phase.

        A generator submits commands and yields what is to be gathered before its next command. The commands
        of a phase are one recorded program.

        Raises:
            ValueError: generators that end at different times, or gather different things.
            NpuError: a device failed. The others have ended the phase then.
        """
        waiting = list(passes)
        if len(waiting) != len(self.devices):
            raise ValueError(f"{len(waiting)} passes for {len(self.devices)} devices")

        def phase(index: int) -> tuple[Gather | None, int]:
            device = self.devices[index]
            with device.record() as program:
                gather = next(waiting[index], None)
            with program:
                if not len(program):
                    return gather, 0
                before = device.counters()["busy_cycles"]
                program.run()
                return gather, device.counters()["busy_cycles"] - before

        while True:
            results = self.each(phase)
            self._count([cycles for _, cycles in results])
            gathers = [gather for gather, _ in results if gather is not None]
            if not gathers:
                return
            if len(gathers) < len(results):
                raise ValueError("a device has ended while others still gather")
            self.gather(gathers)

    def _count(self, cycles: Sequence[int]) -> None:
        spent = self._spent
        if any(cycles):
            spent.cycles = [old + new for old, new in zip(spent.cycles, cycles, strict=True)]
            spent.critical += max(cycles)

    def gather(self, gathers: Sequence[Gather]) -> None:
        """Bring each device's own columns to those that receive; one gather for each device.

        Raises:
            ValueError: another number of gathers than of devices, tensors of different shapes or dtypes, or
                columns that are nobody's or several's.
        """
        if len(gathers) != len(self.devices):
            raise ValueError(f"{len(gathers)} gathers for {len(self.devices)} devices")
        first = gathers[0].whole
        if any((each.whole.shape, each.whole.dtype) != (first.shape, first.dtype) for each in gathers):
            raise ValueError(f"the devices gather {', '.join(str(each.whole.shape) for each in gathers)}")
        owners = np.zeros(first.shape[1], int)
        for each in gathers:
            owners[each.own] += 1
        if (owners != 1).any():
            raise ValueError("each column that is gathered must be one device's own")
        if len(gathers) == 1:
            return
        whole: NDArray[np.generic] = np.empty(first.shape, first.dtype)
        for each in gathers:
            if each.own.stop > each.own.start:
                whole[:, each.own] = each.whole[:, each.own].to_numpy()
        for each in gathers:
            if each.receives:
                each.whole.copy_from(whole)
                self._spent.traffic += whole.nbytes - whole[:, each.own].nbytes
        self._spent.phases += 1
