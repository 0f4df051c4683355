"""A recorded program: commands and memory that are prepared once and run many times."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu import debug
from echo_npu.commands.command import Command
from echo_npu.commands.listing import list_command
from echo_npu.commands.vector_command import placed
from echo_npu.driver.command_device import CommandDevice
from echo_npu.errors import NpuRecordingError
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.program import Program


class MakeInput(Protocol):
    """Allocates a tensor of a shape and dtype in a region, for content that comes from outside."""

    def __call__(self, shape: int | Sequence[int], dtype: np.dtype[Any], region: str) -> DeviceTensor: ...


@dataclass(frozen=True, slots=True)
class RecordedCommand:
    """A command and the vector program that it runs; None for other commands."""

    command: Command
    program: Program | None

    @property
    def program_name(self) -> str | None:
        """Name of the vector program."""
        return None if self.program is None else self.program.name

    def placed(self, entry: int) -> RecordedCommand:
        """Return the VECTOR command with its program at another entry."""
        return RecordedCommand(placed(self.command, entry), self.program)


class RecordedProgram:
    """A program that `Device.record()` records and that can then be run any number of times.

    Memory that its commands touch stays reserved until `close()`, until the end of `with program:`, or until
    nothing refers to the program. A tensor made inside stays valid while something refers to it.

    Raises (any method but `close`): NpuRecordingError where the recording must be over or must not be, after
    `close()`, after a recording that failed, and after a reset of the device.
    """

    def __init__(self, device: CommandDevice, make_input: MakeInput) -> None:
        self._device = device
        self._make_input: MakeInput | None = make_input
        self._inputs: dict[str, DeviceTensor] = {}
        self._outputs: dict[str, DeviceTensor] = {}
        self._commands: list[RecordedCommand] = []
        self._loads_programs = False
        self._programs: list[Program] = []
        self._entries: list[int] = []
        self._submission: list[Command] = []  # with the programs where they were last
        self._epoch = device.driver.epoch
        self._exchanged: RecordedProgram | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None

    # --- while recording ------------------------------------------------------------------------------------

    def input(
        self,
        name: str,
        shape: int | Sequence[int],
        dtype: DTypeLike = np.float32,
        *,
        region: str = "activation",
    ) -> DeviceTensor:
        """Return a new tensor that `run(name=array)` fills. It keeps its content until it is filled again.

        Raises:
            ValueError: a name that is in use or no identifier, or a shape that no tensor can have.
            NpuRecordingError: the recording is over.
        """
        if self._make_input is None:
            raise NpuRecordingError(f"input {name!r}: the recording is over")
        if not name.isidentifier() or name in self._inputs:
            raise ValueError(f"input {name!r}: a name is an identifier, and used once")
        self._inputs[name] = self._make_input(shape, np.dtype(dtype), region)
        return self._inputs[name]

    def output(self, name: str, tensor: DeviceTensor) -> DeviceTensor:
        """Name a tensor that `run` shall return, and return it.

        Raises:
            ValueError: a name that is in use.  TypeError: no DeviceTensor.
            NpuRecordingError: the recording is over.
        """
        if self._make_input is None:
            raise NpuRecordingError(f"output {name!r}: the recording is over")
        if not isinstance(tensor, DeviceTensor):
            raise TypeError(f"output {name!r} must be a DeviceTensor, got {type(tensor).__name__}")
        if name in self._outputs:
            raise ValueError(f"output {name!r}: a name is used once")
        self._outputs[name] = tensor
        return tensor

    def finish(self, commands: list[RecordedCommand], loads_programs: bool, retained: Sequence[int]) -> None:
        """End the recording: take the commands that it captured and the blocks of memory that it keeps."""
        self._make_input = None
        self._commands = commands
        self._loads_programs = loads_programs
        unique = {each.program.code: each.program for each in commands if each.program is not None}
        self._programs = list(unique.values())
        self._submission = [each.command for each in commands]
        self._finalizer = weakref.finalize(self, _release, weakref.ref(self._device), tuple(retained))
        self._finalizer.atexit = False

    # --- facts ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Number of commands."""
        return len(self._commands)

    @property
    def inputs(self) -> dict[str, DeviceTensor]:
        """The tensors that `run` can fill, by name."""
        return dict(self._inputs)

    @property
    def outputs(self) -> dict[str, DeviceTensor]:
        """The tensors that `run` returns, by name."""
        return dict(self._outputs)

    @property
    def packets(self) -> list[bytes]:
        """What a run submits, 64 bytes each: commands, each one followed by its extensions."""
        return [slot for command in self._submission for slot in command.slots]

    def listing(self) -> str:
        """Return a line for each command: its number, name, sizes and addresses."""
        width = len(str(max(len(self) - 1, 0)))
        return "\n".join(
            f"{number:{width}}  {list_command(each.command, each.program_name)}"
            for number, each in enumerate(self._commands)
        )

    def __repr__(self) -> str:
        state = "closed" if self.closed else "recording" if self._make_input is not None else "ready"
        names = f"inputs {list(self._inputs)}, outputs {list(self._outputs)}"
        return f"RecordedProgram({len(self)} commands, {names}, {state})"

    # --- running --------------------------------------------------------------------------------------------

    def run(
        self, timeout_cycles: int | None = None, /, **inputs: NDArray[Any] | DeviceTensor
    ) -> dict[str, DeviceTensor]:
        """Fill inputs, submit all commands with one doorbell (one for each full ring) and wait for them.

        Args:
            timeout_cycles: as in `Device.wait`.
            inputs: by name: an array of the input's shape and dtype. One that is not given keeps its content.

        Returns: the named outputs. Their content is that of the latest run.

        Raises:
            TypeError: a name that no input has, or another dtype.  ValueError: another shape.
            NpuDeviceError, NpuTimeoutError: as `Device.wait`.
        """
        self.submit(**inputs)
        self._device.finish(timeout_cycles)
        return self.outputs

    def submit(self, **inputs: NDArray[Any] | DeviceTensor) -> None:
        """Do as `run` without waiting. `Device.wait` waits, and so do copies from and to the device."""
        device = self._device
        with device.held():
            self._check_runnable()
            for name, values in inputs.items():
                if name not in self._inputs:
                    known = ", ".join(self._inputs) or "none"
                    raise TypeError(f"the program has no input {name!r}; its inputs are: {known}")
                self._fill(self._inputs[name], name, values)
            debug.npu(f"recorded program of {len(self)} commands")
            if self._programs and not self._loads_programs:
                self._place(device.driver.entries_for_run(self._programs))
            device.submit_batch(self._submission)
            if self._loads_programs:
                device.driver.forget_programs()

    @staticmethod
    def _fill(tensor: DeviceTensor, name: str, values: NDArray[Any] | DeviceTensor) -> None:
        if isinstance(values, DeviceTensor):
            tensor.device.copy(values, out=tensor)
        elif isinstance(values, np.ndarray):
            tensor.copy_from(values)
        else:
            raise TypeError(f"input {name!r} must be an array, got {type(values).__name__}")

    def _place(self, entries: list[int]) -> None:
        """Write the programs' entries into the commands."""
        if entries == self._entries:
            return
        at = {program.code: entry for program, entry in zip(self._programs, entries, strict=True)}
        self._submission = [
            (each if each.program is None else each.placed(at[each.program.code])).command
            for each in self._commands
        ]
        self._entries = entries

    def exchange(self, numbers: Sequence[int], other: RecordedProgram) -> bool:
        """Replace commands by those of another recording on this device, in order.

        A program whose commands differ from run to run only in their addresses need not be recorded again.
        The other program's memory is kept until the next exchange, which therefore replaces the same
        commands.

        Args:
            numbers: which commands go, as many as the other program has.
            other: runs no vector programs that this one lacks.

        Returns: whether it was possible; if not, nothing has changed.
        """
        self._check_runnable()
        other._check_runnable()
        known = {program.code for program in self._programs}
        fits = len(numbers) == len(other) and not self._loads_programs and not other._loads_programs
        if not fits or any(program.code not in known for program in other._programs):
            return False
        at = {program.code: entry for program, entry in zip(self._programs, self._entries, strict=False)}
        for number, each in zip(numbers, other._commands, strict=True):
            self._commands[number] = each
            placed_one = each
            if at and each.program is not None:
                placed_one = each.placed(at[each.program.code])
            self._submission[number] = placed_one.command
        previous, self._exchanged = self._exchanged, other
        if previous is not None and previous is not other:
            previous.close()
        return True

    def _check_runnable(self) -> None:
        if self._make_input is not None:
            raise NpuRecordingError("the program is still being recorded; it runs after the with block")
        if self.closed:
            raise NpuRecordingError("the recorded program is closed")
        if self._epoch != self._device.driver.epoch:
            raise NpuRecordingError("the device was reset after the program was recorded: record it again")

    # --- life -----------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether its memory was given back."""
        return self._finalizer is not None and not self._finalizer.alive

    def close(self) -> None:
        """Give the memory back. Idempotent. Tensors that are still referred to stay valid.

        Raises:
            NpuRecordingError: the program is still being recorded.
        """
        if self._make_input is not None:
            raise NpuRecordingError("the program is still being recorded; leave the with block first")
        if self._finalizer is not None:
            self._finalizer()
        if self._exchanged is not None:
            self._exchanged.close()
        self._inputs.clear()
        self._outputs.clear()

    def __enter__(self) -> Self:
        self._check_runnable()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _release(device: weakref.ref[CommandDevice], addresses: Sequence[int]) -> None:
    """Release blocks; a finalizer calls this on any thread."""
    target = device()
    if target is not None:
        target.release_later(addresses)
