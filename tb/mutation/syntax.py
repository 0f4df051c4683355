"""Places of an RTL source that may be changed: expressions and statements, found by a SystemVerilog parser.

Excluded are elaboration constants (parameters, ranges, loop bounds, case labels, replication counts, the
functions that compute them), declarations, targets of assignments, assertions, and signals that only
silence a lint warning.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyslang
from pyslang import parsing, syntax

from echo_sim.places import RTL
from tb.results import UnjudgedError

Kind = Literal["expression", "statement"]


class SourceError(UnjudgedError):
    """An RTL source that the parser rejects."""


@dataclasses.dataclass(frozen=True)
class Site:
    """An expression or a whole statement in a source.

    Attributes:
        start, end: character offsets, `end` exclusive.
        node: the parser's node.
        context: the statement, assignment or port connection that contains it, on one line.
        reset: whether it is executed under reset or abort.
        role: "predicate" of an if; "case arm"; "priority", an if whose else is an if; "value", the whole
            right side of an assignment or port; or "".
        scope: offset of the enclosing block or instance, equal for all its places.
    """

    kind: Kind
    start: int
    end: int
    node: Any
    context: str
    reset: bool
    role: str = ""
    scope: int = 0


# Elaboration constants, declarations and checks.
_CLOSED = {
    "AnsiPortList",
    "ConcurrentAssertionStatement",
    "AssertPropertyStatement",
    "DataDeclaration",
    "ElabSystemTask",
    "GenvarDeclaration",
    "ImmediateAssertStatement",
    "ImmediateAssertionMember",
    "ModuleHeader",
    "NetDeclaration",
    "PackageImportDeclaration",
    "ParameterDeclarationStatement",
    "ParameterValueAssignment",
    "TypedefDeclaration",
    "FunctionPrototype",
    "EventControlWithExpression",
}
_ASSIGNMENTS = {
    "AssignmentExpression",
    "NonblockingAssignmentExpression",
    "AndAssignmentExpression",
    "OrAssignmentExpression",
    "AddAssignmentExpression",
    "SubtractAssignmentExpression",
}
# Within these a call is evaluated at elaboration.
_ELABORATED = {"ParameterDeclaration", "ParameterValueAssignment", "VariableDimension"}
# Parts of expressions that are not expressions themselves.
_BRACKETS = {
    "BitSelect",
    "ConditionalPattern",
    "ConditionalPredicate",
    "ElementSelect",
    "RangeList",
    "StructuredAssignmentPattern",
    "SimpleAssignmentPattern",
}
# These signals only silence a tool's warning.
_UNUSED = re.compile(r"unused\w*\s*=")
_RESET = re.compile(r"rst_n|abort_i|reset_i|start_i")


def one_line(text: str) -> str:
    """Replace every run of white space by one blank."""
    return " ".join(text.split())


class RtlSource:
    """A parsed file.

    Raises OSError: the file cannot be read. SourceError: it is not SystemVerilog, or not ASCII.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self.text = path.read_text(encoding="utf-8") if text is None else text
        if not self.text.isascii():
            raise SourceError(f"{path}: the parser counts bytes, so a source must be ASCII")
        self._manager = pyslang.SourceManager()
        for folder in (path.parent, RTL):
            self._manager.addUserDirectories(str(folder))
        self.tree = syntax.SyntaxTree.fromText(self.text, self._manager, path.name, str(path))
        if any(diagnostic.isError() for diagnostic in self.tree.diagnostics):
            raise SourceError(f"{path}: the parser finds errors in it")
        self.root = self.tree.root

    def span(self, node: Any) -> tuple[int, int] | None:
        """Return a node's character offsets (end exclusive); None if it stems from a macro or an included
        file."""
        where = node.sourceRange
        if not (self._manager.isFileLoc(where.start) and self._manager.isFileLoc(where.end)):
            return None
        if self._manager.getFileName(where.start) != self.path.name:
            return None
        start, end = where.start.offset, where.end.offset
        # With a macro inside, the node's tokens are not those of the text.
        return None if "`" in self.text[start:end] else (start, end)

    def text_of(self, node: Any) -> str:
        """Return the text of a node that is in the file."""
        span = self.span(node)
        assert span is not None
        return self.text[span[0] : span[1]]

    def sites(self) -> Iterator[Site]:
        """Yield all places, outer ones first."""
        yield from _Walk(self).members(self.root)


@functools.cache
def constant_functions() -> frozenset[str]:
    """Return the functions that rtl/ calls at elaboration: what they return must be constant."""
    found = set()
    for path in sorted(RTL.rglob("*.sv*")):
        source = RtlSource(path)
        found |= set(_elaborated_calls(source.root))
    return frozenset(found)


def _elaborated_calls(node: Any, elaborated: bool = False) -> Iterator[str]:
    """Yield the names of functions, not of the system, that are called at elaboration below a node."""
    kind = kind_of(node)
    if elaborated and kind == "InvocationExpression":
        name = str(node.left).strip()
        if not name.startswith("$"):
            yield name.rpartition("::")[2]
    for child in children(node):
        condition = kind == "IfGenerate" and child is node.condition
        yield from _elaborated_calls(child, elaborated or condition or kind in _ELABORATED)


def kind_of(node: Any) -> str:
    """Return the name of a node's kind."""
    return str(node.kind).removeprefix("SyntaxKind.")


def children(node: Any) -> list[Any]:
    """Return the nodes directly below a node."""
    return [child for child in node if child is not None and not isinstance(child, parsing.Token)]


class _Walk:
    def __init__(self, source: RtlSource) -> None:
        self._source = source
        self._context = ""
        self._scope = 0
        self._reset = False

    def _site(self, kind: Kind, node: Any, role: str = "") -> Iterator[Site]:
        span = self._source.span(node)
        if span is not None:
            yield Site(kind, *span, node, self._context, self._reset, role, self._scope)

    def _within(self, node: Any) -> None:
        where = node.sourceRange
        self._context = one_line(self._source.text[where.start.offset : where.end.offset])
        self._scope = node.parent.sourceRange.start.offset

    # ---- members and statements ----

    def members(self, node: Any) -> Iterator[Site]:
        kind = kind_of(node)
        if kind in _CLOSED:
            return
        if kind == "FunctionDeclaration" and str(node.prototype.name).strip() in constant_functions():
            return
        if kind == "ContinuousAssign":
            self._within(node)
            if _UNUSED.search(self._context) is None:
                for assignment in node.assignments:
                    if not isinstance(assignment, parsing.Token):
                        yield from self.expression(assignment.right, "value")
        elif kind == "NamedPortConnection":
            if str(node.name).strip().endswith("_i") and node.expr is not None:
                self._within(node)
                yield from self.expression(node.expr, "value")
        elif kind == "IfGenerate":
            yield from self.members(node.block)
            if node.elseClause is not None:
                yield from self.members(node.elseClause)
        elif kind == "LoopGenerate":
            yield from self.members(node.block)
        elif kind.endswith("Statement") and kind != "TimingControlStatement":
            yield from self.statement(node)
        else:
            for child in children(node):
                yield from self.members(child)

    def statement(self, node: Any) -> Iterator[Site]:
        kind = kind_of(node)
        if kind == "ExpressionStatement":
            self._within(node)
            expression = node.expr
            if kind_of(expression) in _ASSIGNMENTS and _UNUSED.match(self._context) is None:
                yield from self._site("statement", node)
                yield from self.expression(expression.right, "value")
        elif kind == "ReturnStatement":
            self._within(node)
            if node.returnValue is not None:
                yield from self.expression(node.returnValue)
        elif kind == "ConditionalStatement":
            predicate = node.predicate
            self._within(predicate)
            context = self._context
            resets = _RESET.search(context) is not None
            conditions = [item for item in predicate.conditions if not isinstance(item, parsing.Token)]
            if len(conditions) == 1 and conditions[0].matchesClause is None:
                self._context = f"if ({context})"
                if node.elseClause is not None and kind_of(node.elseClause.clause) == kind:
                    yield from self._site("statement", node, "priority")
                yield from self._site("expression", conditions[0].expr, "predicate")
                yield from self.expression(conditions[0].expr)
            before = self._reset
            self._reset = before or resets
            yield from self.statement(node.statement)
            self._reset = before
            if node.elseClause is not None:
                yield from self.statement(node.elseClause.clause)
        elif kind == "CaseStatement":
            for item in node.items:
                if isinstance(item, parsing.Token):
                    continue
                clause = item.clause
                if kind_of(clause).endswith("Statement"):
                    self._within(item)
                    if kind_of(clause) == "SequentialBlockStatement":
                        yield from self._site("statement", clause, "case arm")
                    yield from self.statement(clause)
        elif kind == "ForLoopStatement":
            yield from self.statement(node.statement)
        elif kind == "SequentialBlockStatement":
            for item in node.items:
                if kind_of(item).endswith("Statement"):
                    yield from self.statement(item)
        elif kind == "TimingControlStatement":
            yield from self.statement(node.statement)

    # ---- expressions ----

    def expression(self, node: Any, role: str = "") -> Iterator[Site]:
        kind = kind_of(node)
        if kind in ("SimplePropertyExpr", "SimpleSequenceExpr"):
            for child in children(node):
                yield from self.expression(child, role)
            return
        if kind == "InvocationExpression" and str(node.left).strip() not in ("$signed", "$unsigned"):
            if not str(node.left).strip().startswith("$") and node.arguments is not None:
                for argument in node.arguments.parameters:
                    if not isinstance(argument, parsing.Token) and kind_of(argument) == "OrderedArgument":
                        yield from self.expression(argument.expr)
            return
        if kind == "CastExpression":
            yield from self.expression(node.right)
            return
        if kind == "SimpleRangeSelect":
            return
        if kind in ("AscendingRangeSelect", "DescendingRangeSelect"):
            yield from self.expression(node.left)
            return
        if kind == "MultipleConcatenationExpression":
            yield from self.expression(node.concatenation)
            return
        if kind == "AssignmentPatternItem":
            yield from self.expression(node.expr)
            return
        if kind not in _BRACKETS:
            yield from self._site("expression", node, role)
        if kind == "ScopedName":
            # Members of a structure are no expressions, but indices into them are.
            yield from self._selects(node)
            return
        for child in children(node):
            yield from self.expression(child)

    def _selects(self, node: Any) -> Iterator[Site]:
        for child in children(node):
            if kind_of(child) == "ElementSelect":
                yield from self.expression(child)
            else:
                yield from self._selects(child)
