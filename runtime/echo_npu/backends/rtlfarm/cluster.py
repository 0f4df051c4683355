"""Workers of a Dask scheduler that share the chunks of a run.

Pages travel by content. Those that no earlier chunk had go to the cluster together, as one block; a chunk
only names its pages and the blocks that they are in. A worker fetches a block once and keeps its pages.

One thread talks to the scheduler. It sends what waits, takes what has ended, and sends again what was lost
with a worker, a connection or a scheduler.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO
from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.backends.rtlfarm.remote import (
    PackedChunk,
    end_runners,
    hardware_of,
    keep_block,
    run_packed,
)
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import BackendError, SimulatorError

_CONNECT_TIMEOUT_S: Final = 10
_ANSWER_TIMEOUT_S: Final = 20
"""For what answers at a scheduler's address, and may be none: Dask itself would wait for ever."""
_RESULT_TIMEOUT_S: Final = 30
_CLOSE_TIMEOUT_S: Final = 30

_LOOK_S: Final = 0.5
"""How often the thread looks by itself."""

_ATTEMPTS: Final = 5
"""How often a chunk is sent that its workers fail to finish."""

_RECOUNT_S: Final = 5.0
_KEPT_CHUNKS: Final = 512
"""A block that so many chunks did not need is dropped; it is sent again if one does."""

_ON_ITS_WAY: Final = ("pending", "lost")
"""States of a task that Dask will bring to an end by itself."""

_LOST_CONNECTION: Final = "scheduler-connection-lost"
"""What Dask gives as the reason why a task was cancelled whose connection was lost."""


@dataclasses.dataclass(slots=True)
class _Sent:
    """A chunk that is not finished.

    Attributes:
        future: of Dask; None while it waits to be sent.
        failures: how often a worker did not finish it.
    """

    chunk: RunChunk
    future: Any = None
    failures: int = 0


class DaskWorkers:
    """The workers of a scheduler.

    Each needs this version of the package, and the extras "sim" and "verify". A chunk takes one thread. One
    whose worker dies runs again on another; one that a connection or a scheduler takes with it is sent again
    as soon as there are a scheduler and workers at the same address.

    Args:
        address: of the scheduler.
        options: of each simulation; `timeout` is also how many seconds the scheduler, or all its workers,
            may be away.
        on_result, on_failure: as of `LocalWorkers`.

    Attributes: sent (bytes of pages that went to the cluster).

    Raises:
        BackendError: no scheduler answers, it has no worker, or Dask is not installed.
    """

    def __init__(
        self,
        address: str,
        options: Options,
        on_result: Callable[[RunChunk, ChunkResult], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._address = address
        self._client = _connected(address)
        try:
            self._threads = sum(self._client.nthreads().values())
        except (OSError, TimeoutError) as error:
            self._client.close()
            raise BackendError(f"executor={address}: the scheduler does not answer ({error})") from None
        if not self._threads:
            self._client.close()
            raise BackendError(f"executor={address}: the scheduler has no worker")
        self._options = options
        self._on_result = on_result
        self._on_failure = on_failure
        self._run = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._open: dict[int, _Sent] = {}
        self._closed = False
        self._blocks: dict[str, Any] = {}  # futures by name
        self._block_of: dict[bytes, str] = {}
        self._used: dict[str, int] = {}  # the last chunk that needed a block
        self.sent = 0
        self._recount = time.monotonic() + _RECOUNT_S
        self._away: float | None = None  # since when there is nothing to send to
        self._thread = threading.Thread(target=self._work, name="rtlfarm-cluster", daemon=True)
        self._thread.start()

    # --- the program ----------------------------------------------------------------------------------------

    @property
    def load(self) -> Load:
        with self._changed:
            running = min(len(self._open), self._threads)
            return Load(len(self._open) - running, running)

    def submit(self, chunk: RunChunk) -> None:
        with self._changed:
            if not self._closed:
                self._open[chunk.number] = _Sent(chunk)  # first: an interrupt of the wait must not lose it
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or len(self._open) < 3 * max(1, self._threads))

    def drain(self, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def stop(self) -> None:
        with self._changed:
            self._closed = True
            for number in [number for number, sent in self._open.items() if sent.future is None]:
                del self._open[number]
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        with self._changed:
            left = [sent.future for sent in self._open.values() if sent.future is not None]
            self._open.clear()
            self._changed.notify_all()
        # A network that is down must not hold up the end of the program.
        farewell = threading.Thread(target=self._part, args=(left,), daemon=True)
        farewell.start()
        farewell.join(_CLOSE_TIMEOUT_S)

    def _part(self, left: list[Any]) -> None:
        self._thread.join()
        if self._client.status == "running":
            with contextlib.suppress(Exception):  # the cluster may go at any moment
                self._client.cancel(left, force=True)
                self._client.run(end_runners, self._run)
        with contextlib.suppress(Exception):
            self._client.close()

    # --- the thread -----------------------------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work, _LOOK_S)
                if self._closed and not self._open:
                    return
                waiting = list(self._open.values())
            try:
                for sent in waiting:
                    if sent.future is not None:
                        self._look(sent)
                if self._reached():
                    with self._changed:
                        waiting = [sent for sent in self._open.values() if sent.future is None]
                    for sent in waiting:
                        if not self._closed:
                            self._send(sent)
            except Exception as error:  # it would be lost in this thread
                self._on_failure(error)
                with self._changed:
                    self._open.clear()
                self.stop()

    def _has_work(self) -> bool:
        if self._closed and not self._open:
            return True
        if self._away is not None:
            return False
        futures = [sent.future for sent in self._open.values()]
        return any(future is None or future.status not in _ON_ITS_WAY for future in futures)

    def _wake(self, _future: Any) -> None:
        with self._changed:
            self._changed.notify_all()

    def _reached(self) -> bool:
        """Return whether there is a scheduler with workers. BackendError: there was none for too long."""
        now = time.monotonic()
        problem = ""
        if self._client.status != "running":
            problem = "the scheduler has been away"
            if self._client.status not in ("connecting", "newly-created"):
                with contextlib.suppress(BackendError):
                    lost, self._client = self._client, _connected(self._address)
                    with contextlib.suppress(Exception):  # it is of no use any more
                        lost.close()
        elif now > self._recount or self._away is not None:
            with contextlib.suppress(OSError, TimeoutError):
                self._threads = sum(self._client.nthreads().values())
                self._recount = now + _RECOUNT_S
            if not self._threads:
                problem = "the scheduler has had no worker"
        if not problem:
            self._away = None
            return True
        self._away = self._away or now
        if self._open and now - self._away > self._options.timeout:
            raise BackendError(
                f"executor={self._address}: {problem} for {self._options.timeout:g} s;"
                f" {len(self._open)} chunks were not checked"
            )
        return False

    def _send(self, sent: _Sent) -> None:
        packed, blocks = self._packed(sent.chunk, anew=sent.failures > 0)
        sent.future = self._client.submit(
            run_packed,
            packed,
            blocks,
            self._options,
            self._run,
            key=f"echo-npu-{self._run}-{sent.chunk.number}-{next(self._numbers)}",
            pure=False,
            priority=-sent.chunk.number,
        )
        sent.future.add_done_callback(self._wake)

    def _packed(self, chunk: RunChunk, *, anew: bool) -> tuple[PackedChunk, list[Any]]:
        """Send the pages that the cluster lacks, or all of them; return the rest and what holds pages."""
        self._forget(chunk.number)
        contents = {page.digest: page.content for page in chunk.pages.values()}
        contents.pop(ZERO.digest, None)
        new = {digest: each for digest, each in contents.items() if anew or digest not in self._block_of}
        if new:
            name = f"echo-npu-pages-{uuid.uuid4().hex}"
            self._blocks[name] = self._client.submit(keep_block, new, key=name, pure=False, priority=1)
            self._block_of |= dict.fromkeys(new, name)
            self.sent += PAGE * len(new)
        names = {self._block_of[digest] for digest in contents}
        self._used |= dict.fromkeys(names, chunk.number)
        blocks = [self._blocks[name] for name in sorted(names)]
        pages = {number: page.digest for number, page in chunk.pages.items()}
        return PackedChunk(dataclasses.replace(chunk, pages={}), pages, hardware_of(chunk.config)), blocks

    def _forget(self, number: int) -> None:
        """Drop blocks that nothing has needed for long, and those that a connection took with it."""
        with self._changed:
            oldest = min([*self._open, number]) - _KEPT_CHUNKS
        for name in list(self._blocks):
            if self._used[name] < oldest or self._blocks[name].status not in (*_ON_ITS_WAY, "finished"):
                del self._used[name], self._blocks[name]
        self._block_of = {d: name for d, name in self._block_of.items() if name in self._blocks}

    def _look(self, sent: _Sent) -> None:
        """Take a chunk's result if it has ended, or let it be sent again."""
        future = sent.future
        lost = future.client is not self._client or self._client.status == "closed"
        if future.status in _ON_ITS_WAY and not lost:
            return
        result: ChunkResult | None = None
        if not lost:
            try:
                result = future.result(timeout=_RESULT_TIMEOUT_S)
            except (SimulatorError, BackendError):
                raise
            except (Exception, concurrent.futures.CancelledError) as error:
                network = isinstance(error, OSError) and future.status != "error"
                if network and future.status in (*_ON_ITS_WAY, "finished"):
                    time.sleep(_LOOK_S)
                    return  # it is slow, or down
                if not network and getattr(error, "reason", "") != _LOST_CONNECTION:
                    sent.failures += 1
                if sent.failures >= _ATTEMPTS:
                    why = str(error) or type(error).__name__
                    raise SimulatorError(f"the cluster gave up chunk {sent.chunk.number}: {why}") from error
        with self._changed:
            sent.future = None
            if self._open.get(sent.chunk.number) is not sent:
                return  # the farm is being closed
        if result is not None:
            self._on_result(sent.chunk, result)
            with self._changed:
                self._open.pop(sent.chunk.number, None)
        with self._changed:
            if self._closed:
                self._open.pop(sent.chunk.number, None)
            self._changed.notify_all()


@functools.cache
def _client_class() -> Any:
    """Return Dask's client, which leaves no thread behind when it cannot connect or has lost its scheduler.

    Raises BackendError: Dask is not installed.
    """
    try:
        import distributed
    except ImportError:
        raise BackendError("executor needs Dask: pip install 'echo-npu[verify]'") from None
    base: Any = distributed.Client

    def start(self: Any, **options: Any) -> None:
        try:
            base.start(self, callback_timeout=_ANSWER_TIMEOUT_S, **options)
        except BaseException:
            with contextlib.suppress(Exception):  # what is said is why it did not start
                self.close(timeout=_CONNECT_TIMEOUT_S)
            raise

    def close(self: Any, **options: Any) -> None:
        # Dask closes a client when it is collected, at any moment: also while this thread starts the loop of
        # another one and holds the lock that `stop` takes.
        if self._over:
            return
        try:
            base.close(self, **options)
        finally:
            self._loop_runner.stop()  # Dask leaves it running where it closed the client itself
            self._over = True

    return type("FarmClient", (base,), {"start": start, "close": close, "_over": False})


def _connected(address: str) -> Any:
    """Return a client of the scheduler. BackendError: none answers, or Dask is not installed."""
    connect = _client_class()
    try:
        return connect(address, timeout=_CONNECT_TIMEOUT_S, set_as_default=False)
    except (
        Exception
    ) as error:  # of any kind: an unknown host is an AssertionError of Dask, tls:// a TypeError
        why = str(error) or type(error).__name__
        raise BackendError(f"executor={address}: no Dask scheduler answers ({why})") from None
