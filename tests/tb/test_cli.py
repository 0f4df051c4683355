"""The command line `python -m tb`: what is wrong is a sentence and an exit status."""

from pathlib import Path

import pytest

from tb import cli, suites
from tb.results import CampaignResult


def test_a_result_that_cannot_be_written_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(suites, "play", lambda *_: CampaignResult("rtl", 1, 0.0))
    assert cli.main(["rtl", "--seed", "1", "--json", str(tmp_path / "result.json")]) == 0
    assert CampaignResult.load(tmp_path / "result.json").passed
    assert cli.main(["rtl", "--seed", "1", "--json", str(tmp_path)]) == 2
    assert f"error: {tmp_path}: Is a directory" in capsys.readouterr().err
