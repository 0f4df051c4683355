"""Widths of expressions after elaboration, which the syntax alone does not show."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pyslang
from pyslang import ast, syntax

from echo_sim.config import load_config
from echo_sim.designs import read_file_list
from echo_sim.places import RTL
from tb.mutation.syntax import RtlSource

CONFIG = "small"
TOP = "npu_top"

Span = tuple[int, int]

_Files = tuple[tuple[str, str], ...]
"""Names and texts of a design's files."""


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """How an expression is evaluated: width in bits, including its context, and sign. 0 bits if it is no
    number."""

    bits: int
    signed: bool


def widths_of(source: RtlSource) -> Mapping[Span, int]:
    """Return the bits of each expression by its offsets (end exclusive) in `source`.

    Structures and enumerations are omitted. With several instances of a module, the widest counts. A source
    outside rtl/ is elaborated alone.
    """
    return _widths(*_design_of(source)).get(source.path.name, {})


def arithmetic_of(source: RtlSource) -> Mapping[Span, tuple[Arithmetic, ...]]:
    """Return how each expression is evaluated in every elaborated instance, by its offsets as in
    `widths_of`."""
    return _arithmetic(source.path.name, *_design_of(source))


@functools.lru_cache(maxsize=16)
def _arithmetic(file: str, files: _Files, top: str | None) -> Mapping[Span, tuple[Arithmetic, ...]]:
    """Return the arithmetic of one file of a design."""
    manager, root = _elaborate(files, top)
    found: dict[Span, list[Arithmetic]] = {}
    # Conversions around the expression that is visited next, outermost first, and their common place.
    around: list[Any] = []
    place: Span | None = None

    def visit(node: Any) -> Any:
        nonlocal place
        if isinstance(node, _CODE) and manager.getFileName(node.location) != file:
            return ast.VisitAction.Skip
        if not isinstance(node, ast.Expression):
            return None
        where = node.sourceRange
        span = (where.start.offset, where.end.offset)
        if span != place:
            around.clear()
        place = span
        if isinstance(node, ast.ConversionExpression) and node.conversionKind in _SILENT:
            around.append(node)
        elif manager.isFileLoc(where.start) and manager.getFileName(where.start) == file:
            found.setdefault(span, []).append(_evaluated(node, around))
            place = None
        return None

    root.visit(visit)
    return {span: tuple(copies) for span, copies in found.items()}


_CODE = (ast.ProceduralBlockSymbol, ast.ContinuousAssignSymbol, ast.SubroutineSymbol)
# Conversions that are not in the text.
_SILENT = (ast.ConversionKind.Implicit, ast.ConversionKind.Propagated)


def _evaluated(node: Any, outer: Sequence[Any]) -> Arithmetic:
    """Return how an expression inside these conversions is evaluated."""
    if not node.type.isIntegral:
        return Arithmetic(0, False)
    # An assignment extends its operand, but truncates only the result and keeps the sign. A conversion within
    # the expression determines both.
    bits = max(each.type.bitWidth for each in (*outer, node))
    met = next((each for each in outer if each.conversionKind == ast.ConversionKind.Propagated), node)
    return Arithmetic(bits, met.type.isSigned)


def _design_of(source: RtlSource) -> tuple[_Files, str | None]:
    """Return the files of the design that contains `source`, and its top."""
    path, text = source.path, source.text
    if not path.is_relative_to(RTL):
        return ((path.name, text),), None
    return tuple((name, text if name == path.name else old) for name, old in _design()), TOP


@functools.cache
def _design() -> tuple[tuple[str, str], ...]:
    files, _ = read_file_list(RTL / "npu.f")
    return tuple((path.name, path.read_text(encoding="utf-8")) for path in files)


def _elaborate(files: _Files, top: str | None) -> tuple[Any, Any]:
    """Return the source manager and the root of an elaborated design."""
    manager = pyslang.SourceManager()
    manager.addUserDirectories(str(RTL))
    options = ast.CompilationOptions()
    if top is not None:
        options.topModules = {top}
        options.paramOverrides = [f"{key}={value}" for key, value in load_config(CONFIG).parameters().items()]
    compilation = ast.Compilation(pyslang.Bag([options]))
    for name, text in files:
        compilation.addSyntaxTree(syntax.SyntaxTree.fromText(text, manager, name, name))
    return manager, compilation.getRoot()


@functools.lru_cache(maxsize=4)
def _widths(files: _Files, top: str | None) -> Mapping[str, Mapping[Span, int]]:
    """Return the widths of every file of a design."""
    manager, root = _elaborate(files, top)
    found: dict[str, dict[Span, int]] = {}

    def visit(node: Any) -> None:
        if not isinstance(node, ast.Expression) or node.kind == ast.ExpressionKind.Conversion:
            return  # a conversion has the width of its context
        where, kind = node.sourceRange, node.type
        if not kind.isIntegral or kind.isStruct or kind.isEnum:
            return
        if manager.isFileLoc(where.start) and manager.isFileLoc(where.end):
            spans = found.setdefault(manager.getFileName(where.start), {})
            span = (where.start.offset, where.end.offset)
            spans[span] = max(spans.get(span, 0), kind.bitWidth)

    root.visit(visit)
    return found
