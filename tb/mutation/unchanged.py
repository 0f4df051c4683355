"""Changes that the text alone shows to be none: the mutant would compute the same as the original.

| change | where it is none |
| --- | --- |
| `<` and `<=`, `>` and `>=` | in `(a < b) ? a : b`, `(a < b) ? 0 : a - b`: both arms are equal at the bound |
| <code>&#124;</code> and `^` | no bit can be set in both operands |
| a literal in `x & 4'd7` | the changed bits are zero in `x`, or the result is shifted beyond them |
| the order of two conditions | they exclude each other |

What is not written as a number may have any value here, so nothing depends on the configuration.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from pyslang import parsing

from tb.mutation.syntax import RtlSource, kind_of, one_line
from tb.mutation.widths import arithmetic_of

ANY = -1
"""Mask of an expression in which every bit may be set, in any width."""

_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OR_XOR = {"|": "^", "^": "|"}
_SIZED = re.compile(r"(\d+)'([bdhBDH])([0-9a-fA-F_]+)$")
_RADIX = {"b": 2, "d": 10, "h": 16}
_ONE_BIT = {
    *("EqualityExpression", "InequalityExpression", "LessThanExpression", "LessThanEqualExpression"),
    *("GreaterThanExpression", "GreaterThanEqualExpression", "LogicalAndExpression", "LogicalOrExpression"),
    *("UnaryLogicalNotExpression", "UnaryBitwiseAndExpression", "UnaryBitwiseOrExpression"),
}
_ASSIGNED = r"(?<![\w.'])([A-Za-z_]\w*)\s*"
_WRAPPERS = ("ParenthesizedExpression", "ConditionalPattern", "ConditionalPredicate")


def same_operator(source: RtlSource, node: Any, operator: str) -> bool:
    """Return whether a binary expression is the same with another operator."""
    present = str(node.operatorToken.valueText)
    if _BOUNDS.get(present) == operator:
        return _equal_at_the_bound(source, node)
    if _OR_XOR.get(present) == operator:
        left, right = mask_of(source, node.left), mask_of(source, node.right)
        return left & right == 0
    return False


def same_literal(source: RtlSource, node: Any, literal: str) -> bool:
    """Return whether another literal in the place of one that masks bits changes nothing."""
    mask = _bare_parent(node)
    old, new = value_of(source.text_of(node)), value_of(literal)
    if old is None or new is None or kind_of(mask) != "BinaryAndExpression":
        return False
    changed = old ^ new
    other = mask.right if _within(source, node, mask.left) else mask.left
    above = _bare_parent(mask)
    if kind_of(above) == "LogicalShiftRightExpression" and _within(source, mask, above.left):
        places = value_of(source.text_of(_bare(above.right)))
        if places is not None and changed >> places == 0:
            return True
    return changed & mask_of(source, other) == 0


def exclusive(first: str, second: str, named: Mapping[str, str] | None = None) -> bool:
    """Return whether two conditions never hold together: a term of one, of all that must hold, is the
    other's negation, or both compare the same with two constants.

    Args:
        named: comparisons that have a name, as of `comparisons_of`.
    """
    named = {} if named is None else named
    for one in _terms(first):
        for other in _terms(second):
            if one in (f"!{other}", f"!({other})") or other in (f"!{one}", f"!({one})"):
                return True
            left, right = _compared(named.get(one, one)), _compared(named.get(other, other))
            if left and right and left[1] == right[1] and left[2] != right[2]:
                return True
    return False


def comparisons_of(source: RtlSource) -> dict[str, str]:
    """Return the signals that are a comparison with a constant, whatever happens, by name.

    Each is assigned once in the file, and what it compares is not assigned in the middle of a process or
    function, so that all of them see the same value.
    """
    text = re.sub(r"//.*", "", source.text)
    assigned = Counter(match[1] for match in re.finditer(rf"{_ASSIGNED}(?:<=|=)(?!=)", text))
    inside = Counter(match[1] for match in re.finditer(rf"(?<!assign ){_ASSIGNED}=(?!=)", text))
    found = {}
    for match in re.finditer(rf"{_ASSIGNED}=(?!=)([^;]*);", text):
        compared = _compared(_unwrapped(match[2]))
        if compared and assigned[match[1]] == 1 and not inside[re.split(r"\W", compared[1])[0]]:
            found[match[1]] = compared[0]
    return found


def mask_of(source: RtlSource, node: Any) -> int:
    """Return the bits that may be set in an expression's value, a superset; negative if infinitely many.

    A mask that is not negative belongs to a value that no extension to more bits changes.
    """
    node = _bare(node)
    kind = kind_of(node)
    if kind in _ONE_BIT:
        return 1
    if kind == "ConditionalExpression":
        return mask_of(source, node.left) | mask_of(source, node.right)
    if kind in ("BinaryAndExpression", "BinaryOrExpression", "BinaryXorExpression"):
        left, right = mask_of(source, node.left), mask_of(source, node.right)
        return left & right if kind == "BinaryAndExpression" else left | right
    if kind in ("LogicalShiftLeftExpression", "LogicalShiftRightExpression"):
        places, mask = value_of(source.text_of(_bare(node.right))), mask_of(source, node.left)
        if places is None:
            return ANY
        return mask << places if kind == "LogicalShiftLeftExpression" else mask >> places
    if kind == "ConcatenationExpression":
        return _mask_of_parts(source, node)
    if kind == "CastExpression":
        return _mask_of_cast(source, node)
    text = source.text_of(node)
    # A decimal without a size is signed, and so may be what it masks.
    value = None if text.isdigit() else value_of(text)
    return ANY if value is None else value


def value_of(text: str) -> int | None:
    """Return the value of an unsigned literal, or of a decimal one without a size; None for other text."""
    if text == "'0":
        return 0
    if re.fullmatch(r"\d+", text):
        return int(text)
    sized = _SIZED.match(text)
    if sized is None:
        return None
    return int(sized[3].replace("_", ""), _RADIX[sized[2].lower()]) % (1 << int(sized[1]))


def _mask_of_parts(source: RtlSource, node: Any) -> int:
    """Return the mask of a concatenation, from the literals at its low end."""
    mask, place = 0, 0
    for part in reversed([each for each in node.expressions if not isinstance(each, parsing.Token)]):
        text = source.text_of(part)
        sized, value = _SIZED.match(text), value_of(text)
        if sized is None or value is None:
            return mask | ANY << place
        mask |= value << place
        place += int(sized[1])
    return mask


def _mask_of_cast(source: RtlSource, node: Any) -> int:
    """Return the mask of a cast to a number of bits; one that could set a sign bit is unknown."""
    bits = value_of(source.text_of(node.left).strip())
    mask = mask_of(source, node.right)
    return mask if bits and 0 <= mask < 1 << bits - 1 else ANY


def _equal_at_the_bound(source: RtlSource, node: Any) -> bool:
    """Return whether a comparison decides between what it compares, or between zero and the difference."""
    above = node.parent
    while above is not None and kind_of(above) in _WRAPPERS:
        above = above.parent
    if above is None or kind_of(above) != "ConditionalExpression":
        return False
    if not _within(source, node, above.predicate):
        return False
    left, right = _plain(source, node.left), _plain(source, node.right)
    arms = {_plain(source, each) for each in _uncast(source, above.left, above.right)}
    differences = ({"'0", f"{left} - {right}"}, {"'0", f"{right} - {left}"})
    if arms != {left, right} and {"'0" if value_of(arm) == 0 else arm for arm in arms} not in differences:
        return False
    # Signed operands of different widths may be equal here and differ in an unsigned context of the result.
    evaluated = arithmetic_of(source).get(source.span(node.left) or (0, 0), ())
    return bool(evaluated) and all(each.bits and not each.signed for each in evaluated)


def _uncast(source: RtlSource, *arms: Any) -> tuple[Any, ...]:
    """Return what expressions cast if all are casts to the same type, else the expressions."""
    bare = tuple(map(_bare, arms))
    casts = [_plain(source, arm.left) if kind_of(arm) == "CastExpression" else "" for arm in bare]
    return tuple(arm.right for arm in bare) if casts[0] and len(set(casts)) == 1 else bare


def _plain(source: RtlSource, node: Any) -> str:
    return one_line(source.text_of(_bare(node)))


def _bare(node: Any) -> Any:
    """Return an expression without brackets around it."""
    while kind_of(node) == "ParenthesizedExpression":
        node = node.expression
    return node


def _bare_parent(node: Any) -> Any:
    """Return the expression around one, brackets apart."""
    above = node.parent
    while kind_of(above) == "ParenthesizedExpression":
        above = above.parent
    return above


def _within(source: RtlSource, inner: Any, outer: Any) -> bool:
    first, second = source.span(inner), source.span(outer)
    return first is not None and second is not None and second[0] <= first[0] and first[1] <= second[1]


def _terms(condition: str) -> Iterator[str]:
    """Yield the terms of a conjunction, without brackets around them."""
    text = _unwrapped(condition)
    depth, start = 0, 0
    found = []
    for at, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and text.startswith("||", at):
            yield text
            return
        if depth == 0 and text.startswith("&&", at):
            found.append(text[start:at])
            start = at + 2
        if depth == 0 and character == "?":
            yield text
            return
    found.append(text[start:])
    for term in found:
        yield _unwrapped(term)


def _unwrapped(text: str) -> str:
    """Return an expression's text without brackets around all of it."""
    text = one_line(text)
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return at
    return -1


def _compared(term: str) -> re.Match[str] | None:
    """Match a comparison for equality with a constant: what is compared, and the constant."""
    return re.fullmatch(r"([\w.\[\]]+) == ([A-Z]\w*|\d[\w']*)", term)
