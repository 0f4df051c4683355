"""Compare generated texts with the committed files."""

from collections.abc import Mapping
from pathlib import Path


def differing(root: Path, texts: Mapping[Path, str]) -> list[Path]:
    """Return the paths, relative to `root`, of files that are missing or have another text."""
    return [
        path
        for path, text in texts.items()
        if not (root / path).is_file() or (root / path).read_text(encoding="utf-8") != text
    ]
