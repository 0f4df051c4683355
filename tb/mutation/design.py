"""Mutations that imitate design mistakes: a counter too narrow, a forgotten term, a stale value.

| class | mistake | example |
| --- | --- | --- |
| width | a size, count or address cut to 8 or 16 bits | `rows_q <= rows_q - 1` as `8'(rows_q - 1)` |
| handshake | an enable or a handshake left out of a conjunction | `rvalid && rready` as `rvalid` |
| term | another term of a conjunction or disjunction left out | `near_a or near_b` as `near_a` |
| extent | a summand left out | `base + rows * stride` as `base` |
| stale | a register in place of its next value, or a signal one clock late | `count_q` for `count_d` |
| priority | the order of two conditions swapped, or one taken for the other | `if (b) .. else if (a)` |
| sibling | a signal of the same type with a similar name | `batch1` for `batch0`, `src2` for `src1` |
| exchange | two of these for each other | `.batch0_i(batch1), .batch1_i(batch0)` |
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyslang import parsing

from tb.mutation.syntax import RtlSource, Site, children, kind_of
from tb.mutation.unchanged import comparisons_of, exclusive
from tb.mutation.widths import Span, widths_of

CLASSES = ("width", "handshake", "term", "extent", "stale", "priority", "sibling", "exchange")

CUTS = (8, 16)
"""Widths that a size is cut to, in bits."""
WIDEST = 64
"""A wider signal is data."""

CHAINS = {"LogicalAndExpression": "&&", "LogicalOrExpression": "||"}
SUMS = {"AddExpression": "+", "SubtractExpression": "-"}
COMPARISONS = (
    "EqualityExpression",
    "InequalityExpression",
    "LessThanExpression",
    "LessThanEqualExpression",
    "GreaterThanExpression",
    "GreaterThanEqualExpression",
)
NAMES = ("IdentifierName", "ScopedName", "IdentifierSelectName")
LITERALS = ("IntegerVectorExpression", "IntegerLiteralExpression", "UnbasedUnsizedLiteralExpression")

# Names that match hold a size, a position or a count.
_SIZE = re.compile(
    r"addr|base|row|col|count|left|index|step|stride|batch|seg|rep\b|rep_|length|bytes|granule|position|head|tail|slot"
    r"|level|retired|taken|beat|page|depth|macs|cycles|busy|stall|commands|target|pc_|room|word_q|words|offset"
    r"|\b[mkn](0|b)?_(q|i|o|left|step)\b|\.[mkn]\b"
)
# Names that match control when something happens.
_GUARD = re.compile(
    r"valid|ready|enable|busy|idle|empty|full|free|room|done|abort|take|push|pop|asked|ask\b|pending|strobe|start|last"
    r"|first|_q\b|next|ok\b|go\b|write|read"
)
# Names that differ in one of these pairs are siblings.
_PAIRS = (
    ("0", "1"),
    ("1", "2"),
    ("2", "3"),
    ("a", "b"),
    ("b", "c"),
    ("m", "n"),
    ("k", "n"),
    ("m", "k"),
    ("row", "col"),
    ("rows", "cols"),
    ("src", "dst"),
    ("head", "tail"),
    ("inner", "outer"),
    ("first", "last"),
    ("read", "write"),
    ("rd", "wr"),
    ("ar", "aw"),
)
_NOT_DELAYED = re.compile(r"clk|rst")


@dataclasses.dataclass(frozen=True)
class Change:
    """A mistake at one place: its class, the new text, and a declaration that it needs (offset, text)."""

    operator: str
    mutated: str
    declaration: tuple[int, str] | None = None


@dataclasses.dataclass(frozen=True)
class Exchange:
    """Two places whose texts are exchanged."""

    first: Site
    second: Site


class ChangedDesign:
    """Declarations of a source, and the design mistakes at its places."""

    def __init__(self, source: RtlSource) -> None:
        self._source = source
        self._widths: Mapping[Span, int] = widths_of(source)
        self._names = set(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"//.*", "", source.text)))
        self._declared = dict(_declarations(source))
        self._arrays = set(_arrays(source))
        self._comparisons = comparisons_of(source)
        self._clock = next((name for name in ("clk_i", "clk") if name in self._declared), "")

    def changes(self, site: Site) -> Iterator[Change]:
        """Yield the design mistakes at a place."""
        node, kind = site.node, kind_of(site.node)
        if site.role == "priority":
            yield from self._order(node)
            return
        if site.kind != "expression" or site.role == "predicate":
            return
        if kind in CHAINS and kind_of(node.parent) != kind:
            yield from self._terms(node, kind)
        if kind in SUMS:
            yield Change("extent", self._text(node.left))
            if kind == "AddExpression":
                yield Change("extent", self._text(node.right))
        if site.role == "value" or (kind in NAMES and kind_of(node.parent) in COMPARISONS):
            yield from self._cuts(site, kind)
        if kind == "ConditionalExpression":
            yield from self._ternary(node)
        if kind == "IdentifierName":
            yield from self._stale(site)
        if kind in NAMES:
            for sibling in self.siblings(site):
                yield Change("sibling", sibling)

    # ---- width ----

    def _cuts(self, site: Site, kind: str) -> Iterator[Change]:
        width = self._widths.get((site.start, site.end), 0)
        if kind in LITERALS or width > WIDEST or _SIZE.search(site.context) is None:
            return
        text = self._source.text[site.start : site.end]
        for bits in CUTS:
            if bits < width:
                yield Change("width", f"{bits}'({text})")

    # ---- terms ----

    def _terms(self, node: Any, kind: str) -> Iterator[Change]:
        terms = [self._text(term) for term in _flat(node, kind)]
        for index, term in enumerate(terms):
            rest = terms[:index] + terms[index + 1 :]
            handshake = kind == "LogicalAndExpression" and _GUARD.search(term) is not None
            yield Change("handshake" if handshake else "term", f" {CHAINS[kind]} ".join(rest))

    # ---- clocks ----

    def _stale(self, site: Site) -> Iterator[Change]:
        name = self._source.text[site.start : site.end]
        if name.endswith("_d") and f"{name[:-2]}_q" in self._declared:
            yield Change("stale", f"{name[:-2]}_q")
        at = self._declared.get(name)
        width = self._widths.get((site.start, site.end), 0)
        if at is None or not self._clock or not 0 < width <= WIDEST or _NOT_DELAYED.search(name):
            return
        late = f"late_{name}"
        text = f"\n  var type({name}) {late};\n  always_ff @(posedge {self._clock}) {late} <= {name};\n"
        yield Change("stale", late, (at, text))

    # ---- priorities ----

    def _order(self, node: Any) -> Iterator[Change]:
        second = node.elseClause.clause
        first_if, second_if = self._text(node.predicate), self._text(second.predicate)
        first, then = self._text(node.statement), self._text(second.statement)
        rest = (
            f" else begin {self._text(second.elseClause.clause)} end" if second.elseClause is not None else ""
        )
        if not exclusive(first_if, second_if, self._comparisons):
            swapped = f"if ({second_if}) begin {then} end else if ({first_if}) begin {first} end"
            yield Change("priority", f"{swapped}{rest}")
        yield Change("priority", f"if (({first_if}) || ({second_if})) begin {first} end{rest}")

    def _ternary(self, node: Any) -> Iterator[Change]:
        second = node.right
        while kind_of(second) == "ParenthesizedExpression":
            second = second.expression
        if kind_of(second) != "ConditionalExpression":
            return
        first_if, first = self._text(node.predicate), self._text(node.left)
        second_if, then, rest = (self._text(each) for each in (second.predicate, second.left, second.right))
        if not exclusive(first_if, second_if, self._comparisons):
            yield Change("priority", f"({second_if}) ? ({then}) : (({first_if}) ? ({first}) : ({rest}))")
        yield Change("priority", f"(({first_if}) || ({second_if})) ? ({first}) : ({rest})")

    # ---- siblings ----

    def siblings(self, site: Site) -> list[str]:
        """Return existing names that differ from the one at this place in one part.

        Whole arrays are not replaced, and no array replaces a vector.
        """
        text = self._source.text[site.start : site.end]
        if text in self._arrays:
            return []
        found: dict[str, None] = {}
        for match in re.finditer(r"[A-Za-z_]\w*", text):
            for name in _like(match[0]):
                if name in self._names and (name in self._arrays) == (match[0] in self._arrays):
                    found[f"{text[: match.start()]}{name}{text[match.end() :]}"] = None
        return list(found)

    def exchanges(self, sites: Sequence[Site]) -> Iterator[Exchange]:
        """Yield pairs of whole values that are siblings and are assigned to siblings."""
        values = [
            site
            for site in sites
            if site.kind == "expression"
            and site.role == "value"
            and kind_of(site.node) in NAMES
            and self._source.text[site.start : site.end] not in self._arrays
        ]
        by_target = {(site.scope, self._target(site)): site for site in values}
        for first in values:
            text, target = self._source.text[first.start : first.end], self._target(first)
            for name in dict.fromkeys(_like_text(target)):
                second = by_target.get((first.scope, name))
                if second is None or second.start <= first.start:
                    continue
                other = self._source.text[second.start : second.end]
                if other in _like_text(text):
                    yield Exchange(first, second)

    def _target(self, site: Site) -> str:
        """Return the left side of the assignment that takes the value, or the port."""
        if site.context.startswith("."):
            return site.context.partition("(")[0]
        return re.split(r"<=|=", site.context, maxsplit=1)[0].strip()

    def _text(self, node: Any) -> str:
        return self._source.text_of(node)


def _flat(node: Any, kind: str) -> list[Any]:
    """Return the terms of a chain of one operator."""
    if kind_of(node) != kind:
        return [node]
    return [*_flat(node.left, kind), *_flat(node.right, kind)]


def _like(name: str) -> Iterator[str]:
    """Yield names with one part replaced by its sibling."""
    for pair in _PAIRS:
        for old, new in (pair, pair[::-1]):
            # A digit ends a part; letters form a part of their own.
            pattern = rf"{old}(?=_|$)" if old.isdigit() else rf"(?<![A-Za-z]){old}(?![a-z])"
            for match in re.finditer(pattern, name):
                yield f"{name[: match.start()]}{new}{name[match.end() :]}"


def _like_text(text: str) -> Iterator[str]:
    """Yield texts in which one name is replaced by a sibling."""
    for match in re.finditer(r"[A-Za-z_]\w*", text):
        for name in _like(match[0]):
            yield f"{text[: match.start()]}{name}{text[match.end() :]}"


def _declarations(source: RtlSource) -> Iterator[tuple[str, int]]:
    """Yield signals of the module that are no arrays, with the offset at which declarations can be
    inserted."""
    for declarator, end in _declarators(source):
        if not children(declarator):
            yield str(declarator.name.valueText), end


def _arrays(source: RtlSource) -> Iterator[str]:
    """Yield signals of the module with an unpacked dimension."""
    for declarator, _ in _declarators(source):
        if any("Dimension" in kind_of(child) for child in children(declarator)):
            yield str(declarator.name.valueText)


def _declarators(source: RtlSource) -> Iterator[tuple[Any, int]]:
    """Yield each port and signal of the module with the end of its declaration."""
    header_end = 0

    def walk(node: Any) -> Iterator[tuple[Any, int]]:
        nonlocal header_end
        kind = kind_of(node)
        if kind == "FunctionDeclaration" or re.fullmatch(r"(Always\w*|Initial)Block", kind):
            return
        if kind == "ModuleHeader":
            header_end = node.sourceRange.end.offset
        if kind == "ImplicitAnsiPort":
            yield node.declarator, header_end
        elif kind == "DataDeclaration":
            for declarator in node.declarators:
                if not isinstance(declarator, parsing.Token):
                    yield declarator, node.sourceRange.end.offset
        else:
            for child in children(node):
                yield from walk(child)

    yield from walk(source.root)
