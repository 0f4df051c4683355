"""Tasks and goals of each level of the regression."""

import dataclasses
from collections.abc import Callable, Iterator

from echo_sim.config import LOCKSTEP, PIPELINE, small_memory_config_names
from tb.formal import PROOFS
from tb.functional import FOLDER_VARIABLE as FUNCTIONAL
from tb.functional_runs import STATES_ROUNDS
from tb.regress.goals import CampaignGoal
from tb.regress.task import KEPT, RESULT, Task
from tb.repository import ROOT
from tb.suites import SUITE_FOLDERS, suites
from tb.uvm.sequences import CLOSING_PROGRAMS, PACKED_PROGRAMS, STATES_PROGRAMS

TIMEOUT_S = 3600.0


@dataclasses.dataclass(frozen=True)
class Level:
    """A set of tasks and the goals for their results.

    Attributes:
        name: value of LEVEL=.
        tasks: returns the tasks for a first seed, in any order.
        closing: tasks to run after all others; KEPT names the folder with the files of those.
        goals: values to reach.
    """

    name: str
    tasks: Callable[[int], list[Task]]
    closing: tuple[Task, ...] = ()
    goals: tuple[CampaignGoal, ...] = ()


def _command(
    campaign: str, name: str, *words: str, seed: int | None = None, cost: float, keeps: str = ""
) -> Task:
    """Return a task of `python -m tb`, which writes its result with --json."""
    environment = {} if seed is None else {"SEED": str(seed)}
    arguments = ("-m", "tb", *words, "--json", RESULT)
    timeout = max(TIMEOUT_S, 10 * cost)
    return Task(f"{campaign} {name}", campaign, arguments, environment, keeps, timeout=timeout, cost=cost)


def _pytest(name: str, campaign: str, path: str, cost: float, **environment: str) -> Task:
    words = ("-m", "pytest", "-q", path, "--junit-xml", RESULT)
    return Task(name, campaign, words, environment, form="junit", cost=cost)


def rtl(seed: int, keeps: str = "") -> Iterator[Task]:
    """Yield every suite of the RTL regression on every configuration."""
    for config in small_memory_config_names():
        for name in suites():
            words = ("rtl", "--test", name, "--config", config, "--jobs", "1")
            yield _command("rtl", f"{name} {config}", *words, seed=seed, cost=15, keeps=keeps)


def lint() -> Task:
    """Return the task of the static checks."""
    return Task("lint", "lint", ("scripts/lint.py", "--json", RESULT), cost=90)


def test_folders() -> list[str]:
    """Return the folders of tests/ for pytest, without the RTL regression."""
    return sorted(
        name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir()
        and any(path.rglob("test_*.py"))
        and (name := f"tests/{path.name}") not in SUITE_FOLDERS
    )


def tests(*folders: str) -> Iterator[Task]:
    """Yield a pytest task for each folder."""
    for folder in folders:
        yield _pytest(f"tests {folder}", "tests", folder, cost=60)


def views(seed: int) -> Task:
    """Return the task that runs every runtime operation on random views."""
    return _pytest("views", "views", "tests/runtime/ops/test_random_views.py", cost=90, SEED=str(seed))


def formal() -> Iterator[Task]:
    """Yield a task per proof."""
    for name in PROOFS:
        yield _command("formal", name, "formal", name, cost=20)


def uvm(seed: int, programs: int, config: str, sequence: str, shard: int, keeps: str = "") -> Iterator[Task]:
    """Yield random programs, `shard` per task."""
    for first in range(0, programs, shard):
        count = min(shard, programs - first)
        words = ("uvm", "--sequence", sequence, "--config", config, "--count", str(count))
        name = f"{sequence} {config} {seed + first}"
        yield _command("uvm", name, *words, seed=seed + first, cost=0.4 * count, keeps=keeps)


def lockstep(seed: int, programs: int, faults: int, packets: int) -> Iterator[Task]:
    """Yield every suite, random programs, faults and packets on every configuration, each device beside one
    without clock gates."""
    counts = {"uvm": programs, "faults": faults, "fuzz": packets}
    for config in (f"{LOCKSTEP}{name}" for name in small_memory_config_names()):
        parts: dict[str, tuple[str, ...]]
        parts = {name: ("rtl", "--test", name, "--jobs", "1") for name in suites()}
        parts |= {name: (name, "--count", str(count)) for name, count in counts.items()}
        for name, words in parts.items():
            arguments = (*words, "--config", config)
            yield _command("lockstep", f"{name} {config}", *arguments, seed=seed, cost=40)


def pipeline(seed: int, programs: int) -> Iterator[Task]:
    """Yield every suite on a device with pipeline = 1 beside one without clock gates, those that compute on
    the larger one too, and random programs on both."""
    small, large = f"{LOCKSTEP}{PIPELINE}small", f"{PIPELINE}default"
    for name in suites():
        words = ("rtl", "--test", name, "--jobs", "1", "--config")
        yield _command("pipeline", f"{name} {small}", *words, small, seed=seed, cost=30)
        if name.startswith(("matmul", "vector", "kernels")):
            yield _command("pipeline", f"{name} {large}", *words, large, seed=seed, cost=40)
    for config in (small, large):
        played = ("uvm", "--count", str(programs), "--config", config)
        yield _command("pipeline", f"random programs {config}", *played, seed=seed, cost=40)


def native(campaign: str, seed: int, total: int, shards: int, per_second: float) -> Iterator[Task]:
    """Yield faults or packets, `total` of them in `shards` tasks."""
    for number in range(1, shards + 1):
        words = (campaign, "--count", str(total), "--shard", f"{number}/{shards}")
        name = f"{number} of {shards}"
        yield _command(campaign, name, *words, seed=seed, cost=total / shards / per_second)


def mutation(seed: int, mutants: int, shards: int) -> Iterator[Task]:
    """Yield mutants of the RTL."""
    for number in range(1, shards + 1):
        words = ("mutate", "--count", str(mutants), "--shard", f"{number}/{shards}", "--jobs", "1")
        # The first builds what the others share, which would only wait for it beside it.
        cost = 2700 if number == 1 else 800
        yield _command("mutation", f"{number} of {shards}", *words, seed=seed, cost=cost)


def configurations(seed: int, linted: int, played: int) -> Iterator[Task]:
    """Yield tasks that lint `linted` random configurations, then build and run `played` of them."""
    shard = 20
    for first in range(0, linted, shard):
        count = min(shard, linted - first)
        words = ("configurations", "--count", str(count))
        yield _command("configs", f"lint {seed + first}", *words, seed=seed + first, cost=6 * count)
    for number in range(seed, seed + played):
        one = ("configurations", f"random-{number}", "--count", "12")
        yield _command("configs", f"play {number}", *one, seed=number, cost=200)


def bugs(seed: int) -> Task:
    """Return the task that requires each known bug to be found by the regression."""
    return _command("bugs", "all", "bugs", "--jobs", "1", seed=seed, cost=900)


def _quick(seed: int) -> list[Task]:
    return [
        *rtl(seed),
        *tests("tests/runtime", "tests/rtl", "tests/sim", "tests/tb/uvm"),
        *uvm(seed, 40, "small", "mixed", 40),
        views(seed),
        *configurations(seed, 4, 1),
        *native("faults", seed, 5_000, 1, 250),
        *native("fuzz", seed, 50_000, 1, 3000),
        bugs(seed),
    ]


def _full(seed: int) -> list[Task]:
    return [
        _command("coverage", "all", "coverage", "--jobs", "1", seed=seed, cost=1500),
        *mutation(seed, 300, 6),
        *rtl(seed, FUNCTIONAL),
        *lockstep(seed, 20, 5_000, 50_000),
        *pipeline(seed, 20),
        lint(),
        *tests(*test_folders()),
        *formal(),
        *uvm(seed, 400, "small", "mixed", 100, FUNCTIONAL),
        *uvm(seed, 50, "default", "mixed", 25, FUNCTIONAL),
        *uvm(seed, 60, "small", "hazards", 30),
        *uvm(seed, 10, "default", "hazards", 10),
        *uvm(seed, 30, "small", "magnitude", 15),
        *uvm(seed, 6, "default", "magnitude", 6),
        *uvm(seed, CLOSING_PROGRAMS, "small", "closing", 30, FUNCTIONAL),
        *uvm(seed, PACKED_PROGRAMS, "default", "packed", 8, FUNCTIONAL),
        *uvm(seed, STATES_ROUNDS * STATES_PROGRAMS, "small", "states", 60, FUNCTIONAL),
        views(seed),
        *configurations(seed, 40, 12),
        *native("faults", seed, 100_000, 4, 250),
        *native("fuzz", seed, 1_000_000, 4, 3000),
        bugs(seed),
        _command("searches", "all", "bugs", "--searches", seed=seed, cost=1600),
    ]


_FUNCTIONAL_REPORT = _command("functional", "report", "functional", KEPT, cost=10)

_NOTHING_ODD = tuple(
    CampaignGoal(f"{campaign}: {text}", campaign, (figure,), 0, most=True)
    for campaign in ("faults", "fuzz")
    for text, figure in (
        ("hangs", "hangs"),
        ("writes outside a command's destination", "stray_writes"),
        ("wrong results or error codes", "wrong"),
        ("broken assertions", "crashes"),
    )
)
_BUGS_FOUND = CampaignGoal("known bugs that the regression finds", "bugs", ("bugs_found",), 1.0, of=("bugs",))
_BUGS_SEEN = CampaignGoal(
    "known bugs that random campaigns find", "searches", ("bugs_found",), 1.0, of=("bugs",)
)

LEVELS = {
    level.name: level
    for level in (
        Level("quick", _quick, goals=(*_NOTHING_ODD, _BUGS_FOUND)),
        Level(
            "full",
            _full,
            (_FUNCTIONAL_REPORT,),
            (
                CampaignGoal(
                    "functional coverage",
                    "functional",
                    ("functional_hit",),
                    1.0,
                    of=("functional_reachable",),
                ),
                *(
                    CampaignGoal(
                        f"{name} coverage", "coverage", (f"{name}_covered",), bound, of=(f"{name}_points",)
                    )
                    for name, bound in (("line", 0.98), ("branch", 0.98), ("toggle", 0.95))
                ),
                CampaignGoal("mutants that were judged", "mutation", ("mutants",), 300),
                CampaignGoal("mutants killed", "mutation", ("killed",), 0.97, of=("killed", "survived")),
                CampaignGoal("known bugs", "bugs", ("bugs",), 20),
                _BUGS_FOUND,
                _BUGS_SEEN,
                CampaignGoal("random configurations played on", "configs", ("configs_played",), 12),
                CampaignGoal("random configurations linted", "configs", ("configs_linted",), 40),
                CampaignGoal("faults injected", "faults", ("faults",), 100_000),
                CampaignGoal("packets of the fuzz", "fuzz", ("packets",), 1_000_000),
                *_NOTHING_ODD,
            ),
        ),
    )
}
