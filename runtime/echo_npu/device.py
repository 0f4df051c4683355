"""The device as programs use it, the same for every backend."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Any, Final, Self, SupportsIndex

from echo_npu.backends.base import Backend, LaterCounters
from echo_npu.commands.integers import checked_integer
from echo_npu.driver.allocator import AllocatorStatistics
from echo_npu.driver.hardware import HardwareDriver
from echo_npu.driver.locking import locked
from echo_npu.driver.recorded_program import RecordedProgram
from echo_npu.driver.recording import record
from echo_npu.driver.status import KnownCounters, read_counters, read_status
from echo_npu.ops.methods import OpMethods
from echo_npu.spec.status import NpuStatus

_DEFAULT_RING_SLOTS: Final = 1024


class Device(OpMethods):
    """An open NPU. Use it as a context manager, or `close()` it.

    Every method may be called from any thread. Commands run asynchronously from `submit` to `wait`; copies
    between host and device, `memset` and the operations (`matmul`, `add`, `copy`) first wait for what was
    submitted before.

    Args:
        backend: the five primitives; the device closes it.
        config: the name of the hardware configuration, for people.
        ring_slots: length of the command ring, 4..65535; it takes 64 bytes a slot of activation memory on
            first use.

    Raises (any method):
        NpuDeviceError: the device is in state ERROR or enters it. `clear_error()` makes it usable again.
        SimulatorError: the simulator ended.
        DeviceClosedError: after `close()`, or in a forked child.
    """

    def __init__(self, backend: Backend, *, config: str = "", ring_slots: int = _DEFAULT_RING_SLOTS) -> None:
        super().__init__(HardwareDriver(backend, ring_slots))
        self.config = config

    # --- life -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.backend.abandon()
        self.close()

    def close(self) -> None:
        """Close the device and give everything back. Idempotent."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.backend.close()

    # --- control -------------------------------------------------------------------------------------------

    @locked
    def limit(self, *, watchdog_cycles: SupportsIndex = 0, protect_ring: bool = False) -> None:
        """Bound what later commands may do; `reset()` keeps the bounds, another call replaces them.

        Waits for what was submitted before.

        Args:
            watchdog_cycles: clock cycles that a command may take once it is the oldest under way, 0..2**32-1;
                0 is any number. One that takes longer ends in an NpuDeviceError with the code TIMEOUT.
                Programs that the device loads by itself, for an operation or in `reset()`, may take any time.
            protect_ring: refuse commands that would write to the command ring, with the code PROTECTED.

        Raises:
            TypeError, ValueError: naming the argument and its value.
            NpuRecordingError: inside a recording.
            NpuDeviceError, NpuTimeoutError: as `wait`, of what was submitted before.
            NpuOutOfMemoryError: there is no room for the ring that is to be protected.
        """
        cycles = checked_integer("watchdog_cycles", watchdog_cycles, 0, 2**32 - 1)
        self.driver.limit(cycles, protect_ring=protect_ring)

    @locked
    def clear_error(self) -> None:
        """Leave state ERROR: drop what was submitted, keep memory. Has no effect in another state."""
        self._hardware.clear_error()

    @locked
    def reset(self) -> None:
        """Reset the device: it becomes idle and its counters 0; memory and allocations stay.

        Programs that were recorded before cannot run after it.
        """
        self.driver.reset()

    def span(self, name: str) -> AbstractContextManager[None]:
        """Show what the device does inside the `with` block under one name in its timeline, if it has one."""
        timeline = self.backend.timeline
        return nullcontext() if timeline is None else timeline.span(name)

    # --- recording ------------------------------------------------------------------------------------------

    def record(self) -> AbstractContextManager[RecordedProgram]:
        """Record what is called inside the `with` block as a program that can be run many times.

            with npu.record() as program:
                x = program.input("x", (16, 64))
                y = program.output("y", npu.softmax(npu.matmul(x, weights)))
            y = program.run(x=array)["y"].to_numpy()

        Nothing runs inside the block: results are DeviceTensors that the first run fills, and calls that
        would bring data to the host are refused. Arrays of the host are constants, uploaded once.
        `docs/programs.md` has the rest.

        Raises:
            NpuRecordingError: a recording is under way on this device, or a call inside the block cannot be
                recorded.
        """
        return record(self)

    # --- facts ----------------------------------------------------------------------------------------------

    @locked
    def status(self) -> NpuStatus:
        """Return state, error code and cycle counter at one moment."""
        return read_status(self.backend)

    @locked
    def counters(self) -> dict[str, int]:
        """Return the performance counters by name (lower case), since reset or `clear_counters()`.

        In cycles: cycles, busy_cycles, matrix_busy, vector_busy, stall_read, stall_write, stall_bus; in bus
        beats: read_beats, write_beats, host_beats; and macs, commands. Cycles and beats are 0 on a backend
        without cycles.
        """
        return read_counters(self.backend)

    @locked
    def counters_later(self) -> LaterCounters:
        """Return what `counters()` would return now, but do not wait until it is known.

        Only rtlfarm knows it later: `known` says whether it does, `wait()` waits and returns it. The device
        must be idle.
        """
        return self.backend.counters_later() or KnownCounters(read_counters(self.backend))

    @locked
    def clear_counters(self) -> None:
        """Set every performance counter to 0."""
        self._hardware.clear_counters()

    @locked
    def memory_statistics(self) -> dict[str, AllocatorStatistics]:
        """Return the allocator's figures for each region."""
        self._free_dropped()
        return {name: allocator.statistics() for name, allocator in self._hardware.allocators.items()}

    @locked
    def info(self) -> dict[str, Any]:
        """Return backend, configuration, capabilities, memory regions and their use, as plain data."""
        return {
            "backend": self.backend.name,
            "description": self.backend.description,
            "has_cycles": self.backend.has_cycles,
            "config": self.config,
            "capabilities": {
                name: value for name, value in asdict(self.capabilities).items() if name != "memory"
            },
            "memory": {
                name: {
                    "base": self.capabilities.memory.regions[name].base,
                    "size": self.capabilities.memory.regions[name].size,
                    **asdict(figures),
                }
                for name, figures in self.memory_statistics().items()
            },
            **self.backend.info(),
        }
