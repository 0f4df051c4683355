"""No address outlives the tensor that owns it."""

import ast
from collections.abc import Iterator

from tb.repository import ROOT


def addresses_of_temporaries(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that take the address of a tensor that nothing keeps.

    Its memory is free in the next statement, and another tensor may get it.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "ptr" and isinstance(node.value, ast.Call):
            yield node.lineno


def test_addresses_are_those_of_tensors_that_are_kept() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / "runtime").rglob("*.py"))
        for line in addresses_of_temporaries(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_an_address_of_a_temporary_is_found() -> None:
    text = "start = view.contiguous().ptr\nplace = view.ptr\n"
    assert list(addresses_of_temporaries(ast.parse(text))) == [1]
