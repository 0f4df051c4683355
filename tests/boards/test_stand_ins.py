"""Tests say on what they ran."""

from pathlib import Path

import pytest

from tests.boards import slots


def test_a_machine_without_fuse_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "fuse_is_missing", lambda folder: "no FUSE here: [Errno 1]")
    with pytest.warns(UserWarning, match="no FUSE here: .* stand-in that answers calls in this process"):
        assert slots.shown_in(tmp_path) is None
    monkeypatch.setattr(slots, "fuse_is_missing", lambda folder: "")
    assert slots.shown_in(tmp_path) == tmp_path  # and no warning, which would be an error


def test_that_warning_alone_is_no_error(pytestconfig: pytest.Config) -> None:
    """It stands in the summary of a run, which passes."""
    filters = pytestconfig.getini("filterwarnings")
    assert filters[0] == "error"
    assert "default:no FUSE here" in filters
