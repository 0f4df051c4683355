"""Read and replace the generated part of a page of docs/, which lies between two marks."""

from collections.abc import Sequence
from pathlib import Path


def marks(command: str) -> tuple[str, str]:
    """Return the lines before and behind what `command` generates."""
    return f"<!-- table of {command} -->", "<!-- end of the table -->"


def generated_part(page: Path, command: str) -> list[str]:
    """Return the lines that `command` generated; ValueError if the page has no such marks."""
    begin, end = marks(command)
    _, rest = page.read_text(encoding="utf-8").split(begin)
    return rest.split(end)[0].strip().splitlines()


def with_part(text: str, command: str, lines: Sequence[str]) -> str:
    """Return a page's text with `lines` in the place of what `command` generated before.

    Raises: ValueError if there are no marks.
    """
    begin, end = marks(command)
    before, rest = text.split(begin)
    after = rest[rest.index(end) :]
    return before + "\n".join([begin, *lines, ""]) + after


def replace_part(page: Path, command: str, lines: Sequence[str]) -> None:
    """Do as `with_part` with a file."""
    page.write_text(with_part(page.read_text(encoding="utf-8"), command, lines), encoding="utf-8")
