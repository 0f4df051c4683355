"""The command line on existing files: sum, report, goals."""

from pathlib import Path

import pytest

from tb.cli import main
from tb.coverage.points import read_counts
from tb.results import CampaignResult
from tests.tb.coverage.data import SOURCE, record, write


def merge(tmp_path: Path, *options: str) -> int:
    """Run the command on the folder `data`."""
    out = {"--html": "html", "--json": "x.json", "--write": "sum.dat"}
    words = [word for option, name in out.items() for word in (option, str(tmp_path / name))]
    return main(["coverage", str(tmp_path / "data"), *words, *options])


def test_merge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two files complement each other; their sum can be read again."""
    arms = [("if", 3), ("else", 4)]
    for number in range(2):
        records = [
            record("branch", arm, 30, int(place == number), lines="30", column=column)
            for place, (arm, column) in enumerate(arms)
        ]
        write(tmp_path / "data" / f"{number}.dat", *records, record("toggle", "a:0->1", 20, 0))
    assert merge(tmp_path, "--partial") == 0
    found = CampaignResult.load(tmp_path / "x.json")
    assert (found.figures["branch_covered"], found.figures["line_covered"]) == (2, 1)
    assert found.figures["toggle_covered"] == 0
    assert (tmp_path / "html" / "index.html").exists()
    assert sorted(read_counts(tmp_path / "sum.dat").values()) == [0, 1, 1]
    assert merge(tmp_path) == 1
    out = capsys.readouterr().out
    assert "FAIL  toggle: 0.00 % of 1, goal 95 %" in out
    assert "skid_buffer" in out
    assert SOURCE in next(item.name for item in found.items if item.detail.startswith(SOURCE))


def test_what_is_no_coverage_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, with the file's name."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bad.dat").write_text("hello")
    assert merge(tmp_path) == 2
    assert "bad.dat is not coverage data" in capsys.readouterr().err
    assert main(["coverage", str(tmp_path / "missing.dat")]) == 2
