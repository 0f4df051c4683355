"""What the repository is said to be, and what differs in it."""

import subprocess
from pathlib import Path

import pytest

from tb import revision
from tests.refusals import refuses


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit of two files."""
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    for name in ("kept", "changed"):
        (tmp_path / name).write_text("before\n")
    own = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*own, "commit", "--quiet", "--message", "Begin"]):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    return tmp_path


def test_files_that_differ_from_a_commit(tree: Path) -> None:
    first = revision.revision()
    assert not first.endswith("-dirty")
    assert revision.files_that_differ(first) == []
    (tree / "changed").write_text("after\n")
    (tree / "untracked").write_text("new\n")
    assert revision.revision() == f"{first}-dirty"
    assert revision.files_that_differ(first) == ["changed"]


def test_a_commit_that_git_does_not_know(tree: Path) -> None:
    refuses(ValueError, "git does not know the commit 1234567", revision.files_that_differ, "1234567")


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revision, "ROOT", tmp_path)
    assert revision.revision() == "unknown"
