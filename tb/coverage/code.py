"""Code coverage of the RTL: runs that reach as much as all others do, their sum, and the report.

python -m tb.coverage.code run [--jobs 2]
python -m tb.coverage.code merge FILES... [--html DIR] [--json FILE] [--write FILE] [--partial]

FILES are what simulators of the kind "coverage" leave behind, or folders of such files (*.dat).
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tb.coverage.exclusions import EXCLUSIONS, apply_exclusions, parse_exclusions
from tb.coverage.html import write_pages
from tb.coverage.measure import GOALS, Measured, measure, result
from tb.coverage.points import (
    KINDS,
    Counts,
    add_counts,
    files_of,
    merged_points,
    read_counts,
    write_counts,
)
from tb.coverage.runs import Done, Runner, planned
from tb.npu_config import ROOT
from tb.results import Item
from tb.runner import BuildError, choose_seed
from tb.tools import ToolMissingError

REPORT = ROOT / "reports" / "coverage"


def merge(paths: Iterable[Path]) -> Counts:
    """The sum of these files, and of all *.dat in these folders. OSError, CoverageError."""
    total: Counts = {}
    for path in paths:
        add_counts(total, read_counts(path))
    return total


def evaluate(counts: Counts) -> Measured:
    """Points and exclusions together. CoverageError, ExclusionError."""
    points = merged_points(counts)
    exclusions = parse_exclusions(EXCLUSIONS.read_text(encoding="utf-8"))
    return measure(points, apply_exclusions(exclusions, points))


def table(measured: Measured) -> Table:
    """Per cent of each kind for each module, least of all first, and altogether."""
    out = Table(title="Code coverage, per cent (points that are excluded)", title_justify="left")
    out.add_column("module")
    for kind in KINDS:
        out.add_column(kind, justify="right")
        out.add_column("missed", justify="right")
    for module in sorted(measured.modules, key=lambda each: min(t.percent for t in each.tallies.values())):
        cells = []
        for kind in KINDS:
            tally = module.tallies[kind]
            excluded = f" ({tally.excluded})" if tally.excluded else ""
            cells += [f"{tally.percent:.1f}{excluded}" if tally.points or tally.excluded else "", ""]
            cells[-1] = str(tally.points - tally.covered) if tally.points > tally.covered else ""
        out.add_row(module.name, *cells)
    out.add_section()
    cells = []
    for kind, tally in measured.tallies.items():
        color = "green" if tally.percent >= GOALS[kind] else "red"
        cells += [f"[{color}]{tally.percent:.2f}[/] ({tally.excluded})", str(tally.points - tally.covered)]
    out.add_row("all", *cells)
    return out


def report(
    counts: Counts, sources: str, options: argparse.Namespace, started: float, failed: Sequence[Done]
) -> int:
    """Print, write the pages and the result; the exit status."""
    measured = evaluate(counts)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(measured))
    pages = [write_pages(measured, options.html, sources)] if options.html else []
    outcome = result(measured, time.monotonic() - started, pages, partial=options.partial)
    outcome = dataclasses.replace(outcome, items=[*map(_failure, failed), *outcome.items])
    if options.json:
        outcome.save(options.json)
    for item in outcome.items:
        if item.status != "pass":
            print(f"FAIL  {item.name}: {item.message}")
    for page in pages:
        print(f"report: {page}")
    return int(not outcome.passed)


def _failure(done: Done) -> Item:
    again = " ".join(("python", *done.run.command[1:]))
    return Item(f"run: {done.run.name}", "fail", done.seconds, f"it failed; log: {done.log}", again)


def _run(options: argparse.Namespace, started: float) -> int:
    seed = choose_seed()
    print(f"seed {seed}")

    def say(done: Done) -> None:
        mark = "pass" if done.passed else "FAIL"
        print(f"{mark}  {done.run.name}: {done.seconds:.0f} s, {done.new} new points", flush=True)

    runner = Runner(seed, options.jobs)
    finished = runner.execute(planned(), say)
    failed = [done for done in finished if not done.passed]
    if options.write:
        write_counts(runner.counts, options.write)
    return report(runner.counts, f"Sum of {len(finished)} runs, seed {seed}", options, started, failed)


def _merge(options: argparse.Namespace, started: float) -> int:
    files = files_of(options.files)
    counts = merge(files)
    if options.write:
        write_counts(counts, options.write)
    return report(counts, f"Sum of {len(files)} files", options, started, ())


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tb.coverage.code", description="code coverage of the RTL"
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--html", type=Path, default=REPORT, help="folder of the report")
    shared.add_argument("--json", type=Path, default=REPORT.with_suffix(".json"), help="the result as JSON")
    shared.add_argument("--write", type=Path, help="keep the sum as one file that merge reads")
    shared.add_argument("--partial", action="store_true", help="judge neither goals nor exclusions")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[shared], help="run what reaches most, and report")
    run.add_argument("--jobs", type=int, default=2, help="simulators at a time")
    add = commands.add_parser("merge", parents=[shared], help="report on files that simulators left behind")
    add.add_argument("files", type=Path, nargs="+", help="coverage.dat, or folders of *.dat")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when the goals are met, 1 when not, 2 for wrong arguments or a missing
    tool."""
    options = _arguments(sys.argv[1:] if argv is None else argv)
    started = time.monotonic()
    try:
        return (_run if options.command == "run" else _merge)(options, started)
    except (BuildError, ToolMissingError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
