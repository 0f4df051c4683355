"""Run a level and write the report: `make regress`."""

import dataclasses
import datetime
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from echo_sim.claims import claim
from spec.marked_page import replace_part
from tb.mutation.equivalents import LIST, load_equivalents
from tb.mutation.mutant_campaign import MUTATION, judged
from tb.regress.executors import TaskExecutor, executor
from tb.regress.goals import judge
from tb.regress.levels import Level
from tb.regress.progress import RegressionProgress
from tb.regress.report import Regression, append_history, junit, render, summary
from tb.regress.task import KEPT, Task, TaskOutcome, run_task
from tb.repository import ROOT
from tb.results import CampaignResult, merged
from tb.revision import files_that_differ, revision

REPORTS = ROOT / "reports" / "regress"
ENDED = REPORTS / "ended"
HISTORY = ROOT / "reports" / "history.jsonl"
PAGE = ROOT / "docs" / "verification.md"
COMMAND = "make regress LEVEL=full UPDATE=1"


def collect(outcomes: Iterable[TaskOutcome]) -> list[CampaignResult]:
    """Merge the outcomes into one result per campaign, sorted by name. Raise ValueError if a task occurs
    twice."""
    parts: dict[str, dict[str, CampaignResult]] = {}
    for outcome in outcomes:
        own = parts.setdefault(outcome.task.campaign, {})
        if outcome.task.name in own:
            raise ValueError(f"task {outcome.task.name!r} ended twice")
        own[outcome.task.name] = outcome.result
    return [merged(own.values()) for _, own in sorted(parts.items())]


def _followed(
    outcomes: Iterable[TaskOutcome], numbers: range, progress: RegressionProgress, console: Console
) -> Iterator[TaskOutcome]:
    """Pass outcomes on, printing each with its number, and saving it and its log."""
    logs = REPORTS / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    last = time.monotonic()
    for number, outcome in zip(numbers, outcomes, strict=True):
        name, result = outcome.task.name, outcome.result
        (logs / f"{outcome.task.stem}.log").write_text(outcome.log, encoding="utf-8")
        now = time.monotonic()
        progress.save(outcome, now - last)
        last = now
        bad = sum(item.status != "pass" for item in result.items)
        verdict = f"{bad} of {len(result.items)} FAILED" if bad else "pass"
        line = f"{number:4} of {numbers.stop - 1}  {name:44} {result.seconds:7.0f} s  {verdict}"
        console.print(line, style="red" if bad else "", highlight=False)
        yield outcome


def play(
    level: Level,
    seed: int,
    jobs: int,
    *,
    where: str,
    only: str,
    resume: bool,
    json: Path | None,
    update: bool,
) -> bool:
    """Run the level's tasks and write the report; return whether everything passed and every goal is met.

    Args:
        where: the executor, as EXECUTOR names it.
        only: regular expression for the campaigns to run.
        resume: go on with an interrupted regression of this level, seed and commit. One that has ended is
            judged again: survivors that the list of equivalent mutants has by now are equivalent.
        json: additional file for the results.
        update: write the summary into the docs.

    Raises ValueError: no such campaign or executor, another regression of this tree is running, or there is
    none to resume.
    ExecutorError: the cluster is not available.
    """
    console = Console(width=None if sys.stdout.isatty() else 140)
    tasks = planned(level, seed, only)
    if not claim(REPORTS):
        raise ValueError(f"another regression of this tree writes to {REPORTS.relative_to(ROOT)}")
    chosen = executor(where, jobs)
    progress = _begun(level, seed, only, resume=resume)
    done = progress.ended(tasks)
    before = f", {len(done)} of them ended before" if done else ""
    console.print(f"{len(tasks)} tasks of level {level.name}, seed {seed}{before}", highlight=False)
    outcomes = [*done, *_rest(tasks, done, chosen, progress, console)]
    outcomes += _closing(level, only, progress, console)
    regression = _regression(level, seed, only, progress, outcomes, place=_place(where, jobs))
    _write(regression, partial=bool(only), json=json, update=update)
    _print(regression, console)
    return regression.passed


def _begun(level: Level, seed: int, only: str, *, resume: bool) -> RegressionProgress:
    """Begin a regression, or go on with the interrupted one; ValueError if there is none to resume."""
    what = " ".join([f"level {level.name}, seed {seed}", *([f"ONLY={only}"] if only else [])])
    if resume:
        return RegressionProgress.resume(ENDED, what, changed_since)
    date = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
    return RegressionProgress.begin(ENDED, what, revision(), date)


def _rest(
    tasks: Sequence[Task],
    done: Sequence[TaskOutcome],
    chosen: TaskExecutor,
    progress: RegressionProgress,
    console: Console,
) -> Iterator[TaskOutcome]:
    """Run the tasks that have not ended before."""
    ended = {outcome.task.name for outcome in done}
    left = [task for task in tasks if task.name not in ended]
    return _followed(chosen.run(left), range(len(done) + 1, len(tasks) + 1), progress, console)


def _closing(
    level: Level, only: str, progress: RegressionProgress, console: Console
) -> Iterator[TaskOutcome]:
    """Run the level's closing tasks, which read what the others have kept."""
    closing = [
        dataclasses.replace(
            task, arguments=tuple(word.replace(KEPT, str(progress.kept)) for word in task.arguments)
        )
        for task in level.closing
        if re.search(only, task.campaign)
    ]
    return _followed(map(run_task, closing), range(1, len(closing) + 1), progress, console)


def _place(where: str, jobs: int) -> str:
    return where if "://" in where else f"{jobs} processes"


def _regression(
    level: Level,
    seed: int,
    only: str,
    progress: RegressionProgress,
    outcomes: Iterable[TaskOutcome],
    *,
    place: str,
) -> Regression:
    """Merge the outcomes and judge the goals."""
    results = judged_by_hand(collect(outcomes), load_equivalents())
    by_name = {result.name: result for result in results}
    return Regression(
        level.name,
        progress.commit,
        seed,
        progress.date,
        progress.seconds,
        place,
        again(level, seed, only),
        results,
        [judge(goal, by_name) for goal in level.goals if re.search(only, goal.campaign)],
        progress.stretches,
    )


def _write(regression: Regression, *, partial: bool, json: Path | None, update: bool) -> None:
    """Write the report, the results and, with `update`, the table of the docs."""
    # A partial run would distort the trends.
    history = [regression.record()] if partial else append_history(HISTORY, regression)
    (REPORTS / "index.html").write_text(render(regression, history, REPORTS), encoding="utf-8")
    junit(regression).write(str(REPORTS / "junit.xml"), pretty=True)
    for path in filter(None, (REPORTS / "results.json", json)):
        regression.save(path)
    if update:
        replace_part(PAGE, COMMAND, summary(regression))


def _print(regression: Regression, console: Console) -> None:
    """Print the summary, and each failure with the beginning of its message and its replay."""
    console.print("\n".join(summary(regression)), markup=False, highlight=False, soft_wrap=True)
    for campaign, item in regression.failures():
        console.print(f"\n{item.status}  {campaign}: {item.name}", style="red", highlight=False)
        console.print("\n".join(item.message.splitlines()[:12]), markup=False, highlight=False)
        console.print(f"replay: {item.replay}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {(REPORTS / 'index.html').relative_to(ROOT)}", highlight=False)


def changed_since(commit: str) -> list[str]:
    """Return the files that differ from a commit, without those that decide no outcome of a task: the proofs
    of survivors, and the page with the last table."""
    return [name for name in files_that_differ(commit) if ROOT / name not in (LIST, PAGE)]


def judged_by_hand(results: Iterable[CampaignResult], equivalents: Mapping[str, str]) -> list[CampaignResult]:
    """Return the results with the survivors that were proven equivalent since their campaign ended."""
    return [judged(result, equivalents) if result.name == MUTATION else result for result in results]


def again(level: Level, seed: int, only: str) -> str:
    """Return the shell's command that repeats a regression."""
    return shlex.join(
        ["make", "regress", f"LEVEL={level.name}", f"SEED={seed}", *([f"ONLY={only}"] if only else [])]
    )


def planned(level: Level, seed: int, only: str) -> list[Task]:
    """Return the tasks of the campaigns that `only` matches, longest first.

    Raises ValueError: there are none, or `only` is no regular expression.
    """
    try:
        re.compile(only)
    except re.error as error:
        raise ValueError(f"ONLY={only}: it is no regular expression: {error}") from None
    tasks = [task for task in level.tasks(seed) if re.search(only, task.campaign)]
    if not tasks:
        raise ValueError(f"ONLY={only}: level {level.name} has no such campaign")
    return sorted(tasks, key=lambda task: -task.cost)
