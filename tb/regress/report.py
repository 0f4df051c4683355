"""Report of a regression: an HTML page, JUnit XML, and a summary for the docs."""

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite
from matplotlib.figure import Figure

from tb.regress.goals import GoalVerdict
from tb.report import page, pictures
from tb.repository import ROOT
from tb.results import CampaignResult, Item
from tb.whole_files import write_whole

SLOWEST = 25


@dataclasses.dataclass(frozen=True)
class Regression:
    """One run of a level.

    Attributes:
        level: "quick", "full", ...
        revision: of the repository.
        seed: the first seed.
        date: start, ISO 8601.
        seconds: wall time.
        where: the executor, in words.
        command: command that repeats it.
        campaigns: results, in order.
        verdicts: on the level's goals.
        stretches: how often it was started: more than once if it was interrupted and resumed.
    """

    level: str
    revision: str
    seed: int
    date: str
    seconds: float
    where: str
    command: str
    campaigns: Sequence[CampaignResult]
    verdicts: Sequence[GoalVerdict]
    stretches: int = 1

    @property
    def passed(self) -> bool:
        """Whether every goal is met and every item passed. How many mutants may survive is a goal."""
        items = [item for result in self.campaigns for item in result.items]
        return all(item.status in ("pass", "survived") for item in items) and all(
            each.met for each in self.verdicts
        )

    def failures(self) -> list[tuple[str, Item]]:
        """Return (campaign, item) of all that did not pass."""
        return [(each.name, item) for each in self.campaigns for item in each.items if item.status != "pass"]

    def slowest(self) -> list[tuple[str, Item]]:
        """Return (campaign, item) of the slowest items."""
        items = [(each.name, item) for each in self.campaigns for item in each.items]
        return sorted(items, key=lambda each: -each[1].seconds)[:SLOWEST]

    def record(self) -> dict[str, Any]:
        """Return its entry in the history."""
        return {
            "level": self.level,
            "revision": self.revision,
            "seed": self.seed,
            "date": self.date,
            "seconds": round(self.seconds, 1),
            "passed": self.passed,
            "failures": len(self.failures()),
            "goals": {each.goal.text: each.value for each in self.verdicts},
        }

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {**dataclasses.asdict(self), "passed": self.passed}
        path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


def append_history(path: Path, regression: Regression) -> list[dict[str, Any]]:
    """Append it to the history, in place of what it was before it was judged again, and return the records of
    its level, oldest first."""
    new = regression.record()
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    same = ("level", "revision", "seed", "date")
    records = [each for each in records if any(each[name] != new[name] for name in same)] + [new]
    write_whole(path, "".join(json.dumps(each) + "\n" for each in records))
    return [each for each in records if each["level"] == regression.level]


def render(regression: Regression, history: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """Render the HTML page for `folder`; it needs no other files except the pages that it links to."""
    pages = {
        each.name: [(Path(path).parent.name, os.path.relpath(ROOT / path, folder)) for path in each.pages]
        for each in regression.campaigns
    }
    return page.render(
        "regress",
        run=regression,
        pages=pages,
        trends=[(title, pictures.address(figure)) for title, figure in trends(history)],
    )


def trends(history: Sequence[Mapping[str, Any]]) -> list[tuple[str, Figure]]:
    """Plot each goal's value, the wall time and the failures over the runs."""
    names = list(dict.fromkeys(name for each in history for name in each["goals"]))
    series = {"minutes": [each["seconds"] / 60 for each in history]}
    series |= {"failures": [each["failures"] for each in history]}
    series |= {name: [each["goals"].get(name) for each in history] for name in names}
    return [(title, _trend(values, history)) for title, values in series.items()]


def _trend(values: Sequence[float | None], history: Sequence[Mapping[str, Any]]) -> Figure:
    figure = Figure(figsize=(4, 1.6), layout="constrained")
    axes = figure.subplots()
    shown = [(number, value) for number, value in enumerate(values) if value is not None]
    axes.plot([x for x, _ in shown], [y for _, y in shown], marker="o", color="#0072B2", markersize=4)
    ends = sorted({0, len(history) - 1})
    axes.set_xticks(ends, [history[end]["revision"] for end in ends], fontsize=7)
    axes.tick_params(axis="y", labelsize=7)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure


def junit(regression: Regression) -> JUnitXml:
    """Return JUnit XML: a suite per campaign, and one for the goals."""
    xml = JUnitXml(f"regress {regression.level}")
    for result in regression.campaigns:
        suite = TestSuite(result.name)
        suite.add_property("seed", str(result.seed))
        for name, value in result.figures.items():
            suite.add_property(name, str(value))
        for item in result.items:
            case = TestCase(item.name, result.name, item.seconds)
            if item.status != "pass":
                kind = Error if item.status == "error" else Failure
                entry = kind(item.message.splitlines()[0] if item.message else item.status)
                entry.text = "\n".join(part for part in (item.message, item.replay) if part)
                case.result = [entry]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    goals = TestSuite("goals")
    for verdict in regression.verdicts:
        case = TestCase(verdict.goal.text, "goals")
        if not verdict.met:
            case.result = [Failure(f"{verdict.shown}, wanted {verdict.wanted}")]
        goals.add_testcase(case)
    xml.add_testsuite(goals)
    xml.update_statistics()  # type: ignore[no-untyped-call]
    return xml


def summary(regression: Regression) -> list[str]:
    """Return the summary as lines of Markdown."""
    verdict = "passed" if regression.passed else "NOT passed"
    minutes = f"{regression.seconds / 60:.0f} minutes"
    if regression.stretches > 1:
        minutes += f" in {regression.stretches} stretches"
    lines = [
        f"Level `{regression.level}` at commit `{regression.revision}`, {regression.date}, first seed "
        f"{regression.seed}, {minutes} on {regression.where}: {verdict}. Again: `{regression.command}`.",
        "",
        "| goal | reached | wanted | |",
        "| --- | ---: | ---: | --- |",
        *(
            f"| {each.goal.text} | {each.shown} | {each.wanted} | {'met' if each.met else '**missed**'} |"
            for each in regression.verdicts
        ),
        "",
        "| campaign | first seed | items | not passed | figures |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for result in regression.campaigns:
        bad = sum(item.status != "pass" for item in result.items)
        figures = ", ".join(f"{page.words(name)} {value:,}" for name, value in result.figures.items())
        # Some campaigns draw nothing, and some only count what they tried.
        seed, items = result.seed or "-", f"{len(result.items):,}" if result.items else "-"
        lines.append(f"| {result.name} | {seed} | {items} | {bad} | {figures} |")
    return lines
