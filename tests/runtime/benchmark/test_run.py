"""`make bench` with made-up measurements: files, comparison, update, exit status."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import committed, run
from echo_npu.benchmark.gemm import Measured
from spec.marked_page import generated_part, marks
from tb.committed_cycles import UPDATE_VARIABLE, CommittedCycles
from tests.runtime.benchmark.canned import BATCHES, SINGLE, measured, results


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that gets all files; measuring gives made-up results at once."""
    products = dict.fromkeys(SINGLE, "networks") | dict.fromkeys(BATCHES, "attention")
    monkeypatch.setattr(committed, "all_products", lambda: products)
    monkeypatch.setattr(committed, "CYCLES", CommittedCycles(tmp_path / "cycles.json", tolerance=0.01))
    monkeypatch.setattr(committed, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(committed, "PICTURE", tmp_path / "picture.svg")
    monkeypatch.setattr(run, "OUTPUT", tmp_path / "out")
    monkeypatch.setattr(run, "render", lambda content: "<html>")
    monkeypatch.setattr(run, "measure", lambda **options: (results(), measured((*SINGLE, *BATCHES))))
    monkeypatch.setattr("sys.argv", ["bench"])
    monkeypatch.delenv(UPDATE_VARIABLE, raising=False)
    (tmp_path / "page.md").write_text("\n".join([*marks(committed.COMMAND), ""]), encoding="utf-8")
    write(tmp_path, {each.name: each.cycles for each in measured((*SINGLE, *BATCHES)) if each.cycles})
    return tmp_path


def write(folder: Path, cycles: dict[str, int]) -> None:
    (folder / "cycles.json").write_text(json.dumps({committed.CONFIG: cycles}), encoding="utf-8")


def committed_cycles() -> dict[str, int]:
    return committed.CYCLES.load(committed.CONFIG)


def test_nothing_has_moved(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (place / "cycles.json").read_text(encoding="utf-8")
    assert run.main() == 0
    assert "cycles moved" not in capsys.readouterr().out
    assert (place / "cycles.json").read_text(encoding="utf-8") == before
    assert not (place / "picture.svg").exists()
    assert {each.name for each in (place / "out").iterdir()} == {"results.json", "report.html"}


def test_what_has_moved_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cycles = committed_cycles()
    cycles["fp32 128x768x768"] += 10_000
    cycles["int8 128x768x768"] += 1  # less than a percent
    write(place, cycles)
    assert run.main() == 1
    out = capsys.readouterr().out
    assert f"fp32 128x768x768: committed {cycles['fp32 128x768x768']}, measured" in out
    assert "int8 128x768x768" not in out
    assert committed_cycles() == cycles


def test_an_update_writes_cycles_table_and_picture(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(place, {"fp32 16x16x16": 1, "fp32 of another time": 2})
    monkeypatch.setenv(UPDATE_VARIABLE, "1")
    assert run.main() == 0
    found = measured((*SINGLE, *BATCHES))
    assert committed_cycles() == {each.name: each.cycles for each in found}
    assert generated_part(committed.PAGE, committed.COMMAND) == committed.page_lines(found)
    assert (place / "picture.svg").read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize(
    ("part", "named"), [("gemm", "fp32 16x16x16"), ("layer", "the layer"), ("simulation", "other bytes")]
)
def test_what_is_wrong_is_not_committed(
    place: Path, part: str, named: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(**options: Any) -> tuple[dict[str, Any], list[Measured]]:
        content = results()
        if part == "gemm":
            content["gemm"]["summary"]["wrong"] = [named]
        elif part == "layer":
            content["layer"]["passed"] = False
        else:
            content["simulation"]["wrong"] = [named]
        return content, measured((*SINGLE, *BATCHES))

    monkeypatch.setattr(run, "measure", wrong)
    monkeypatch.setenv(UPDATE_VARIABLE, "1")
    write(place, {})
    assert run.main() == 1
    assert f"WRONG: {named}" in capsys.readouterr().out
    assert committed_cycles() == {}


def test_a_short_run_commits_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(UPDATE_VARIABLE, "1")
    monkeypatch.setattr("sys.argv", ["bench", "--quick"])
    with pytest.raises(SystemExit, match="2"):
        run.main()
    assert "too little to commit" in capsys.readouterr().err
