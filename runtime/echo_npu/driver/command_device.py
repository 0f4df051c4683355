"""The part of a device that operations are made of: memory, copies, tensors, commands, vector programs."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from echo_npu import debug
from echo_npu.commands.builders import gather_command, memcpy_command
from echo_npu.commands.command import Command, Submission, as_commands
from echo_npu.commands.integers import integer
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.driver.base import DeviceDriver
from echo_npu.driver.hardware import HardwareDriver
from echo_npu.driver.locking import Locked, locked
from echo_npu.driver.transfer import HostBuffer, MemcpyKind, device_address, host_bytes, resolve_kind
from echo_npu.errors import NpuPointerError, NpuRecordingError
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.program import Program


class CommandDevice(Locked, ABC):
    """The part of a device that the operations use; `Device` inherits it.

    Attributes:
        backend: the five primitives.
        capabilities: what the device can do.
        driver: carries out the methods: the hardware's driver, or the recording's while one is under way.
    """

    def __init__(self, hardware: HardwareDriver) -> None:
        super().__init__()
        self.backend = hardware.backend
        self.capabilities = hardware.capabilities
        self.driver: DeviceDriver = hardware
        self._hardware = hardware
        # Calls that finalizers ask for, each with an address. Finalizers run on any thread.
        self._dropped: deque[tuple[Callable[[int], None], int]] = deque()

    @property
    def hardware(self) -> HardwareDriver:
        """The driver of the hardware, also while a recording's driver stands in for it."""
        return self._hardware

    @contextmanager
    def driven_by(self, make_driver: Callable[[HardwareDriver], DeviceDriver]) -> Iterator[None]:
        """Use another driver until the `with` block ends; NpuRecordingError if one is in use already.

        Args:
            make_driver: makes that driver, after everything submitted is finished.
        """
        with self.held():
            if self.driver is not self._hardware:
                raise NpuRecordingError("a recording is under way on this device; one cannot hold another")
            self._free_dropped()
            self._hardware.settle()
            self.driver = make_driver(self._hardware)
        try:
            yield
        finally:
            self.driver = self._hardware

    def _check_usable(self) -> None:
        super()._check_usable()
        self.driver.check_thread()

    # --- memory ---------------------------------------------------------------------------------------------

    @locked
    def malloc(self, nbytes: SupportsIndex, region: str = "activation") -> int:
        """Return the physical address of a new block, a multiple of 64 and never 0.

        Args:
            nbytes: at least 1.
            region: "activation" or "weight".

        Raises:
            NpuOutOfMemoryError: the region has no free block of that size.
            ValueError, TypeError: a wrong size or region name.
        """
        self._free_dropped()
        name = self._hardware.memory.region(region).name
        return self.driver.malloc(name, integer("nbytes", nbytes))

    @locked
    def free(self, ptr: SupportsIndex) -> None:
        """Give a block back; NpuPointerError unless `ptr` came from `malloc` and is not free yet.

        TypeError: `ptr` is no integer.
        """
        self._free_dropped()
        self.driver.free(integer("ptr", ptr))

    def free_later(self, address: int) -> None:
        """Free a block with the next allocation, for the finalizer of a tensor on any thread."""
        self._dropped.append((lambda block: self.driver.free(block), address))

    def release_later(self, addresses: Sequence[int]) -> None:
        """Release blocks that a recorded program retained, for its finalizer on any thread."""
        self._dropped.extend((self._hardware.release, address) for address in addresses)

    def _free_dropped(self) -> None:
        while self._dropped:
            give_back, address = self._dropped.popleft()
            give_back(address)

    def memcpy(
        self,
        dst: SupportsIndex | DeviceTensor | HostBuffer,
        src: SupportsIndex | DeviceTensor | HostBuffer,
        nbytes: SupportsIndex,
        kind: MemcpyKind = MemcpyKind.DEFAULT,
    ) -> None:
        """Copy `nbytes` bytes, after everything submitted before; return when they have arrived.

        An integer or a DeviceTensor is a device end, a C-contiguous numpy array or a bytes-like object a host
        end. Between two device ends the NPU copies; where one of them is a tensor of another device, the
        bytes go through the host.

        Raises:
            NpuRecordingError: a tensor of another device inside a recording.
            TypeError: an end is neither, is written but read-only, or contradicts `kind`; `nbytes` is no
                integer.
            ValueError: a host end with fewer bytes.
            NpuPointerError: a device range that is not inside one memory region.
        """
        count = integer("nbytes", nbytes)
        if count < 0:
            raise ValueError(f"nbytes is {count}; it must not be negative")
        found = resolve_kind(dst, src, kind)
        source, target = (end.device if isinstance(end, DeviceTensor) else self for end in (src, dst))
        if source is self and target is self:
            self._copy(dst, src, count, found)
            return
        if self.driver is not self._hardware:
            raise NpuRecordingError("a copy from or to another device inside a recording")
        # One device after the other: to hold both could wait for a copy in the other direction for ever.
        staged = src
        if found in (MemcpyKind.DEVICE_TO_HOST, MemcpyKind.DEVICE_TO_DEVICE):
            staged = np.empty(count, np.uint8)
            source.memcpy(staged, src, count)
        target.memcpy(dst, staged, count)

    @locked
    def _copy(
        self,
        dst: SupportsIndex | DeviceTensor | HostBuffer,
        src: SupportsIndex | DeviceTensor | HostBuffer,
        count: int,
        found: MemcpyKind,
    ) -> None:
        """Copy between ends that are the host or this device."""
        debug.copy(f"{found.name.lower()} {count} bytes")
        to_device = found in (MemcpyKind.HOST_TO_DEVICE, MemcpyKind.DEVICE_TO_DEVICE)
        from_device = found in (MemcpyKind.DEVICE_TO_HOST, MemcpyKind.DEVICE_TO_DEVICE)
        target = (
            self._device_range("dst", dst, count)
            if to_device
            else host_bytes("dst", dst, count, writable=True)
        )
        source = (
            self._device_range("src", src, count)
            if from_device
            else host_bytes("src", src, count, writable=False)
        )
        if count == 0:
            return
        if isinstance(target, int):
            if isinstance(source, int):
                self.driver.settle()
                self.execute(memcpy_command(source, target, count))
            else:
                self.driver.write(target, source)
        elif isinstance(source, int):
            target[...] = self.driver.read(source, count)
        else:
            self.driver.settle()
            np.copyto(target, source)

    def _device_range(self, name: str, end: Any, nbytes: int) -> int:
        address = device_address(name, end, nbytes)
        if self._hardware.memory.region_of(address, nbytes) is None:
            raise NpuPointerError(
                f"{name}: [0x{address:08x}, 0x{address + nbytes:08x}) is not inside one region of memory"
            )
        return address

    @locked
    def check_peer_range(self, name: str, address: int, nbytes: int) -> None:
        """Check one end of a copy between two devices, before a byte moves.

        Args:
            name: of the end, for the message.

        Raises:
            NpuRecordingError: inside a recording.
            NpuPointerError: a range that is not inside one memory region.
        """
        if self.driver is not self._hardware:
            raise NpuRecordingError("a copy from or to another device inside a recording")
        self._device_range(name, address, nbytes)

    @locked
    def memset(self, ptr: SupportsIndex, value: SupportsIndex, nbytes: SupportsIndex) -> None:
        """Set `nbytes` bytes to `value`, after everything submitted before.

        Raises:
            TypeError: an argument that is no integer.
            ValueError: a value outside of 0..255, or a negative number of bytes.
            NpuPointerError: a range that is not inside one memory region.
        """
        count, byte = integer("nbytes", nbytes), integer("value", value)
        if not 0 <= byte <= 255:
            raise ValueError(f"value is {byte}; a byte lies in 0..255")
        if count < 0:
            raise ValueError(f"nbytes is {count}; it must not be negative")
        address = self._device_range("ptr", integer("ptr", ptr), count)
        debug.copy(f"memset {count} bytes")
        if count:
            self.driver.write(address, np.full(count, byte, dtype=np.uint8))

    # --- tensors --------------------------------------------------------------------------------------------

    def empty(
        self, shape: int | Sequence[int], dtype: DTypeLike = np.float32, *, region: str = "activation"
    ) -> DeviceTensor:
        """Return a new contiguous tensor on the device, its content undefined; freed when nothing refers to
        it."""
        return DeviceTensor.allocate(self, shape, np.dtype(dtype), region)

    def tensor(self, values: Any, *, region: str = "activation") -> DeviceTensor:
        """Return a new tensor on the device with the shape, dtype and content of a numpy array."""
        given = np.asarray(values)
        with self.driver.constants():
            made = self.empty(given.shape, given.dtype, region=region)  # first: it may not fit
        array = np.ascontiguousarray(given).reshape(given.shape)
        self.memcpy(made, array, array.nbytes, MemcpyKind.HOST_TO_DEVICE)
        return made

    @abstractmethod
    def copy(self, src: Any, *, out: DeviceTensor | None = None) -> Any:
        """Return a copy of an array or tensor, made by the device: `echo_npu.ops.copy.copy`."""

    # --- commands -------------------------------------------------------------------------------------------

    @locked
    def submit(self, commands: Submission) -> None:
        """Submit a command or a packet, or several in order, through the command window; do not wait.

        The extensions of a packet with the EXT flag (one, of VECTOR three) follow it in the sequence.

        Raises:
            NpuDeviceError: the device already is in state ERROR.
            TypeError, ValueError: something that is no packet.
        """
        self.driver.submit(_logged(as_commands(commands)))

    @locked
    def submit_batch(self, commands: Submission) -> None:
        """Submit any number of commands or packets in order through the ring, with one doorbell for a full
        ring.

        Waits only for room in the ring.

        Raises: as `submit`, and NpuOutOfMemoryError on first use if there is no room for the ring.
        """
        self.driver.submit_batch(_logged(as_commands(commands)))

    @locked
    def execute(self, commands: Submission, timeout_cycles: int | None = None) -> None:
        """Submit and wait; a sequence longer than the command queue goes through the ring."""
        listed = _logged(as_commands(commands))
        if sum(len(each.slots) for each in listed) > self.capabilities.queue_depth:
            self.driver.submit_batch(listed)
        else:
            self.driver.submit(listed)
        self._wait(timeout_cycles)

    @locked
    def wait(self, timeout_cycles: int | None = None) -> None:
        """Let the device run until everything submitted is finished.

        Args:
            timeout_cycles: the most cycles (of the device's clock) to wait. None: while the device makes
                progress.

        Raises:
            NpuDeviceError: the device stopped in state ERROR.
            NpuTimeoutError: not finished in time. The device is still running: `wait()` again or `reset()`.
            RtlMismatchError, SimulatorError: rtlfarm has checked everything by then, and found this.
            ValueError: a negative number of cycles.
        """
        self._wait(timeout_cycles)
        self.backend.settle()

    @locked
    def finish(self, timeout_cycles: int | None = None) -> None:
        """Do as `wait`, but on rtlfarm return as soon as the results are known, before they are checked."""
        self._wait(timeout_cycles)

    def _wait(self, timeout_cycles: int | None) -> None:
        if timeout_cycles is not None and timeout_cycles < 0:
            raise ValueError(f"timeout_cycles is {timeout_cycles}; it must not be negative")
        self.driver.wait(timeout_cycles)

    @locked
    def gather(
        self, table: int, indices: int, dst: int, *, rows: int, row_bytes: int, table_rows: int
    ) -> None:
        """Copy row `indices[i]` of a table to row i of dst, and wait. See `builders.gather_command`."""
        debug.npu(f"GATHER {rows} of {table_rows} rows of {row_bytes} bytes")
        self.execute(gather_command(table, indices, dst, rows, row_bytes, table_rows))

    # --- vector programs ------------------------------------------------------------------------------------

    def load_program(self, program: Program) -> int:
        """Return the entry of `program` in program memory; load it if it is not there.

        The entry is valid until the next submission.

        Raises:
            NpuProgramMemoryError: it does not fit, together with those asked for since the last submission.
            TypeError: it is no Program.
        """
        return self.load_programs([program])[0]

    @locked
    def load_programs(self, programs: Sequence[Program]) -> list[int]:
        """Do as `load_program` for several programs, with as few commands as possible."""
        for program in programs:
            if not isinstance(program, Program):
                raise TypeError(f"program must be a Program, got {program!r} ({type(program).__name__})")
        return self.driver.entries(programs)

    @locked
    def vector(
        self,
        program: Program,
        *,
        rows: int,
        cols: int,
        inputs: Sequence[Stream | None] = (),
        output: Stream,
        params: Sequence[float | np.floating[Any] | np.integer[Any]] = (),
        repeats: int = 1,
        batch: Sequence[int] = (1, 1),
        indices: RowIndices | None = None,
    ) -> None:
        """Run a vector program once for each row of each batch, and wait for it.

        The arguments are those of `echo_npu.commands.vector_command.vector_command`.

        Raises:
            TypeError, ValueError: an argument that no command can have, with its name and value.
            NpuProgramMemoryError: the program is larger than program memory.
        """
        entry = self.load_program(program)
        command = vector_command(
            entry,
            rows=rows,
            cols=cols,
            inputs=inputs,
            output=output,
            params=params,
            repeats=repeats,
            batch=batch,
            passes=program.passes,
            indices=indices,
        )
        debug.npu(f"VECTOR {program.name} rows={rows} cols={cols}")
        self.execute(command.command())


def _logged(commands: list[Command]) -> list[Command]:
    """Return the same commands, after printing them if the debug level asks for it."""
    if debug.level() >= 3:
        for command in commands:
            debug.packet(f"submit {command}")
    return commands
