"""Record what operations submit, without running it.

The result is a `RecordedProgram`. A run does what the recorded calls would do if they were made again:

- an array of the host that a call takes is a constant, uploaded once, while recording;
- a constant that a command overwrites is restored at the start of each run;
- a copy from the host into a tensor that commands have touched becomes a copy on the device.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.builders import load_program_command, memcpy_command
from echo_npu.commands.checked import PacketFault
from echo_npu.commands.checks import check_slots
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Opcode
from echo_npu.commands.vector_command import entry_of, placed
from echo_npu.driver.base import STAND_IN_ENTRY, DeviceDriver
from echo_npu.driver.command_device import CommandDevice
from echo_npu.driver.hardware import HardwareDriver
from echo_npu.driver.recorded_memory import RecordedMemory
from echo_npu.driver.recorded_program import RecordedCommand, RecordedProgram
from echo_npu.errors import NpuDeviceError, NpuProgramMemoryError, NpuRecordingError
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.tensor import DeviceTensor, TensorDevice
from echo_npu.vector.program import Program


@contextmanager
def record(device: CommandDevice) -> Iterator[RecordedProgram]:
    """Record on `device` until the block ends. If it ends with an exception, nothing is kept."""
    drivers: list[RecordingDriver] = []

    def make_driver(hardware: HardwareDriver) -> RecordingDriver:
        drivers.append(RecordingDriver(device, hardware))
        return drivers[0]

    with device.driven_by(make_driver):
        (driver,) = drivers
        program = RecordedProgram(device, driver.input)
        try:
            yield program
            program.finish(*driver.finished(), driver.retained)
        except BaseException:
            program.finish([], False, driver.retained)
            program.close()
            raise


class RecordingDriver(DeviceDriver):
    """Stands in for the hardware's driver while a program is recorded on the thread that makes it.

    It collects the commands, allocates for them, and brings to the device what is constant for all runs.

    Args:
        device: holds the tensors that the recording itself needs.
        hardware: the driver that carries out the runs.
    """

    def __init__(self, device: TensorDevice, hardware: HardwareDriver) -> None:
        self._device = device
        self._hardware = hardware
        self._thread = threading.get_ident()
        self._memory = RecordedMemory(hardware.allocators)
        self._commands: list[RecordedCommand] = []
        self._programs: list[Program] = []
        self._numbers: dict[bytes, int] = {}  # of the programs, by their code
        self._inputs: list[DeviceTensor] = []
        self._blocks = bool(hardware.capabilities.block_formats)
        self._model = ProgramMemory(hardware.capabilities.program_words)
        self._model.loaded = self._model.size

    @property
    def epoch(self) -> int:
        return self._hardware.epoch

    def check_thread(self) -> None:
        if self._thread != threading.get_ident():
            raise NpuRecordingError("another thread is recording on this device")

    @property
    def recorded(self) -> int:
        """Number of commands so far."""
        return len(self._commands)

    @property
    def retained(self) -> tuple[int, ...]:
        """Start addresses of the blocks that the program needs."""
        return self._memory.retained

    # --- not possible in a recording ------------------------------------------------------------------------

    def read(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        raise NpuRecordingError(
            f"{nbytes} bytes of device memory are read inside a recording, where nothing runs: pass "
            "DeviceTensors to the operations, and read their results after a run"
        )

    def limit(self, watchdog_cycles: int, *, protect_ring: bool) -> None:
        raise NpuRecordingError("commands cannot be limited inside a recording")

    def reset(self) -> None:
        raise NpuRecordingError("the device cannot be reset inside a recording")

    def wait(self, timeout_cycles: int | None) -> None:
        pass  # nothing runs

    def settle(self) -> None:
        pass

    # --- vector programs ------------------------------------------------------------------------------------

    def entries(self, programs: Sequence[Program]) -> list[int]:
        """Return stand-ins for the entries of programs.

        Raises:
            NpuProgramMemoryError: one that is larger than program memory.
        """
        for program in programs:
            if len(program) > self._model.size:
                raise NpuProgramMemoryError([program.name], len(program), self._model.size)
            if program.code not in self._numbers:
                self._numbers[program.code] = len(self._programs)
                self._programs.append(program)
        return [STAND_IN_ENTRY + self._numbers[program.code] for program in programs]

    def entries_for_run(self, programs: Sequence[Program]) -> list[int]:
        return self.entries(programs)

    def forget_programs(self) -> None:
        pass  # program memory is as it was

    # --- memory ---------------------------------------------------------------------------------------------

    def malloc(self, region: str, nbytes: int) -> int:
        return self._memory.malloc(region, nbytes)

    def free(self, address: int) -> None:
        self._hardware.free(address)
        self._memory.freed(address)

    @contextmanager
    def constants(self) -> Iterator[None]:
        """Allocate inside the `with` block from memory that no command has touched."""
        self._memory.fresh = True
        try:
            yield
        finally:
            self._memory.fresh = False

    def input(self, shape: int | Sequence[int], dtype: np.dtype[Any], region: str) -> DeviceTensor:
        """Allocate a tensor whose content comes from outside before each run."""
        made = DeviceTensor.allocate(self._device, shape, dtype, region)
        self._inputs.append(made)
        return made

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy from the host: now if that gives the same result as in each run, else with a command."""
        for tensor in self._inputs:
            if address < tensor.ptr + tensor.nbytes and tensor.ptr < address + data.size:
                raise NpuRecordingError(
                    f"the input of shape {tensor.shape} is written inside its recording; what is in it comes "
                    "from outside, before each run"
                )
        if self._memory.take_constant(address, data.size):
            self._hardware.write(address, data)
            return
        self.submit([memcpy_command(self._constant(data), address, data.size)])

    def _constant(self, data: NDArray[np.uint8]) -> int:
        """Upload a constant copy of `data` and return its address."""
        with self.constants():
            tensor = DeviceTensor.allocate(self._device, (data.size,), data.dtype, "weight")
        self.write(tensor.ptr, data)
        return tensor.ptr  # the tensor goes, its memory is retained

    # --- commands -------------------------------------------------------------------------------------------

    def submit(self, commands: Sequence[Command]) -> None:
        """Append commands.

        Raises:
            NpuDeviceError: the device would refuse a command; `packet` counts from the recording's first.
            NpuRecordingError: a command cannot be recorded, or lacks its extensions.
        """
        self._commands += [self._recorded(command) for command in commands]

    def submit_batch(self, commands: Sequence[Command]) -> None:
        self.submit(commands)

    def _recorded(self, command: Command) -> RecordedCommand:
        packet = command.packet
        if not command.complete:
            raise NpuRecordingError(f"{packet}: a command and its extensions are recorded together")
        if packet.opcode == Opcode.LOAD_PROGRAM:
            raise NpuRecordingError("a recording places vector programs itself: use load_program()")
        program = None
        if (entry := entry_of(command)) is not None:
            program = self._program_of(entry)
            command = placed(command, 0)
        try:
            checked = check_slots(
                command.slots, self._model, blocks=self._blocks, memory=self._hardware.memory
            )
        except PacketFault as fault:
            raise NpuDeviceError(fault.code, len(self._commands), fault.address) from None
        for source in checked.sources:
            self._memory.touch(source.address, source.extent(checked.batch), written=False)
        if checked.dst is not None:
            self._memory.touch(checked.dst.address, checked.dst.extent(checked.batch), written=True)
        return RecordedCommand(command, program)

    def _program_of(self, entry: int) -> Program:
        number = entry - STAND_IN_ENTRY
        if not 0 <= number < len(self._programs):
            raise NpuRecordingError(
                f"a VECTOR command with entry {entry}: get the entry from load_program() inside the recording"
            )
        return self._programs[number]

    # --- the result -----------------------------------------------------------------------------------------

    def finished(self) -> tuple[list[RecordedCommand], bool]:
        """Return the commands of a run, and whether they load their vector programs themselves.

        They do if program memory cannot hold all these programs at the same time.
        """
        recorded, self._commands = self._commands, []
        for address, nbytes in self._memory.overwritten():
            content = self._hardware.read(address, nbytes)  # nothing has run since it was written
            self.submit([memcpy_command(self._constant(content), address, nbytes)])
        self._commands += recorded
        if sum(len(program) for program in self._programs) <= self._model.size:
            return self._commands, False
        listed: list[RecordedCommand] = []
        for group in _groups(self._commands, self._model.size):
            listed += self._placed(group)
        return listed, True

    def _placed(self, group: Sequence[RecordedCommand]) -> list[RecordedCommand]:
        """Return a command that loads the programs of a group, from word 0 on, and the group's commands."""
        programs = {each.program.code: each.program for each in group if each.program is not None}
        starts: dict[bytes, int] = {}
        words = 0
        for code, program in programs.items():
            starts[code] = words
            words += len(program)
        image = np.frombuffer(b"".join(programs), np.uint8)
        if self._hardware.backend.timeline is not None:
            self._hardware.backend.timeline.describe(list(programs.values()))
        listed = [RecordedCommand(load_program_command(self._constant(image), words, 0), None)]
        for each in group:
            at = None if each.program is None else starts[each.program.code]
            listed.append(each if at is None else each.placed(at))
        return listed


def _groups(listed: Sequence[RecordedCommand], size: int) -> list[list[RecordedCommand]]:
    """Cut the commands into parts, in order, so that the vector programs of each part fit `size` words."""
    groups: list[list[RecordedCommand]] = [[]]
    present: dict[bytes, int] = {}
    for each in listed:
        if each.program is not None and each.program.code not in present:
            if sum(present.values()) + len(each.program) > size:
                groups.append([])
                present = {}
            present[each.program.code] = len(each.program)
        groups[-1].append(each)
    return groups
