"""The committed cycles of operations, and the table of docs/ops.md that follows from them."""

import pytest

from benchmarks.operations import COMMAND, OPERATIONS, PAGE, committed, main, table
from spec.marked_page import generated_part


def test_each_operation_has_committed_cycles() -> None:
    figures = committed()
    assert list(figures) == [each.key for each in OPERATIONS]
    assert all(0 < each.beats <= each.cycles for each in figures.values())


def test_the_page_has_the_committed_cycles() -> None:
    assert generated_part(PAGE, COMMAND) == table(committed())


def test_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["operations", "--help"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert "make bench-ops" in capsys.readouterr().out
