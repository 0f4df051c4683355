"""Runs the operations of a layer on a device, and checks each twice.

Exact: the same packets are executed by the functional model on the same memory content, and afterwards the
activation memory of both, from the first buffer to the last, must be the same to the bit. So a stray write is
found as surely as a wrong result. Accurate: what a command wrote is within a stated bound of float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu import debug
from echo_npu.device import Device
from echo_npu.models.commands import Buffer, Command
from echo_npu.models.layer_types import F32, Truth
from echo_npu.models.records import OpRecord


class Executor:
    """Buffers, commands and host operations on `device`, mirrored on `twin`.

    Args:
        device: where the layer runs.
        twin: a cmodel device of its own; nothing else may use it. Its memory is kept equal to the device's.
        on_record: called after each operation, e.g. to move a progress bar.
        timeout_cycles: for each command; None: the device's default.
    """

    def __init__(
        self,
        device: Device,
        twin: Device,
        *,
        on_record: Callable[[OpRecord], None] | None = None,
        timeout_cycles: int | None = None,
    ) -> None:
        self.device = device
        self.twin = twin
        self.records: list[OpRecord] = []
        self.device_seconds = 0.0
        self._on_record = on_record
        self._timeout = timeout_cycles
        self._buffers: list[Buffer] = []
        self._expected_weights: dict[int, F32] = {}

    # --- memory ---------------------------------------------------------------------------------------------

    def buffer(self, name: str, region: str, elements: int) -> Buffer:
        """A new allocation of `elements` float32 values; NpuOutOfMemoryError if there is no room."""
        made = Buffer(name, region, self.device.malloc(4 * elements, region=region), elements)
        self._buffers.append(made)
        return made

    def release(self) -> None:
        """Free every buffer."""
        while self._buffers:
            self.device.free(self._buffers.pop().address)

    def upload(self, buffer: Buffer, values: F32) -> None:
        """Write all of `buffer`, on both devices."""
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        if flat.size != buffer.elements:
            raise ValueError(f"{buffer.name} has {buffer.elements} elements, got {flat.size}")
        if buffer.region == "weight":
            self._expected_weights[buffer.address] = flat
        for device in (self.device, self.twin):
            _write(device, buffer.address, flat.view(np.uint8))

    def download(self, buffer: Buffer) -> F32:
        """All of `buffer`, flat, from the device."""
        return _read(self.device, buffer.address, buffer.nbytes).view(np.float32)

    def weights_exact(self) -> bool:
        """Whether every uploaded weight is still in device memory, bit for bit."""
        return all(
            np.array_equal(_read(self.device, address, values.nbytes), values.view(np.uint8))
            for address, values in self._expected_weights.items()
        )

    # --- operations -----------------------------------------------------------------------------------------

    def command(self, name: str, command: Command) -> OpRecord:
        """Run one command on the device and on the functional model, and compare.

        Raises:
            NpuDeviceError, NpuTimeoutError, SimulatorError: the device refused, hung or died.
        """
        truth = command.truth(self._intended)
        packets = command.packets()
        debug.npu(f"{command.op} {command.shape} ({name})")
        before = self.device.counters()
        start = time.perf_counter()
        _execute(self.device, packets, self._timeout)
        self.device_seconds += time.perf_counter() - start
        after = self.device.counters()
        _execute(self.twin, packets, None)
        cycles = after["busy_cycles"] - before["busy_cycles"]
        beats = max(after[key] - before[key] for key in ("read_beats", "write_beats"))
        lanes = array_size(self.device)
        return self._record(
            OpRecord(
                name=name,
                op=command.op,
                where="NPU",
                shape=command.shape,
                cycles=cycles,
                macs=command.macs,
                utilisation=command.macs / (cycles * lanes) if cycles and command.macs else None,
                bus=beats / cycles if cycles else None,
                exact=self._same_activations(),
                error=truth.error(command.result(self.download)),
                bound=truth.bound,
            )
        )

    def host(self, name: str, op: str, shape: str, target: Buffer, result: F32, truth: Truth) -> OpRecord:
        """Store what the host computed into `target`, and check it."""
        debug.cpu(f"{op} {shape} ({name})")
        self.upload(target, result)
        return self._record(
            OpRecord(name=name, op=op, where="CPU", shape=shape, error=truth.error(result), bound=truth.bound)
        )

    def _record(self, record: OpRecord) -> OpRecord:
        self.records.append(record)
        if self._on_record is not None:
            self._on_record(record)
        return record

    def _intended(self, buffer: Buffer) -> F32:
        """What a command should find: weights as they were uploaded, activations as the device has them."""
        if buffer.region == "weight":
            return self._expected_weights[buffer.address]
        return self.download(buffer)

    def _same_activations(self) -> bool:
        """Compare, and make equal again, so that each command answers for itself."""
        used = [buffer for buffer in self._buffers if buffer.region == "activation"]
        start = min(buffer.address for buffer in used)
        nbytes = max(buffer.address + buffer.nbytes for buffer in used) - start
        ours, theirs = _read(self.device, start, nbytes), _read(self.twin, start, nbytes)
        if np.array_equal(ours, theirs):
            return True
        _write(self.twin, start, ours)
        return False


def array_size(device: Device) -> int:
    """Processing elements of the device's matrix engine."""
    return device.capabilities.array_rows * device.capabilities.array_cols


def _execute(device: Device, packets: Any, timeout: int | None) -> None:
    device.submit(packets)
    device.wait(timeout_cycles=timeout)


def _read(device: Device, address: int, nbytes: int) -> NDArray[np.uint8]:
    return device.backend.read_mem(address, nbytes)


def _write(device: Device, address: int, data: NDArray[np.uint8]) -> None:
    device.backend.write_mem(address, data)
