"""The device as programs use it, the same for every backend: memory, copies, commands, results."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from types import TracebackType
from typing import Any, Final, Self, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu import debug
from echo_npu import registers as regs
from echo_npu.allocator import AllocatorStatistics, RegionAllocator
from echo_npu.backends.base import Backend, ReadReg, WaitIrq, WriteReg
from echo_npu.capabilities import Capabilities, read_capabilities
from echo_npu.errors import (
    NpuDeviceError,
    NpuPointerError,
    NpuProgramMemoryError,
    NpuRecordingError,
    NpuTimeoutError,
)
from echo_npu.locking import locked
from echo_npu.memory_map import MEMORY_REGIONS, memory_region, region_of
from echo_npu.ops.methods import OpMethods
from echo_npu.packets import (
    PACKET_BYTES,
    ExtensionPacket,
    NpuCommandPacket,
    Packet,
    gather_packets,
    load_program_packets,
    memcpy_packets,
    packet_bytes,
)
from echo_npu.queues import Ring, WindowQueue, state_of
from echo_npu.recorded_program import RecordedProgram
from echo_npu.recording import Recorder, record
from echo_npu.status import NpuStatus, State
from echo_npu.tensor import DeviceTensor
from echo_npu.transfer import HostBuffer, MemcpyKind, device_address, host_bytes, resolve_kind
from echo_npu.vector.command import Stream, vector_command
from echo_npu.vector.kernels.library import kernel_library
from echo_npu.vector.library import ProgramLibrary, Run
from echo_npu.vector.program import Program

NO_PROGRESS_CYCLES: Final = 1_000_000
"""`wait()` without a time-out gives up when nothing moved for this many cycles."""

_DEFAULT_RING_SLOTS: Final = 1024
_IRQ_BITS: Final = regs.IRQ_STATUS_DONE.mask | regs.IRQ_STATUS_ERROR.mask
_POLLS: Final = 10_000


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
        NpuDeviceError: the device is, or comes to be, in state ERROR. `clear_error()` makes it usable again.
        SimulatorError: the simulator ended.
        DeviceClosedError: after `close()`, or in a forked child.
    """

    def __init__(self, backend: Backend, *, config: str = "", ring_slots: int = _DEFAULT_RING_SLOTS) -> None:
        super().__init__()
        self.backend = backend
        self.config = config
        self.capabilities: Capabilities = read_capabilities(backend)
        if not 4 <= ring_slots <= self.capabilities.ring_max_slots:
            raise ValueError(
                f"ring_slots is {ring_slots}; it must lie in 4..{self.capabilities.ring_max_slots}"
            )
        self._ring_slots = ring_slots
        self._allocators = {name: RegionAllocator(region) for name, region in MEMORY_REGIONS.items()}
        # What finalizers, which run on any thread, want done with an address.
        self._dropped: deque[tuple[Callable[[int], None], int]] = deque()
        self._recorder: Recorder | None = None
        self._epoch = 0
        self._window = WindowQueue(backend, self.capabilities.queue_depth, self.wait)
        self._ring: Ring | None = None
        self._pending: WindowQueue | Ring | None = None  # where the unfinished commands went
        self._library = ProgramLibrary(self.capabilities.program_words, self._load_run)
        self._prepare()
        self._load_library()
        backend.ready()

    def _prepare(self) -> None:
        self.backend.run([WriteReg(regs.IRQ_STATUS, 0x7), WriteReg(regs.IRQ_ENABLE, _IRQ_BITS)])

    def _load_library(self) -> None:
        """Fill program memory with the kernel library, as far as it has room. Leaves the device IDLE."""
        room = self.capabilities.program_words
        chosen: list[Program] = []
        for program in kernel_library():
            room -= len(program)
            if room < 0:
                break
            chosen.append(program)
        if chosen:
            self.load_programs(chosen)
            self._library.submitted()
            self._soft_reset()

    def _soft_reset(self) -> None:
        self._control(regs.CONTROL_SOFT_RESET.mask)
        self._prepare()
        self._forget(reset=True)

    # --- life -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the device and give everything back. Calling it again is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self.backend.close()

    # --- memory ---------------------------------------------------------------------------------------------

    @locked
    def malloc(self, nbytes: SupportsIndex, region: str = "activation") -> int:
        """The physical address of a new block, a multiple of 64 and never 0.

        Args:
            nbytes: at least 1.
            region: "activation" or "weight".

        Raises:
            NpuOutOfMemoryError: the region has no free block of that size.
            ValueError, TypeError: a wrong size or region name.
        """
        self._free_dropped()
        name = memory_region(region).name
        if isinstance(nbytes, bool) or not isinstance(nbytes, SupportsIndex):
            raise TypeError(f"nbytes must be an integer, got {nbytes!r} ({type(nbytes).__name__})")
        if self._recorder is not None:
            return self._recorder.memory.malloc(name, nbytes.__index__())
        return self._allocators[name].malloc(nbytes.__index__())

    @locked
    def free(self, ptr: SupportsIndex) -> None:
        """Give a block back; NpuPointerError unless `ptr` came from `malloc` and is not free yet."""
        self._free_dropped()
        self._free(ptr.__index__())

    def _free(self, address: int) -> None:
        region = region_of(address)
        if region is None:
            raise NpuPointerError(f"pointer 0x{address:08x} is not in device memory")
        self._allocators[region.name].free(address)
        if self._recorder is not None:
            self._recorder.memory.freed(address)

    def _drop(self, address: int) -> None:
        """Free later: called by the finalizer of a tensor, on whatever thread that runs."""
        self._dropped.append((self._free, address))

    def release_later(self, addresses: Sequence[int]) -> None:
        """Release blocks that a recorded program retained: called by its finalizer, on whatever thread."""
        self._dropped.extend((self._release, address) for address in addresses)

    def _release(self, address: int) -> None:
        region = region_of(address)
        assert region is not None
        self._allocators[region.name].release(address)

    def _free_dropped(self) -> None:
        while self._dropped:
            give_back, address = self._dropped.popleft()
            give_back(address)

    @locked
    def memory_statistics(self) -> dict[str, AllocatorStatistics]:
        """The allocator's figures for each region."""
        self._free_dropped()
        return {name: allocator.statistics() for name, allocator in self._allocators.items()}

    @locked
    def memcpy(
        self,
        dst: SupportsIndex | DeviceTensor | HostBuffer,
        src: SupportsIndex | DeviceTensor | HostBuffer,
        nbytes: SupportsIndex,
        kind: MemcpyKind = MemcpyKind.DEFAULT,
    ) -> None:
        """Copy `nbytes` bytes after everything submitted before; they have arrived when it returns.

        An integer or a DeviceTensor is a device end, a C-contiguous numpy array or a bytes-like object a host
        end. Between two device ends the NPU copies.

        Raises:
            TypeError: an end that is neither, read-only where it is written, or `kind` contradicts the ends.
            ValueError: a host end with fewer bytes.
            NpuPointerError: a device range that is not inside one memory region.
        """
        count = nbytes.__index__()
        if count < 0:
            raise ValueError(f"nbytes is {count}; it must not be negative")
        found = resolve_kind(dst, src, kind)
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
        self._settle()
        if isinstance(target, int):
            if isinstance(source, int):
                self.execute(memcpy_packets(source, target, count))
            else:
                self._write(target, source)
        elif isinstance(source, int):
            if self._recorder is not None:
                raise NpuRecordingError(
                    f"{count} bytes of device memory are read inside a recording, where nothing runs: pass "
                    "DeviceTensors to the operations, and read their results after a run"
                )
            target[...] = self.backend.read_mem(source, count)
        else:
            np.copyto(target, source)

    def _write(self, address: int, data: NDArray[np.uint8]) -> None:
        if self._recorder is not None:
            self._recorder.upload(address, data)
        else:
            self.backend.write_mem(address, data)

    def _device_range(self, name: str, end: Any, nbytes: int) -> int:
        address = device_address(name, end, nbytes)
        if region_of(address, nbytes) is None:
            raise NpuPointerError(
                f"{name}: [0x{address:08x}, 0x{address + nbytes:08x}) is not inside one region of memory"
            )
        return address

    @locked
    def memset(self, ptr: SupportsIndex, value: int, nbytes: SupportsIndex) -> None:
        """Set `nbytes` bytes to `value` (0..255) after everything submitted before."""
        count = nbytes.__index__()
        if not 0 <= value <= 255:
            raise ValueError(f"value is {value}; a byte lies in 0..255")
        if count < 0:
            raise ValueError(f"nbytes is {count}; it must not be negative")
        address = self._device_range("ptr", ptr, count)
        debug.copy(f"memset {count} bytes")
        self._settle()
        if count:
            self._write(address, np.full(count, value, dtype=np.uint8))

    # --- commands -------------------------------------------------------------------------------------------

    @locked
    def submit(self, packets: Packet | Sequence[Packet]) -> None:
        """Submit one packet, or several in order, through the command window. Does not wait for them.

        A command with the EXT flag is submitted together with its extension: `[command, extension]`.

        Raises:
            NpuDeviceError: the device already is in state ERROR.
            TypeError, ValueError: something that is no packet.
        """
        self._submit(self._window, self._slots(packets))

    @locked
    def submit_batch(self, packets: Sequence[Packet]) -> None:
        """Submit any number of packets in order through the ring, one doorbell for each ring full.

        Does not wait for them, except where they do not fit the ring.

        Raises: as `submit`, and NpuOutOfMemoryError on first use if there is no room for the ring.
        """
        if self._ring is None and self._recorder is None:
            # At the top, out of the way of a program that places its data by hand.
            base = self._allocators["activation"].malloc(self._ring_slots * PACKET_BYTES, from_top=True)
            self._ring = Ring(self.backend, base, self._ring_slots, self.wait)
        self._submit(self._ring or self._window, self._slots(packets))

    @staticmethod
    def _slots(packets: Packet | Sequence[Packet]) -> list[bytes]:
        one = isinstance(packets, (NpuCommandPacket, ExtensionPacket, bytes))
        each: Sequence[Packet] = [packets] if one else packets  # type: ignore[list-item,assignment]
        slots = [packet_bytes(packet) for packet in each]
        if debug.level() >= 3:
            for packet in each:
                debug.packet(f"submit {packet.hex() if isinstance(packet, bytes) else packet}")
        return slots

    def _submit(self, queue: WindowQueue | Ring, slots: list[bytes]) -> None:
        if not slots:
            return
        if self._recorder is not None:
            self._recorder.capture(slots)
            return
        if self._pending not in (None, queue):
            self.wait()  # the order between window and ring is not defined
        (status,) = self.backend.run([ReadReg(regs.STATUS)])
        if state_of(status) == State.ERROR:
            raise self._device_error()
        self._pending = queue
        queue.submit(slots)
        self._library.submitted()

    @locked
    def execute(self, packets: Packet | Sequence[Packet], timeout_cycles: int | None = None) -> None:
        """`submit` and `wait`; a sequence longer than the command queue goes through the ring."""
        slots = self._slots(packets)
        if len(slots) > self.capabilities.queue_depth:
            self.submit_batch(slots)
        else:
            self._submit(self._window, slots)
        self.wait(timeout_cycles)

    # --- vector programs ------------------------------------------------------------------------------------

    def load_program(self, program: Program) -> int:
        """The entry of `program` in program memory, into which it is loaded if it is not there.

        The entry is good until the next submission: ask again for the next command.

        Raises:
            NpuProgramMemoryError: it does not fit, together with those asked for since the last submission.
        """
        return self.load_programs([program])[0]

    @locked
    def load_programs(self, programs: Sequence[Program]) -> list[int]:
        """The entries of several programs, loaded with as few commands as possible. As `load_program`."""
        if self._recorder is not None:
            return self._recorder.entries(programs)
        return self._library.entries(programs)

    @locked
    def load_programs_for_run(self, programs: Sequence[Program]) -> list[int]:
        """`load_programs` for a submission that needs no other ones: everything else may leave."""
        try:
            return self._library.entries(programs)
        except NpuProgramMemoryError:
            self._library.forget()
            return self._library.entries(programs)

    @locked
    def forget_programs(self) -> None:
        """What was submitted writes program memory itself: nothing is known to be loaded any more."""
        self._library.forget()

    def _load_run(self, run: Run) -> None:
        at, programs = run
        code = np.frombuffer(b"".join(program.code for program in programs), dtype=np.uint8)
        words = code.size // 8
        debug.npu(f"LOAD_PROGRAM {', '.join(program.name for program in programs)}: {words} words at {at}")
        if self.backend.timeline is not None:
            self.backend.timeline.describe(programs)
        staging = self._allocators["weight"].malloc(code.size, from_top=True)
        try:
            self.memcpy(staging, code, code.size)
            self.execute(load_program_packets(staging, words, at))
        finally:
            self._free(staging)

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
    ) -> None:
        """Run a vector program once for each row of each batch, and wait for it.

        The arguments are those of `echo_npu.vector.command.vector_command`.

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
        )
        debug.npu(f"VECTOR {program.name} rows={rows} cols={cols}")
        self.execute(command.packets())

    @locked
    def gather(
        self, table: int, indices: int, dst: int, *, rows: int, row_bytes: int, table_rows: int
    ) -> None:
        """Row `indices[i]` of a table to row i of dst, and wait for it. See `packets.gather_packets`."""
        debug.npu(f"GATHER {rows} of {table_rows} rows of {row_bytes} bytes")
        self.execute(gather_packets(table, indices, dst, rows, row_bytes, table_rows))

    @locked
    def wait(self, timeout_cycles: int | None = None) -> None:
        """Let the device run until everything submitted is finished.

        Args:
            timeout_cycles: at most so many cycles (of the device's clock) from now. None: as long as
                something moves.

        Raises:
            NpuDeviceError: the device stopped in state ERROR.
            NpuTimeoutError: not finished in time; the device is still running, `wait()` or `reset()` it.
        """
        if timeout_cycles is not None and timeout_cycles < 0:
            raise ValueError(f"timeout_cycles is {timeout_cycles}; it must not be negative")
        if self._recorder is not None:
            return
        if self._pending is None:
            (status,) = self.backend.run([ReadReg(regs.STATUS)])
            if state_of(status) != State.BUSY:
                self._finish(state_of(status))
                return
        waited = 0
        progress: list[int] = []
        while True:
            step = NO_PROGRESS_CYCLES if timeout_cycles is None else timeout_cycles - waited
            step = min(step, NO_PROGRESS_CYCLES)
            # The interrupt may be an old one: it is cleared first, and the state read after that decides.
            irq, _, status = self.backend.run(
                [WaitIrq(step), WriteReg(regs.IRQ_STATUS, _IRQ_BITS), ReadReg(regs.STATUS)]
            )
            state = state_of(status)
            if state != State.BUSY:
                self._finish(state)
                return
            if irq:
                continue
            waited += step
            before, progress = progress, self._progress()
            if waited >= timeout_cycles if timeout_cycles is not None else progress == before:
                raise NpuTimeoutError(waited, self.status(), self.counters(), self.backend.waves_hint)

    def _finish(self, state: State) -> None:
        self._pending = None
        if state == State.ERROR:
            raise self._device_error()

    def _progress(self) -> list[int]:
        offsets = (regs.RETIRED, regs.MACS, regs.READ_BEATS, regs.WRITE_BEATS)
        return self.backend.run([ReadReg(offset) for offset in offsets])

    def _settle(self) -> None:
        if self._pending is not None:
            self.wait()

    def _device_error(self) -> NpuDeviceError:
        offsets = (regs.ERROR_CODE, regs.ERROR_INDEX, regs.ERROR_ADDR, regs.ERROR_ADDR + 4)
        code, index, low, high = self.backend.run([ReadReg(offset) for offset in offsets])
        return NpuDeviceError(code, index, high << 32 | low)

    @locked
    def clear_error(self) -> None:
        """Leave state ERROR: what was submitted is dropped, memory stays. Harmless in another state."""
        keep = regs.CONTROL_RING_ENABLE.mask if self._ring is not None and self._ring.enabled else 0
        (status,) = self.backend.run([ReadReg(regs.STATUS)])
        if state_of(status) != State.ERROR:
            return
        self._control(regs.CONTROL_CLEAR_ERROR.mask | keep)
        self._forget(reset=False)

    @locked
    def reset(self) -> None:
        """Soft reset: the device is idle, its counters are 0; memory and allocations stay.

        Programs that were recorded before cannot run any more.
        """
        if self._recorder is not None:
            raise NpuRecordingError("the device cannot be reset inside a recording")
        self._epoch += 1
        self._soft_reset()
        self._library.forget()
        self._load_library()

    def _control(self, value: int) -> None:
        """Write CONTROL and let the device come to rest."""
        self.backend.run([WriteReg(regs.CONTROL, value)])
        for _ in range(_POLLS):
            (status,) = self.backend.run([ReadReg(regs.STATUS)])
            if state_of(status) == State.IDLE:
                self.backend.run([WriteReg(regs.IRQ_STATUS, 0x7)])
                return
        raise NpuTimeoutError(0, self.status(), self.counters(), self.backend.waves_hint)

    def _forget(self, *, reset: bool) -> None:
        self._pending = None
        self._window.forget()
        if self._ring is not None:
            self._ring.forget(reset=reset)

    def span(self, name: str) -> AbstractContextManager[None]:
        """Show what the device does inside the `with` block under one name in its timeline, if it has one."""
        timeline = self.backend.timeline
        return nullcontext() if timeline is None else timeline.span(name)

    # --- recording ------------------------------------------------------------------------------------------

    def record(self) -> AbstractContextManager[RecordedProgram]:
        """Capture what is called inside the `with` block, as a program that can be run again and again.

            with npu.record() as program:
                x = program.input("x", (16, 64))
                y = program.output("y", npu.softmax(npu.matmul(x, weights)))
            y = program.run(x=array)["y"].to_numpy()

        Inside the block nothing runs: results are DeviceTensors that the first run fills, and calls that
        would bring data to the host are refused. Arrays of the host are constants, uploaded once.
        Outside, `docs/programs.md` has the rest.

        Raises:
            NpuRecordingError: on this device a recording is under way; inside the block, what cannot be
                recorded.
        """
        return record(self, self._allocators)

    @contextmanager
    def recording(self, recorder: Recorder) -> Iterator[None]:
        """Hand everything over to `recorder` until the block ends."""
        with self.held():
            if self._recorder is not None:
                raise NpuRecordingError("a recording is under way on this device; one cannot hold another")
            self._free_dropped()
            self._settle()
            self._recorder = recorder
        try:
            yield
        finally:
            self._recorder = None

    def _check_usable(self) -> None:
        super()._check_usable()
        if self._recorder is not None and self._recorder.thread != threading.get_ident():
            raise NpuRecordingError("another thread is recording on this device")

    @property
    def epoch(self) -> int:
        """How often the device was reset since it was opened."""
        return self._epoch

    # --- facts ----------------------------------------------------------------------------------------------

    @locked
    def status(self) -> NpuStatus:
        """State, error code and cycle counter, at one moment."""
        offsets = (regs.STATUS, regs.ERROR_CODE, regs.CYCLES, regs.CYCLES + 4)
        status, code, low, high = self.backend.run([ReadReg(offset) for offset in offsets])
        return NpuStatus(state_of(status), code, high << 32 | low)

    @locked
    def counters(self) -> dict[str, int]:
        """The performance counters by name (lower case), since reset or `clear_counters()`.

        In cycles: cycles, busy_cycles, matrix_busy, vector_busy, stall_read, stall_write, stall_bus; in bus
        beats: read_beats, write_beats, host_beats; and macs, commands. Cycles and beats are 0 on a backend
        without cycles.
        """
        offsets = [getattr(regs, name) + half for name in regs.COUNTERS for half in (0, 4)]
        words = self.backend.run([ReadReg(offset) for offset in offsets])
        pairs = zip(regs.COUNTERS, words[0::2], words[1::2], strict=True)
        return {name.lower(): high << 32 | low for name, low, high in pairs}

    @locked
    def clear_counters(self) -> None:
        """Set every performance counter to 0."""
        keep = regs.CONTROL_RING_ENABLE.mask if self._ring is not None and self._ring.enabled else 0
        self.backend.run([WriteReg(regs.CONTROL, regs.CONTROL_CLEAR_COUNTERS.mask | keep)])

    @locked
    def info(self) -> dict[str, Any]:
        """Backend, configuration, capabilities, memory regions and their use, as plain data."""
        return {
            "backend": self.backend.name,
            "description": self.backend.description,
            "has_cycles": self.backend.has_cycles,
            "config": self.config,
            "capabilities": asdict(self.capabilities),
            "memory": {
                name: {
                    "base": MEMORY_REGIONS[name].base,
                    "size": MEMORY_REGIONS[name].size,
                    **asdict(figures),
                }
                for name, figures in self.memory_statistics().items()
            },
            **self.backend.info(),
        }

    # --- tensors --------------------------------------------------------------------------------------------

    def empty(
        self, shape: int | Sequence[int], dtype: DTypeLike = np.float32, *, region: str = "activation"
    ) -> DeviceTensor:
        """A new contiguous tensor on the device, its content undefined; freed when nothing refers to it."""
        return DeviceTensor.allocate(self, shape, np.dtype(dtype), region)

    def tensor(self, values: Any, *, region: str = "activation") -> DeviceTensor:
        """A new tensor on the device with the shape, dtype and content of a numpy array."""
        array = np.ascontiguousarray(values).reshape(np.shape(values))
        if self._recorder is not None:
            made = self._recorder.constant(array.shape, array.dtype, region)
        else:
            made = self.empty(array.shape, array.dtype, region=region)
        self.memcpy(made, array, array.nbytes, MemcpyKind.HOST_TO_DEVICE)
        return made
