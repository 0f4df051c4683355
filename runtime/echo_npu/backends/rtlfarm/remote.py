"""What a worker of a cluster does: it keeps simulations, and runs chunks on them.

A simulation stays alive for the next chunk. It ends with its worker, when the run that used it last ends, and
when nothing has used it for some time, since a program that is killed says no farewell.
"""

from __future__ import annotations

import dataclasses
import functools
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final

from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.pages import ZERO, MemoryPage
from echo_npu.backends.rtlfarm.pool import ATTEMPTS, ended_by_itself
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import BackendError, SimulatorError
from echo_sim.designs import npu_design

IDLE_S: Final = 600.0
"""A simulation that nothing has used for so long ends."""


@dataclasses.dataclass(frozen=True, slots=True)
class PackedChunk:
    """A chunk whose pages are elsewhere.

    Attributes:
        chunk: it, without pages.
        pages: digests of its pages, by page number.
        hardware: as of `hardware_of`, where the program runs.
    """

    chunk: RunChunk
    pages: Mapping[int, bytes]
    hardware: str

    @property
    def wanted(self) -> set[bytes]:
        """The digests of its pages."""
        return set(self.pages.values())


@dataclasses.dataclass(eq=False, slots=True)
class _Kept:
    """A simulation of this process.

    Attributes:
        run: the run that used it last.
        busy: whether a chunk runs on it.
        used: when the last one ended, in seconds of `time.monotonic`.
    """

    runner: ChunkRunner
    config: str
    options: Options
    run: str
    busy: bool = True
    used: float = 0.0


class RunOverError(Exception):
    """The run that a chunk is a part of has ended: Dask repeats chunks whose results it has lost unneeded."""


_guard = threading.Lock()  # of the three below
_over: set[str] = set()  # runs that have ended
_kept: list[_Kept] = []
_timers: dict[_Kept, threading.Timer] = {}


def keep_block(block: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Return a block. Dask moves it to the workers that need it, and makes it again if they die."""
    return block


@functools.cache
def hardware_of(config: str) -> str:
    """Return a hash of the RTL and the board of a configuration, as they are on this machine."""
    return npu_design(config).digest()


def run_packed(
    packed: PackedChunk, blocks: list[dict[bytes, bytes]], options: Options, run: str
) -> ChunkResult:
    """Run a chunk in a worker of a cluster.

    Args:
        blocks: contents of pages by their digests, all that the chunk needs and others.
        run: names the run that the chunk is a part of.

    Raises:
        BackendError: this machine has other hardware of the configuration.
        RunOverError: the run has ended.
        SimulatorError: as `ChunkRunner`, after some attempts.
    """
    config = packed.chunk.config
    if hardware_of(config) != packed.hardware:
        raise BackendError(
            f"the worker on {socket.gethostname()} has other RTL of configuration {config!r} than the"
            " program: set both up at the same commit"
        )
    known = {ZERO.digest: ZERO}
    for block in blocks:
        known |= {digest: MemoryPage(block[digest]) for digest in packed.wanted & block.keys()}
    pages = {number: known[digest] for number, digest in packed.pages.items()}
    chunk = dataclasses.replace(packed.chunk, pages=pages)
    for attempt in range(ATTEMPTS):
        kept = _take(chunk.config, options, run)
        try:
            result = kept.runner.run(chunk)
        except SimulatorError as error:
            _end([kept])
            if attempt + 1 < ATTEMPTS:
                continue
            deviation = ended_by_itself(error)
            if deviation is None:
                raise
            return ChunkResult(chunk.number, 0, {}, False, 0, 0.0, 0.0, deviation)
        except BaseException:
            _end([kept])
            raise
        _give_back(kept)
        return result
    raise AssertionError("unreachable")


def end_runners(run: str) -> None:
    """End the simulations of this process that the run used last, and let it start no more."""
    with _guard:
        _over.add(run)
        ended = _forget([kept for kept in _kept if kept.run == run])
    _close(ended)


def _take(config: str, options: Options, run: str) -> _Kept:
    """Return a simulation that is free, or start one in the place of those that nothing can use."""
    with _guard:
        if run in _over:
            raise RunOverError(run)
        free = [kept for kept in _kept if not kept.busy]
        fits = [kept for kept in free if (kept.config, kept.options) == (config, options)]
        if fits:
            chosen = fits[-1]
            chosen.busy, chosen.run = True, run
            return chosen
        _forget(free)
    _close(free)
    made = _Kept(ChunkRunner(config, options), config, options, run)
    with _guard:
        over = run in _over
        if not over:
            _kept.append(made)
    if over:
        made.runner.close()
        raise RunOverError(run)
    return made


def _give_back(kept: _Kept) -> None:
    kept.used = time.monotonic()
    timer = threading.Timer(IDLE_S, _end_idle, [kept, kept.used])
    timer.daemon = True
    with _guard:
        kept.busy = False
        before = _timers.pop(kept, None)
        if kept in _kept:  # its run may have ended while the chunk ran
            _timers[kept] = timer
            timer.start()
    if before is not None:
        before.cancel()


def _end_idle(kept: _Kept, used: float) -> None:
    """End a simulation unless it was used again."""
    with _guard:
        ended = _forget([kept] if not kept.busy and kept.used == used else [])
    _close(ended)


def _end(wanted: Iterable[_Kept]) -> None:
    with _guard:
        ended = _forget(wanted)
    _close(ended)


def _forget(wanted: Iterable[_Kept]) -> list[_Kept]:
    """Return those that are still kept; nobody else gets them any more. The caller holds the guard."""
    ended = [kept for kept in wanted if kept in _kept]
    for kept in ended:
        _kept.remove(kept)
        timer = _timers.pop(kept, None)
        if timer is not None:
            timer.cancel()
    return ended


def _close(ended: Iterable[_Kept]) -> None:
    for kept in ended:
        kept.runner.close()
