"""Mutation operators: one small mistake per place, of the kinds that people make.

This module has typing slips; `tb.mutation.design` has design mistakes.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tb.mutation import design
from tb.mutation.design import ChangedDesign
from tb.mutation.schemata import Edit, Mutant
from tb.mutation.syntax import RtlSource, Site, children, kind_of, one_line
from tb.mutation.unchanged import same_literal, same_operator

# Class and replacements of each binary operator; comparisons move a bound by one.
REPLACED: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "AddExpression": ("arithmetic", {"+": ("-",)}),
    "SubtractExpression": ("arithmetic", {"-": ("+",)}),
    "MultiplyExpression": ("arithmetic", {"*": ("+",)}),
    "EqualityExpression": ("relational", {"==": ("!=",)}),
    "InequalityExpression": ("relational", {"!=": ("==",)}),
    "LessThanExpression": ("relational", {"<": ("<=", ">=")}),
    "LessThanEqualExpression": ("relational", {"<=": ("<", ">")}),
    "GreaterThanExpression": ("relational", {">": (">=", "<=")}),
    "GreaterThanEqualExpression": ("relational", {">=": (">", "<")}),
    "LogicalAndExpression": ("logical", {"&&": ("||",)}),
    "LogicalOrExpression": ("logical", {"||": ("&&",)}),
    "BinaryAndExpression": ("bitwise", {"&": ("|",)}),
    "BinaryOrExpression": ("bitwise", {"|": ("&", "^")}),
    "BinaryXorExpression": ("bitwise", {"^": ("|",)}),
    "LogicalShiftLeftExpression": ("shift", {"<<": (">>",)}),
    "LogicalShiftRightExpression": ("shift", {">>": ("<<",)}),
    "ArithmeticShiftRightExpression": ("shift", {">>>": (">>",)}),
}
CLASSES = (
    *dict.fromkeys(name for name, _ in REPLACED.values()),
    *("condition", "constant", "ternary", "statement", "case arm", "reset"),
    *design.CLASSES,
)
"""All classes, in the order of reports."""
NEGATIONS = {"UnaryLogicalNotExpression": "!", "UnaryBitwiseNotExpression": "~"}
REDUCTIONS = {"UnaryBitwiseAndExpression": ("&", "|"), "UnaryBitwiseOrExpression": ("|", "&")}

_SIZED = re.compile(r"(\d+)'(s?)([bdhBDH])([0-9a-fA-F_]+)$")
_BASES = {"b": (2, "b"), "d": (10, "d"), "h": (16, "X")}


def changed_literals(text: str) -> list[str]:
    """Return an integer literal plus and minus one, in its own width and base."""
    if text in ("'0", "'1"):
        return ["'1" if text == "'0" else "'0"]
    sized = _SIZED.match(text)
    if sized is None:
        if not re.fullmatch(r"\d+", text):
            return []
        value = int(text)
        return [str(value + 1), str(value - 1)] if value else ["1"]
    width, base = int(sized[1]), sized[3].lower()
    radix, form = _BASES[base]
    value = int(sized[4].replace("_", ""), radix)
    near = dict.fromkeys((value + step) % (1 << width) for step in (1, -1))
    return [f"{width}'{sized[2]}{base}{format(each, form)}" for each in near if each != value]


def _expression(source: RtlSource, site: Site) -> Iterator[tuple[str, str]]:
    """Yield class and text of each changed expression."""
    node, kind = site.node, kind_of(site.node)
    text = source.text[site.start : site.end]
    if site.role == "predicate":
        yield "condition", f"!({text})"
        yield "condition", "1'b1"
        yield "condition", "1'b0"
        return
    if kind in REPLACED:
        name, table = REPLACED[kind]
        left, right = source.text_of(node.left), source.text_of(node.right)
        for operator in table[str(node.operatorToken.valueText)]:
            if same_operator(source, node, operator):
                continue
            # Brackets, since the precedence may differ.
            yield name, f"({left}) {operator} ({right})"
    elif kind in NEGATIONS:
        yield "logical" if NEGATIONS[kind] == "!" else "bitwise", source.text_of(node.operand)
    elif kind in REDUCTIONS:
        _, other = REDUCTIONS[kind]
        yield "bitwise", f"{other}{source.text_of(node.operand)}"
    elif kind == "ConditionalExpression":
        predicate, left, right = (source.text_of(each) for each in (node.predicate, node.left, node.right))
        yield "ternary", f"{predicate} ? {right} : {left}"
        yield "ternary", left
        yield "ternary", right
    elif kind in ("IntegerVectorExpression", "IntegerLiteralExpression", "UnbasedUnsizedLiteralExpression"):
        for literal in changed_literals(text):
            if not same_literal(source, node, literal):
                yield "reset" if site.reset else "constant", literal


def mutants_of(source: RtlSource) -> list[Mutant]:
    """Return all mutants of a file: slips in textual order, then exchanges."""
    found: list[Mutant] = []
    seen: Counter[tuple[str, ...]] = Counter()
    mistakes = ChangedDesign(source)
    sites = [
        site
        for site in source.sites()
        if all(source.span(child) is not None for child in children(site.node))
    ]

    def add(site: Site, operator: str, original: str, mutated: str, edits: tuple[Edit, ...]) -> None:
        texts = (one_line(original), one_line(mutated))
        seen[site.context, *texts] += 1
        occurrence = seen[site.context, *texts]
        line = source.text.count("\n", 0, site.start) + 1
        found.append(Mutant(source.path.name, site.context, operator, *texts, occurrence, line, edits))

    def edit(site: Site, mutated: str) -> Edit:
        return Edit(source.path.name, site.kind, site.start, site.end, mutated)

    for site in sites:
        original = source.text[site.start : site.end]
        if site.kind == "statement" and site.role != "priority":
            dropped = "case arm" if site.role == "case arm" else "reset" if site.reset else "statement"
            add(site, dropped, original, "", (edit(site, ""),))
        elif site.kind == "expression":
            for operator, mutated in _expression(source, site):
                add(site, operator, original, mutated, (edit(site, mutated),))
        for change in mistakes.changes(site):
            edits = [edit(site, change.mutated)]
            if change.declaration is not None:
                at, text = change.declaration
                edits.append(Edit(source.path.name, "insertion", at, at, text))
            add(site, change.operator, original, change.mutated, tuple(edits))
    for pair in mistakes.exchanges(sites):
        first, second = (source.text[each.start : each.end] for each in (pair.first, pair.second))
        edits = [edit(pair.first, second), edit(pair.second, first)]
        add(pair.first, "exchange", first, f"{second}, and that the other way round", tuple(edits))
    return found


def sample(sources: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Draw `count` mutants from all files and operator classes.

    Each file's share grows with the square root of its number of mutants, so that large modules do not crowd
    out small ones. Classes have equal shares.

    Raises ValueError: there are not so many mutants.
    """
    everything = {path.name: mutants_of(RtlSource(path)) for path in sources}
    everything = {name: mutants for name, mutants in everything.items() if mutants}
    total = sum(map(len, everything.values()))
    if count > total:
        raise ValueError(f"{count} mutants: there are {total}")
    weights = {name: len(mutants) ** 0.5 for name, mutants in everything.items()}
    # Each file has its own generator, so that changing one file leaves the mutants of others.
    queues = {
        name: _by_class(mutants, random.Random(f"{seed} {name}")) for name, mutants in everything.items()
    }
    taken: Counter[str] = Counter()
    chosen: list[Mutant] = []
    while len(chosen) < count:
        # Choose the file furthest below its share.
        name = min(
            (name for name in queues if queues[name]), key=lambda each: (taken[each] + 0.5) / weights[each]
        )
        taken[name] += 1
        chosen.append(queues[name].pop())
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.edits[0].start, mutant.identity))


def matching(sources: Sequence[Path], pattern: str) -> list[Mutant]:
    """Return all mutants whose class and identity (file, statement, change) the regular expression finds.

    Raises ValueError: no expression, or there are none.
    """
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    mutants = [each for path in sources for each in mutants_of(RtlSource(path))]
    found = [each for each in mutants if wanted.search(f"{each.operator} {each.identity}")]
    if not found:
        raise ValueError(f"no mutant matches {pattern!r}")
    return found


def _by_class(mutants: Sequence[Mutant], rng: random.Random) -> list[Mutant]:
    """Shuffle the mutants so that classes alternate, from the end."""
    classes: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        classes[mutant.operator].append(mutant)
    for members in classes.values():
        rng.shuffle(members)
    out: list[Mutant] = []
    while any(classes.values()):
        names = [name for name, members in classes.items() if members]
        rng.shuffle(names)
        out += [classes[name].pop() for name in names]
    out.reverse()
    return out
