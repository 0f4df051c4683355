"""No two classes have the same name."""

import ast
from collections import defaultdict

from tb.repository import ROOT

FOLDERS = ("benchmarks", "examples", "runtime", "scripts", "spec", "tb", "tests")


def test_no_two_classes_share_a_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path.relative_to(ROOT)))
    assert len(found) > 400
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
