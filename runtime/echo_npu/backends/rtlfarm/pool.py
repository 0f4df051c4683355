"""Simulations of this machine that share the chunks of a run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from echo_npu.backends.rtlfarm.chunk import ChunkResult, Deviation, RunChunk
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import SimulatorError

ATTEMPTS: Final = 3
"""How often a chunk is tried on simulations that end before it does."""


def ended_by_itself(error: SimulatorError) -> Deviation | None:
    """Return the end of a simulation as a finding if an assertion of the RTL did it, and nobody's signal."""
    if error.exit_status is None or error.exit_status <= 0:
        return None
    said = [line for line in error.log_tail.splitlines() if "%Error" in line or "%Fatal" in line]
    return Deviation(f"the simulation ended: {said[0].strip()}") if said else None


@dataclass(frozen=True, slots=True)
class Load:
    """Chunks that wait and that run."""

    waiting: int
    running: int


class Workers(Protocol):
    """Simulations that run chunks, wherever they are."""

    def submit(self, chunk: RunChunk) -> None:
        """Take a chunk, and block while too many wait. What ends the wait does not lose the chunk."""

    def drain(self, timeout: float | None = None) -> bool:
        """Return when nothing is left, or after so many seconds; say whether nothing is left."""

    @property
    def load(self) -> Load:
        """What there is to do."""

    def stop(self) -> None:
        """Take no more chunks, and drop those that wait; what runs goes on."""

    def close(self) -> None:
        """Drop what is left, and end all simulations. Idempotent."""


class LocalWorkers:
    """Threads with a simulation each.

    A simulation that ends while it runs a chunk is replaced, and the chunk goes to whichever is free next.

    Args:
        jobs: how many.
        on_result: called with each result, in a worker's thread.
        on_failure: called with what makes everything else pointless: a chunk that no simulation finishes.
        first: a simulation that was started already.
    """

    def __init__(
        self,
        config: str,
        options: Options,
        jobs: int,
        on_result: Callable[[RunChunk, ChunkResult], None],
        on_failure: Callable[[Exception], None],
        first: ChunkRunner,
    ) -> None:
        self._config = config
        self._options = options
        self._most = 2 * jobs
        self._on_result = on_result
        self._on_failure = on_failure
        self._waiting: deque[tuple[RunChunk, int]] = deque()  # and the attempts so far
        self._running = 0
        self._closed = False
        self._over = False  # closed, and nothing is to run any more
        self._changed = threading.Condition()
        self.runners: list[ChunkRunner | None] = [first, *[None] * (jobs - 1)]
        self._threads: list[threading.Thread] = []
        try:
            for place in range(jobs):
                thread = threading.Thread(
                    target=self._work, args=(place,), name=f"rtlfarm-{place}", daemon=True
                )
                thread.start()
                self._threads.append(thread)
        except BaseException:  # a machine may have no more threads
            self.close()
            raise

    @property
    def load(self) -> Load:
        with self._changed:
            return Load(len(self._waiting), self._running)

    def submit(self, chunk: RunChunk) -> None:
        with self._changed:
            if not self._closed:
                self._waiting.append((chunk, 0))  # first: an interrupt of the wait must not lose it
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._most)

    def drain(self, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not (self._waiting or self._running), timeout)

    def stop(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        with self._changed:
            self._over = True
        for runner in self.runners:
            if runner is not None:
                runner.close()  # a thread that waits for it gets a SimulatorError
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self, place: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    break
                chunk, attempts = self._waiting.popleft()
                self._running += 1
                self._changed.notify_all()
            try:
                result = self._runner(place).run(chunk)
                self._on_result(chunk, result)
            except SimulatorError as error:
                again = attempts + 1 < ATTEMPTS
                if again:
                    self._put_back(chunk, attempts + 1)  # another simulation may take it while this one ends
                self._end(place)
                if not again and not self._closed:
                    self._give_up(chunk, error)
            except Exception as error:  # everything else would be lost in this thread
                self._fail(error)
            with self._changed:
                self._running -= 1
                self._changed.notify_all()
        self._end(place)

    def _put_back(self, chunk: RunChunk, attempts: int) -> None:
        with self._changed:
            if not self._closed:
                self._waiting.appendleft((chunk, attempts))
                self._changed.notify_all()

    def _runner(self, place: int) -> ChunkRunner:
        runner = self.runners[place]
        if runner is None:
            runner = ChunkRunner(self._config, self._options)
            with self._changed:
                over = self._over
                if not over:
                    self.runners[place] = runner
            if over:
                runner.close()
                raise SimulatorError("the farm is closed")
        return runner

    def _end(self, place: int) -> None:
        runner, self.runners[place] = self.runners[place], None
        if runner is not None:
            runner.close()

    def _give_up(self, chunk: RunChunk, error: SimulatorError) -> None:
        deviation = ended_by_itself(error)
        if deviation is None:
            self._fail(error)
        else:
            self._on_result(chunk, ChunkResult(chunk.number, 0, {}, False, 0, 0.0, 0.0, deviation))

    def _fail(self, error: Exception) -> None:
        self._on_failure(error)
        self.stop()
