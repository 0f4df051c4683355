"""Order in which a change meets the tests: highest chance of finding it per second first."""

import bisect
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tb.mutation.dispatcher import Trial
from tb.whole_files import write_whole

# A test is stopped after this multiple of its cycles on the unchanged RTL, plus a constant.
CYCLES_FACTOR = 3
CYCLES_MORE = 20_000
# Estimated seconds per test and per cycle on a quiet machine. Measured times would make the order of tests
# vary from run to run.
_TEST_S = 0.05
_CYCLE_S = 8e-6
# This many kills in other files count as one in the same file.
_ELSEWHERE = 8.0


Key = tuple[str, bool]
"""A test's full name, and whether memory stalls."""


def trial(key: Key, cycles: int) -> Trial:
    """Return the trial of a test that takes `cycles` on the unchanged RTL."""
    return Trial(*key, CYCLES_FACTOR * cycles + CYCLES_MORE)


def seconds(cycles: int) -> float:
    """Estimate the seconds of a test with so many cycles."""
    return _TEST_S + _CYCLE_S * cycles


class Experience:
    """Which tests found changes of which file; `cycles` are those of each test on the unchanged RTL."""

    def __init__(self, cycles: Mapping[Key, int]) -> None:
        self.cycles = dict(cycles)
        self._here: Counter[tuple[str, Key]] = Counter()
        self._all: Counter[Key] = Counter()

    def learn(self, file: str, key: Key) -> None:
        """Record that this test found a change of `file`."""
        self._here[file, key] += 1
        self._all[key] += 1

    def order(self, file: str, hints: Sequence[str] = ()) -> list[Trial]:
        """Return all trials for a change of `file`, best first; those whose names contain one of `hints`
        precede."""

        def worth(key: Key) -> float:
            finds = 0.1 + self._here[file, key] + self._all[key] / _ELSEWHERE
            return finds / seconds(self.cycles[key])

        keys = sorted(
            self.cycles, key=lambda key: (not any(hint in key[0] for hint in hints), -worth(key), key)
        )
        return [trial(key, self.cycles[key]) for key in keys]

    def expected(self, trials: Iterable[Trial]) -> float:
        """Estimate the seconds that the trials take together."""
        return sum(seconds(self.cycles[each.test, each.stalls]) for each in trials)

    def split(self, trials: Sequence[Trial], limit: float) -> tuple[list[Trial], list[Trial]]:
        """Split off the first trials that together take about `limit` seconds."""
        spent = list(itertools.accumulate(self.expected([each]) for each in trials))
        count = bisect.bisect_right(spent, limit)
        return list(trials[:count]), list(trials[count:])


def save_cycles(path: Path, cycles: Mapping[Key, int]) -> None:
    """Save cycles for the next campaign with the same simulator."""
    write_whole(path, json.dumps([[*key, count] for key, count in cycles.items()]))


def load_cycles(path: Path) -> dict[Key, int]:
    """Load what `save_cycles` saved. Raises OSError if there is nothing."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(test, stalls): cycles for test, stalls, cycles in rows}
