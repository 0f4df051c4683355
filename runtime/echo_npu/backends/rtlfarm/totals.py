"""Sum the results of chunks, each counted once, and estimate what was not simulated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from echo_npu.backends.rtlfarm.chunk import ChunkResult
from echo_npu.spec import registers as regs

_NAMES: Final = tuple(name.lower() for name in regs.COUNTERS)
_STUDENT: Final = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)
"""Two-sided 95 % points of Student's distribution with 1, 2, ... degrees of freedom."""

_Added = tuple[float, ChunkResult | None, Sequence[int], float | None]
"""What `Totals.add` gets of a chunk."""

_RARE: Final = 0.25
"""How far the cycles of a rare kind of chunk are from their rough estimate, next to those of the others."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and half of the width of its interval of 95 % confidence: 0 if it is exact."""

    value: float
    margin: float


class Totals:
    """What the chunks of a run took together. Results may come in any order; not thread-safe.

    Attributes:
        checked: chunks that were simulated and equal.
        simulated: clock cycles of the simulations, with preparation and warm-up.
        marks: the counters at each mark that is known, by its number.
        prepare_seconds, seconds: wall time of the simulations, of all of them.
    """

    def __init__(self) -> None:
        self.checked = 0
        self.simulated = 0
        self.prepare_seconds = self.seconds = 0.0
        self.marks: dict[int, dict[str, int]] = {}
        self._waiting: dict[int, _Added] = {}  # for those before
        self._next = 0
        self._measured: list[tuple[float, int]] = []  # estimate and cycles of each simulated chunk
        self._estimates: list[float] = []  # of all chunks
        self._counters = dict.fromkeys(_NAMES, 0)  # since the host cleared them
        self._sampled = dict.fromkeys(_NAMES, 0)  # of the simulated chunks alone
        self._sampled_estimate = 0.0
        self._unrated = 0.0  # estimates of chunks before the first simulated one, which are not in yet

    def add(
        self,
        number: int,
        estimate: float,
        result: ChunkResult | None,
        marks: Sequence[int] = (),
        since_cleared: float | None = None,
    ) -> None:
        """Count a chunk, once.

        Args:
            result: None: it is not simulated. The others are of such a chunk.
            marks: numbers of its marks.
            since_cleared: the part of the estimate since the host cleared the counters; None: it did not.
        """
        if number < self._next or number in self._waiting:
            return
        self._waiting[number] = (estimate, result, marks, since_cleared)
        while self._next in self._waiting:
            self._count(*self._waiting.pop(self._next))
            self._next += 1

    def _count(
        self, estimate: float, result: ChunkResult | None, marks: Sequence[int], since_cleared: float | None
    ) -> None:
        self._estimates.append(estimate)
        if result is None:
            if since_cleared is not None:
                self._clear()
            self._suppose(estimate if since_cleared is None else since_cleared)
            self.marks |= dict.fromkeys(marks, self.counters)
            return
        for number, (cleared, counters) in result.marks.items():
            before = dict.fromkeys(_NAMES, 0) if cleared else self._counters
            self.marks[number] = {name: before[name] + value for name, value in counters.items()}
        self.checked += 1
        self.simulated += result.simulated
        self.seconds += result.seconds
        self.prepare_seconds += result.prepare_seconds
        self._measured.append((estimate, result.cycles))
        if result.cleared:
            self._clear()
        self._sampled_estimate += estimate
        for name, value in result.counters.items():
            self._counters[name] += value
            self._sampled[name] += value
        supposed, self._unrated = self._unrated, 0.0
        self._suppose(supposed)

    def _clear(self) -> None:
        self._counters = dict.fromkeys(_NAMES, 0)
        self._unrated = 0.0

    def _suppose(self, estimate: float) -> None:
        """Count a chunk that is not simulated like those that were."""
        if not self._sampled_estimate:
            self._unrated += estimate
            return
        for name, value in self._sampled.items():
            self._counters[name] += round(value * estimate / self._sampled_estimate)

    @property
    def count(self) -> int:
        """Chunks so far, simulated or not, without gaps."""
        return self._next

    @property
    def counters(self) -> dict[str, int]:
        """The performance counters since the host cleared them; chunks that are not simulated count like the
        simulated ones before them."""
        return dict(self._counters)

    @property
    def cycles(self) -> Interval:
        """Clock cycles of all chunks: their sum, or the ratio estimate from a random sample of them.

        The sample's ratio of cycles to the rough estimates of `costs` is taken for that of all chunks; the
        margin follows from its scatter (Cochran, Sampling Techniques, chapter 6). A chunk that is `_RARE` off
        counts in the scatter besides: a few chunks of another kind may not be in the sample. The margin is
        infinite with less than two chunks.
        """
        total, count = len(self._estimates), len(self._measured)
        measured = sum(cycles for _, cycles in self._measured)
        if total == count:
            return Interval(measured, 0.0)
        known = sum(estimate for estimate, _ in self._measured)
        if count < 2 or not known:
            return Interval(measured / known * sum(self._estimates) if known else 0.0, math.inf)
        ratio = measured / known
        rare = _RARE * measured / count
        squares = sum((cycles - ratio * estimate) ** 2 for estimate, cycles in self._measured)
        scatter = (squares + rare**2) / count
        margin = _student(count - 1) * total * math.sqrt((1 - count / total) * scatter / count)
        return Interval(ratio * sum(self._estimates), margin)


def _student(freedom: int) -> float:
    return _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else 1.96 + 2.6 / freedom
