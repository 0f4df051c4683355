"""Functional coverage of many runs: table, missed bins, HTML page."""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree

from cocotb_coverage.coverage import merge_coverage
from rich.console import Console
from rich.table import Table

from tb.functional.model import Bin, Counter, CoverGroup
from tb.functional.plan import PLAN
from tb.report.page import render
from tb.results import CampaignResult, Item

SHOWN = 60
"""Missed bins that are printed."""


class CoverageFileError(ValueError):
    """A file that is not coverage of this plan."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A counter of the plan with the hits of each bin."""

    counter: Counter
    hits: tuple[tuple[Bin, int], ...]

    @property
    def excluded(self) -> list[tuple[Bin, str]]:
        """Unreachable bins that were not hit, with the reasons."""
        return [(labels, reason) for labels, reason, count in self._reasons() if not count]

    @property
    def wrong(self) -> list[tuple[Bin, str]]:
        """Bins that were hit although the plan declares them unreachable, with the reasons."""
        return [(labels, reason) for labels, reason, count in self._reasons() if count]

    def _reasons(self) -> Iterator[tuple[Bin, str, int]]:
        for labels, count in self.hits:
            if reason := self.counter.reason(labels):
                yield labels, reason, count

    @property
    def missed(self) -> list[Bin]:
        """Reachable bins that were not hit."""
        return [labels for labels, count in self.hits if not count and not self.counter.reason(labels)]

    @property
    def hit(self) -> int:
        """Number of bins hit."""
        return sum(count > 0 for _, count in self.hits)


def coverage_files(folders: Sequence[Path]) -> list[Path]:
    """List the coverage files in these folders. Raises OSError for a missing folder, CoverageFileError if
    there is no file."""
    files = []
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not a folder")
        files += sorted(folder.glob("*.xml"))
    if not files:
        raise CoverageFileError(f"no coverage files in {', '.join(map(str, folders))}")
    return files


def merged_rows(files: Sequence[Path], merged: Path, plan: Sequence[CoverGroup] = PLAN) -> list[Row]:
    """Merge files into `merged` and return every counter of the plan with the total hits.

    Raises CoverageFileError: a file is not XML, or belongs to another plan.
    """
    counters = [counter for group in plan for counter in group.counters()]
    for file in files:
        _rows(file, counters)  # the library matches bins by position, so check their names first
    merged.parent.mkdir(parents=True, exist_ok=True)
    merge_coverage(lambda text: None, str(merged), *map(str, files))
    return _rows(merged, counters)


def _rows(file: Path, counters: Sequence[Counter]) -> list[Row]:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise CoverageFileError(f"{file} is not a coverage file: {error}") from None
    found = {each.get("abs_name", "").removeprefix("top."): each for each in root.iter()}
    rows = []
    for counter in counters:
        element = found.get(counter.name)
        bins = counter.bins()
        names = [str(labels) if len(counter.axes) > 1 else labels[0] for labels in bins]
        listed = [] if element is None else [each.get("bin") for each in element]
        if element is None or names != listed:
            raise CoverageFileError(
                f"{file} is of another plan: {counter.name} has other bins, or is not there"
            )
        counts = [int(each.get("hits", "0")) for each in element]
        rows.append(Row(counter, tuple(zip(bins, counts, strict=True))))
    return rows


def result(rows: Sequence[Row], pages: Sequence[str] = (), seed: int = 0) -> CampaignResult:
    """Return figures over all bins, and an item per bin that was missed or wrongly excluded."""
    items = []
    for row in rows:
        for labels in row.missed:
            name = f"{row.counter.name} {' '.join(labels)}"
            items.append(Item(name, "fail", message="never hit", detail=row.counter.why))
        for labels, reason in row.wrong:
            name = f"{row.counter.name} {' '.join(labels)}"
            items.append(Item(name, "error", message=f"hit, but excluded: {reason}"))
    bins = sum(len(row.hits) for row in rows)
    excluded = sum(len(row.excluded) + len(row.wrong) for row in rows)
    figures = {
        "functional_bins": bins,
        "functional_hit": sum(row.hit - len(row.wrong) for row in rows),
        "functional_excluded": excluded,
        "functional_reachable": bins - excluded,
    }
    return CampaignResult("functional", seed, 0.0, figures, items, pages)


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row per counter."""
    out = Table(title="functional coverage", title_justify="left")
    out.add_column("counter")
    for name in ("bins", "excluded", "hit", "missed", ""):
        out.add_column(name, justify="right")
    for row in rows:
        reachable = len(row.hits) - len(row.excluded)
        out.add_row(
            row.counter.name.removeprefix("npu."),
            str(len(row.hits)),
            str(len(row.excluded)),
            str(row.hit),
            str(len(row.missed)),
            f"{row.hit / reachable:.0%}" if row.hit < reachable else "[green]100%[/]",
        )
    return out


def page(rows: Sequence[Row], plan: Sequence[CoverGroup] = PLAN) -> str:
    """Render the HTML page with missed and excluded bins of every counter."""
    groups = [(group, [row for row in rows if row.counter.group == group.name]) for group in plan]
    return render("functional", groups=groups, figures=result(rows).figures)


def report(folders: Sequence[Path], html: Path | None = None) -> tuple[list[Row], CampaignResult]:
    """Merge the coverage in the folders and write the page if `html` is given.

    Raises as `coverage_files` and `merged_rows`.
    """
    rows = merged_rows(coverage_files(folders), folders[0] / "merged" / "coverage.xml")
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(page(rows), encoding="utf-8")
    return rows, result(rows, [str(html)] if html else ())


def show(rows: Sequence[Row], outcome: CampaignResult) -> None:
    """Print the table, the first missed bins, and the figures."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table(rows))
    for item in outcome.items[:SHOWN]:
        console.print(f"{item.message}: {item.name}", markup=False, highlight=False)
    if len(outcome.items) > SHOWN:
        console.print(f"and {len(outcome.items) - SHOWN} more")
    figures = outcome.figures
    reachable = figures["functional_reachable"]
    share = 100 * figures["functional_hit"] / reachable
    console.print(
        f"{figures['functional_hit']} of {reachable} reachable bins hit: {share:.2f} %", highlight=False
    )
