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
