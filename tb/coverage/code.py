"""Code coverage of the RTL: runs, their sum and the report."""

import dataclasses
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tb.coverage.exclusions import apply_exclusions, load_exclusions
from tb.coverage.html import write_pages
from tb.coverage.measure import GOALS, MeasuredCoverage, measure, result
from tb.coverage.points import KINDS, Counts, add_counts, files_of, merged_points, read_counts, write_counts
from tb.coverage.runs import CoverageRunner, Done, planned
from tb.results import CampaignResult, Item


def merge(paths: Iterable[Path]) -> Counts:
    """Add up these files and all *.dat in these folders. Raises OSError or CoverageError."""
    total: Counts = {}
    for path in paths:
        add_counts(total, read_counts(path))
    return total


def evaluate(counts: Counts) -> MeasuredCoverage:
    """Combine points and exclusions. Raises CoverageError or ExclusionError."""
    points = merged_points(counts)
    exclusions = load_exclusions()
    return measure(points, apply_exclusions(exclusions, points))


def table(measured: MeasuredCoverage) -> Table:
    """Return the percentage of each kind per module, lowest first, and in total."""
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


def play(
    files: Sequence[Path], seed: int, jobs: int, *, html: Path | None, write: Path | None, partial: bool
) -> CampaignResult:
    """Add up `files` (coverage data, or folders of *.dat), or run the planned runs if there are none; print a
    table.

    Args:
        html: folder for the pages; None for no pages.
        write: file for the sum, which can be added up again.
        partial: judge neither goals nor exclusions.

    Raises OSError, CoverageError: a file is missing, or is not coverage data. BuildError, ToolMissingError:
    as `build`.
    """
    started = time.monotonic()
    failed: list[Item] = []
    if files:
        found = files_of(files)
        counts, sources = merge(found), f"Sum of {len(found)} files"
    else:
        runner = CoverageRunner(seed, jobs)
        finished = runner.execute(planned(), _say)
        counts, sources = runner.counts, f"Sum of {len(finished)} runs, seed {seed}"
        failed = [_failure(done) for done in finished if not done.passed]
    if write:
        write_counts(counts, write)
    measured = evaluate(counts)
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(measured))
    pages = [write_pages(measured, html, sources)] if html else []
    outcome = result(measured, time.monotonic() - started, pages, partial=partial)
    return dataclasses.replace(outcome, items=[*failed, *outcome.items])


def _say(done: Done) -> None:
    mark = "pass" if done.passed else "FAIL"
    print(f"{mark}  {done.run.name}: {done.seconds:.0f} s, {done.new} new points", flush=True)


def _failure(done: Done) -> Item:
    again = " ".join(("python", *done.run.command[1:]))
    return Item(f"run: {done.run.name}", "fail", done.seconds, f"it failed; log: {done.log}", again)
