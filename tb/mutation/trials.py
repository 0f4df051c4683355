"""In which order a change meets the tests: first those that are most likely to find it for their time."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tb.mutation.dispatcher import Trial

# A test is stopped after so many times the cycles that it takes on the unchanged RTL, and a few more.
CYCLES_FACTOR = 3
CYCLES_MORE = 20_000
# What a test costs beside its time.
_OVERHEAD_S = 0.02
# How many kills of a test in other files count as one in this file.
_ELSEWHERE = 8.0


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a test takes on the unchanged RTL: device cycles, and seconds of wall time."""

    cycles: int
    seconds: float


Key = tuple[str, bool]
"""A test's full name, and whether memory stalls."""


def trial(key: Key, cost: Cost) -> Trial:
    """The trial of a test that takes so much."""
    return Trial(*key, CYCLES_FACTOR * cost.cycles + CYCLES_MORE)


class Experience:
    """Which tests have found changes of which file, and what each costs."""

    def __init__(self, costs: Mapping[Key, Cost]) -> None:
        self.costs = dict(costs)
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
            return finds / (self.costs[key].seconds + _OVERHEAD_S)

        def hinted(key: Key) -> bool:
            return any(hint in key[0] for hint in hints)

        keys = sorted(self.costs, key=lambda key: (not hinted(key), -worth(key), key))
        return [trial(key, self.costs[key]) for key in keys]

    def split(self, trials: Iterable[Trial], seconds: float) -> tuple[list[Trial], list[Trial]]:
        """The first trials that take `seconds` together, and the others."""
        first: list[Trial] = []
        rest: list[Trial] = []
        total = 0.0
        for each in trials:
            total += self.costs[each.test, each.stalls].seconds
            (first if total <= seconds else rest).append(each)
        return first, rest


def save_costs(path: Path, costs: Mapping[Key, Cost]) -> None:
    """Keep them for the next campaign with the same simulator."""
    rows = [[*key, cost.cycles, cost.seconds] for key, cost in costs.items()]
    part = path.with_suffix(".part")
    part.write_text(json.dumps(rows), encoding="utf-8")
    part.replace(path)


def load_costs(path: Path) -> dict[Key, Cost]:
    """What `save_costs` kept; OSError when there is nothing."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {(test, stalls): Cost(cycles, seconds) for test, stalls, cycles, seconds in rows}
