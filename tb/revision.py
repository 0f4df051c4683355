"""Revision of the repository that a result was made from."""

import subprocess

from tb.repository import ROOT


def revision() -> str:
    """Return the short commit, with "-dirty" appended if files differ from it; "unknown" outside a
    repository."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def files_that_differ(commit: str) -> list[str]:
    """Return the tracked files that differ from a commit, as paths below the repository. Raise ValueError:
    git does not know it."""
    words = ["git", "-C", str(ROOT), "diff", "--name-only", "--no-renames", commit]
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        raise ValueError(f"git does not know the commit {commit}") from None
