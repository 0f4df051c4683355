"""Yosys's word-level cells as gates."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tb.mutation.equivalence.gates import FALSE, TRUE, Gates, Literal, Word
from tb.results import UnjudgedError


class UnknownCellError(UnjudgedError):
    """A cell, or a use of one, of which no gates can be made."""


BITWISE = frozenset(("$buf", "$pos", "$not", "$and", "$or", "$xor", "$xnor", "$mux", "$bwmux"))
"""Cells of which each output bit depends on the bits at its own place, and a selection."""
_COMPARED = frozenset(("$eq", "$ne", "$lt", "$le", "$gt", "$ge"))


def number(text: str | int) -> int:
    """Return the value of a cell's parameter."""
    return int(text, 2) if isinstance(text, str) else text


def extended(word: Sequence[Literal], width: int, signed: bool) -> Word:
    """Return a word in another width."""
    fill = word[-1] if signed and word else FALSE
    return [*word[:width], *[fill] * (width - len(word))]


def is_signed(parameters: Mapping[str, Any], *operands: str) -> bool:
    """Return whether all operands of a cell are signed."""
    return all(number(parameters.get(f"{name}_SIGNED", 0)) & 1 for name in operands)


def bit_of(gates: Gates, kind: str, operands: Mapping[str, Literal]) -> Literal:
    """Return one output bit of a cell in BITWISE from the bits at its place."""
    a = operands["A"]
    if kind in ("$buf", "$pos"):
        return a
    if kind == "$not":
        return a ^ 1
    b = operands["B"]
    if kind == "$and":
        return gates.both(a, b)
    if kind == "$or":
        return gates.either(a, b)
    if kind in ("$xor", "$xnor"):
        return gates.differ(a, b) ^ (kind == "$xnor")
    return gates.choose(operands["S"], b, a)


def word_of(
    gates: Gates,
    kind: str,
    parameters: Mapping[str, Any],
    operands: Mapping[str, Sequence[Literal]],
    width: int,
    unknown: Callable[[], Literal],
) -> Word:
    """Return the output of any other cell.

    Args:
        unknown: returns a new variable, which stands for a bit that the cell leaves undefined.

    Raises UnknownCellError: no such cell.
    """
    a = operands["A"]
    if kind in ("$reduce_or", "$reduce_bool"):
        return extended([gates.any_of(a)], width, False)
    if kind == "$reduce_and":
        return extended([gates.all_of(a)], width, False)
    if kind == "$logic_not":
        return extended([gates.any_of(a) ^ 1], width, False)
    if kind == "$neg":
        wide = extended(a, width, is_signed(parameters, "A"))
        return gates.add([FALSE] * width, [bit ^ 1 for bit in wide], TRUE)[0]
    if kind == "$bmux":
        return _selected(gates, a, operands["S"], width)
    if kind == "$demux":
        return _demux(gates, a, operands["S"])
    if kind == "$pmux":
        found = list(a)
        for place in reversed(range(len(operands["S"]))):
            choice = operands["B"][place * width : (place + 1) * width]
            found = gates.choose_word(operands["S"][place], choice, found)
        return found
    b = operands["B"]
    if kind in ("$logic_and", "$logic_or"):
        join = gates.both if kind == "$logic_and" else gates.either
        return extended([join(gates.any_of(a), gates.any_of(b))], width, False)
    both_signed = is_signed(parameters, "A", "B")
    if kind in _COMPARED:
        return extended([_compared(gates, kind, a, b, both_signed)], width, False)
    if kind in ("$add", "$sub", "$mul"):
        x, y = extended(a, width, both_signed), extended(b, width, both_signed)
        if kind == "$mul":
            return gates.multiply(x, y)
        if kind == "$add":
            return gates.add(x, y)[0]
        return gates.add(x, [bit ^ 1 for bit in y], TRUE)[0]
    if kind in ("$shl", "$sshl", "$shr", "$sshr"):
        return _shifted(gates, kind, parameters, a, b, width)
    if kind == "$shiftx":
        return _indexed(gates, parameters, a, b, width, unknown)
    raise UnknownCellError(f"no gates for a cell {kind}")


def _compared(gates: Gates, kind: str, a: Sequence[Literal], b: Sequence[Literal], signed: bool) -> Literal:
    width = max(len(a), len(b))
    x, y = extended(a, width, signed), extended(b, width, signed)
    if kind in ("$eq", "$ne"):
        return gates.equal(x, y) ^ (kind == "$ne")
    if signed:
        x[-1] ^= 1
        y[-1] ^= 1
    if kind in ("$lt", "$ge"):
        return gates.less(x, y) ^ (kind == "$ge")
    return gates.less(y, x) ^ (kind == "$le")


def _shifted(
    gates: Gates,
    kind: str,
    parameters: Mapping[str, Any],
    a: Sequence[Literal],
    amount: Sequence[Literal],
    width: int,
) -> Word:
    """Return a shift by an unsigned amount."""
    signed = is_signed(parameters, "A")
    size = max(width, len(a))
    word = extended(a, size, signed)
    fill = word[-1] if kind == "$sshr" and signed else FALSE
    for place, bit in enumerate(amount):
        step = min(1 << place, size)
        if kind in ("$shl", "$sshl"):
            moved = [FALSE] * step + word[: size - step]
        else:
            moved = word[step:] + [fill] * step
        word = gates.choose_word(bit, moved, word)
    return word[:width]


def _indexed(
    gates: Gates,
    parameters: Mapping[str, Any],
    a: Sequence[Literal],
    index: Sequence[Literal],
    width: int,
    unknown: Callable[[], Literal],
) -> Word:
    """Return `width` bits from an index; those outside the word are unknown."""
    negative = FALSE
    if is_signed(parameters, "B"):
        negative, index = index[-1], index[:-1]
    size = max(len(a), width)
    word = [*a, *(unknown() for _ in range(size - len(a)))]
    for place, bit in enumerate(index):
        if bit == FALSE:
            continue
        step = min(1 << place, size)
        word = gates.choose_word(bit, word[step:] + [unknown() for _ in range(step)], word)
    if negative != FALSE:
        word = gates.choose_word(negative, [unknown() for _ in word], word)
    return word[:width]


def _selected(gates: Gates, a: Sequence[Literal], select: Sequence[Literal], width: int) -> Word:
    words = [list(a[at : at + width]) for at in range(0, len(a), width)]
    for bit in select:
        words = [gates.choose_word(bit, words[at + 1], words[at]) for at in range(0, len(words), 2)]
    return words[0]


def _demux(gates: Gates, a: Sequence[Literal], select: Sequence[Literal]) -> Word:
    enables = [TRUE]
    for bit in select:
        enables = [gates.both(each, bit ^ 1) for each in enables] + [
            gates.both(each, bit) for each in enables
        ]
    return [gates.both(enable, bit) for enable in enables for bit in a]
