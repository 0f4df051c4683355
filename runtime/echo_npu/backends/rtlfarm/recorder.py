"""Cut what the functional model does into chunks while it does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.rtlfarm.chunk import (
    Boundary,
    CounterMark,
    EndState,
    HostAction,
    MemoryWrite,
    RegisterBatch,
    RunChunk,
)
from echo_npu.backends.rtlfarm.costs import estimated_cycles, roughly
from echo_npu.backends.rtlfarm.pages import PAGE, MemoryPage, PageTable, pages_of, read_by, written_by
from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.command import Command
from echo_npu.commands.packets import PACKET_BYTES, NpuCommandPacket, Opcode
from echo_npu.model.functional import FunctionalModel, ModelState
from echo_npu.register_ops import ReadReg, RegisterOp, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from echo_sim.config import NpuConfig

WARM_COMMANDS: Final = 4
"""Commands that run before a cut between two commands, so that the engines are as busy as in the run."""

MORE_COMMANDS: Final = 8
"""Commands that run behind such a cut, for the same reason: more than the device executes and prefetches."""

_DOORBELLS: Final = (regs.DOORBELL, regs.RING_TAIL)

_CLEARS: Final = regs.CONTROL_CLEAR_COUNTERS.mask | regs.CONTROL_SOFT_RESET.mask

_LONG: Final = 128
"""Packets that must wait if a submission is to be cut between two commands."""

_PATIENCE: Final = 1.25
"""How much longer than asked for a chunk gets, in the hope of an end at which the engines are idle."""

_LAST_PATIENCE: Final = 2.5
"""How much longer than asked for a chunk gets at most, until the commands around a cut are short ones."""

_SHORT: Final = 0.03
"""The part of a chunk that the commands around a cut may take, which are simulated twice."""


_FEW_PAGES: Final = 4096
"""Of memory that the host may write, so many are looked at whether or not anything has a copy of them."""


class _OpenChunk:
    """A chunk that is being recorded."""

    def __init__(self, state: ModelState, start: Boundary | None = None) -> None:
        self.state = state
        self.start = start
        self.pages: dict[int, MemoryPage] = {}
        self.dirty: set[int] = set()
        self.undefined: set[int] = set()
        self.actions: list[HostAction] = []
        self.warm = 0
        self.estimate = 0.0
        self.cleared: float | None = None  # the estimate when the host last cleared the counters
        self.commands = 0

    def copy(self) -> _OpenChunk:
        made = _OpenChunk(self.state, self.start)
        made.pages, made.actions = dict(self.pages), list(self.actions)
        made.dirty, made.undefined = set(self.dirty), set(self.undefined)
        return made

    def touch(self, numbers: Iterable[int], table: PageTable) -> None:
        """Keep pages as they are, unless they are kept already."""
        for number in numbers:
            if number not in self.pages:
                self.pages[number] = table.at(number)


class Recorder:
    """Follows a functional model and its host, and cuts the run into chunks.

    A chunk keeps a page when something first touches it: until then the page is what it was at the beginning,
    or what the host has written since, which no command of the chunk can have seen.

    Two chunks may be open at once, because the second one begins with the last commands of the first.

    Args:
        model: whose observer this becomes.
        config: the hardware configuration; `name` is how users name it.
        knobs: settings of the memory model, for the chunks.
        target: estimated cycles of a chunk.
        submit: takes each chunk that is complete; it may block.
    """

    def __init__(
        self,
        model: FunctionalModel,
        config: NpuConfig,
        name: str,
        knobs: Mapping[str, float],
        target: float,
        submit: Callable[[RunChunk], None],
    ) -> None:
        self._model = model
        self._config = config
        self._name = name
        self._knobs = dict(knobs)
        self._target = target
        self._submit = submit
        self._table = PageTable(model.memory)
        self._number = 0
        self._current = _OpenChunk(model.save())
        self._next: _OpenChunk | None = None  # begins between two commands, when `start` is reached
        self._ops: Sequence[RegisterOp] = ()
        self._position = 0  # in `_ops`
        self._waiting = False
        self._doorbells = 0  # of the ring, since the device was idle
        self._windowed = False  # a doorbell of the window, likewise
        self._head = 0  # where the command that is executed begins
        self._failed: set[int] = set()
        self._exposed: dict[int, MemoryPage] = {}  # as they were when it was last looked
        self.names: dict[int, str] = {}
        self._images: dict[bytes, list[tuple[int, str]]] = {}
        model.observer = self

    # --- the host -------------------------------------------------------------------------------------------

    def describe(self, image: bytes, names: Sequence[tuple[int, str]]) -> None:
        """Give the names of the vector programs in what one LOAD_PROGRAM loads, by their place in it."""
        self._images[image] = list(names)

    def writing(self, address: int, data: NDArray[np.uint8]) -> None:
        """Note that the host is about to write memory."""
        if not data.size:
            return
        numbers = range(address // PAGE, (address + data.size - 1) // PAGE + 1)
        for chunk in self._open():
            touched = [number for number in numbers if number in chunk.pages]
            chunk.dirty.update(touched)
            for first, last in _runs(touched):
                low = max(first * PAGE, address)
                high = min((last + 1) * PAGE, address + data.size)
                chunk.actions.append(MemoryWrite(low, data[low - address : high - address].tobytes()))
        self._table.changed(numbers)

    def exposed(self, address: int, nbytes: int) -> None:
        """Note that the host may write memory by itself, until its next doorbell."""
        numbers = range(address // PAGE, (address + max(nbytes, 1) - 1) // PAGE + 1)
        for number in numbers if len(numbers) < _FEW_PAGES else self._known(numbers):
            if number not in self._exposed:
                self._exposed[number] = self._table.at(number)

    def _known(self, numbers: range) -> Iterable[int]:
        """Return which of these pages have a copy somewhere; others are read when a command needs them."""
        known = self._table.held.union(*(chunk.pages for chunk in self._open()))
        return [number for number in known if number in numbers]

    def _find_written(self) -> None:
        """Note what the host has written by itself."""
        for number, before in self._exposed.items():
            if not self._table.is_now(number, before):
                self._table.changed([number])
                now = self._exposed[number] = self._table.at(number)
                self.writing(number * PAGE, np.frombuffer(now.content, np.uint8))

    def mark(self, number: int) -> None:
        """Note that the host wants to know the counters."""
        for chunk in self._open():
            chunk.actions.append(CounterMark(number))

    def begin(self, ops: Sequence[RegisterOp]) -> None:
        """Note that the host begins register operations."""
        self._ops = tuple(ops)
        if self._exposed and any(isinstance(op, WriteReg) and op.offset in _DOORBELLS for op in ops):
            self._find_written()
            self._exposed.clear()
        for chunk in self._open():
            chunk.actions.append(RegisterBatch(self._ops))

    def operate(self, position: int, *, waits: bool) -> None:
        """Note that the operation with this number begins, and whether it waits for the interrupt."""
        self._position, self._waiting = position, waits

    def rung(self, op: WriteReg) -> None:
        """Note a write that may have been a doorbell, or have cleared the counters."""
        if op.offset == regs.CONTROL and op.value & _CLEARS:
            for chunk in self._open():
                chunk.cleared = chunk.estimate
        elif op.offset == regs.DOORBELL:
            self._windowed = True
        elif op.offset == regs.RING_TAIL:
            self._doorbells += 1
            self._touch_ring(self._open())

    def _touch_ring(self, chunks: Sequence[_OpenChunk]) -> None:
        """Keep the packets that wait in the ring."""
        base, size, head, tail = self._model.ring_slots
        parts = [(head, tail)] if head <= tail else [(head, size), (0, tail)]
        runs = [(base + a * PACKET_BYTES, (b - a) * PACKET_BYTES) for a, b in parts if b > a]
        if runs:
            numbers = pages_of(np.array(runs, dtype=np.int64))
            for chunk in chunks:
                chunk.touch(numbers, self._table)

    def end(self, results: Sequence[int], *, refused: bool = False) -> None:
        """Note what the operations that began last returned."""
        for chunk in self._open():
            action = chunk.actions[-1]
            assert isinstance(action, RegisterBatch)
            action.results = tuple(results[len(self._ops) - len(action.ops) :])
            action.refused = refused
        last = self._ops[-1] if self._ops else None
        if isinstance(last, ReadReg) and last.offset == regs.STATUS and not refused and self.idle:
            self._at_idle(regs.STATUS_STATE.get(results[-1]))

    def interrupted(self, results: Sequence[int]) -> None:
        """Note that an exception has ended the operations, behind those that returned `results`.

        The one that it ended is none of the run: the host waits again.
        """
        for chunk in self._open():
            action = chunk.actions[-1]
            assert isinstance(action, RegisterBatch)
            done = len(results) - (len(self._ops) - len(action.ops))
            action.ops, action.results = action.ops[:done], tuple(results[len(results) - done :])
            if not action.ops:
                chunk.actions.pop()

    @property
    def count(self) -> int:
        """Chunks so far."""
        return self._number

    @property
    def idle(self) -> bool:
        """Whether nothing that was submitted is left."""
        return self._model.state != State.BUSY

    def _at_idle(self, seen: int) -> None:
        if seen == State.BUSY:
            return
        self._doorbells, self._windowed = 0, False
        if self._next is not None and self._next.start is not None:
            if seen == State.ERROR or self._model.retired < self._next.start.retired:
                self._current.commands += self._next.commands
                self._current.estimate += self._next.estimate
                self._next = None
            else:
                self._end_current(self._next)
        if self._current.estimate >= self._target:
            self._cut()

    # --- the model ------------------------------------------------------------------------------------------

    def taking(self) -> None:
        model = self._model
        self._failed = set()
        self._head = model.ring_slots[2]
        if not model.between_commands:
            return
        if self._next is not None:
            start = self._next.start
            assert start is not None
            if model.retired + 1 == start.retired:
                base, _, head, _ = model.ring_slots
                self._next.start = Boundary(start.retired, base + head * PACKET_BYTES)
            elif model.retired == start.retired + MORE_COMMANDS:
                self._end_current(self._next)
        elif self._waiting and self._may_cut():
            self._next = self._opened(Boundary(model.retired + WARM_COMMANDS, 0))

    def _may_cut(self) -> bool:
        """Return whether the chunk is long enough for a cut between the commands that come next."""
        estimate = self._current.estimate / self._target
        if estimate < _PATIENCE or self._model.waiting <= _LONG or self._doorbells != 1 or self._windowed:
            return False
        around = self._packets_ahead(WARM_COMMANDS + MORE_COMMANDS)
        short = sum(roughly(packet, self._config) for packet in around) <= _SHORT * self._target
        return short or estimate >= _LAST_PATIENCE

    def _packets_ahead(self, count: int) -> list[NpuCommandPacket]:
        """Return the packets of the next commands in the ring."""
        base, size, slot, tail = self._model.ring_slots
        found: list[NpuCommandPacket] = []
        while len(found) < count and slot != tail:
            raw = self._model.memory.read(base + slot * PACKET_BYTES, PACKET_BYTES).tobytes()
            command = Command((raw,))
            found.append(command.packet)
            slot = (slot + command.needed) % size
        return found

    def executing(self, command: Command, checked: CheckedCommand) -> None:
        written = written_by(checked, self._model.memory)
        dirty = pages_of(written)
        read = [number for runs in read_by(checked, self._model.memory) for number in pages_of(runs, 1)]
        for chunk in self._open():
            chunk.touch(read, self._table)
            chunk.touch(pages_of(written, 1), self._table)
            chunk.dirty.update(dirty)
        self._table.changed(dirty)
        self._failed = set(dirty)
        if checked.packet.opcode == Opcode.LOAD_PROGRAM:
            self._loaded(checked)
        owner = self._current
        if self._next is not None and self._next.start is not None:
            owner = self._next if self._model.retired >= self._next.start.retired else self._current
        owner.commands += 1
        owner.estimate += estimated_cycles(checked, self._config)

    def faulted(self) -> None:
        for chunk in self._open():
            chunk.undefined |= self._failed

    def _loaded(self, checked: CheckedCommand) -> None:
        source, at = checked.sources[0], checked.packet.k
        for entry in range(at, at + checked.packet.m):
            self.names.pop(entry, None)
        image = self._model.memory.read(source.address, source.row_bytes).tobytes()
        for place, name in self._images.get(image, ()):
            self.names[at + place] = name

    # --- chunks ---------------------------------------------------------------------------------------------

    def _open(self) -> list[_OpenChunk]:
        return [self._current] if self._next is None else [self._current, self._next]

    def _opened(self, start: Boundary | None) -> _OpenChunk:
        """Open a chunk that begins with the command that the model is about to take, in the host's wait."""
        chunk = _OpenChunk(self._model.save(), start)
        chunk.actions.append(RegisterBatch(tuple(self._ops[self._position :])))
        self._touch_ring([chunk])
        return chunk

    def _end_current(self, following: _OpenChunk) -> None:
        """Submit the current chunk, which `following` continues between two commands."""
        chunk, self._current, self._next = self._current, following, None
        tail = self._model.ring_slots[2]
        self._submit(self._finished(chunk, following.start, tail))

    def _cut(self) -> None:
        """Submit the current chunk. The next one begins now, while the device is idle."""
        chunk = self._current
        if self._model.between_commands:
            self._current = _OpenChunk(self._model.save())
        else:  # only the commands before can bring a device into state ERROR
            self._current = chunk.copy()
            self._current.warm = len(chunk.actions)
        self._submit(self._finished(chunk, None, 0))

    def cut(self) -> None:
        """Submit what has happened so far, while the device is idle."""
        self._find_written()
        if len(self._current.actions) > self._current.warm:
            self._cut()

    def _finished(self, chunk: _OpenChunk, end: Boundary | None, end_tail: int) -> RunChunk:
        number, self._number = self._number, self._number + 1
        final = {page: self._table.at(page).digest for page in chunk.dirty if page in chunk.pages}
        code, index, address = self._model.error_registers
        return RunChunk(
            number=number,
            config=self._name,
            knobs=self._knobs,
            state=chunk.state,
            pages=chunk.pages,
            actions=chunk.actions,
            warm=chunk.warm,
            start=chunk.start,
            end=end,
            end_tail=end_tail,
            final=final,
            undefined=frozenset(chunk.undefined),
            last=EndState(
                state=int(State.DONE if end is not None else self._model.state),
                code=code,
                error_index=index,
                error_address=address,
                retired=self._model.retired,
                head=self._model.ring_slots[2],
            ),
            programs=self._model.programs.words.tobytes(),
            commands=chunk.commands,
            estimate=chunk.estimate,
            since_cleared=None if chunk.cleared is None else chunk.estimate - chunk.cleared,
            names=dict(self.names),
        )


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of consecutive numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
