"""Proof that registers which the circuits have apart are equal wherever anything reads them.

Random runs tell in which states of other registers they have always been equal, such as those in which a
valid bit is set. That is proven by induction, and with it that nothing else ever differs. The proof is by
cases. Where the registers are equal, both circuits read the same variables, so most gates are the same.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import z3

from tb.mutation.equivalence.clauses import Clauses, Encoded
from tb.mutation.equivalence.gates import Literal
from tb.mutation.equivalence.lockstep import Lockstep, word_of_bit
from tb.mutation.equivalence.questions import CircuitPair
from tb.mutation.equivalence.runs import MASK, RandomRuns
from tb.mutation.equivalence.solver import TimeLimit

MOST_BITS = 4
"""Bits of the widest register whose values are conditions."""
WIDEST = 16
"""Bits of the widest register whose single bits are conditions."""
MOST_GROUPS = 3
"""Groups of registers that are equal under conditions of their own."""
MOST_APART = 4_000
"""Bits of registers that are apart."""

Condition = tuple[str, int]
"""A register, or a bit of one, and a value of it."""


def equal_where_read(pair: CircuitPair, question: Lockstep, runs: RandomRuns, clock: TimeLimit) -> str:
    """Return how it is proven that no difference is ever true; "" if it is not."""
    if not question.own or len(question.own) > MOST_APART:
        return ""
    groups = _merged(_conditions(question, runs))
    proof = _Cases(pair, question, groups)
    while clock.left > 0 and any(group.conditions for group in groups):
        answer = proof.failing(clock)
        if answer is None:
            return ""
        if not answer:
            number = len({condition for group in groups for condition in group.conditions})
            return f"registers equal under {number} conditions"
        for group, condition in answer:
            group.conditions.discard(condition)
    return ""


class _ApartGroup:
    """Registers, and conditions under which all of them are to be equal."""

    def __init__(self, words: Iterable[str], conditions: Iterable[Condition]) -> None:
        self.words = set(words)
        self.conditions = set(conditions)


def _conditions(question: Lockstep, runs: RandomRuns) -> dict[str, set[Condition]]:
    """Return for each register that is apart the conditions under which random runs show no difference."""
    narrow = _narrow(question)
    every = {(word, value) for word, names in narrow.items() for value in range(1 << len(names))}
    found: dict[str, set[Condition]] = {word_of_bit(name): set(every) for name in question.own}
    for one, two in runs.states():
        apart = dict.fromkeys(found, 0)
        for name in question.own:
            apart[word_of_bit(name)] |= one[name] ^ two[name]
        for word, names in narrow.items():
            for value in range(1 << len(names)):
                holds = MASK
                for place, name in enumerate(names):
                    holds &= one[name] if value >> place & 1 else MASK ^ one[name]
                for other, differs in apart.items():
                    if holds & differs:
                        found[other].discard((word, value))
    return found


def _narrow(question: Lockstep) -> dict[str, list[str]]:
    """Return the bits of the registers, or the single bits, whose values are conditions."""
    words: dict[str, list[str]] = {}
    for name in question.shared:
        words.setdefault(word_of_bit(name), []).append(name)
    found = {word: sorted(names) for word, names in words.items() if len(names) <= MOST_BITS}
    wider = (names for names in words.values() if MOST_BITS < len(names) <= WIDEST)
    return found | {name: [name] for names in wider for name in names}


def _merged(found: Mapping[str, set[Condition]]) -> list[_ApartGroup]:
    """Return groups of registers with the same conditions; what is too many shares what it has in common."""
    by_conditions: dict[frozenset[Condition], list[str]] = {}
    for word, conditions in found.items():
        by_conditions.setdefault(frozenset(conditions), []).append(word)
    ordered = sorted(by_conditions.items(), key=lambda each: -len(each[1]))
    groups = [_ApartGroup(words, common) for common, words in ordered[:MOST_GROUPS]]
    for common, words in ordered[MOST_GROUPS:]:
        last = groups[-1]
        last.words |= set(words)
        last.conditions &= common
    return groups


class _Cases:
    """The step of the induction, case by case."""

    def __init__(self, pair: CircuitPair, question: Lockstep, groups: Sequence[_ApartGroup]) -> None:
        self._pair = pair
        self._gates = pair.gates
        self._question = question
        self._groups = groups
        self._bits = _narrow(question)
        for group in groups:
            group.conditions = {each for each in group.conditions if self._begins_well(group, each)}

    def _begins_well(self, group: _ApartGroup, condition: Condition) -> bool:
        """Return whether after a reset the registers are equal, or the condition does not hold."""
        starts = self._question.starts
        equal = all(
            starts[name][0] is not None and starts[name][0] == starts[name][1]
            for name in self._question.own
            if word_of_bit(name) in group.words
        )
        word, value = condition
        firsts = [(starts[name][0], bool(value >> place & 1)) for place, name in enumerate(self._bits[word])]
        return equal or any(isinstance(first, bool) and first != bit for first, bit in firsts)

    def _holds(self, condition: Condition, *, later: bool) -> Literal:
        """Return whether a condition holds, now or after a clock."""
        word, value = condition
        bits = (self._question.shared[name][later] for name in self._bits[word])
        return self._gates.all_of(bit ^ (not value >> place & 1) for place, bit in enumerate(bits))

    def failing(self, clock: TimeLimit) -> list[tuple[_ApartGroup, Condition]] | None:
        """Return conditions that do not hold after a step although all hold before; none if all are proven.

        None if a difference is true, or if there is no time.
        """
        for equal in itertools.product((True, False), repeat=len(self._groups)):
            found = self._failing_in(equal, clock)
            if found is None or found:
                return found
        return []

    def _failing_in(
        self, equal: Sequence[bool], clock: TimeLimit
    ) -> list[tuple[_ApartGroup, Condition]] | None:
        gates, question = self._gates, self._question
        same: dict[int, Literal] = {}
        given = []
        for group, chosen in zip(self._groups, equal, strict=True):
            any_holds = gates.any_of(self._holds(each, later=False) for each in group.conditions)
            given.append(any_holds if chosen else any_holds ^ 1)
            if chosen:
                own = (bits for name, bits in question.own.items() if word_of_bit(name) in group.words)
                same |= {bits.two >> 1: bits.one for bits in own}
        wanted: list[tuple[tuple[_ApartGroup, Condition] | None, Literal]] = [(None, question.model.bad)]
        for group in self._groups:
            differs = gates.any_of(
                gates.differ(bits.next_one, bits.next_two)
                for name, bits in question.own.items()
                if word_of_bit(name) in group.words
            )
            for condition in sorted(group.conditions):
                wanted.append(((group, condition), gates.both(differs, self._holds(condition, later=True))))
        moved = self._pair.with_own(same, [literal for _, literal in wanted])
        failures = [(what, moved(literal)) for what, literal in wanted]
        clauses = Clauses()
        encoded = Encoded(clauses, gates)
        encoded.encode([*given, *(literal for _, literal in failures)])
        for literal in given:
            clauses.add(encoded.number(literal))
        clauses.add(*(encoded.number(literal) for _, literal in failures))
        answer = clauses.check((), clock)
        if answer == z3.unsat:
            return []
        if answer != z3.sat:
            return None
        true = clauses.true(encoded.number(literal) for _, literal in failures)
        failed = [what for what, literal in failures if encoded.number(literal) in true]
        return None if None in failed else [what for what in failed if what is not None]
