"""Scoreboard of all commands.

It observes the same register writes as the device and runs the functional model on them. Each command is
checked twice: for accuracy, the model against float64 within a stated bound, when the model executes it; and
exactly, the device against the model bit for bit over all of memory, when the test calls `check`. A
difference inside a command's destination is attributed to that command; any other is a stray write.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.checked import CheckedCommand, PacketFault
from echo_npu.commands.packets import PACKET_BYTES, Opcode
from echo_npu.model.execution import ExecutionFault
from echo_npu.model.functional import FunctionalModel
from echo_npu.model.memory import DeviceMemory
from echo_npu.model.vector_scatter import row_starts
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State, error_name
from echo_sim.config import NpuConfig
from echo_sim.native import ObservedWrite
from tb.checking import Behind
from tb.scoreboards.accuracy import Expectation, addresses, block_kinds
from tb.scoreboards.errors import (
    ExactMismatchError,
    ScoreboardError,
    StateMismatchError,
    StrayWriteError,
    UncheckedError,
)
from tb.scoreboards.interrupts import check_interrupt
from tb.scoreboards.memory import MemoryImage, differences


class DeviceState(NamedTuple):
    """Registers that show the device's progress."""

    state: int
    error_code: int
    error_index: int
    error_address: int
    retired: int

    def __str__(self) -> str:
        return (
            f"state {State(self.state).name}, error {error_name(self.error_code)} index {self.error_index}"
            f" address 0x{self.error_address:x}, retired {self.retired}"
        )


STATE_REGISTERS = (
    regs.STATUS,
    regs.ERROR_CODE,
    regs.ERROR_INDEX,
    regs.ERROR_ADDR,
    regs.ERROR_ADDR + 4,
    regs.RETIRED,
)


def device_state(values: Sequence[int]) -> DeviceState:
    """Decode the values of STATE_REGISTERS."""
    status, code, index, low, high, retired = values
    return DeviceState(regs.STATUS_STATE.get(status), code, index, low | high << 32, retired)


@dataclasses.dataclass(frozen=True)
class ExpectedFault:
    """An error that only the device can predict: its code, ERROR_ADDR and failing command.

    `command` None stands for the fetch of a ring slot. With `before`, the device stops before it takes the
    command.
    """

    code: ErrorCode
    address: int
    command: int | None
    before: bool = False


class _Reference(FunctionalModel):
    """Functional model that records what it executes and can be given a bus error."""

    def __init__(self, config: NpuConfig, memory: DeviceMemory) -> None:
        self.fault: ExpectedFault | None = None
        self.undefined: list[CheckedCommand] = []
        self.executed: list[CheckedCommand] = []
        self.contents: list[frozenset[str]] = []
        """For each executed command, what `block_kinds` says of it."""
        self.history: list[tuple[NDArray[np.int64], NDArray[np.uint8]]] | None = None
        """If not None, previous contents of every destination, as (addresses, bytes)."""
        self.rewritten: list[NDArray[np.int64]] = []
        """With `history`, addresses that one command writes several times."""
        self._behind: Behind | None = None
        self._seen_head = 0
        super().__init__(config, memory)

    def forget_executed(self) -> None:
        """Forget the executed commands, which are compared, or need not be."""
        self.executed.clear()
        self.contents.clear()

    def drain(self) -> None:
        """Execute everything that was submitted."""
        while self._step_or_fault():
            pass

    @property
    def taken(self) -> int:
        """Commands taken since reset."""
        return self._taken

    def _ring_doorbell_of_ring(self, tail: int) -> None:
        if not self._error:
            self._behind = None
        elif tail < self._stored[regs.RING_SIZE]:
            self._look_behind(tail)
        super()._ring_doorbell_of_ring(tail)

    def _step_or_fault(self) -> bool:
        fault = self.fault
        if fault is not None and fault.before and self._taken == fault.command and self._held is None:
            self.fault = None
            self._fail(fault.code, fault.address)
            return False
        try:
            return self._step()
        except PacketFault as hit:  # the fetch of a first slot failed; `_step` reports all other faults
            self._fail(hit.code, hit.address, self._taken)
            return False

    def _take(self, from_ring: bool) -> bytes | None:
        fault = self.fault
        if from_ring and fault is not None and fault.command is None and self._head != self._tail:
            self.fault = None
            raise PacketFault(fault.code, fault.address)
        return super()._take(from_ring)

    def _execute(self, command: CheckedCommand) -> None:
        if self.history is not None and command.dst is not None:
            runs = addresses(command.dst, command.batch).reshape(-1, 1)
            places = (runs + np.arange(command.dst.row_bytes)).reshape(-1)
            self.history.append((places, self.memory.bytes[places]))
            if command.vector is not None and command.vector.table_rows:
                # Of the table, the rows that indices name: equal ones write one row several times.
                starts = row_starts(self.memory.bytes, command.vector)
                self.rewritten.append(_repeated(starts, command.dst.row_bytes))
            elif command.dst.overlaps_itself(command.batch):
                self.rewritten.append(_repeated(runs, command.dst.row_bytes))
        if self.fault is not None and not self.fault.before and self.fault.command == self._taken - 1:
            fault, self.fault = self.fault, None
            self._stopped(command)
            raise PacketFault(fault.code, fault.address)
        expectation = Expectation(command, self.memory.bytes)
        kinds = block_kinds(command, self.memory.bytes)
        try:
            super()._execute(command)
        except ExecutionFault:
            self._stopped(command)
            raise
        self.executed.append(command)
        self.contents.append(kinds)
        expectation.check(self.memory.bytes)

    def _stopped(self, command: CheckedCommand) -> None:
        """Record that a command failed in its engine; later ones may be running and stop too."""
        if command.packet.opcode == Opcode.LOAD_PROGRAM:
            self.programs.give_up(command.packet.k, command.packet.m)
        self.undefined.append(command)
        self._behind = Behind(command.packet.on_matrix)
        self._seen_head = self._head
        self._look_behind(self._tail)

    def _look_behind(self, tail: int) -> None:
        """Process the ring's slots up to `tail`, which follow the failed command."""
        base, slots = self._stored[regs.RING_BASE], self._stored[regs.RING_SIZE]
        while self._behind is not None and self._seen_head != tail:
            slot = self.memory.read(base + self._seen_head * PACKET_BYTES, PACKET_BYTES)
            self._came_behind(slot.tobytes())
            self._seen_head = (self._seen_head + 1) % slots

    def _came_behind(self, slot: bytes) -> None:
        assert self._behind is not None
        command = self._behind.take(slot, self.programs, blocks=self._config.has_blocks)
        if self._behind.complete:
            self._behind = None
        if command is not None:
            self.undefined.append(command)

    def _ring_doorbell_of_window(self) -> None:
        if not self._error:
            self._behind = None
        if self._behind is not None:
            self._came_behind(bytes(self._window))
        super()._ring_doorbell_of_window()

    def settle(self) -> None:
        """Record that the device is idle: nothing is under way when the next command starts."""
        self._overlap.settle()

    def snapshot(self) -> DeviceState:
        return DeviceState(self.state, self._error, self._error_index, self._error_address, self._retired)

    def register(self, offset: int) -> int:
        """Return a register's value without side effects."""
        return self._value(offset)

    @property
    def waits_for_extension(self) -> bool:
        return self._held is not None

    def give_up_extension(self) -> None:
        self._fail(ErrorCode.BAD_EXTENSION, 0, self._taken - 1)
        self._held = None


def _repeated(starts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the addresses that several runs of `count` bytes have, which begin at `starts`."""
    found, times = np.unique(starts.reshape(-1, 1) + np.arange(count), return_counts=True)
    repeated: NDArray[np.int64] = found[times > 1]
    return repeated


class CommandScoreboard:
    """Scoreboard of one device.

    Call `mirror` and `observe` in the order of events, `check` when the device is idle, and `finish` at the
    end.
    """

    def __init__(self, config: NpuConfig) -> None:
        self._config = config
        self.on_checked: Callable[[Sequence[CheckedCommand], Sequence[frozenset[str]]], None] | None = None
        """Called with the commands that passed both checks, in order."""
        self.checked = 0
        """Commands that passed both checks, plus compared errors."""
        self._failed = False
        self._memory = DeviceMemory()
        self._causes = 0
        self._cleared = False
        self._reference = _Reference(config, self._memory)
        self._unseen_errors = False

    def mirror(self, address: int, data: NDArray[np.uint8]) -> None:
        """Record that the host is about to write `data` to device memory."""
        self._memory.bytes[address : address + data.size] = data

    def observe(self, writes: Iterable[ObservedWrite]) -> None:
        """Process register writes that the device accepted. Raises AccuracyError if the model's result is
        wrong."""
        for write in writes:
            if write.response:
                continue  # refused, so it has no effect
            if write.strobes != 0xF:
                raise ScoreboardError(
                    f"partial write of register 0x{write.offset:03x}: the model has no byte strobes"
                )
            self._cleared |= write.offset == regs.IRQ_STATUS
            self._reference.write_reg(write.offset, write.data)
            try:
                self._reference.drain()
            except ScoreboardError:
                self._failed = True
                raise
            self._unseen_errors |= self._reference.state == State.ERROR
            self._causes |= self._reference.register(regs.IRQ_STATUS)

    def expect_fault(
        self, code: ErrorCode, address: int, *, command: int | None, before: bool = False
    ) -> None:
        """Announce that memory responds to a command with an error.

        Command number `command` since reset (None: the next fetch of a ring slot) fails with `code` and
        ERROR_ADDR `address`; its destination is undefined. With `before`, the device stops before it takes
        that command.
        """
        self._reference.fault = ExpectedFault(code, address, command, before)

    @property
    def taken(self) -> int:
        """Commands that the model has taken since reset."""
        return self._reference.taken

    def restart_interrupts(self) -> None:
        """Record that all causes were cleared while the device was idle."""
        self._causes = 0
        self._cleared = False

    def check_interrupt(self, status: int, enable: int, line: bool) -> None:
        """Compare IRQ_STATUS, IRQ_ENABLE and the output of an idle device. Raises InterruptMismatchError."""
        check_interrupt(
            status,
            enable,
            line,
            model=self._reference.register(regs.IRQ_STATUS),
            causes=self._causes,
            cleared=self._cleared,
            failed=self._reference.state == State.ERROR,
        )

    def keep_history(self) -> None:
        """Start recording what commands overwrite, for `after_reset`."""
        self._reference.history = []

    def after_reset(self, memory: MemoryImage, *, hard: bool) -> None:
        """Check memory after a reset during the commands observed since `keep_history`, and adopt it.

        Each byte must be what a command left there, or what was there before. Where rows of one destination
        overlap, or several are scattered to one row of a table, it may also be what an earlier row left,
        which the model does not keep: anything is accepted.
        Program memory must be loaded again.

        Raises ExactMismatchError, StrayWriteError: a byte is something else.
        """
        self._failed = True  # unless everything below passes
        reference = self._reference
        for command in reference.undefined:
            self._adopt(command, memory)
        found = differences(memory, self._memory)
        legal = np.zeros(found.size, dtype=bool)
        for places, old in reference.history or ():
            at = np.searchsorted(found, places)
            at[at == found.size] = 0
            same = found.size > 0 and (found[at] == places) & (memory.bytes[places] == old)
            legal[at[same]] = True
        for places in reference.rewritten:
            legal |= np.isin(found, places)
        if not legal.all():
            self._blame(found[~legal], memory)
        self._memory.bytes[found] = memory.bytes[found]
        reference.forget_executed()
        reference.undefined.clear()
        reference.history = None
        reference.rewritten.clear()
        if hard:
            self._reference = _Reference(self._config, self._memory)
        self.checked += 1
        self._unseen_errors = self._failed = False

    def expect_no_extension(self) -> None:
        """Tell the model, which has no clock, that the device stopped waiting for an announced extension."""
        if not self._reference.waits_for_extension:
            raise StateMismatchError("the functional model does not wait for an extension packet")
        self._reference.give_up_extension()
        self._unseen_errors = True

    @property
    def pending(self) -> int:
        """Commands that the model executed and that were not yet compared."""
        return len(self._reference.executed) + len(self._reference.undefined)

    def check(self, memory: MemoryImage, state: DeviceState) -> None:
        """Compare memory and registers of the idle device with the model's.

        Raises StateMismatchError, ExactMismatchError, StrayWriteError.
        """
        self._failed = True  # unless everything below passes
        reference = self._reference
        for command in reference.undefined:
            self._adopt(command, memory)
        self._compare(memory)
        if state != reference.snapshot():
            raise StateMismatchError(f"device: {state}; functional model: {reference.snapshot()}")
        self.checked += len(reference.executed) + int(self._unseen_errors)
        if self.on_checked is not None:
            self.on_checked(reference.executed, reference.contents)
        reference.forget_executed()
        reference.undefined.clear()
        reference.settle()
        self._unseen_errors = False
        self._failed = False

    def expected_register(self, offset: int) -> int:
        """Return the model's register after everything observed."""
        return self._reference.register(offset)

    def expected_bytes(self, address: int, length: int) -> bytes:
        """Return the model's memory after everything observed."""
        return self._memory.bytes[address : address + length].tobytes()

    def check_memory(self, memory: MemoryImage) -> None:
        """Compare memory only, for tests of the host window. Raises StrayWriteError, ExactMismatchError."""
        self._compare(memory)
        self.checked += 1

    def resynchronise(self, memory: MemoryImage, undefined: Sequence[tuple[int, int]]) -> None:
        """Restart from the memory of a device that was reset at an unknown point of its work.

        Outside the `undefined` address ranges, memory must equal the model's. Raises StrayWriteError.
        """
        for start, end in undefined:
            self._memory.bytes[start:end] = memory.bytes[start:end]
        self._reference.forget_executed()
        self._compare(memory)
        before = self._reference.programs
        self._reference = _Reference(self._config, self._memory)
        self._reference.programs.load(0, before.words)
        self._unseen_errors = False

    def finish(self) -> None:
        """End the test. Raise UncheckedError if a command was never checked, or nothing was."""
        if self._failed:
            return  # already reported
        if self.pending or self._unseen_errors:
            commands = ", ".join(str(command.packet) for command in self._reference.executed[:4])
            raise UncheckedError(
                f"{self.pending} commands were submitted but never checked: {commands or 'an error state'}"
            )
        if self._reference.waits_for_extension:
            raise UncheckedError("the test ended while the device waits for an extension packet")
        if not self.checked:
            raise UncheckedError("the test checked no command and no memory")

    def close(self) -> None:
        """Release the model's memory."""
        self._memory.close()

    def _adopt(self, command: CheckedCommand, memory: MemoryImage) -> None:
        dst = command.dst
        if dst is None:
            return
        for start in addresses(dst, command.batch).reshape(-1).tolist():
            self._memory.bytes[start : start + dst.row_bytes] = memory.bytes[start : start + dst.row_bytes]

    def _compare(self, memory: MemoryImage) -> None:
        found = differences(memory, self._memory)
        if found.size:
            self._failed = True
            self._blame(found, memory)

    def _blame(self, found: NDArray[np.int64], memory: MemoryImage) -> None:
        """Raise for the first differing byte, naming the last command that wrote it, if any."""
        first = int(found[0])
        bytes_text = (
            f"{found.size} bytes differ, first at 0x{first:08x}: device 0x{int(memory.bytes[first]):02x},"
            f" model 0x{int(self._memory.bytes[first]):02x}"
        )
        for number, command in reversed(list(enumerate(self._reference.executed))):
            dst = command.dst
            if dst is None:
                continue
            starts = addresses(dst, command.batch)
            hit = np.argwhere((starts <= first) & (first < starts + dst.row_bytes))
            if not hit.size:
                continue
            outer, inner, run = (int(i) for i in hit[0])
            row, segment = divmod(run, dst.segments)
            where = f"row {row}" if dst.segments == 1 else f"row {row} segment {segment}"
            size = command.element_bytes
            column = (first - int(starts[outer, inner, run])) // size
            word = first & ~3
            raise ExactMismatchError(
                f"exact: {command.packet} (number {number} since the last check) differs from the functional"
                f" model at batch ({inner}, {outer}) {where} element {column}: device"
                f" 0x{int(memory.bytes[word : word + 4].view(np.uint32)[0]):08x}, model"
                f" 0x{int(self._memory.bytes[word : word + 4].view(np.uint32)[0]):08x}; {bytes_text}"
            )
        raise StrayWriteError(f"memory: outside of every command's destination {bytes_text}")
