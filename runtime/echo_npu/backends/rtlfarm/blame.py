"""Find the command with which a chunk's RTL went another way than the functional model."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.rtlfarm.chunk import CounterMark, Deviation, MemoryWrite, RunChunk
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO, Runs, written_by
from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.command import Command
from echo_npu.commands.listing import list_command
from echo_npu.commands.vector_command import entry_of
from echo_npu.errors import NpuBusError
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory, memory_map_of
from echo_npu.register_ops import ReadReg, WriteReg
from echo_sim.config import load_config


@dataclass(frozen=True, slots=True)
class Blame:
    """What differs first.

    Attributes:
        address: the first address at which the command's result differs; None if memory is equal.
        rtl, model: the bytes there.
        command: the first command whose result differs, as text; empty if there is none.
    """

    address: int | None
    rtl: int
    model: int
    command: str


class _Ended(Exception):  # noqa: N818  (no error: the chunk ends here)
    """The chunk ends between two commands."""


class _Writers:
    """Notes what the commands of a chunk write."""

    def __init__(self, model: FunctionalModel, chunk: RunChunk) -> None:
        self._model = model
        self._chunk = chunk
        self.commands: list[tuple[Command, Runs]] = []
        self.ends = False  # what is done now is done only up to the chunk's end

    def taking(self) -> None:
        if self.ends and self._model.retired == self._chunk.last.retired:
            raise _Ended

    def executing(self, command: Command, checked: CheckedCommand) -> None:
        self.commands.append((command, written_by(checked, self._model.memory)))

    def faulted(self) -> None:
        pass


def blame(chunk: RunChunk, deviation: Deviation) -> Blame:
    """Run the chunk on the functional model, and return what differs first."""
    memory = DeviceMemory(memory_map_of(load_config(chunk.config)))
    try:
        commands = run_on_model(chunk, memory)
        found = _first(deviation, memory.bytes, [runs for _, runs in commands])
        number = deviation.done if found is None else found[0]
        address = None if found is None else found[1]
        text = ""
        if number is not None and 0 <= number < len(commands):
            command, _ = commands[number]
            entry = entry_of(command)
            listed = list_command(command, None if entry is None else chunk.names.get(entry))
            text = f"command {number} of the chunk, {listed}"
        if address is None:
            return Blame(None, 0, 0, text)
        rtl = deviation.pages[address // PAGE][address % PAGE]
        return Blame(address, rtl, int(memory.bytes[address]), text)
    finally:
        memory.close()


def run_on_model(chunk: RunChunk, memory: DeviceMemory) -> list[tuple[Command, Runs]]:
    """Run the chunk on the functional model.

    Args:
        memory: all zeros; gets what the chunk finds and then what it leaves.

    Returns: the commands in order, with the bytes that each one writes.
    """
    for number, page in chunk.pages.items():
        if page.content != ZERO.content:
            memory.write(number * PAGE, np.frombuffer(page.content, np.uint8))
    model = FunctionalModel(load_config(chunk.config), memory)
    model.restore(chunk.state)
    writers = _Writers(model, chunk)
    model.observer = writers
    _play(chunk, model, writers)
    return writers.commands


def _play(chunk: RunChunk, model: FunctionalModel, writers: _Writers) -> None:
    for index, action in enumerate(chunk.actions):
        if isinstance(action, MemoryWrite):
            model.memory.write(action.address, np.frombuffer(action.data, np.uint8))
            continue
        if isinstance(action, CounterMark):
            continue
        writers.ends = action.results is None and index == len(chunk.actions) - 1 and chunk.end is not None
        try:
            for op in action.ops:
                if isinstance(op, ReadReg):
                    model.read_reg(op.offset)
                elif isinstance(op, WriteReg):
                    model.write_reg(op.offset, op.value)
                else:
                    model.wait_irq(op.timeout_cycles)
        except (NpuBusError, _Ended):
            continue


def _rank(found: tuple[int | None, int]) -> float:
    """Return the order of a command; what no command wrote comes last."""
    return math.inf if found[0] is None else found[0]


def _first(
    deviation: Deviation, memory: NDArray[np.uint8], written: list[Runs]
) -> tuple[int | None, int] | None:
    """Return the number of the first command whose result differs, and the first address of it.

    The number is None if no command wrote what differs; the whole is None if nothing differs.
    """
    best: tuple[int | None, int] | None = None
    for page in sorted(deviation.pages):
        base = page * PAGE
        differs = np.frombuffer(deviation.pages[page], np.uint8) != memory[base : base + PAGE]
        if not differs.any():
            continue
        writer = np.full(PAGE, -1, dtype=np.int64)
        for number, runs in enumerate(written):
            for start, nbytes in runs[(runs[:, 0] < base + PAGE) & (runs[:, 0] + runs[:, 1] > base)].tolist():
                writer[max(start - base, 0) : start + nbytes - base] = number
        for number in np.unique(writer[differs]).tolist():
            address = base + int(np.flatnonzero(differs & (writer == number))[0])
            found = (None if number < 0 else number, address)
            if best is None or _rank(found) < _rank(best):
                best = found
    return best
