"""A function's docstring begins with what it does, in the imperative."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb.repository import ROOT

FILES = (
    *sorted((ROOT / "spec").glob("*.py")),
    *sorted((ROOT / "runtime/echo_npu/reference").glob("*.py")),
    ROOT / "tb/stimulus/scenes.py",
)
VERBS = re.compile(
    "Build|Clear|Compute|Cross-correlate|Cycle|Emit|Have|Let|Limit|Make|Move|Parse|"
    "Raise|Read|Refuse|Replace|Reset|Return|Rotate|Run|Do|Write"
)
"""The first words; another verb may join them."""


def others(text: str) -> Iterator[str]:
    """Yield the functions of a Python file whose docstring begins with another word, and the word."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (said := ast.get_docstring(node)):
            word = said.split()[0].rstrip(",:")
            if not VERBS.fullmatch(word):
                yield f"{node.name}: {word}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_docstrings_begin_with_a_verb(path: Path) -> None:
    assert list(others(path.read_text(encoding="utf-8"))) == []


def test_a_docstring_that_begins_with_another_word_is_found() -> None:
    assert list(others('def size():\n    """Bytes of it."""')) == ["size: Bytes"]
    assert not list(others('def size():\n    """Return its bytes."""'))
