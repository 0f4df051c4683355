"""Imports form no circles, and no string names a module in order to evade the rules of `make lint`."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("echo_npu", "echo_sim", "scripts", "spec", "tb")
STRANGERS = {"echo_npu": ("tb",), "echo_sim": ("tb", "echo_npu")}


def cycle(imports: Mapping[str, Set[str]]) -> list[str]:
    """Return modules of which each imports the next and the last imports the first; empty without such a
    circle."""
    done: set[str] = set()

    def follow(path: list[str]) -> list[str]:
        for imported in sorted(imports[path[-1]]):
            if imported in path:
                return path[path.index(imported) :]
            if imported not in done and (found := follow([*path, imported])):
                return found
        done.add(path[-1])
        return []

    return next((found for module in sorted(imports) if (found := follow([module]))), [])


def strings(text: str) -> Iterator[str]:
    """Return the strings of a Python file that are no docstrings."""
    tree = ast.parse(text)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


def names_module(text: str, package: str) -> bool:
    """Return whether a string names a package or a module in it, as an import by name or a command line
    would."""
    dotted = rf"(?<![\w./-]){package}\.(?:[a-zA-Z_]|$)(?!\w*/)"
    return bool(re.search(rf"{dotted}|^{package}$|(?:\bimport|\bfrom|-m) +{package}\b", text))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_itself_over_others(package: str) -> None:
    graph = grimp.build_graph(package, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert not cycle(imports)


def test_a_circle_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert not cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def test_what_is_delivered_and_what_searches_know_no_tests() -> None:
    """Only tests import tests, benchmarks, examples and scripts, each of which may import itself."""
    above = re.compile(r"^\s*(?:from|import) +(tests|benchmarks|examples|scripts)\b", re.MULTILINE)
    found = {
        str(file.relative_to(ROOT))
        for folder in ("runtime", "tb", "spec", "benchmarks", "examples", "scripts")
        for file in (ROOT / folder).rglob("*.py")
        if {*above.findall(file.read_text(encoding="utf-8"))} - {folder}
    }
    assert not found


@pytest.mark.parametrize(("package", "stranger"), [(p, s) for p, all_ in STRANGERS.items() for s in all_])
def test_nothing_is_imported_by_a_string(package: str, stranger: str) -> None:
    named = [
        (str(file.relative_to(ROOT)), text)
        for file in (ROOT / "runtime" / package).rglob("*.py")
        for text in strings(file.read_text(encoding="utf-8"))
        if names_module(text, stranger)
    ]
    assert not named


def test_a_module_in_a_string_is_found() -> None:
    assert names_module("tb.bench", "tb")
    assert names_module("import tb.bench", "tb")
    assert names_module("tb", "tb")
    assert names_module("tb.", "tb")  # the beginning of an f-string
    assert names_module("from tb import cli", "tb")
    assert names_module("python -m tb uvm", "tb")
    assert not names_module("tb/bench.py", "tb")
    assert not names_module("npu_tb.sv", "tb")
    assert list(strings('"""tb.bench"""\nx = "tb.bench"')) == ["tb.bench"]


def test_the_contributing_page_has_the_layers() -> None:
    """The tables of CONTRIBUTING.md have the layers of pyproject.toml, in their order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    for contract in contracts["contracts"]:
        if contract["type"] != "layers":
            continue
        (container,) = contract["containers"]
        table = page.split(f"Layers of `{container}`", 1)[1].split("\n\n", 2)[1]
        drawn = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:]]
        assert drawn == [re.findall(r"\w+", layer) for layer in contract["layers"]]
