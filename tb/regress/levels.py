"""What each level of the regression runs, and what it has to reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tb.formal import PROOFS
from tb.functional import FOLDER_VARIABLE as FUNCTIONAL
from tb.functional.campaign import STATES_ROUNDS
from tb.npu_config import ROOT, config_names
from tb.regress.goals import Goal
from tb.regress.task import KEPT, RESULT, Task
from tb.regression import SUITE_FOLDERS, suites
from tb.uvm.sequences import CLOSING_PROGRAMS, STATES_PROGRAMS

TIMEOUT_S = 3600.0


@dataclasses.dataclass(frozen=True)
class Level:
    """A set of tasks, drawn from a seed, and the goals for their results.

    Attributes:
        name: what LEVEL= takes.
        text: what it is for.
        tasks: the tasks of a first seed, in any order.
        closing: run when all of those have ended; KEPT names the folder of what they left.
        goals: what has to be reached.
    """

    name: str
    text: str
    tasks: Callable[[int], list[Task]]
    closing: tuple[Task, ...] = ()
    goals: tuple[Goal, ...] = ()


def _module(
    campaign: str, name: str, *words: str, seed: int | None = None, cost: float, keeps: str = ""
) -> Task:
    """A task of a command that writes a result with --json."""
    environment = {} if seed is None else {"SEED": str(seed)}
    arguments = ("-m", *words, "--json", RESULT)
    timeout = max(TIMEOUT_S, 10 * cost)
    return Task(f"{campaign} {name}", campaign, arguments, environment, keeps, timeout=timeout, cost=cost)


def rtl(seed: int, keeps: str = "") -> Iterator[Task]:
    """Every suite of the RTL regression on every configuration."""
    for config in config_names():
        for name in suites():
            words = ("tb.regression", "--test", name, "--config", config, "--jobs", "1")
            yield _module("rtl", f"{name} {config}", *words, seed=seed, cost=15, keeps=keeps)


def test_folders() -> list[str]:
    """Folders of tests/ that pytest runs; those of the RTL regression are apart."""
    return sorted(
        name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir()
        and any(path.rglob("test_*.py"))
        and (name := f"tests/{path.name}") not in SUITE_FOLDERS
    )


def tests(*folders: str) -> Iterator[Task]:
    """Folders of tests/ through pytest."""
    for folder in folders:
        words = ("-m", "pytest", "-q", folder, "--junit-xml", RESULT)
        yield Task(f"tests {folder}", "tests", words, form="junit", cost=60)


def formal() -> Iterator[Task]:
    """Every proof."""
    for name in PROOFS:
        yield _module("formal", name, "tb.formal", name, cost=20)


def uvm(seed: int, programs: int, config: str, sequence: str, shard: int, keeps: str = "") -> Iterator[Task]:
    """Random programs, `shard` in a task."""
    for first in range(0, programs, shard):
        count = min(shard, programs - first)
        words = ("tb.uvm.campaign", "--sequence", sequence, "--config", config, "--count", str(count))
        name = f"{sequence} {config} {seed + first}"
        yield _module("uvm", name, *words, seed=seed + first, cost=0.4 * count, keeps=keeps)


def native(campaign: str, seed: int, total: int, shards: int, per_second: float) -> Iterator[Task]:
    """Faults or packets, `total` of them in so many tasks."""
    for number in range(1, shards + 1):
        part = ("--count", str(total), "--shard", f"{number}/{shards}")
        words = ("tb.faults.campaign", campaign, *part)
        name = f"{number} of {shards}"
        yield _module(campaign, name, *words, seed=seed, cost=total / shards / per_second)


def mutation(seed: int, mutants: int, shards: int) -> Iterator[Task]:
    """Mutants of the RTL."""
    for number in range(1, shards + 1):
        part = ("--count", str(mutants), "--shard", f"{number}/{shards}")
        words = ("tb.mutation.campaign", *part, "--jobs", "1")
        yield _module("mutation", f"{number} of {shards}", *words, seed=seed, cost=600)


def _bugs() -> Task:
    return _module("bugs", "all", "tb.mutation.bugs", cost=200)


def _quick(seed: int) -> list[Task]:
    return [
        *rtl(seed),
        *tests("tests/unit", "tests/rtl", "tests/sim", "tests/uvm"),
        *uvm(seed, 40, "small", "mixed", 40),
        *native("faults", seed, 5_000, 1, 250),
        *native("fuzz", seed, 50_000, 1, 3000),
        _bugs(),
    ]


def _full(seed: int) -> list[Task]:
    return [
        _module("coverage", "all", "tb.coverage.code", "run", "--jobs", "1", seed=seed, cost=1500),
        *mutation(seed, 300, 2),
        *rtl(seed, FUNCTIONAL),
        *tests(*test_folders()),
        *formal(),
        *uvm(seed, 400, "small", "mixed", 100, FUNCTIONAL),
        *uvm(seed, 50, "default", "mixed", 25, FUNCTIONAL),
        *uvm(seed, CLOSING_PROGRAMS, "small", "closing", 30, FUNCTIONAL),
        *uvm(seed, STATES_ROUNDS * STATES_PROGRAMS, "small", "states", 60, FUNCTIONAL),
        *native("faults", seed, 100_000, 4, 250),
        *native("fuzz", seed, 1_000_000, 4, 3000),
        _bugs(),
    ]


_FUNCTIONAL_REPORT = _module("functional", "report", "tb.functional.report", KEPT, cost=10)

_NOTHING_ODD = tuple(
    Goal(f"{campaign}: {text}", campaign, (figure,), 0, most=True)
    for campaign in ("faults", "fuzz")
    for text, figure in (
        ("hangs", "hangs"),
        ("writes outside a command's destination", "stray_writes"),
        ("wrong results or error codes", "wrong"),
        ("broken assertions", "crashes"),
    )
)
_BUGS_FOUND = Goal("known bugs that the regression finds", "bugs", ("bugs_found",), 1.0, of=("bugs",))

LEVELS = {
    level.name: level
    for level in (
        Level("quick", "for each change: minutes", _quick, goals=(*_NOTHING_ODD, _BUGS_FOUND)),
        Level(
            "full",
            "for a night, or before a release: about an hour on two cores",
            _full,
            (_FUNCTIONAL_REPORT,),
            (
                Goal(
                    "functional coverage",
                    "functional",
                    ("functional_hit",),
                    1.0,
                    of=("functional_reachable",),
                ),
                *(
                    Goal(f"{name} coverage", "coverage", (f"{name}_covered",), bound, of=(f"{name}_points",))
                    for name, bound in (("line", 0.98), ("branch", 0.98), ("toggle", 0.95))
                ),
                Goal("mutants that were judged", "mutation", ("mutants",), 300),
                Goal("mutants killed", "mutation", ("killed",), 0.97, of=("killed", "survived")),
                Goal("known bugs", "bugs", ("bugs",), 20),
                _BUGS_FOUND,
                Goal("faults injected", "faults", ("faults",), 100_000),
                Goal("packets of the fuzz", "fuzz", ("packets",), 1_000_000),
                *_NOTHING_ODD,
            ),
        ),
    )
}
