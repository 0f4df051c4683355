"""A regression that was interrupted goes on where it was, and with nothing else."""

import dataclasses
from pathlib import Path

import pytest

from tb.mutation.mutant_campaign import MUTATION
from tb.regress import run
from tb.regress.goals import CampaignGoal
from tb.regress.levels import Level
from tb.regress.progress import RegressionProgress
from tb.regress.task import TaskOutcome
from tb.results import CampaignResult, Item
from tests.refusals import refuses
from tests.tb.regress.tasks import result, writer

WHAT = "level full, seed 7"


def outcome(name: str, **kept: bytes) -> TaskOutcome:
    return TaskOutcome(writer("marks", name), result("try", "pass", "fail"), "", "", kept)


def nothing(_: str) -> list[str]:
    return []


def test_what_has_ended_is_there_again(tmp_path: Path) -> None:
    before = RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "2030-01-02")
    first = outcome("a task/1", bins=b"12")
    before.save(first, 3.0)
    after = RegressionProgress.resume(tmp_path / "ended", WHAT, nothing)
    assert (after.commit, after.date, after.stretches, after.seconds) == ("abc123", "2030-01-02", 2, 3.0)
    (found,) = after.ended([writer("marks", "another"), first.task])
    assert found.task is first.task
    assert list(found.result.items) == first.result.items
    assert found.result.figures == first.result.figures
    assert [each.read_bytes() for each in after.kept.iterdir()] == [b"12"]


def test_to_begin_is_to_forget(tmp_path: Path) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "").save(outcome("one", bins=b"12"), 3.0)
    new = RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "")
    assert new.ended([writer("marks", "one")]) == []
    assert not list(new.kept.iterdir())


def test_another_regression_is_refused(tmp_path: Path) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "")
    says = "is of level full, seed 7, not of level full, seed 8"
    refuses(ValueError, says, RegressionProgress.resume, tmp_path / "ended", "level full, seed 8", nothing)


@pytest.mark.parametrize("commit", ["abc123-dirty", "unknown"])
def test_what_no_commit_describes_is_refused(tmp_path: Path, commit: str) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, commit, "")
    says = f"{commit} cannot be resumed: files may have changed"
    refuses(ValueError, says, RegressionProgress.resume, tmp_path / "ended", WHAT, nothing)


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "")

    def differing(commit: str) -> list[str]:
        return ["rtl/npu_top.sv", "Makefile"] if commit == "abc123" else []

    says = "is of commit abc123, from which Makefile, rtl/npu_top.sv differ"
    refuses(ValueError, says, RegressionProgress.resume, tmp_path / "ended", WHAT, differing)


def test_only_proofs_and_the_table_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ["docs/verification.md", "rtl/npu_top.sv", "tb/mutation/equivalents.toml", "docs/running.md"]
    monkeypatch.setattr(run, "files_that_differ", lambda _: changed)
    assert run.changed_since("abc123") == ["rtl/npu_top.sv", "docs/running.md"]


@pytest.mark.parametrize("text", [None, "", "[]", '{"what": 1', '{"when": 1}'])
def test_a_damaged_or_missing_beginning_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    refuses(
        ValueError, "there is no regression to resume", RegressionProgress.resume, tmp_path, WHAT, nothing
    )


def test_an_interrupted_regression_runs_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = tmp_path / "marks"
    tasks = [writer(marks, f"task {number}", "fail" if number == 0 else "pass") for number in range(4)]
    goal = CampaignGoal("tried", "try", ("tried",), 4)
    level = Level("full", lambda _: list(tasks), goals=(goal,))
    for name, place in (("REPORTS", ""), ("ENDED", "ended"), ("HISTORY", "history.jsonl")):
        monkeypatch.setattr(run, name, tmp_path / place)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "revision", lambda: "abc123")
    monkeypatch.setattr(run, "files_that_differ", nothing)
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


def test_a_regression_that_has_ended_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing runs again; a survivor with a proof by now is equivalent."""
    survivor = Item("m.sv: a | b", "survived", message="no test finds it (line 3)", detail="stale")
    figures = {"killed": 1, "survived": 1, "equivalent": 0, "stale survived": 1}
    before = RegressionProgress.begin(tmp_path / "ended", WHAT, "abc123", "2030-01-02")
    task = dataclasses.replace(writer(tmp_path / "marks", "mutants"), campaign=MUTATION)
    before.save(TaskOutcome(task, CampaignResult(MUTATION, 7, 1.0, figures, [survivor]), "", ""), 3.0)
    goal = CampaignGoal("mutants killed", MUTATION, ("killed",), 0.97, of=("killed", "survived"))
    level = Level("full", lambda _: [task], goals=(goal,))
    for name, place in (("REPORTS", ""), ("ENDED", "ended"), ("HISTORY", "history.jsonl")):
        monkeypatch.setattr(run, name, tmp_path / place)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "files_that_differ", nothing)
    monkeypatch.setattr(run, "render", lambda *_: "")
    for proofs, passed in (({}, False), ({survivor.name: "Nobody looks."}, True)):
        monkeypatch.setattr(run, "load_equivalents", lambda proofs=proofs: proofs)
        ended = run.play(level, 7, 1, where="", only="", resume=True, json=None, update=False)
        assert ended == passed
        assert ("proven after 1" in capsys.readouterr().out) == passed
    assert not (tmp_path / "marks").exists()
