"""The bar of the farm."""

import pytest

from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.backends.rtlfarm.progress import FarmProgress


def test_the_bar_has_done_running_waiting_and_speed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    bar = FarmProgress(enabled=True)
    bar.show(3, Load(2, 1), 5000)
    bar.stop()
    said = capsys.readouterr()
    assert said.out == ""
    assert "3/6" in said.err
    assert "1 running, 2 waiting" in said.err
    assert "cycles/s" in said.err


def test_no_bar_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    bar = FarmProgress(enabled=False)
    bar.show(3, Load(2, 1), 5000)
    bar.stop()
    assert capsys.readouterr().err == ""
