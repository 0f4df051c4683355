"""Recording: what the operations called inside would submit is captured, and nothing runs.

The result is a `RecordedProgram`. A run of it does what the recorded calls would do if they were made again:

- an array of the host that a call takes is a constant, brought to the device once, while recording;
- a constant that a command overwrites gets its content back at the start of each run;
- a copy from the host into a tensor that commands have touched already becomes a copy on the device.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.allocator import RegionAllocator
from echo_npu.checks import PacketFault, check_command
from echo_npu.errors import NpuDeviceError, NpuProgramMemoryError, NpuRecordingError
from echo_npu.packets import (
    ExtensionPacket,
    NpuCommandPacket,
    Opcode,
    Packet,
    extension_count,
    load_program_packets,
    memcpy_packets,
    packet_bytes,
)
from echo_npu.queues import commands
from echo_npu.recorded_memory import RecordedMemory
from echo_npu.recorded_program import Captured, RecordedProgram, with_entry
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.command import VectorExtension
from echo_npu.vector.memory import ProgramMemory
from echo_npu.vector.program import Program

if TYPE_CHECKING:
    from echo_npu.device import Device

_ENTRY_BASE: Final = 0x8000_0000
"""While recording, the entry of vector program i is this plus i: where it will lie is not known yet."""


@contextmanager
def record(device: Device, allocators: Mapping[str, RegionAllocator]) -> Iterator[RecordedProgram]:
    """Record on `device` until the block ends. If it ends with an exception, nothing is kept."""
    recorder = Recorder(device, allocators)
    with device.recording(recorder):
        program = RecordedProgram(device, recorder.input)
        try:
            yield program
            program.finish(*recorder.finished(), recorder.memory.retained)
        except BaseException:
            program.finish([], False, recorder.memory.retained)
            program.close()
            raise


class Recorder:
    """What a device hands over to while it records: commands, allocations, copies from the host."""

    def __init__(self, device: Device, allocators: Mapping[str, RegionAllocator]) -> None:
        self.memory = RecordedMemory(allocators)
        self.thread = threading.get_ident()
        self._device = device
        self._commands: list[Captured] = []
        self._programs: list[Program] = []
        self._numbers: dict[bytes, int] = {}  # of the programs, by their code
        self._inputs: list[DeviceTensor] = []
        self._model = ProgramMemory(device.capabilities.program_words)
        self._model.loaded = self._model.size

    # --- vector programs ------------------------------------------------------------------------------------

    def entries(self, programs: Sequence[Program]) -> list[int]:
        """Stand-ins for the entries of programs.

        Raises:
            NpuProgramMemoryError: one that is larger than program memory.
        """
        for program in programs:
            if len(program) > self._model.size:
                raise NpuProgramMemoryError([program.name], len(program), self._model.size)
            if program.code not in self._numbers:
                self._numbers[program.code] = len(self._programs)
                self._programs.append(program)
        return [_ENTRY_BASE + self._numbers[program.code] for program in programs]

    # --- memory ---------------------------------------------------------------------------------------------

    def input(self, shape: int | Sequence[int], dtype: np.dtype[Any], region: str) -> DeviceTensor:
        """A tensor whose content comes from outside before each run."""
        made = DeviceTensor.allocate(self._device, shape, dtype, region)
        self._inputs.append(made)
        return made

    def constant(self, shape: Sequence[int], dtype: np.dtype[Any], region: str) -> DeviceTensor:
        """A tensor that the host will write, once: in memory that no command has touched."""
        self.memory.fresh = True
        try:
            return DeviceTensor.allocate(self._device, shape, dtype, region)
        finally:
            self.memory.fresh = False

    def upload(self, address: int, data: NDArray[np.uint8]) -> None:
        """A copy from the host: now if nothing can see the difference, else as a command."""
        for tensor in self._inputs:
            if address < tensor.ptr + tensor.nbytes and tensor.ptr < address + data.size:
                raise NpuRecordingError(
                    f"the input of shape {tensor.shape} is written inside its recording; what is in it comes "
                    "from outside, before each run"
                )
        if self.memory.take_constant(address, data.size):
            self._device.backend.write_mem(address, data)
            return
        self.capture(memcpy_packets(self._constant(data), address, data.size))

    def _constant(self, data: NDArray[np.uint8]) -> int:
        """The address of a copy of `data` that stays as it is."""
        tensor = self.constant((data.size,), data.dtype, "weight")
        self.upload(tensor.ptr, data)
        return tensor.ptr  # the tensor goes, its memory is retained

    # --- commands -------------------------------------------------------------------------------------------

    def capture(self, packets: Sequence[Packet]) -> None:
        """Append commands.

        Raises:
            NpuDeviceError: one that the device would refuse; `packet` counts from the recording's first.
            NpuRecordingError: one that only makes sense outside, or lacks its extensions.
        """
        slots = [packet_bytes(each) for each in packets]
        self._commands += [self._checked(command) for command in commands(slots)]

    def _checked(self, slots: list[bytes]) -> Captured:
        packet = NpuCommandPacket.unpack(slots[0])
        if len(slots) <= extension_count(packet.opcode, packet.flags):
            raise NpuRecordingError(f"{packet}: a command and its extensions are recorded together")
        if packet.opcode == Opcode.LOAD_PROGRAM:
            raise NpuRecordingError("a recording places vector programs itself: use load_program()")
        extension: ExtensionPacket | VectorExtension | None = None
        program = None
        if packet.opcode == Opcode.VECTOR and len(slots) > 1:
            program = self._program_of(VectorExtension.unpack(slots[1:]).entry)
            slots = [slots[0], with_entry(slots[1], 0), *slots[2:]]
            extension = VectorExtension.unpack(slots[1:])
        elif len(slots) > 1:
            extension = ExtensionPacket.unpack(slots[1])
        try:
            command = check_command(packet, extension, self._model)
        except PacketFault as fault:
            raise NpuDeviceError(fault.code, len(self._commands), fault.address) from None
        for source in command.sources:
            self.memory.touch(source.address, source.extent(command.batch), written=False)
        if command.dst is not None:
            self.memory.touch(command.dst.address, command.dst.extent(command.batch), written=True)
        return Captured(tuple(slots), program)

    def _program_of(self, entry: int) -> Program:
        number = entry - _ENTRY_BASE
        if not 0 <= number < len(self._programs):
            raise NpuRecordingError(
                f"a VECTOR command with entry {entry}: get the entry from load_program() inside the recording"
            )
        return self._programs[number]

    # --- the result -----------------------------------------------------------------------------------------

    def finished(self) -> tuple[list[Captured], bool]:
        """The commands of a run, and whether they load their vector programs themselves.

        They do if program memory cannot hold all of them at the same time.
        """
        recorded, self._commands = self._commands, []
        for address, nbytes in self.memory.overwritten():
            content = self._device.backend.read_mem(address, nbytes)  # nothing has run since it was written
            self.capture(memcpy_packets(self._constant(content), address, nbytes))
        self._commands += recorded
        if sum(len(program) for program in self._programs) <= self._model.size:
            return self._commands, False
        placed: list[Captured] = []
        for group in _groups(self._commands, self._model.size):
            placed += self._placed(group)
        return placed, True

    def _placed(self, group: Sequence[Captured]) -> list[Captured]:
        """Commands behind one that loads their programs, from word 0 on."""
        programs = {each.program.code: each.program for each in group if each.program is not None}
        starts: dict[bytes, int] = {}
        words = 0
        for code, program in programs.items():
            starts[code] = words
            words += len(program)
        image = np.frombuffer(b"".join(programs), np.uint8)
        if self._device.backend.timeline is not None:
            self._device.backend.timeline.describe(list(programs.values()))
        load = load_program_packets(self._constant(image), words, 0)
        listed = [Captured(tuple(packet_bytes(each) for each in load), None)]
        for each in group:
            at = None if each.program is None else starts[each.program.code]
            listed.append(each if at is None else each.placed(at))
        return listed


def _groups(listed: Sequence[Captured], size: int) -> list[list[Captured]]:
    """The commands in order, cut so that the vector programs of each part fit `size` words."""
    groups: list[list[Captured]] = [[]]
    present: dict[bytes, int] = {}
    for each in listed:
        if each.program is not None and each.program.code not in present:
            if sum(present.values()) + len(each.program) > size:
                groups.append([])
                present = {}
            present[each.program.code] = len(each.program)
        groups[-1].append(each)
    return groups
