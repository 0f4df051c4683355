"""The timeline of a device: the events of the simulation, joined with the commands that the host submitted.

Time is in cycles since the device was ready: one microsecond of the file is one cycle. docs/performance.md
describes the tracks.
"""

import contextlib
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from echo_npu.register_ops import RegisterOp
from echo_npu.trace.commands import CommandWatcher, SeenCommand
from echo_npu.trace.file import TraceFile
from echo_npu.vector.program import Program
from echo_sim.contract import TraceEventKind
from echo_sim.trace_events import EVENT, LEVELS

_PID: Final = 1
# Tracks from top to bottom; those with several rows count on from here.
_OPERATIONS, _FENCES, _LEVELS, _READERS, _WRITERS = 1, 90, 100, 200, 300
_COMMANDS: Final = (10, 50)
_ENGINES: Final = ("matrix", "vector")
_ROWS: Final = 40


class TraceCutWarning(UserWarning):
    """A timeline that ends early; the file says at which cycle."""


class Timeline:
    """Writes one timeline file.

    Args:
        path: the file; compressed if it ends in .gz.
        title: name of what it shows.
        read: reads device memory, `read(address, nbytes)`.
        limit: the number of events after which the file is cut.

    Raises:
        ValueError: the file cannot be written.
    """

    def __init__(self, path: Path, title: str, read: Callable[[int, int], bytes], *, limit: int) -> None:
        self._file = TraceFile(path)
        self._limit = limit
        self._watcher = CommandWatcher(read, self._submitted, self._cleared)
        self._tracks: set[int] = set()
        self._origin = self._now = 0  # cycles of the simulation
        self._beat_bytes = self._window = 0
        self._clients: tuple[Sequence[str], Sequence[str]] = ((), ())
        self._waiting: deque[SeenCommand] = deque()  # submitted, not retired
        self._started: tuple[deque[int], ...] = (deque(), deque())
        self._done: tuple[deque[int], ...] = (deque(), deque())
        self._row_ends: tuple[list[int], ...] = ([], [])
        self._index = 0
        self._levels = 0
        self._since = [0] * len(LEVELS)
        self._cut = False
        self._file.add(self._metadata("process_name", 0, name=title))

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._file.path

    @property
    def cut(self) -> bool:
        """Whether it ends before the device did."""
        return self._cut

    # --- what the host does ---------------------------------------------------------------------------------

    def describe(self, programs: Sequence[Program]) -> None:
        """Give the names of vector programs that one LOAD_PROGRAM loads, one after another."""
        self._watcher.describe(programs)

    def see(self, ops: Sequence[RegisterOp]) -> None:
        """Note register operations that the device is about to get."""
        self._watcher.see(ops)

    @contextlib.contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Show what the device does inside the `with` block as one operation."""
        start = self._now
        try:
            yield
        finally:
            self._slice(_OPERATIONS, "operations", name, start, self._now)

    def _submitted(self, command: SeenCommand) -> None:
        self._waiting.append(command)

    def _cleared(self, reset: bool) -> None:
        """Drop the waiting commands, as the device does. The oldest one failed or was stopped."""
        if self._waiting:
            command = self._waiting[0]
            if command.engine is not None and self._started[command.engine]:
                start = self._started[command.engine].popleft()
                self._command(command, start, self._now, stopped=True)
            self._index += 1
        self._waiting.clear()
        for pulses in (*self._started, *self._done):
            pulses.clear()
        if reset:
            self._index = 0

    # --- what the simulation recorded -----------------------------------------------------------------------

    def start(self, facts: Mapping[str, Any]) -> None:
        """Begin the record. `facts`: cycle, beat_bytes, window (cycles), readers and writers (names)."""
        self._origin = self._now = facts["cycle"]
        self._beat_bytes, self._window = facts["beat_bytes"], facts["window"]
        self._clients = (facts["readers"], facts["writers"])
        self._waiting.clear()
        self._index = 0

    def add(self, data: bytes | bytearray, cycle: int) -> None:
        """Add events up to `cycle`."""
        latest = self._now
        for when, kind, channel, a, b, c in np.frombuffer(data, EVENT).tolist():
            if self._cut:
                break
            latest = max(latest, when)
            self._event(when, kind, channel, a, b, c)
            if kind == TraceEventKind.CUT:
                self._end_early(latest, "more happened in one request than the simulation can record")
            elif self._file.count >= self._limit:
                self._end_early(latest, f"it has its limit of {self._limit} events (trace_events)")
        self._now = cycle
        self._flush()

    def lost(self, reason: str) -> None:
        """Cut the timeline for `reason`: no more events can come."""
        if not self._cut:
            self._end_early(self._now, reason)

    def close(self) -> None:
        """Complete the file. Idempotent."""
        if not self._cut:
            self._change(self._now, 0)
            self._flush()
        self._file.close()

    def _flush(self) -> None:
        """Write the events to the file; a failure ends the timeline, not the program."""
        try:
            self._file.flush()
        except OSError as error:
            self._cut = True
            self._warn(self._now, f"the file cannot be written: {error.strerror}")

    def _event(self, cycle: int, kind: int, channel: int, a: int, b: int, c: int) -> None:
        if kind == TraceEventKind.LEVELS:
            self._change(cycle, a)
        elif kind == TraceEventKind.START:
            self._started[channel].append(cycle)
        elif kind == TraceEventKind.DONE:
            self._done[channel].append(cycle)
        elif kind == TraceEventKind.RETIRE:
            self._retire(cycle)
        elif kind == TraceEventKind.QUEUE:
            self._counter(cycle, "packets waiting", {"queue": a, "ring": b})
        elif kind == TraceEventKind.TRANSFER:
            self._transfer(cycle, channel >> 8, channel & 0xFF, a, b, c)
        elif kind == TraceEventKind.WINDOW:
            # A window may have begun before the record did.
            start = max(cycle, self._origin)
            unit = f"a window of {self._window} cycles"
            self._counter(start, f"read bytes in {unit}", {"bytes": a * self._beat_bytes})
            self._counter(start, f"write bytes in {unit}", {"bytes": b * self._beat_bytes})
            self._counter(start, f"multiply-accumulates in {unit}", {"macs": c})

    def _retire(self, cycle: int) -> None:
        """Show the oldest command. Commands retire in order, and each engine starts and finishes in order."""
        command = self._waiting.popleft() if self._waiting else None
        if command is None:
            return
        start, facts = cycle, {}
        if command.engine is not None and self._started[command.engine]:
            start = self._started[command.engine].popleft()
            if self._done[command.engine]:
                facts["engine cycles"] = self._done[command.engine].popleft() + 1 - start
        self._command(command, start, cycle + 1, **facts)
        self._index += 1

    def _command(self, command: SeenCommand, start: int, end: int, **more: Any) -> None:
        listed = command.listed
        facts = {"index": self._index, "opcode": listed.opcode, "shape": listed.shape, **listed.facts, **more}
        name = f"{listed.name} {listed.shape}".rstrip()
        if command.engine is None:
            self._slice(_FENCES, "fences", name, start, end, facts)
            return
        # Commands of one engine may overlap: each is shown in the first row that is free.
        ends = self._row_ends[command.engine]
        row = next((row for row, last in enumerate(ends) if last <= start), len(ends))
        ends[row : row + 1] = [end]
        track = f"{_ENGINES[command.engine]} commands" + (f" {row + 1}" if row else "")
        self._slice(_COMMANDS[command.engine] + min(row, _ROWS - 1), track, name, start, end, facts)

    def _change(self, cycle: int, levels: int) -> None:
        """Change the levels; each level that falls ends a slice."""
        for bit, name in enumerate(LEVELS):
            was, now = self._levels >> bit & 1, levels >> bit & 1
            if was and not now:
                self._slice(_LEVELS + bit, name, name, self._since[bit], cycle)
            elif now and not was:
                self._since[bit] = cycle
        self._levels = levels

    def _transfer(self, end: int, write: int, client: int, start: int, counts: int, address: int) -> None:
        beats, bursts = counts & 0xFFFF_FFFF, counts >> 32
        name = self._clients[write][client] or f"client {client}"
        track = f"{'write' if write else 'read'}: {name}"
        facts = {
            "beats": beats,
            "bytes": beats * self._beat_bytes,
            "bursts": bursts,
            "first address": f"0x{address:08x}",
        }
        self._slice((_WRITERS if write else _READERS) + client, track, name, start, end, facts)

    def _end_early(self, cycle: int, reason: str) -> None:
        self._change(cycle, 0)
        self._cut = True
        event = {"name": f"cut: {reason}", "ph": "i", "s": "g", "ts": cycle - self._origin}
        self._file.add({**event, "pid": _PID, "tid": _OPERATIONS})
        with contextlib.suppress(OSError):  # there is a reason already
            self._file.flush()
        self._warn(cycle, reason)

    def _warn(self, cycle: int, reason: str) -> None:
        warnings.warn(
            f"the timeline {self.path} is cut at cycle {cycle - self._origin}: {reason}",
            TraceCutWarning,
            stacklevel=3,
        )

    # --- events of the file ---------------------------------------------------------------------------------

    def _slice(
        self, track: int, title: str, name: str, start: int, end: int, facts: Mapping[str, Any] | None = None
    ) -> None:
        if self._cut:
            return
        if track not in self._tracks:
            self._tracks.add(track)
            self._file.add(self._metadata("thread_name", track, name=title))
            self._file.add(self._metadata("thread_sort_index", track, sort_index=track))
        event: dict[str, Any] = {"name": name, "ph": "X", "pid": _PID, "tid": track}
        event |= {"ts": start - self._origin, "dur": end - start}
        self._file.add({**event, "args": facts} if facts else event)

    def _counter(self, cycle: int, name: str, values: Mapping[str, int]) -> None:
        self._file.add({"name": name, "ph": "C", "ts": cycle - self._origin, "pid": _PID, "args": values})

    @staticmethod
    def _metadata(what: str, track: int, **values: Any) -> dict[str, Any]:
        return {"name": what, "ph": "M", "pid": _PID, "tid": track, "args": values}
