"""Coverage files are merged, and judged by the plan."""

import subprocess
import sys
from pathlib import Path

import pytest

from tb.cli import main
from tb.functional.merged import CoverageFileError, coverage_files, merged_rows, page, result
from tb.functional.model import CoverAxis, CoverGroup, Cross, ExcludedBins
from tb.functional.plan import PLAN
from tb.repository import ROOT

SAMPLER = """
import sys
from pathlib import Path
from tb.functional.collector import Coverage
from tb.functional.plan import PLAN
from tb.functional.samples import Sample
from tests.tb.functional.test_merged import GROUP
coverage = Coverage([GROUP] if sys.argv[1] == "toys" else PLAN)
for word in sys.argv[3:]:
    colour, shape = word.split("-")
    labels = frozenset(shape.split("+"))
    coverage.sample([Sample("toys", {"colour": colour, "shape": labels} if shape else {"colour": colour})])
coverage.save(Path(sys.argv[2]))
"""
GROUP = CoverGroup(
    "toys",
    "a box",
    (
        CoverAxis("colour", ("red", "blue"), "any colour"),
        CoverAxis("shape", ("round", "square"), "any shape"),
    ),
    (Cross("both", ("colour", "shape"), "all"),),
    (ExcludedBins({"colour": ("red",), "shape": ("square",)}, "squares are blue"),),
)


def sampled(path: Path, *words: str, plan: str = "toys") -> Path:
    """Sample in a new process, as a simulator does: the library has one tree in each."""
    subprocess.run([sys.executable, "-c", SAMPLER, plan, str(path), *words], check=True, cwd=ROOT)
    return path


def test_merge(tmp_path: Path) -> None:
    """Hits add up over files; each of several labels counts; an omitted axis does not."""
    one = sampled(tmp_path / "one.xml", "red-round", "blue-", "blue-round+square")
    two = sampled(tmp_path / "two.xml", "red-round")
    assert coverage_files([tmp_path]) == [one, two]
    rows = merged_rows([one, two], tmp_path / "merged" / "all.xml", [GROUP])
    hits = {row.counter.item: dict(row.hits) for row in rows}
    assert hits["colour"] == {("red",): 2, ("blue",): 2}
    assert hits["shape"] == {("round",): 3, ("square",): 1}
    both = {("red", "round"): 2, ("red", "square"): 0, ("blue", "round"): 1, ("blue", "square"): 1}
    assert hits["both"] == both
    outcome = result(rows)
    assert outcome.passed
    wanted = {"bins": 8, "hit": 7, "excluded": 1, "reachable": 7}
    assert {name: outcome.figures[f"functional_{name}"] for name in wanted} == wanted


def test_missed_and_impossible_bins_fail(tmp_path: Path) -> None:
    """A missed bin is an item, and so is a hit bin that is excluded; the page shows both."""
    rows = merged_rows([sampled(tmp_path / "one.xml", "red-square")], tmp_path / "merged.xml", [GROUP])
    outcome = result(rows)
    assert not outcome.passed
    missed = ("colour blue", "shape round", "both red round", "both blue round", "both blue square")
    wanted = {**dict.fromkeys(missed, "fail"), "both red square": "error"}
    statuses = {item.name: item.status for item in outcome.items}
    assert statuses == {f"npu.toys.{name}": status for name, status in wanted.items()}
    assert outcome.figures["functional_hit"] == 2
    assert outcome.figures["functional_reachable"] == 7
    text = page(rows, [GROUP])
    assert "<code>blue round</code>" in text
    assert "squares are blue" in text


def test_files_of_another_plan_are_refused(tmp_path: Path) -> None:
    file = sampled(tmp_path / "one.xml", "red-round")
    with pytest.raises(CoverageFileError, match="another plan"):
        merged_rows([file], tmp_path / "merged.xml", PLAN)
    (tmp_path / "two.xml").write_text("no coverage")
    with pytest.raises(CoverageFileError, match=r"two\.xml"):
        merged_rows([tmp_path / "two.xml"], tmp_path / "merged.xml", [GROUP])


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing was hit: status 1, with a page and figures; no files: status 2."""
    (tmp_path / "runs").mkdir()
    assert main(["functional", str(tmp_path / "runs")]) == 2
    assert main(["functional", str(tmp_path / "missing")]) == 2
    sampled(tmp_path / "runs" / "one.xml", plan="whole")
    html, json = tmp_path / "out" / "index.html", tmp_path / "out" / "functional.json"
    assert main(["functional", str(tmp_path / "runs"), "--html", str(html), "--json", str(json)]) == 1
    assert "0 of " in capsys.readouterr().out
    assert html.exists()
    assert json.exists()
