"""Graphs of AND gates and inverters, in which equal gates are one."""

import random
from collections.abc import Iterable, Mapping, Sequence

FALSE = 0
TRUE = 1
Literal = int
"""Twice the number of a node, plus one for its inverse; node 0 is false."""
Word = list[Literal]
"""Bits, lowest first."""


class Gates:
    """A graph. Nodes have numbers in an order in which each follows its operands."""

    def __init__(self) -> None:
        self.operands: list[tuple[Literal, Literal] | None] = [None]
        """Operands of each node; None for false and for variables."""
        self._known: dict[tuple[Literal, Literal], int] = {}

    def variable(self) -> Literal:
        """Add a variable."""
        self.operands.append(None)
        return 2 * (len(self.operands) - 1)

    def both(self, a: Literal, b: Literal) -> Literal:
        """Return a AND b."""
        if a > b:
            a, b = b, a
        if a == FALSE or a == b ^ 1:
            return FALSE
        if a in (TRUE, b):
            return b
        node = self._known.get((a, b))
        if node is None:
            node = len(self.operands)
            self.operands.append((a, b))
            self._known[a, b] = node
        return 2 * node

    def either(self, a: Literal, b: Literal) -> Literal:
        """Return a OR b."""
        return self.both(a ^ 1, b ^ 1) ^ 1

    def differ(self, a: Literal, b: Literal) -> Literal:
        """Return a XOR b."""
        if a < 2 or b < 2 or a ^ b < 2:
            return a ^ b
        sign, a, b = (a ^ b) & 1, a & ~1, b & ~1
        return self.both(self.both(a, b) ^ 1, self.both(a ^ 1, b ^ 1) ^ 1) ^ sign

    def choose(self, condition: Literal, yes: Literal, no: Literal) -> Literal:
        """Return `yes` where the condition holds, else `no`."""
        if yes == no:
            return yes
        if condition < 2:
            return yes if condition else no
        if yes < 2 or no < 2 or yes ^ no == 1:
            if yes == TRUE:
                return self.either(condition, no)
            if yes == FALSE:
                return self.both(condition ^ 1, no)
            if no == TRUE:
                return self.either(condition ^ 1, yes)
            if no == FALSE:
                return self.both(condition, yes)
            return self.differ(condition, no)
        return self.either(self.both(condition, yes), self.both(condition ^ 1, no))

    def any_of(self, literals: Iterable[Literal]) -> Literal:
        """Return the disjunction, as a balanced tree."""
        level = sorted(set(literals))
        while len(level) > 1:
            level = [
                self.either(*level[at : at + 2]) if at + 1 < len(level) else level[at]
                for at in range(0, len(level), 2)
            ]
        return level[0] if level else FALSE

    def all_of(self, literals: Iterable[Literal]) -> Literal:
        """Return the conjunction."""
        return self.any_of(literal ^ 1 for literal in literals) ^ 1

    # ---- words ----

    def choose_word(self, condition: Literal, yes: Sequence[Literal], no: Sequence[Literal]) -> Word:
        """Return one of two words of the same width."""
        return [self.choose(condition, a, b) for a, b in zip(yes, no, strict=True)]

    def add(self, a: Sequence[Literal], b: Sequence[Literal], carry: Literal = FALSE) -> tuple[Word, Literal]:
        """Return the sum of two words of the same width, and the carry out."""
        total = []
        for x, y in zip(a, b, strict=True):
            half = self.differ(x, y)
            total.append(self.differ(half, carry))
            carry = self.either(self.both(x, y), self.both(half, carry))
        return total, carry

    def less(self, a: Sequence[Literal], b: Sequence[Literal]) -> Literal:
        """Return whether an unsigned word is less than another of the same width."""
        _, carry = self.add(a, [bit ^ 1 for bit in b], TRUE)
        return carry ^ 1

    def multiply(self, a: Sequence[Literal], b: Sequence[Literal]) -> Word:
        """Return the product in the width of `a`."""
        total: Word = [FALSE] * len(a)
        for place, bit in enumerate(b[: len(a)]):
            part = [FALSE] * place + [self.both(bit, each) for each in a[: len(a) - place]]
            total, _ = self.add(total, part)
        return total

    def equal(self, a: Sequence[Literal], b: Sequence[Literal]) -> Literal:
        """Return whether two words of the same width are equal."""
        return self.any_of(self.differ(x, y) for x, y in zip(a, b, strict=True)) ^ 1

    # ---- evaluation ----

    def cone(self, roots: Iterable[Literal]) -> list[int]:
        """Return the nodes that literals depend on, in order, without false."""
        seen = {literal >> 1 for literal in roots}
        open_nodes = list(seen)
        while open_nodes:
            operands = self.operands[open_nodes.pop()]
            for literal in operands or ():
                if literal >> 1 not in seen:
                    seen.add(literal >> 1)
                    open_nodes.append(literal >> 1)
        return sorted(seen - {0})

    def values(self, cone: Sequence[int], given: Mapping[int, int], mask: int) -> dict[int, int]:
        """Return the values of a cone's nodes from those of its variables; each bit of `mask` is a case."""
        found = {0: 0}
        for node in cone:
            operands = self.operands[node]
            if operands is None:
                found[node] = given[node]
            else:
                a, b = operands
                x, y = found[a >> 1], found[b >> 1]
                found[node] = (mask ^ x if a & 1 else x) & (mask ^ y if b & 1 else y)
        return found


def value_of(values: Mapping[int, int], literal: Literal, mask: int) -> int:
    """Return the value of a literal."""
    value = values[literal >> 1]
    return mask ^ value if literal & 1 else value


def biased(rng: random.Random, cases: int) -> int:
    """Return random bits, often nearly all zero or nearly all one."""
    bits = rng.getrandbits(cases)
    kind = rng.randrange(4)
    if kind == 1:
        return bits & rng.getrandbits(cases) & rng.getrandbits(cases)
    if kind == 2:
        return bits | rng.getrandbits(cases) | rng.getrandbits(cases)
    return bits
