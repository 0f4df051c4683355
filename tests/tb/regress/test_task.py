"""One task: its result is what it writes, or the failure."""

import sys
import time
from pathlib import Path

import pytest

from tb.regress.task import RESULT, Task, from_junit, run_task
from tests.tb.regress.tasks import writer


def test_result_of_the_campaign(tmp_path: Path) -> None:
    """Figures and items come from the file; the name is the campaign's."""
    outcome = run_task(writer(tmp_path / "marks", "one", campaign="uvm"))
    assert outcome.result.name == "uvm"
    assert outcome.result.passed
    assert dict(outcome.result.figures) == {"tried": 1}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import sys; print('no room'); sys.exit(3)", "ended with status 3 and left no result"),
        ("import sys; open(sys.argv[1], 'w').write('{}')", "left no result (ValueError)"),
        ("import os; os.kill(os.getpid(), 9)", "left no result"),
    ],
)
def test_no_result(code: str, message: str) -> None:
    """A command that breaks off is an error with its output and its replay command."""
    outcome = run_task(Task("t", "c", ("-c", code, RESULT), {"A": "b c"}))
    (item,) = outcome.result.items
    assert item.status == "error"
    assert message in item.message
    assert item.replay.startswith("A='b c' python -c")
    if "no room" in code:
        assert "no room" in item.message


def test_status_against_the_items(tmp_path: Path) -> None:
    """A command that fails although all its items passed has not passed."""
    good = writer(tmp_path / "marks", "one")
    code = good.arguments[1] + "\nsys.exit(1)"
    outcome = run_task(Task("t", "c", ("-c", code, *good.arguments[2:])))
    assert [item.status for item in outcome.result.items] == ["pass", "error"]
    assert "it ended with status 1" in outcome.result.items[1].message


def test_files_are_kept(tmp_path: Path) -> None:
    """Files that a command leaves in the folder of its variable come with the outcome."""
    good = writer(tmp_path / "marks", "one")
    code = good.arguments[1] + "\nimport os; open(os.environ['WHERE'] + '/bins.xml', 'w').write('<x/>')"
    outcome = run_task(Task("t", "c", ("-c", code, *good.arguments[2:]), keeps="WHERE"))
    assert outcome.result.passed
    assert outcome.kept == {"bins.xml": b"<x/>"}


def test_time_out() -> None:
    """A command that does not end is stopped."""
    started = time.monotonic()
    outcome = run_task(Task("t", "c", ("-c", "import time; time.sleep(600)", RESULT), timeout=1.0))
    assert time.monotonic() - started < 30
    assert "it took more than 1 s and was stopped" in outcome.result.items[0].message


def test_junit(tmp_path: Path) -> None:
    """pytest's file gives one item for each test; a skipped one has not passed."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\n"
        "def test_good(): pass\n"
        "def test_bad(): assert 1 == 2\n"
        "@pytest.mark.skip(reason='why')\n"
        "def test_left_out(): pass\n"
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    task = Task("t", "tests", (*words, "--junit-xml", RESULT), {"SEED": "7"}, form="junit")
    outcome = run_task(task)
    found = {item.name.rsplit(".", 1)[1]: item for item in outcome.result.items}
    statuses = {name: item.status for name, item in found.items()}
    assert statuses == {"test_good": "pass", "test_bad": "fail", "test_left_out": "error"}
    assert "assert 1 == 2" in found["test_bad"].message
    assert found["test_bad"].replay.startswith("SEED=7 python -m pytest ")
    assert "-k test_bad" in found["test_bad"].replay
    assert outcome.result.figures["tests"] == 3


def test_each_pytest_has_its_own_folder(tmp_path: Path) -> None:
    """Several run at a time, and each deletes what earlier ones have left."""
    seen = tmp_path / "seen"
    (tmp_path / "test_it.py").write_text(
        "import pathlib\n"
        "def test_place(tmp_path):\n"
        f"    with pathlib.Path({str(seen)!r}).open('a') as file: file.write(f'{{tmp_path.parents[1]}}\\n')\n"
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path))
    for number in range(2):
        outcome = run_task(Task(f"t{number}", "tests", (*words, "--junit-xml", RESULT), form="junit"))
        assert outcome.result.passed
    first, second = map(Path, seen.read_text().splitlines())
    assert first != second
    assert not any(tmp_path.is_relative_to(each) or each.exists() for each in (first, second))


def test_junit_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no XML")
    with pytest.raises(ValueError, match="is not JUnit XML"):
        from_junit(Task("t", "c", ()), tmp_path / "x", 0.0)


def test_interpreter_is_this_one() -> None:
    """A task runs in the environment that the regression runs in."""
    item = "{'name': sys.executable, 'status': 'pass'}"
    result = "dict(name='c', seed=0, seconds=0, items=[item])"
    code = f"import sys, json; item = {item}; json.dump({result}, open(sys.argv[1], 'w'))"
    outcome = run_task(Task("t", "c", ("-c", code, RESULT)))
    assert outcome.result.items[0].name == sys.executable
