"""Insert each known bug into the RTL and require that the regression, the random campaign of its patch, or
the backend rtlfarm finds it."""

import contextlib
import functools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tb.mutation import chunks
from tb.mutation.judge import Case, Judge
from tb.mutation.patches import Bug, PatchError, bug_names, load_bugs
from tb.mutation.searches import look_for
from tb.mutation.tree import usable
from tb.results import CampaignResult, Item

TREE = "bugs"


def play(seed: int, jobs: int, only: str = "", *, on_board: bool = False) -> CampaignResult:
    """Run the regression on each known bug, or on the one named `only`.

    Args:
        on_board: run just the bugs whose patches name tests on the whole device, on those tests alone. The
            others need a simulator for each testbench of a module.

    Raises:
        PatchError: a patch no longer applies.
        ValueError: no such bug, or one whose patch names no test of the whole device.
        TreeError, UnchangedFailsError, SimulationError, BuildError, ToolMissingError: as `Judge.judge`.
    """
    started = time.monotonic()
    with _planted(only) as (folder, _, chosen):
        if on_board:
            chosen = {number: bug for number, bug in chosen.items() if bug.shows_on_board}
            if not chosen:
                raise ValueError(f"the patch of bug {only!r} names no test of the whole device")
        cases = [Case(number, bug.edits[0].file, bug.hints) for number, bug in chosen.items()]
        among = [hint for bug in chosen.values() for hint in bug.hints] if on_board else []
        say = functools.partial(print, flush=True)
        judge = Judge(folder, seed, jobs, "bugs", say, among, measured=False)
        findings = judge.judge(cases)
    items = []
    for number, bug in chosen.items():
        finding = findings[number]
        detail = f"found by {finding.killer}: {finding.how}" if finding.killed else ""
        message = "" if finding.killed else f"no test finds it: {bug.text}"
        again = f"make bugs BUG={bug.name} SEED={seed}"
        items.append(_item(bug, finding.killed, finding.seconds, message, again, detail))
    return _result("bugs", seed, started, items)


@contextlib.contextmanager
def _planted(only: str) -> Iterator[tuple[Path, dict[int, Bug], dict[int, Bug]]]:
    """Hold the tree with every bug behind its number; yield it, all bugs, and the chosen ones.

    Raises as `play`.
    """
    if only not in ("", *bug_names()):
        raise ValueError(f"no bug {only!r}; there are {', '.join(bug_names())}")
    bugs = dict(enumerate(load_bugs(), 1))
    chosen = {number: bug for number, bug in bugs.items() if only in ("", bug.name)}
    with usable(TREE, {number: bug.edits for number, bug in bugs.items()}) as (folder, refused):
        for number, message in refused.items():
            raise PatchError(f"{bugs[number].name}: the RTL with it is no legal SystemVerilog: {message}")
        yield folder, bugs, chosen


def search(seed: int, only: str = "") -> CampaignResult:
    """Run the campaigns that patches name against their bugs, or against `only`. Raises as `play`."""
    started = time.monotonic()
    with _planted(only) as (folder, _, chosen):
        wanted = [(number, bug.search) for number, bug in chosen.items() if bug.search is not None]
        sightings = look_for(folder, wanted, seed)
    items = []
    for number, sighting in sightings.items():
        bug = chosen[number]
        message = "" if sighting.found else f"{bug.search} does not find it: {bug.text}"
        again = f"make bugs SEARCH=1 BUG={bug.name} SEED={seed}"
        detail = f"found by {bug.search}: {sighting.found}"
        items.append(_item(bug, bool(sighting.found), sighting.seconds, message, again, detail))
    return _result("searches", seed, started, items)


def look_in_chunks(seed: int, jobs: int, only: str = "") -> CampaignResult:
    """Run random programs on the backend rtlfarm with each bug of `chunks.BUGS`, or with `only`.

    The farm must name the command that shows it. Raises as `play`; ValueError too for one not among those.
    """
    started = time.monotonic()
    if only not in ("", *chunks.BUGS):
        raise ValueError(f"no bug {only!r} that chunks show; there are {', '.join(chunks.BUGS)}")
    with _planted(only) as (folder, bugs, _):
        wanted = [number for number, bug in bugs.items() if bug.name in ((only,) if only else chunks.BUGS)]
        sights = list(chunks.look_for(folder, wanted, seed, jobs))
    items = []
    for sight in sights:
        bug = bugs[sight.number]
        message = "" if sight.where else f"rtlfarm names no command: {bug.text}"
        again = f"make bugs CHUNKS=1 BUG={bug.name} SEED={seed}"
        items.append(_item(bug, bool(sight.where), sight.seconds, message, again, sight.where))
    return _result("chunks", seed, started, sorted(items, key=lambda item: item.name))


def _item(bug: Bug, found: bool, seconds: float, message: str, again: str, detail: str) -> Item:
    return Item(bug.name, "pass" if found else "fail", seconds, message, again, detail)


def _result(name: str, seed: int, started: float, items: Sequence[Item]) -> CampaignResult:
    figures = {"bugs": len(items), "bugs_found": sum(item.status == "pass" for item in items)}
    return CampaignResult(name, seed, time.monotonic() - started, figures, items)


def report(result: CampaignResult) -> str:
    """Format the result as text."""
    lines = [f"{item.name:40} {item.detail or 'NOT FOUND: ' + item.message}" for item in result.items]
    figures = result.figures
    lines.append(
        f"{figures['bugs_found']} of {figures['bugs']} known bugs found in {result.seconds:.0f} s,"
        f" seed {result.seed}"
    )
    return "\n".join(lines)
