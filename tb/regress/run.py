"""Run a level and write the report: `make regress`."""

import dataclasses
import datetime
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console

from echo_sim.claims import claim
from spec.marked_page import replace_part
from tb.regress.executors import executor
from tb.regress.goals import judge
from tb.regress.levels import Level
from tb.regress.report import Regression, append_history, junit, render, summary
from tb.regress.task import KEPT, Task, TaskOutcome, run_task
from tb.repository import ROOT
from tb.results import CampaignResult, merged
from tb.revision import revision

REPORTS = ROOT / "reports" / "regress"
KEPT_FILES = REPORTS / "kept"
HISTORY = ROOT / "reports" / "history.jsonl"
PAGE = ROOT / "docs" / "verification.md"


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


def _followed(outcomes: Iterable[TaskOutcome], total: int, console: Console) -> Iterator[TaskOutcome]:
    """Pass outcomes on, printing each and saving its log and files."""
    logs = REPORTS / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    for number, outcome in enumerate(outcomes, 1):
        name, result = outcome.task.name, outcome.result
        file = logs / (re.sub(r"[^A-Za-z0-9]+", "-", name) + ".log")
        file.write_text(outcome.log, encoding="utf-8")
        for left, data in outcome.kept.items():
            (KEPT_FILES / f"{file.stem}-{left}").write_bytes(data)
        bad = sum(item.status != "pass" for item in result.items)
        verdict = f"{bad} of {len(result.items)} FAILED" if bad else "pass"
        line = f"{number:4} of {total}  {name:44} {result.seconds:7.0f} s  {verdict}"
        console.print(line, style="red" if bad else "", highlight=False)
        yield outcome


def play(
    level: Level, seed: int, jobs: int, *, where: str, only: str, json: Path | None, update: bool
) -> bool:
    """Run the level's tasks and write the report; return whether everything passed and every goal is met.

    Args:
        where: the executor, as EXECUTOR names it.
        only: regular expression for the campaigns to run.
        json: additional file for the results.
        update: write the summary into the docs.

    Raises ValueError: no such campaign or executor, or another regression of this tree is running.
    ExecutorError: the cluster is not available.
    """
    console = Console(width=None if sys.stdout.isatty() else 140)
    tasks = planned(level, seed, only)
    closing = [
        dataclasses.replace(
            task, arguments=tuple(word.replace(KEPT, str(KEPT_FILES)) for word in task.arguments)
        )
        for task in level.closing
        if re.search(only, task.campaign)
    ]
    if not claim(REPORTS):
        raise ValueError(f"another regression of this tree writes to {REPORTS.relative_to(ROOT)}")
    chosen = executor(where, jobs)
    date = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
    command = again(level, seed, only)
    console.print(f"{len(tasks)} tasks of level {level.name}, seed {seed}", highlight=False)
    started = time.monotonic()
    shutil.rmtree(KEPT_FILES, ignore_errors=True)
    KEPT_FILES.mkdir(parents=True)
    outcomes = list(_followed(chosen.run(tasks), len(tasks), console))
    outcomes += _followed(map(run_task, closing), len(closing), console)
    results = collect(outcomes)
    by_name = {result.name: result for result in results}
    goals = [goal for goal in level.goals if re.search(only, goal.campaign)]
    regression = Regression(
        level.name,
        revision(),
        seed,
        date,
        time.monotonic() - started,
        where if "://" in where else f"{jobs} processes",
        command,
        results,
        [judge(goal, by_name) for goal in goals],
    )
    # A partial run would distort the trends.
    history = [regression.record()] if only else append_history(HISTORY, regression)
    (REPORTS / "index.html").write_text(render(regression, history, REPORTS), encoding="utf-8")
    junit(regression).write(str(REPORTS / "junit.xml"), pretty=True)
    for path in filter(None, (REPORTS / "results.json", json)):
        regression.save(path)
    if update:
        replace_part(PAGE, "make regress", summary(regression))
    console.print("\n".join(summary(regression)), markup=False, highlight=False, soft_wrap=True)
    for campaign, item in regression.failures():
        console.print(f"\n{item.status}  {campaign}: {item.name}", style="red", highlight=False)
        console.print("\n".join(item.message.splitlines()[:12]), markup=False, highlight=False)
        console.print(f"replay: {item.replay}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {(REPORTS / 'index.html').relative_to(ROOT)}", highlight=False)
    return regression.passed


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
