"""Pages of docs/ with a generated part between two marks."""

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


def with_part(text: str, command: str, lines: Sequence[str]) -> str:
    """A page's text with `lines` in the place of what `command` generated before; ValueError if there are no
    marks."""
    begin, end = marks(command)
    before, rest = text.split(begin)
    after = rest[rest.index(end) :]
    return before + "\n".join([begin, *lines, ""]) + after


def replace_part(page: Path, command: str, lines: Sequence[str]) -> None:
    """`with_part` of a file."""
    page.write_text(with_part(page.read_text(encoding="utf-8"), command, lines), encoding="utf-8")
