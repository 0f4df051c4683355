"""Let an RTL simulation do what a chunk's host did, and take the cycles that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from echo_npu.backends.rtlfarm.chunk import Boundary, CounterMark, MemoryWrite, RegisterBatch, RunChunk
from echo_npu.backends.rtlmodel import RtlmodelBackend
from echo_npu.commands.packets import Flags
from echo_npu.errors import NpuBusError
from echo_npu.register_ops import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.contract import COMMAND_OFFSETS
from echo_npu.spec.status import ALL_IRQS, END_IRQS, ErrorCode, State, error_name
from echo_sim.config import load_config

PATIENCE: Final = 1_000_000
"""Cycles of the device that one wait for its interrupt may take, and that it may take without progress."""

_TURNS: Final = 1 << 16
"""How often a host whose interrupt stays high looks at a device between two looks at its progress."""

_COUNTERS: Final = tuple(ReadReg(getattr(regs, name) + half) for name in regs.COUNTERS for half in (0, 4))
_LOOK_AT_STATE: Final = ReadReg(regs.STATUS)
_LOOK_AT_RING: Final = ReadReg(regs.RING_HEAD)
_PROGRESS: Final = tuple(map(ReadReg, (regs.RETIRED, regs.MACS, regs.READ_BEATS, regs.WRITE_BEATS)))
_IRQ_BYTE: Final = COMMAND_OFFSETS["flags"] + (int(Flags.IRQ).bit_length() - 1) // 8
_IRQ_BIT: Final = int(Flags.IRQ) >> 8 * (_IRQ_BYTE - COMMAND_OFFSETS["flags"])
"""Where the flag IRQ is in a packet."""


class DeviationError(Exception):
    """The RTL did something else than the model; `done` as in `Deviation`."""

    def __init__(self, what: str, done: int | None = None) -> None:
        self.done = done
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class _Sample:
    cycle: int
    counters: dict[str, int]


class ChunkPlay:
    """One run of a chunk on a prepared simulation.

    Args:
        rtl: the simulation, in the state in which the chunk begins.

    Attributes:
        cleared: whether the host has cleared the counters within the cycles that count.
        marks: as in `ChunkResult`.
    """

    def __init__(self, rtl: RtlmodelBackend, chunk: RunChunk) -> None:
        self._rtl = rtl
        self._chunk = chunk
        # The RTL's counts of commands minus the model's, until a reset: of those that retired, and of all,
        # with those that failed in earlier chunks.
        self._offset = self._index_offset = 0
        self._done = 0  # commands before the last reset
        self._since = chunk.state.retired  # the model's count when the ones behind it began
        self._patched: list[int] = []
        self._start: _Sample | None = None
        self._end: _Sample | None = None
        self.cleared = False
        self.marks: dict[int, tuple[bool, dict[str, int]]] = {}
        self._late = 0  # cycles that count in which the host did not read what was read
        self._late_in_counters = 0  # those of them that the counters have, which the host may clear
        rings = [
            (index, place)
            for index, action in enumerate(chunk.actions)
            if isinstance(action, RegisterBatch)
            for place, op in enumerate(action.ops)
            if isinstance(op, WriteReg) and op.offset == regs.RING_TAIL
        ]
        self._last_doorbell = rings[-1] if rings else None  # None: the one with which the chunk begins
        self._depth = load_config(chunk.config).queue_depth
        self._queued = len(chunk.state.queue)  # in the window queue at most
        self._slots, self._tail = chunk.state.ring[1], chunk.state.tail
        self._shift = chunk.ring_shift

    def play(self) -> None:
        """Do everything. DeviationError: registers differ, or the device hangs."""
        chunk = self._chunk
        (retired,) = self._rtl.run([ReadReg(regs.RETIRED)])
        self._offset, self._index_offset = retired - chunk.state.retired, retired - chunk.state.taken
        if chunk.state.waiting:
            self._begin()
        for index, action in enumerate(chunk.actions):
            if index == chunk.warm and chunk.start is None:
                self._start = self._sample_at_rest()
            if isinstance(action, MemoryWrite):
                self._rtl.memory.write(action.address, np.frombuffer(action.data, np.uint8))
            elif isinstance(action, CounterMark):
                if index >= chunk.warm:
                    self._mark(action)
            elif self._waits_again(index):
                continue  # the wait behind it does for both: the RTL may need only one
            elif action.results is None and index == len(chunk.actions) - 1 and chunk.end is not None:
                self._end = self._boundary(chunk.end)
                self._until_done()
            else:
                self._operate(index, action)
        if self._end is None:
            self._end = self._sample()
            if self._comes_to_rest():
                self._end = self._sample()
            if chunk.warm == len(chunk.actions) and self._start is None:
                self._start = self._end
        self._check_registers()
        self._unpatch()

    def measured(self) -> tuple[int, dict[str, int]]:
        """Return the cycles that count and the counters over them; nothing if the chunk did not end."""
        if self._start is None or self._end is None:
            return 0, {}
        return self._end.cycle - self._start.cycle - self._late, self._since_start(self._end)

    def _since_start(self, sample: _Sample) -> dict[str, int]:
        """Return the counters since the start, or since the host cleared them."""
        before = dict.fromkeys(sample.counters, 0)
        if not self.cleared and self._start is not None:
            before = self._start.counters
        counters = {name: value - before[name] for name, value in sample.counters.items()}
        return counters | {"cycles": counters["cycles"] - self._late_in_counters}

    def _mark(self, mark: CounterMark) -> None:
        sample = self._sample()
        self.marks[mark.number] = (self.cleared, self._since_start(sample))
        late = int(self._rtl.statistics()["cycles"]) - sample.cycle
        self._late += late
        self._late_in_counters += late

    # --- commands that wait at the beginning ----------------------------------------------------------------

    def _begin(self) -> None:
        """Submit what waits, and reach the cut if that is between two commands."""
        chunk, rtl = self._chunk, self._rtl
        state = chunk.state
        if chunk.start is not None:
            self._patch(chunk.start)
            rtl.run([WriteReg(regs.IRQ_ENABLE, ALL_IRQS)])
        if state.queue:
            push(rtl, state.queue)
            write_window(rtl, state.window)
        if state.ring[1] and state.head != state.tail:
            tail = state.tail
            if self._last_doorbell is None and chunk.end is not None:
                self._patch(chunk.end)
                tail = chunk.end_tail
            rtl.run([WriteReg(regs.RING_TAIL, tail - self._shift)])
        if chunk.start is not None:
            self._start = self._boundary(chunk.start)
            rtl.run([WriteReg(regs.IRQ_ENABLE, state.stored[regs.IRQ_ENABLE])])

    def _patch(self, boundary: Boundary) -> None:
        """Let the packet before a cut raise an interrupt."""
        byte = boundary.slot + _IRQ_BYTE
        if not self._rtl.memory.bytes[byte] & _IRQ_BIT:
            self._rtl.memory.bytes[byte] |= _IRQ_BIT
            self._patched.append(byte)

    def _unpatch(self) -> None:
        for byte in self._patched:
            self._rtl.memory.bytes[byte] &= 0xFF ^ _IRQ_BIT

    def _boundary(self, boundary: Boundary) -> _Sample:
        """Wait until the last command before a cut retires."""
        (enabled,) = self._rtl.run([ReadReg(regs.IRQ_ENABLE)])
        self._rtl.run([WriteReg(regs.IRQ_ENABLE, ALL_IRQS)])
        wanted = boundary.retired + self._offset
        progress: list[int] = []
        while True:
            (irq,) = self._rtl.run([WaitIrq(PATIENCE)])
            cycle = int(self._rtl.statistics()["cycles"])
            retired, status = self._rtl.run([ReadReg(regs.RETIRED), ReadReg(regs.STATUS)])
            if retired >= wanted:
                break
            before, progress = progress, self._rtl.run(_PROGRESS)
            if regs.STATUS_STATE.get(status) != State.BUSY or (not irq and progress == before):
                raise self._stuck(status)
            self._rtl.run([WriteReg(regs.IRQ_STATUS, regs.IRQ_STATUS_COMMAND.mask)])
        sample = _Sample(cycle, self._counters())
        self._rtl.run(
            [WriteReg(regs.IRQ_STATUS, regs.IRQ_STATUS_COMMAND.mask), WriteReg(regs.IRQ_ENABLE, enabled)]
        )
        return sample

    # --- the host -------------------------------------------------------------------------------------------

    def _operate(self, index: int, action: RegisterBatch) -> None:
        """Do register operations as the host did, and wait where it found the device at rest."""
        ops: list[RegisterOp] = list(action.ops)
        for place, op in enumerate(ops):
            if (index, place) == self._last_doorbell and self._chunk.end is not None:
                self._patch(self._chunk.end)
                ops[place] = WriteReg(regs.RING_TAIL, self._chunk.end_tail)
            if isinstance(op, WriteReg) and op.offset == regs.CONTROL:
                reset = bool(op.value & regs.CONTROL_SOFT_RESET.mask)
                counts = index >= self._chunk.warm
                if counts and (reset or op.value & regs.CONTROL_CLEAR_COUNTERS.mask):
                    self.cleared, self._late_in_counters = True, 0
                if reset:
                    self._forget_commands()
        self._make_window_room(ops)
        self._note_writes(ops)
        if self._shift:
            ops = [self._shifted(op) for op in ops]
        refused, results = False, []
        try:
            results = self._rtl.run(ops)
        except NpuBusError:
            refused = True
        if refused != action.refused:
            raise DeviationError(f"the device {'refused' if refused else 'took'} a register access")
        if refused or action.results is None:
            return
        reads = [place for place, op in enumerate(ops) if isinstance(op, ReadReg)]
        if not any(isinstance(op, WaitIrq) for op in ops):
            wanted = [action.results[place] for place in reads]
            ops, results = [ops[place] for place in reads], [results[place] for place in reads]
            if self._behind(ops, results, wanted):
                results = self._wait_for(ops, lambda found: not self._behind(ops, found, wanted))
        else:
            progress: list[int] = []
            turns = 0
            while self._behind(ops, results, action.results):
                turns += 1
                waited = not any(
                    result for op, result in zip(ops, results, strict=True) if isinstance(op, WaitIrq)
                )
                if waited or turns % _TURNS == 0:
                    before, progress = progress, self._rtl.run(_PROGRESS)
                    if before == progress:
                        raise self._stuck(results[-1])
                results = self._rtl.run(ops)
        self._note_queues(ops, results)
        self._make_ring_room(index, ops, results)

    def _forget_commands(self) -> None:
        """Note what the reset that comes next makes the device forget, in time that does not count."""
        before = self._cycle()
        (retired,) = self._rtl.run([ReadReg(regs.RETIRED)])
        if self._start is not None:
            self._late += self._cycle() - before
        self._done += retired - self._offset - self._since
        self._offset = self._index_offset = self._since = 0

    def _shifted(self, op: RegisterOp) -> RegisterOp:
        """Return an operation on the whole ring as one on that of the simulation."""
        if isinstance(op, WriteReg) and op.offset == regs.RING_TAIL:
            return WriteReg(regs.RING_TAIL, op.value - self._shift)
        return op

    # The model is done with packets earlier than the RTL, so the host may submit more than the RTL has room
    # for.

    def _note_writes(self, ops: Sequence[RegisterOp]) -> None:
        """Note what operations do to the window queue and the ring."""
        for op in ops:
            if not isinstance(op, WriteReg):
                continue
            if op.offset == regs.DOORBELL:
                self._queued += 1
            elif op.offset == regs.RING_SIZE:
                self._slots = op.value
            elif op.offset == regs.RING_TAIL:
                self._tail = op.value
            elif op.offset == regs.CONTROL and op.value & regs.CONTROL_SOFT_RESET.mask:
                self._queued = self._tail = 0

    def _note_queues(self, ops: Sequence[RegisterOp], results: Sequence[int]) -> None:
        """Note what operations have shown of the window queue."""
        for op, result in zip(ops, results, strict=True):
            if op == _LOOK_AT_STATE:
                self._queued = regs.STATUS_QUEUE_LEVEL.get(result)

    def _make_window_room(self, ops: Sequence[RegisterOp]) -> None:
        """Wait until the window queue has room for what operations submit."""
        new = sum(isinstance(op, WriteReg) and op.offset == regs.DOORBELL for op in ops)
        overflows = new > self._depth or self._chunk.last.code == ErrorCode.QUEUE_FULL
        if not new or overflows or self._queued + new <= self._depth:
            return
        (status,) = self._wait_for(
            [_LOOK_AT_STATE], lambda found: regs.STATUS_QUEUE_LEVEL.get(found[0]) + new <= self._depth
        )
        self._queued = regs.STATUS_QUEUE_LEVEL.get(status)

    def _make_ring_room(self, index: int, ops: Sequence[RegisterOp], results: Sequence[int]) -> None:
        """Behind a look at the ring, wait until it has room for what the host submits before the next one."""
        heads = [result for op, result in zip(ops, results, strict=True) if op == _LOOK_AT_RING]
        if not heads or not self._slots:
            return
        new = (self._next_tail(index) - self._tail) % self._slots

        def has_room(found: Sequence[int]) -> bool:
            return (self._tail - self._shift - found[-1]) % self._slots + new < self._slots

        if not has_room(heads):
            self._wait_for([_LOOK_AT_RING], has_room)

    def _next_tail(self, index: int) -> int:
        """Return the ring's tail as it is when the host next looks at the head."""
        tail = self._tail
        for action in self._chunk.actions[index + 1 :]:
            if isinstance(action, RegisterBatch):
                if _LOOK_AT_RING in action.ops:
                    break
                tails = [
                    op.value for op in action.ops if isinstance(op, WriteReg) and op.offset == regs.RING_TAIL
                ]
                tail = [tail, *tails][-1]
        return tail

    def _wait_for(self, reads: Sequence[RegisterOp], condition: Callable[[Sequence[int]], bool]) -> list[int]:
        """Read registers, at ever longer distances, until they fulfil a condition, and return them.

        Raises DeviationError: the device makes no progress.
        """
        began = changed = self._cycle()
        progress: list[int] = []
        while True:
            results = self._rtl.run(reads)
            if condition(results):
                return results
            now, before, progress = self._cycle(), progress, self._rtl.run(_PROGRESS)
            if progress != before:
                changed = now
            elif now - changed > PATIENCE:
                raise self._stuck(self._rtl.run([_LOOK_AT_STATE])[0])
            self._rtl.run([WaitIrq(1 + (now - began) // 16)])

    def _cycle(self) -> int:
        return int(self._rtl.statistics()["cycles"])

    def _comes_to_rest(self) -> bool:
        """Wait until the RTL has finished what the host did not wait for; return whether that was needed."""
        (status,) = self._rtl.run([_LOOK_AT_STATE])
        if regs.STATUS_STATE.get(status) != State.BUSY or self._chunk.last.state == State.BUSY:
            return False
        self._wait_for([_LOOK_AT_STATE], lambda found: regs.STATUS_STATE.get(found[0]) != State.BUSY)
        return True

    def _waits_again(self, index: int) -> bool:
        """Return whether the host waited, found the model busy, and waited in the same way again."""
        action, following = [*self._chunk.actions[index : index + 2], None][:2]
        if not isinstance(action, RegisterBatch) or not isinstance(following, RegisterBatch):
            return False
        if action.results is None:
            return False
        waits = any(isinstance(op, WaitIrq) for op in action.ops)
        return waits and action.ops == following.ops and self._found_busy(action)

    @staticmethod
    def _found_busy(action: RegisterBatch) -> bool:
        last = action.ops[-1]
        assert action.results is not None
        is_status = isinstance(last, ReadReg) and last.offset == regs.STATUS
        return is_status and regs.STATUS_STATE.get(action.results[-1]) == State.BUSY

    @staticmethod
    def _behind(ops: Sequence[RegisterOp], results: Sequence[int], wanted: Sequence[int]) -> bool:
        """Return whether the model had finished where the RTL is still busy."""
        for op, result, model in zip(ops, results, wanted, strict=True):
            if isinstance(op, ReadReg) and op.offset == regs.STATUS:
                states = (regs.STATUS_STATE.get(result), regs.STATUS_STATE.get(model))
                if states[0] == State.BUSY != states[1]:
                    return True
        return False

    def _until_done(self) -> None:
        """Wait for the end of what was submitted, as the host does."""
        waiting = (WaitIrq(PATIENCE), WriteReg(regs.IRQ_STATUS, END_IRQS), ReadReg(regs.STATUS))
        self._operate(-1, RegisterBatch(waiting, (1, 0, int(State.DONE))))

    def _stuck(self, status: int) -> DeviationError:
        state = State(regs.STATUS_STATE.get(status))
        (retired,) = self._rtl.run([ReadReg(regs.RETIRED)])
        done = self._done + retired - self._offset - self._since
        if state == State.ERROR:
            code, low = self._rtl.run([ReadReg(regs.ERROR_CODE), ReadReg(regs.ERROR_ADDR)])
            return DeviationError(f"the device stopped with {error_name(code)} at 0x{low:08x}", done)
        return DeviationError(f"the device is {state.name} and makes no progress", done)

    # --- samples and checks ---------------------------------------------------------------------------------

    def _sample_at_rest(self) -> _Sample:
        """Sample at a start in an idle device, whose clock goes on while its counters are read."""
        before = self._sample()
        after = int(self._rtl.statistics()["cycles"])
        late = after - before.cycle
        return _Sample(after, before.counters | {"cycles": before.counters["cycles"] + late})

    def _sample(self) -> _Sample:
        return _Sample(int(self._rtl.statistics()["cycles"]), self._counters())

    def _counters(self) -> dict[str, int]:
        words = self._rtl.run(_COUNTERS)
        pairs = zip(regs.COUNTERS, words[0::2], words[1::2], strict=True)
        return {name.lower(): high << 32 | low for name, low, high in pairs}

    def _check_registers(self) -> None:
        last = self._chunk.last
        offsets = (
            regs.STATUS,
            regs.ERROR_CODE,
            regs.ERROR_INDEX,
            regs.ERROR_ADDR,
            regs.RETIRED,
            regs.RING_HEAD,
        )
        status, code, index, address, retired, head = self._rtl.run([ReadReg(offset) for offset in offsets])
        state = regs.STATUS_STATE.get(status)
        if state == State.ERROR != last.state:
            raise self._stuck(status)  # which names the command
        pairs: list[tuple[str, Any, Any]] = [
            ("STATUS.state", State(state).name, State(last.state).name),
            ("ERROR_CODE", error_name(code), error_name(last.code)),
        ]
        if state == last.state == State.ERROR:
            pairs += [
                ("ERROR_INDEX", index - self._index_offset, last.error_index),
                ("ERROR_ADDR", address, last.error_address),
            ]
        pairs.append(("RETIRED", retired - self._offset, last.retired))
        if state == last.state:
            pairs.append(("RING_HEAD", head + self._shift, last.head))
        for name, found, wanted in pairs:
            if found != wanted:
                raise DeviationError(f"{name} is {found}, of the functional model {wanted}")


def push(rtl: RtlmodelBackend, slots: Sequence[bytes]) -> None:
    """Submit packets through the command window."""
    for slot in slots:
        write_window(rtl, slot)
        rtl.run([WriteReg(regs.DOORBELL, 1)])


def write_window(rtl: RtlmodelBackend, slot: bytes) -> None:
    """Write a packet of 64 bytes into the command window, without the doorbell."""
    words = np.frombuffer(slot, "<u4").tolist()
    rtl.run([WriteReg(regs.CMD_WINDOW + 4 * index, word) for index, word in enumerate(words)])
