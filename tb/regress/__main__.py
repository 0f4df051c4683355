"""Runs everything at a level, and writes the report: `make regress`."""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.console import Console

from tb.marked_page import replace_part
from tb.npu_config import ROOT
from tb.processes import stop_all
from tb.regress.executors import ExecutorError, executor
from tb.regress.goals import judge
from tb.regress.levels import LEVELS
from tb.regress.report import Regression, append_history, junit, render, summary
from tb.regress.task import KEPT, Outcome, run_task
from tb.results import CampaignResult, merged
from tb.revision import revision
from tb.runner import choose_seed

REPORTS = ROOT / "reports" / "regress"
KEPT_FILES = REPORTS / "kept"
HISTORY = ROOT / "reports" / "history.jsonl"
PAGE = ROOT / "docs" / "verification.md"


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tb.regress",
        description="Everything that verifies the NPU, in one report.",
        epilog="; ".join(f"{level.name}: {level.text}" for level in LEVELS.values()),
    )
    parser.add_argument("--level", default="quick", choices=list(LEVELS))
    parser.add_argument(
        "--executor", default="processes", help="processes, or a Dask scheduler: tcp://host:port"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--only", default="", help="campaigns to run, a regular expression")
    parser.add_argument("--list", action="store_true", help="show the tasks and run nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--update", action="store_true", help="put the summary into the docs")
    return parser.parse_args(argv)


def collect(outcomes: Iterable[Outcome]) -> list[CampaignResult]:
    """The outcomes' results, one for each campaign, in order of their names. ValueError: a task is there
    twice."""
    parts: dict[str, dict[str, CampaignResult]] = {}
    for outcome in outcomes:
        own = parts.setdefault(outcome.task.campaign, {})
        if outcome.task.name in own:
            raise ValueError(f"task {outcome.task.name!r} ended twice")
        own[outcome.task.name] = outcome.result
    return [merged(own.values()) for _, own in sorted(parts.items())]


def _terminated(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _followed(outcomes: Iterable[Outcome], total: int, console: Console) -> Iterator[Outcome]:
    """The outcomes, each shown and its log kept as it comes."""
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


def _run(options: argparse.Namespace, console: Console) -> int:
    level = LEVELS[options.level]
    seed = choose_seed()
    if options.jobs < 1:
        raise ValueError(f"JOBS={options.jobs}: it must be 1 or more")
    tasks = [task for task in level.tasks(seed) if re.search(options.only, task.campaign)]
    closing = [
        dataclasses.replace(
            task, arguments=tuple(word.replace(KEPT, str(KEPT_FILES)) for word in task.arguments)
        )
        for task in level.closing
        if re.search(options.only, task.campaign)
    ]
    if not tasks:
        raise ValueError(f"ONLY={options.only}: level {level.name} has no such campaign")
    tasks.sort(key=lambda task: -task.cost)
    if options.list:
        for task in tasks:
            console.print(f"{task.name:40} {task.replay}", markup=False, highlight=False, soft_wrap=True)
        return 0
    chosen = executor(options.executor, options.jobs)
    date = datetime.datetime.now(datetime.UTC).isoformat(" ", "minutes")
    command = f"make regress LEVEL={level.name} SEED={seed}"
    if options.only:
        command += f" ONLY={options.only}"
    console.print(f"{len(tasks)} tasks of level {level.name}, seed {seed}", highlight=False)
    started = time.monotonic()
    shutil.rmtree(KEPT_FILES, ignore_errors=True)
    KEPT_FILES.mkdir(parents=True)
    outcomes = list(_followed(chosen.run(tasks), len(tasks), console))
    outcomes += _followed(map(run_task, closing), len(closing), console)
    results = collect(outcomes)
    by_name = {result.name: result for result in results}
    goals = [goal for goal in level.goals if re.search(options.only, goal.campaign)]
    regression = Regression(
        level.name,
        revision(),
        seed,
        date,
        time.monotonic() - started,
        options.executor if "://" in options.executor else f"{options.jobs} processes",
        command,
        results,
        [judge(goal, by_name) for goal in goals],
    )
    _write(regression, options, partial=bool(options.only))
    console.print("\n".join(summary(regression)), markup=False, highlight=False, soft_wrap=True)
    for campaign, item in regression.failures():
        console.print(f"\n{item.status}  {campaign}: {item.name}", style="red", highlight=False)
        console.print("\n".join(item.message.splitlines()[:12]), markup=False, highlight=False)
        console.print(f"replay: {item.replay}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"report: {(REPORTS / 'index.html').relative_to(ROOT)}", highlight=False)
    return 0 if regression.passed else 1


def _write(regression: Regression, options: argparse.Namespace, *, partial: bool) -> None:
    # A part of the campaigns says nothing about the trend of all.
    history = [regression.record()] if partial else append_history(HISTORY, regression)
    (REPORTS / "index.html").write_text(render(regression, history, REPORTS), encoding="utf-8")
    junit(regression).write(str(REPORTS / "junit.xml"), pretty=True)
    regression.save(REPORTS / "results.json")
    if options.json:
        regression.save(options.json)
    if options.update:
        replace_part(PAGE, "make regress", summary(regression))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when everything passed and every goal is met, 1 when not, 2 for wrong
    arguments or a cluster that is not there."""
    options = _arguments(sys.argv[1:] if argv is None else argv)
    signal.signal(signal.SIGTERM, _terminated)
    try:
        return _run(options, Console(width=None if sys.stdout.isatty() else 140))
    except (ValueError, ExecutorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        stop_all()
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
