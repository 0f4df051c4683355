"""The driver that carries out everything at once, on a backend."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu import debug
from echo_npu.address_registers import write_address
from echo_npu.backends.base import Backend
from echo_npu.commands.builders import load_program_command
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES
from echo_npu.driver.allocator import RegionAllocator
from echo_npu.driver.base import DeviceDriver
from echo_npu.driver.capabilities import Capabilities, read_capabilities
from echo_npu.driver.queues import Ring, WindowQueue
from echo_npu.driver.status import read_counters, read_error, read_progress, read_state, read_status, state_of
from echo_npu.errors import NpuPointerError, NpuProgramMemoryError, NpuTimeoutError
from echo_npu.register_ops import ReadReg, WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ALL_IRQS, END_IRQS, State
from echo_npu.vector.kernels.library import kernel_library
from echo_npu.vector.library import ProgramLibrary, Run
from echo_npu.vector.program import Program

NO_PROGRESS_CYCLES: Final = 1_000_000
"""`wait()` without a time-out gives up when nothing moved for this many cycles."""

_POLLS: Final = 1000
"""Reads of STATUS one after another, which are enough for most resets. After them time passes in between."""
_FIRST_PAUSE_CYCLES: Final = 100


class HardwareDriver(DeviceDriver):
    """Drives a backend: allocators, queues, program memory.

    Args:
        backend: the five primitives. The kernel library is loaded into its program memory.
        ring_slots: length of the command ring, 4..65535.

    Attributes:
        memory: where the device's memory lies.

    Raises:
        ValueError: `ring_slots` is out of range.
    """

    def __init__(self, backend: Backend, ring_slots: int) -> None:
        self.backend = backend
        self.capabilities: Capabilities = read_capabilities(backend)
        if not 4 <= ring_slots <= self.capabilities.ring_max_slots:
            raise ValueError(
                f"ring_slots is {ring_slots}; it must lie in 4..{self.capabilities.ring_max_slots}"
            )
        self.memory = self.capabilities.memory
        self.allocators = {name: RegionAllocator(region) for name, region in self.memory.regions.items()}
        self._ring_slots = ring_slots
        self._epoch = 0
        self._window = WindowQueue(backend, self.capabilities.queue_depth, partial(self.wait, None))
        self._ring: Ring | None = None
        self._pending: WindowQueue | Ring | None = None  # where the unfinished commands went
        self.watch: Callable[[], None] | None = None
        """Called while commands are waited for; what it raises ends the wait, not the commands."""
        self._library = ProgramLibrary(self.capabilities.program_words, self._load)
        self._enable_interrupts()
        self._load_library()
        backend.ready()

    @property
    def epoch(self) -> int:
        return self._epoch

    # --- memory ---------------------------------------------------------------------------------------------

    def malloc(self, region: str, nbytes: int) -> int:
        return self.allocators[region].malloc(nbytes)

    def free(self, address: int) -> None:
        region = self.memory.region_of(address)
        if region is None:
            raise NpuPointerError(f"pointer 0x{address:08x} is not in device memory")
        self.allocators[region.name].free(address)

    def release(self, address: int) -> None:
        """Release a block that a recorded program retained."""
        region = self.memory.region_of(address)
        assert region is not None
        self.allocators[region.name].release(address)

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        self.settle()
        self.backend.write_mem(address, data)

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        self.settle()
        return self.backend.read_mem(address, nbytes)

    # --- commands -------------------------------------------------------------------------------------------

    def submit(self, commands: Sequence[Command]) -> None:
        self._submit(self._window, commands)

    def submit_batch(self, commands: Sequence[Command]) -> None:
        self._submit(self._made_ring(), commands)

    def _made_ring(self) -> Ring:
        if self._ring is None:
            # At the top, away from data that a program places by hand.
            base = self.allocators["activation"].malloc(self._ring_slots * PACKET_BYTES, from_top=True)
            self._ring = Ring(self.backend, base, self._ring_slots, partial(self.wait, None))
        return self._ring

    def _submit(self, queue: WindowQueue | Ring, commands: Sequence[Command]) -> None:
        if not commands:
            return
        if self._pending not in (None, queue):
            self.wait(None)  # the order between window and ring is not defined
        if read_state(self.backend) == State.ERROR:
            raise read_error(self.backend)
        self._pending = queue
        queue.submit(commands)
        self._library.submitted()

    def wait(self, timeout_cycles: int | None) -> None:
        if self._pending is None:
            state = read_state(self.backend)
            if state != State.BUSY:
                self._finish(state)
                return
        if self.watch is not None and not self.backend.has_cycles:
            # Such a backend executes everything in one wait, but a command for each register that is read.
            while read_state(self.backend) == State.BUSY:
                self.watch()
        waited = 0
        progress: list[int] = []
        while True:
            if self.watch is not None:
                self.watch()
            step = NO_PROGRESS_CYCLES if timeout_cycles is None else timeout_cycles - waited
            step = min(step, NO_PROGRESS_CYCLES)
            # The interrupt may be an old one, so it is cleared, and the state that is read after that
            # decides.
            irq, _, status = self.backend.run(
                [WaitIrq(step), WriteReg(regs.IRQ_STATUS, END_IRQS), ReadReg(regs.STATUS)]
            )
            state = state_of(status)
            if state != State.BUSY:
                self._finish(state)
                return
            if irq:
                continue
            waited += step
            before, progress = progress, read_progress(self.backend)
            if waited >= timeout_cycles if timeout_cycles is not None else progress == before:
                raise self._timeout(waited)

    def settle(self) -> None:
        if self._pending is not None:
            self.wait(None)

    def limit(self, watchdog_cycles: int, *, protect_ring: bool) -> None:
        self.settle()
        base, size = self._made_ring().memory if protect_ring else (0, 0)
        self.backend.run(
            [
                WriteReg(regs.WATCHDOG, watchdog_cycles),
                *write_address(regs.GUARD_BASE, base),
                WriteReg(regs.GUARD_SIZE, size),
            ]
        )

    def clear_error(self) -> None:
        """Leave state ERROR, if the device is in it, and drop what was submitted."""
        if read_state(self.backend) != State.ERROR:
            return
        self._control(regs.CONTROL_CLEAR_ERROR.mask | self._ring_enable)
        self._forget(reset=False)

    def clear_counters(self) -> None:
        """Set every performance counter to 0."""
        self.backend.run([WriteReg(regs.CONTROL, regs.CONTROL_CLEAR_COUNTERS.mask | self._ring_enable)])

    def reset(self) -> None:
        self._epoch += 1
        self._soft_reset()
        self._library.forget()
        self._load_library()

    def _finish(self, state: State) -> None:
        self._pending = None
        if state == State.ERROR:
            raise read_error(self.backend)

    def _timeout(self, waited: int) -> NpuTimeoutError:
        status, counters = read_status(self.backend), read_counters(self.backend)
        return NpuTimeoutError(waited, status, counters, self.backend.waves_hint)

    @property
    def _ring_enable(self) -> int:
        """The bit of CONTROL that every write to it must keep."""
        return regs.CONTROL_RING_ENABLE.mask if self._ring is not None and self._ring.enabled else 0

    def _enable_interrupts(self) -> None:
        self.backend.run([WriteReg(regs.IRQ_STATUS, ALL_IRQS), WriteReg(regs.IRQ_ENABLE, END_IRQS)])

    def _soft_reset(self) -> None:
        self._control(regs.CONTROL_SOFT_RESET.mask)
        self._enable_interrupts()
        self._forget(reset=True)

    def _control(self, value: int) -> None:
        """Write CONTROL and wait until the device is idle."""
        self.backend.run([WriteReg(regs.CONTROL, value)])
        if not any(read_state(self.backend) == State.IDLE for _ in range(_POLLS)):
            self._await_idle()
        self.backend.run([WriteReg(regs.IRQ_STATUS, ALL_IRQS)])

    def _await_idle(self) -> None:
        """Wait until the device is idle; NpuTimeoutError if it is not in the time of a reset."""
        waited, pause = 0, _FIRST_PAUSE_CYCLES
        self.backend.run([WriteReg(regs.IRQ_ENABLE, 0)])  # a wait for no interrupt lets all of its time pass
        try:
            while read_state(self.backend) != State.IDLE:
                if waited >= self.backend.reset_cycles:
                    raise self._timeout(waited)
                pause = min(pause, self.backend.reset_cycles - waited)
                self.backend.run([WaitIrq(pause)])
                waited += pause
                pause = min(2 * pause, NO_PROGRESS_CYCLES)
        finally:
            self._enable_interrupts()

    def _forget(self, *, reset: bool) -> None:
        self._pending = None
        self._window.forget()
        if self._ring is not None:
            self._ring.forget(reset=reset)

    # --- vector programs ------------------------------------------------------------------------------------

    def entries(self, programs: Sequence[Program]) -> list[int]:
        return self._library.entries(programs)

    def entries_for_run(self, programs: Sequence[Program]) -> list[int]:
        try:
            return self._library.entries(programs)
        except NpuProgramMemoryError:
            self._library.forget()
            return self._library.entries(programs)

    def forget_programs(self) -> None:
        self._library.forget()

    def _load_library(self) -> None:
        """Load as much of the kernel library as program memory holds. Leaves the device IDLE."""
        room = self.capabilities.program_words
        chosen: list[Program] = []
        for program in kernel_library():
            room -= len(program)
            if room < 0:
                break
            chosen.append(program)
        if chosen:
            self.entries(chosen)
            self._library.submitted()
            self._soft_reset()

    @contextmanager
    def _watchdog_off(self) -> Iterator[None]:
        """Lift the watchdog: it bounds the commands of the caller, not those that the driver adds."""
        (cycles,) = self.backend.run([ReadReg(regs.WATCHDOG)])
        if not cycles:
            yield
            return
        self.backend.run([WriteReg(regs.WATCHDOG, 0)])
        try:
            yield
        finally:
            self.backend.run([WriteReg(regs.WATCHDOG, cycles)])

    def _load(self, run: Run) -> None:
        at, programs = run
        code = np.frombuffer(b"".join(program.code for program in programs), dtype=np.uint8)
        words = code.size // 8
        debug.npu(f"LOAD_PROGRAM {', '.join(program.name for program in programs)}: {words} words at {at}")
        if self.backend.timeline is not None:
            self.backend.timeline.describe(programs)
        staging = self.allocators["weight"].malloc(code.size, from_top=True)
        try:
            debug.copy(f"host_to_device {code.size} bytes")
            self.write(staging, code)
            with self._watchdog_off():
                self.submit([load_program_command(staging, words, at)])
                self.wait(None)
        finally:
            self.free(staging)
