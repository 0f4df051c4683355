"""The report: HTML, JUnit XML, history, summary."""

import dataclasses
import json
from pathlib import Path

from junitparser import JUnitXml

from tb.regress.goals import CampaignGoal, judge
from tb.regress.report import Regression, append_history, junit, render, summary, trends
from tb.repository import ROOT
from tb.results import CampaignResult
from tests.tb.regress.tasks import result


def regression(*campaigns: CampaignResult, level: str = "full", bound: float = 0.9) -> Regression:
    goal = CampaignGoal("mutants killed", "mutation", ("killed",), bound, of=("killed", "survived"))
    verdict = judge(goal, {each.name: each for each in campaigns})
    when = "2030-01-02 03:04+00:00"
    run = (level, "abc123", 7, when, 600.0, "2 processes", "make regress")
    return Regression(*run, campaigns, [verdict])


GOOD = regression(result("mutation", "pass", "pass", killed=19, survived=1))
BAD = regression(result("mutation", "pass", killed=1, survived=19), result("rtl", "pass", "fail", "error"))


def test_passed() -> None:
    """Every item and every goal must be met; a goal decides how many mutants may survive."""
    assert GOOD.passed
    assert not BAD.passed
    assert not regression(result("mutation", "pass", killed=1, survived=19)).passed
    assert not regression(result("mutation", "fail", killed=20, survived=0)).passed
    assert regression(result("mutation", "pass", "survived", killed=19, survived=1)).passed
    assert not regression(result("mutation", "pass", "survived", killed=1, survived=19)).passed


def test_page() -> None:
    """All failures with their replay commands, goals, slowest, and trends; texts are escaped."""
    page = render(BAD, [GOOD.record(), BAD.record()], ROOT / "reports" / "regress")
    assert "not passed" in page
    assert page.count("Replay: <code>make rtl</code>") == 2
    assert "wrong &lt;b&gt;bits" in page
    assert "missed" in page
    assert page.count("<figure>") == 3
    assert "<script" not in page
    assert "None." in render(GOOD, [GOOD.record()], ROOT / "reports" / "regress")


def test_links_lead_from_the_page(tmp_path: Path) -> None:
    """Pages of campaigns have paths from the root of the tree, and the report links them from its own
    folder."""
    shown = CampaignResult("coverage", 0, 0.0, {}, (), ("reports/coverage/index.html",))
    page = render(regression(shown), [GOOD.record()], ROOT / "reports" / "regress")
    assert 'href="../coverage/index.html"' in page


def test_junit_counts(tmp_path: Path) -> None:
    """A suite for each campaign and one for the goals, read back with a JUnit parser."""
    junit(BAD).write(str(tmp_path / "junit.xml"))
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml"))}
    assert (suites["rtl"].tests, suites["rtl"].failures, suites["rtl"].errors) == (3, 1, 1)
    assert (suites["goals"].tests, suites["goals"].failures) == (1, 1)
    assert "make rtl" in (tmp_path / "junit.xml").read_text()


def test_history_is_of_the_level(tmp_path: Path) -> None:
    """Runs are appended; those of another level are not part of a trend."""
    path = tmp_path / "reports" / "history.jsonl"
    assert len(append_history(path, GOOD)) == 1
    assert len(append_history(path, regression(result("mutation", killed=1, survived=0), level="quick"))) == 1
    records = append_history(path, dataclasses.replace(BAD, date="2030-01-03 03:04+00:00"))
    assert [each["passed"] for each in records] == [True, False]
    assert [each["goals"]["mutants killed"] for each in records] == [0.95, 0.05]
    assert {title for title, _ in trends(records)} == {"minutes", "failures", "mutants killed"}


def test_a_regression_that_is_judged_again_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    append_history(path, BAD)
    (record,) = append_history(path, GOOD)
    assert record["passed"]


def test_summary_lines() -> None:
    """Goals, and every campaign, in Markdown."""
    text = "\n".join(summary(BAD))
    assert "commit `abc123`" in text
    assert "NOT passed" in text
    assert "| mutants killed | 5.00 % | at least 90.00 % | **missed** |" in text
    assert "| rtl | 5 | 3 | 2 |" in text


def test_saved(tmp_path: Path) -> None:
    BAD.save(tmp_path / "results.json")
    read = json.loads((tmp_path / "results.json").read_text())
    assert read["passed"] is False
    assert read["campaigns"][1]["items"][1]["replay"] == "make rtl"
