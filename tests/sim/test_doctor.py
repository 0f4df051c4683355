"""What `echo-npu doctor` finds of the folder for builds; tests/house/test_wheel.py has the whole of it."""

import os
from pathlib import Path

import pytest

from echo_sim import doctor, places


@pytest.mark.parametrize("above", ["file", "closed"])
def test_it_says_where_nothing_can_be_built(
    above: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "closed").mkdir()
    monkeypatch.setattr(places, "SIM_BUILD", tmp_path / above / "echo-npu")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path / "closed")
    (finding,) = (each for each in doctor.findings() if each.name == "builds")
    assert not finding.found
    assert finding.detail.startswith(f"{tmp_path / above / 'echo-npu'} cannot be written; $ECHO_NPU_CACHE")


def test_it_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SIM_BUILD", tmp_path / "a" / "b")
    (finding,) = (each for each in doctor.findings() if each.name == "builds")
    assert finding.found
    assert not list(tmp_path.iterdir())
