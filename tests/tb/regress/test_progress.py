"""A regression that was interrupted goes on where it was, and with nothing else."""

from pathlib import Path

import pytest

from tb.regress import run
from tb.regress.goals import CampaignGoal
from tb.regress.levels import Level
from tb.regress.progress import RegressionProgress
from tb.regress.task import TaskOutcome
from tests.refusals import refuses
from tests.tb.regress.tasks import result, writer

WHAT = "level full, seed 7, at abc123"


def outcome(name: str, **kept: bytes) -> TaskOutcome:
    return TaskOutcome(writer("marks", name), result("try", "pass", "fail"), "", "", kept)


def test_what_has_ended_is_there_again(tmp_path: Path) -> None:
    before = RegressionProgress.begin(tmp_path / "ended", WHAT, "2030-01-02")
    first = outcome("a task/1", bins=b"12")
    before.save(first, 3.0)
    after = RegressionProgress.resume(tmp_path / "ended", WHAT)
    assert (after.date, after.stretches, after.seconds) == ("2030-01-02", 2, 3.0)
    (found,) = after.ended([writer("marks", "another"), first.task])
    assert found.task is first.task
    assert list(found.result.items) == first.result.items
    assert found.result.figures == first.result.figures
    assert [each.read_bytes() for each in after.kept.iterdir()] == [b"12"]


def test_to_begin_is_to_forget(tmp_path: Path) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, "").save(outcome("one", bins=b"12"), 3.0)
    new = RegressionProgress.begin(tmp_path / "ended", WHAT, "")
    assert new.ended([writer("marks", "one")]) == []
    assert not list(new.kept.iterdir())


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (WHAT.replace("7", "8"), "is of level full, seed 7, at abc123, not of level full, seed 8"),
        (WHAT.replace("abc", "abd"), "not of level full, seed 7, at abd123"),
        (WHAT + "-dirty", "files may have changed"),
        ("level full, seed 7, at unknown", "files may have changed"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, what: str, says: str) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, "")
    refuses(ValueError, says, RegressionProgress.resume, tmp_path / "ended", what)


@pytest.mark.parametrize("text", [None, "", "[]", '{"what": 1', '{"when": 1}'])
def test_a_damaged_or_missing_beginning_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    refuses(ValueError, "there is no regression to resume", RegressionProgress.resume, tmp_path, WHAT)


def test_an_interrupted_regression_runs_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = tmp_path / "marks"
    tasks = [writer(marks, f"task {number}", "fail" if number == 0 else "pass") for number in range(4)]
    goal = CampaignGoal("tried", "try", ("tried",), 4)
    level = Level("full", "", lambda _: list(tasks), goals=(goal,))
    for name, place in (("REPORTS", ""), ("ENDED", "ended"), ("HISTORY", "history.jsonl")):
        monkeypatch.setattr(run, name, tmp_path / place)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "revision", lambda: "abc123")
    monkeypatch.setattr(run, "render", lambda *_: "")

    def play(resume: bool) -> bool:
        return run.play(level, 7, 1, where="", only="", resume=resume, json=None, update=False)

    whole = tasks.copy()
    del tasks[2:]
    assert not play(resume=False)
    tasks[:] = whole
    capsys.readouterr()
    assert not play(resume=True)
    shown = capsys.readouterr().out
    assert "2 of them ended before" in shown
    assert "3 of 4" in shown
    assert "in 2 stretches" in shown
    assert "| tried | 4 | at least 4 | met |" in shown, "the tasks of both stretches count"
    assert marks.read_text().split("\n")[:-1] == [f"task {number}" for number in range(4)]
