"""The generated part of a page is found and replaced, and nothing else."""

from pathlib import Path

import pytest

from spec.marked_page import generated_part, marks, replace_part


def test_a_generated_part_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    begin, end = marks("make tea")
    text = f"before\n\n{begin}\n%s\n{end}\nafter\n{marks('other')[0]}\n"
    page.write_text(text % "old", encoding="utf-8")
    replace_part(page, "make tea", ["new", "lines"])
    assert generated_part(page, "make tea") == ["new", "lines"]
    replace_part(page, "make tea", ["newer"])
    assert page.read_text(encoding="utf-8") == text % "newer"
    with pytest.raises(ValueError, match="unpack"):
        replace_part(page, "make coffee", [])
