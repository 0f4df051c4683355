"""Run the operations of a model on a device, and check each twice.

Exact: the functional model executes the same call on the same memory content. Then the activation memory of
both, from the model's first tensor to its last, must be equal to the bit, which also finds stray writes.
Accurate: the result is within a stated bound of float64.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu import debug
from echo_npu.backends.base import LaterCounters
from echo_npu.device import Device
from echo_npu.models.operations import Operation
from echo_npu.models.records import OpRecord
from echo_npu.tensor import DeviceTensor


@dataclass(frozen=True, slots=True)
class Mirrored:
    """A tensor at one address of two devices: where the model runs, and the functional model beside it."""

    name: str
    device: DeviceTensor
    twin: DeviceTensor

    @property
    def shape(self) -> tuple[int, ...]:
        return self.device.shape

    def view(self, change: Callable[[DeviceTensor], DeviceTensor]) -> Mirrored:
        """Return a view of both, made by `change`."""
        return Mirrored(self.name, change(self.device), change(self.twin))


class Executor:
    """Tensors and operations on `device`, mirrored on `twin`.

    Args:
        device: where the model runs.
        twin: a cmodel device with the same history of allocations, e.g. just opened. Nothing else may use it.
        on_record: called after each operation, e.g. to move a progress bar.
    """

    def __init__(
        self, device: Device, twin: Device, *, on_record: Callable[[OpRecord], None] | None = None
    ) -> None:
        self.device = device
        self.twin = twin
        self.records: list[OpRecord] = []
        self.device_seconds = 0.0
        self._on_record = on_record
        self._unfinished: deque[tuple[OpRecord, LaterCounters, LaterCounters]] = deque()
        self._tensors: list[Mirrored] = []
        self._weights: dict[int, tuple[Mirrored, NDArray[Any]]] = {}
        self._weights_were_exact = True

    # --- memory ---------------------------------------------------------------------------------------------

    def empty(
        self, name: str, shape: Sequence[int], dtype: DTypeLike = np.float32, *, region: str = "activation"
    ) -> Mirrored:
        """Allocate a tensor on both devices.

        Raises:
            NpuOutOfMemoryError: there is no room.
            ValueError: the devices' allocators disagree; the twin needs the history of the device.
        """
        made = Mirrored(
            name,
            self.device.empty(shape, dtype, region=region),
            self.twin.empty(shape, dtype, region=region),
        )
        self._tensors.append(made)
        if made.device.ptr != made.twin.ptr:
            raise ValueError(
                f"{name} is at 0x{made.device.ptr:08x} of the device and at 0x{made.twin.ptr:08x} of its "
                "twin: both must have the same history of allocations"
            )
        return made

    def tensor(self, name: str, values: NDArray[Any], *, region: str = "activation") -> Mirrored:
        """Copy an array to a new tensor on both devices."""
        made = self.empty(name, values.shape, values.dtype, region=region)
        self.upload(made, values)
        return made

    def release(self) -> None:
        """Free every tensor."""
        while self._tensors:
            made = self._tensors.pop()
            made.device.free()
            made.twin.free()
        self._weights.clear()

    def upload(self, tensor: Mirrored, values: NDArray[Any]) -> None:
        """Write all of `tensor`, on both devices."""
        address = tensor.device.ptr
        if address in self._weights:
            self._weights_were_exact &= self._weight_exact(*self._weights[address])
        tensor.device.copy_from(values)
        tensor.twin.copy_from(values)
        if self.device.capabilities.memory.weight.contains(address):
            self._weights[address] = (tensor, values)

    def weights_exact(self) -> bool:
        """Return whether device memory held every weight, bit for bit, until now or until it was replaced."""
        return self._weights_were_exact and all(self._weight_exact(*each) for each in self._weights.values())

    @staticmethod
    def _weight_exact(tensor: Mirrored, values: NDArray[Any]) -> bool:
        return np.array_equal(_bits(tensor.device.to_numpy()), _bits(np.ascontiguousarray(values)))

    # --- operations -----------------------------------------------------------------------------------------

    def run(self, name: str, operation: Operation, inputs: Sequence[Mirrored], out: Mirrored) -> None:
        """Run one operation on the device and on the functional model, and compare.

        Its record comes as soon as its cycles are known: on rtlfarm later, with `finish` at the latest.

        Raises:
            NpuDeviceError, NpuTimeoutError, SimulatorError: the device refused, hung or died.
        """
        # The truth is computed from the twin's inputs: weights as they were uploaded, activations as the
        # device has them.
        truth = operation.truth(*(tensor.twin.to_numpy() for tensor in inputs))
        shapes = [tensor.shape for tensor in inputs]
        macs = operation.macs(shapes)
        before = self.device.counters_later()
        start = time.perf_counter()
        with self.device.span(name):
            operation.run(self.device, [tensor.device for tensor in inputs], out.device)
        self.device_seconds += time.perf_counter() - start
        after = self.device.counters_later()
        with debug.silenced():
            operation.run(self.twin, [tensor.twin for tensor in inputs], out.twin)
        record = OpRecord(
            name=name,
            op=operation.op,
            where="NPU",
            shape=operation.size(shapes, out.shape),
            cycles=0,
            macs=macs,
            utilisation=None,
            bus=None,
            exact=self._same_activations(),
            error=truth.error(out.device.to_numpy()),
            bound=truth.bound,
        )
        self._unfinished.append((record, before, after))
        self._finish(wait=False)

    def finish(self) -> None:
        """Return when every operation has its record. Raises as `Device.wait`."""
        self._finish(wait=True)

    def _finish(self, *, wait: bool) -> None:
        while self._unfinished:
            record, earlier, later = self._unfinished[0]
            if not wait and not (earlier.known and later.known):
                return
            before, after = earlier.wait(), later.wait()
            self._unfinished.popleft()
            cycles = after["busy_cycles"] - before["busy_cycles"]
            beats = max(after[key] - before[key] for key in ("read_beats", "write_beats"))
            macs = record.macs
            record = replace(
                record,
                cycles=cycles,
                utilisation=macs / (cycles * array_size(self.device)) if cycles and macs else None,
                bus=beats / cycles if cycles else None,
            )
            self.records.append(record)
            if self._on_record is not None:
                self._on_record(record)

    def _same_activations(self) -> bool:
        """Compare activation memory, and make the twin's equal, so that each error counts once."""
        activation = self.device.capabilities.memory.activation
        used = [t.device for t in self._tensors if activation.contains(t.device.ptr)]
        start = min(tensor.ptr for tensor in used)
        end = max(tensor.ptr + tensor.nbytes for tensor in used)
        ours = self.device.backend.read_mem(start, end - start)
        if np.array_equal(ours, self.twin.backend.read_mem(start, end - start)):
            return True
        self.twin.backend.write_mem(start, ours)
        return False


def array_size(device: Device) -> int:
    """Return the number of processing elements of the device's matrix engine."""
    return device.capabilities.array_rows * device.capabilities.array_cols


def _bits(values: NDArray[Any]) -> NDArray[np.uint8]:
    return values.reshape(-1).view(np.uint8)
