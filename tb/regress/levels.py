"""What each level of the regression runs, and what it has to reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from tb.formal import PROOFS
from tb.npu_config import ROOT, config_names
from tb.regress.goals import Goal
from tb.regress.task import RESULT, Task
from tb.regression import SUITE_FOLDERS, suites

TIMEOUT_S = 3600.0


@dataclasses.dataclass(frozen=True)
class Level:
    """A set of tasks, drawn from a seed, and the goals for their results."""

    name: str
    text: str
    tasks: Callable[[int], list[Task]]
    goals: tuple[Goal, ...] = ()


def _module(campaign: str, name: str, *words: str, seed: int | None = None, cost: float) -> Task:
    """A task of a command that writes a result with --json."""
    environment = {} if seed is None else {"SEED": str(seed)}
    arguments = ("-m", *words, "--json", RESULT)
    timeout = max(TIMEOUT_S, 10 * cost)
    return Task(f"{campaign} {name}", campaign, arguments, environment, timeout=timeout, cost=cost)


def rtl(seed: int) -> Iterator[Task]:
    """Every suite of the RTL regression on every configuration."""
    for config in config_names():
        for name in suites():
            words = ("tb.regression", "--test", name, "--config", config, "--jobs", "1")
            yield _module("rtl", f"{name} {config}", *words, seed=seed, cost=15)


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


def faults(seed: int, count: int, parts: int) -> Iterator[Task]:
    """So many injected faults, and ten times as many random packets, in so many parts each."""
    for campaign, size in (("faults", count), ("fuzz", 10 * count)):
        for part in range(parts):
            words = ("tb.faults.campaign", campaign, "--config", "small", "--count", str(size))
            name = f"small {part} of {parts}"
            cost = 0.006 * count / parts
            yield _module(campaign, name, *words, "--shard", f"{part}/{parts}", seed=seed, cost=cost)


def formal() -> Iterator[Task]:
    """Every proof."""
    for name in PROOFS:
        yield _module("formal", name, "tb.formal", name, cost=20)


def _quick(seed: int) -> list[Task]:
    return [*rtl(seed), *tests("tests/unit", "tests/rtl", "tests/sim", "tests/uvm"), *faults(seed, 2_000, 1)]


def _full(seed: int) -> list[Task]:
    return [
        _module("coverage", "all", "tb.coverage.code", "run", "--jobs", "1", seed=seed, cost=1500),
        *rtl(seed),
        *tests(*test_folders()),
        *formal(),
        *faults(seed, 100_000, 4),
    ]


LEVELS = {
    level.name: level
    for level in (
        Level("quick", "for each change: minutes", _quick),
        Level(
            "full",
            "for a night, or before a release: about an hour on two cores",
            _full,
            (
                *(
                    Goal(f"{name} coverage", "coverage", (f"{name}_covered",), bound, of=(f"{name}_points",))
                    for name, bound in (("line", 0.98), ("branch", 0.98), ("toggle", 0.95))
                ),
                Goal("injected faults", "faults", ("faults",), 100_000),
                Goal("random packets", "fuzz", ("packets",), 1_000_000),
                *(
                    Goal(f"{campaign}: {text}", campaign, (figure,), 0, most=True)
                    for campaign in ("faults", "fuzz")
                    for text, figure in (
                        ("hangs", "hangs"),
                        ("stray writes", "stray_writes"),
                        ("wrong codes or results", "wrong"),
                    )
                ),
            ),
        ),
    )
}
