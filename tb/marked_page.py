"""Pages of docs/ with a generated part between two marks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def marks(command: str) -> tuple[str, str]:
    """The lines before and behind what `command` generates."""
    return f"<!-- table of {command} -->", "<!-- end of the table -->"


def generated_part(page: Path, command: str) -> list[str]:
    """The lines that `command` generated; ValueError if the page has no such marks."""
    begin, end = marks(command)
    _, rest = page.read_text(encoding="utf-8").split(begin)
    return rest.split(end)[0].strip().splitlines()


def replace_part(page: Path, command: str, lines: Sequence[str]) -> None:
    """Put `lines` in the place of what `command` generated before; ValueError if there are no marks."""
    begin, end = marks(command)
    before, rest = page.read_text(encoding="utf-8").split(begin)
    after = rest[rest.index(end) :]
    page.write_text(before + "\n".join([begin, *lines, ""]) + after, encoding="utf-8")
