"""Workers of a Dask scheduler that share the chunks of a run.

Pages travel by content. Those that no earlier chunk had go to the cluster together, as one block; a chunk
only names its pages and the blocks that they are in. A worker fetches a block once and keeps its pages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.pages import PAGE, ZERO, MemoryPage
from echo_npu.backends.rtlfarm.pool import ATTEMPTS, Load, ended_by_itself
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import BackendError, SimulatorError

CONNECT_TIMEOUT_S: Final = 10

_ATTEMPTS: Final = 5
"""How often a chunk is sent."""

_RECOUNT_S: Final = 5.0
_KEPT_CHUNKS: Final = 512
"""A block that so many chunks did not need is dropped; it is sent again if one does."""


@dataclasses.dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk whose pages are elsewhere.

    Attributes:
        chunk: it, without pages.
        pages: digests of its pages, by page number.
    """

    chunk: RunChunk
    pages: Mapping[int, bytes]

    @property
    def wanted(self) -> set[bytes]:
        """The digests of its pages."""
        return set(self.pages.values())


# --- in a worker --------------------------------------------------------------------------------------------

_guard = threading.Lock()
_of_thread = threading.local()
_runners: list[ChunkRunner] = []


def run_packed(packed: PackedChunk, blocks: list[dict[bytes, bytes]], options: Options) -> ChunkResult:
    """Run a chunk in a worker of a cluster.

    Args:
        blocks: contents of pages by their digests, all that the chunk needs and others.

    Raises: as `ChunkRunner`, after some attempts.
    """
    known = {ZERO.digest: ZERO}
    for block in blocks:
        known |= {digest: MemoryPage(block[digest]) for digest in packed.wanted & block.keys()}
    pages = {number: known[digest] for number, digest in packed.pages.items()}
    chunk = dataclasses.replace(packed.chunk, pages=pages)
    for attempt in range(ATTEMPTS):
        try:
            return _runner(chunk.config, options).run(chunk)
        except SimulatorError as error:
            _drop_runner()
            if attempt + 1 < ATTEMPTS:
                continue
            deviation = ended_by_itself(error)
            if deviation is None:
                raise
            return ChunkResult(chunk.number, 0, {}, False, 0, 0.0, 0.0, deviation)
    raise AssertionError("unreachable")


def end_runners() -> None:
    """End all simulations of this worker's process."""
    with _guard:
        ended = list(_runners)
        _runners.clear()
    for runner in ended:
        runner.close()


def _runner(config: str, options: Options) -> ChunkRunner:
    wanted = (config, options)
    runner: ChunkRunner | None = getattr(_of_thread, "runner", None)
    with _guard:
        usable = runner in _runners and _of_thread.wanted == wanted
    if runner is None or not usable:
        _drop_runner()
        runner = ChunkRunner(config, options)
        _of_thread.runner, _of_thread.wanted = runner, wanted
        with _guard:
            _runners.append(runner)
    return runner


def _drop_runner() -> None:
    runner: ChunkRunner | None = getattr(_of_thread, "runner", None)
    _of_thread.runner = None
    if runner is not None:
        with _guard:
            if runner in _runners:
                _runners.remove(runner)
        runner.close()


def keep_block(block: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return a block. Dask moves it to the workers that need it, and makes it again if they die."""
    return block


# --- in the program that uses the farm ----------------------------------------------------------------------


class DaskWorkers:
    """The workers of a scheduler.

    Each needs this version of the package, and the extras "sim" and "verify". A chunk takes one thread. One
    whose worker dies runs again on another; one whose pages are lost with a worker is sent again.

    Args:
        address: of the scheduler.
        options: of each simulation.
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
        try:
            import distributed
        except ImportError:
            raise BackendError("executor needs Dask: pip install 'echo-npu[verify]'") from None
        connect: Any = distributed.Client
        try:
            self._client: Any = connect(address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise BackendError(f"executor={address}: no Dask scheduler answers ({error})") from None
        self._threads = sum(self._client.nthreads().values())
        if not self._threads:
            self._client.close()
            raise BackendError(f"executor={address}: the scheduler has no worker")
        self._options = options
        self._on_result = on_result
        self._on_failure = on_failure
        self._run = uuid.uuid4().hex
        self._changed = threading.Condition()
        self._open: dict[int, tuple[RunChunk, Any, int]] = {}  # chunk, its future, attempts so far
        self._closed = False
        self._blocks: dict[str, Any] = {}  # futures by name
        self._block_of: dict[bytes, str] = {}
        self._used: dict[str, int] = {}  # the last chunk that needed a block
        self.sent = 0
        self._recount = time.monotonic() + _RECOUNT_S

    @property
    def load(self) -> Load:
        with self._changed:
            running = min(len(self._open), self._threads)
            return Load(len(self._open) - running, running)

    def _count_threads(self) -> None:
        """Count the threads of the cluster again, for workers come and go."""
        if time.monotonic() > self._recount:
            with contextlib.suppress(OSError, TimeoutError):  # between two connections
                self._threads = max(1, sum(self._client.nthreads().values()))
            self._recount = time.monotonic() + _RECOUNT_S

    def submit(self, chunk: RunChunk) -> None:
        self._count_threads()
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._open) < 3 * self._threads)
            if self._closed:
                return
        self._send(chunk, 0)

    def _send(self, chunk: RunChunk, attempts: int) -> None:
        packed, blocks = self._packed(chunk, anew=attempts > 0)
        future = self._client.submit(
            run_packed,
            packed,
            blocks,
            self._options,
            key=f"echo-npu-{self._run}-{chunk.number}-{attempts}",
            pure=False,
            priority=-chunk.number,
        )
        with self._changed:
            self._open[chunk.number] = (chunk, future, attempts)
        future.add_done_callback(lambda done: self._ended(chunk, done, attempts))

    def _packed(self, chunk: RunChunk, *, anew: bool) -> tuple[PackedChunk, list[Any]]:
        """Send the pages that the cluster lacks, or all of them; return the rest and what holds pages."""
        with self._changed:
            contents = {page.digest: page.content for page in chunk.pages.values()}
            contents.pop(ZERO.digest, None)
            new = {digest: each for digest, each in contents.items() if anew or digest not in self._block_of}
        if new:
            name = f"echo-npu-pages-{uuid.uuid4().hex}"
            future = self._client.submit(keep_block, new, key=name, pure=False, priority=1)
            with self._changed:
                self._blocks[name] = future
                self._block_of |= dict.fromkeys(new, name)
                self.sent += PAGE * len(new)
        with self._changed:
            names = {self._block_of[digest] for digest in contents}
            self._used |= dict.fromkeys(names, chunk.number)
            blocks = [self._blocks[name] for name in sorted(names)]
            self._forget(chunk.number)
        pages = {number: page.digest for number, page in chunk.pages.items()}
        return PackedChunk(dataclasses.replace(chunk, pages={}), pages), blocks

    def _forget(self, number: int) -> None:
        """Drop blocks that nothing has needed for long."""
        oldest = min([*self._open, number]) - _KEPT_CHUNKS
        for name in [name for name, used in self._used.items() if used < oldest]:
            del self._used[name], self._blocks[name]
        self._block_of = {d: name for d, name in self._block_of.items() if name in self._blocks}

    def _ended(self, chunk: RunChunk, future: Any, attempts: int) -> None:
        try:
            self._take(chunk, future, attempts)
        except Exception as error:  # it would be lost in Dask's thread
            self._on_failure(error)
            self.stop()
        with self._changed:
            current = self._open.get(chunk.number)
            if current is not None and current[1] is future:
                del self._open[chunk.number]
            self._changed.notify_all()

    def _take(self, chunk: RunChunk, future: Any, attempts: int) -> None:
        if future.status == "finished":
            self._on_result(chunk, future.result())
            return
        if self._closed:
            return
        error = future.exception() if future.status == "error" else None
        if isinstance(error, SimulatorError) or attempts + 1 >= _ATTEMPTS:
            raise error or SimulatorError(f"the cluster gave up chunk {chunk.number} ({future.status})")
        self._send(chunk, attempts + 1)

    def drain(self, timeout: float | None = None) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, timeout)

    def stop(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def close(self) -> None:
        self.stop()
        with self._changed:
            left = [future for _, future, _ in self._open.values()]
            self._open.clear()
        if self._client.status == "running":
            self._client.cancel(left, force=True)
            self._client.run(end_runners)
        self._client.close()
