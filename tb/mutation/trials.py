"""In which order a change meets the tests: first those that are most likely to find it for their time."""

from __future__ import annotations

import bisect
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tb.mutation.dispatcher import Trial

# A test is stopped after so many times the cycles that it takes on the unchanged RTL, and a few more.
CYCLES_FACTOR = 3
CYCLES_MORE = 20_000
# What a test takes beside its cycles, and for each of them: about what a quiet machine needs. Measured time
# would differ from run to run, and with it the order in which tests are tried.
_TEST_S = 0.05
_CYCLE_S = 8e-6
# How many kills of a test in other files count as one in this file.
_ELSEWHERE = 8.0


Key = tuple[str, bool]
"""A test's full name, and whether memory stalls."""


def trial(key: Key, cycles: int) -> Trial:
    """The trial of a test that takes so many cycles on the unchanged RTL."""
    return Trial(*key, CYCLES_FACTOR * cycles + CYCLES_MORE)


def seconds(cycles: int) -> float:
    """About what a test of so many cycles takes."""
    return _TEST_S + _CYCLE_S * cycles


class Experience:
    """Which tests have found changes of which file; `cycles` are those of each on the unchanged RTL."""

    def __init__(self, cycles: Mapping[Key, int]) -> None:
        self.cycles = dict(cycles)
        self._here: Counter[tuple[str, Key]] = Counter()
        self._all: Counter[Key] = Counter()

    def learn(self, file: str, key: Key) -> None:
        """A change of `file` was found by this test."""
        self._here[file, key] += 1
        self._all[key] += 1

    def order(self, file: str, hints: Sequence[str] = ()) -> list[Trial]:
        """All trials for a change of `file`, the best first; before them those of the suites or tests whose
        names `hints` are part of."""

        def worth(key: Key) -> float:
            finds = 0.1 + self._here[file, key] + self._all[key] / _ELSEWHERE
            return finds / seconds(self.cycles[key])

        def hinted(key: Key) -> bool:
            return any(hint in key[0] for hint in hints)

        keys = sorted(self.cycles, key=lambda key: (not hinted(key), -worth(key), key))
        return [trial(key, self.cycles[key]) for key in keys]

    def expected(self, trials: Iterable[Trial]) -> float:
        """About how many seconds they take together."""
        return sum(seconds(self.cycles[each.test, each.stalls]) for each in trials)

    def split(self, trials: Sequence[Trial], limit: float) -> tuple[list[Trial], list[Trial]]:
        """The first trials that take about `limit` seconds together, and the others."""
        spent = list(itertools.accumulate(self.expected([each]) for each in trials))
        count = bisect.bisect_right(spent, limit)
        return list(trials[:count]), list(trials[count:])


def save_cycles(path: Path, cycles: Mapping[Key, int]) -> None:
    """Keep them for the next campaign with the same simulator."""
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps([[*key, count] for key, count in cycles.items()]), encoding="utf-8")
    part.replace(path)


def load_cycles(path: Path) -> dict[Key, int]:
    """What `save_cycles` kept; OSError when there is nothing."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(test, stalls): cycles for test, stalls, cycles in rows}
