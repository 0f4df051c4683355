"""Proof by abstraction: only the registers that matter keep their transitions, all others may have any value.

A counterexample of growing length is asked for, backwards from the bad thing, by the SAT solver of Z3. Where
there is none, the solver names the registers on whose transitions and first values that depends. A model with
those registers alone does at least what the whole one does. Mostly it is small, and then a proof for it is
soon found.
"""

from collections.abc import Iterable, Sequence

import z3

from tb.mutation.equivalence.clauses import Clauses, Encoded, Number
from tb.mutation.equivalence.gates import FALSE, Gates, Literal
from tb.mutation.equivalence.questions import TransitionSystem
from tb.mutation.equivalence.solver import SHORTEST_S, TimeLimit, never

LONGEST = 12
"""Most steps of the counterexamples that are asked for."""
MOST_CLAUSES = 3_000_000
SHARE = 0.5
"""Most of the time left that goes to one proof for a small model."""
SMALLER_SHARE = 0.1
"""Most of the time left that goes to making a small model smaller."""
MOST_DROPPED = 24
"""A small model with at most so many words is made smaller word by word."""


class CounterexampleError(Exception):
    """The bad thing can happen.

    Attributes:
        seen: which of the literals asked about are true when it happens.
    """

    def __init__(self, seen: set[Literal]) -> None:
        super().__init__("the bad thing can happen")
        self.seen = seen


def never_localized(
    model: TransitionSystem, words: Sequence[str], clock: TimeLimit, about: Sequence[Literal] = ()
) -> str:
    """Return how the bad thing is proven never to happen; "" if it is not.

    Args:
        words: for each register of the model the word that it is a bit of.
        about: literals of which a counterexample tells which are true with the bad thing.

    Raises CounterexampleError.
    """
    if model.bad == FALSE:
        return "no gates differ"
    paths = _Paths(model, words)
    kept: set[str] = set()
    tried: set[str] | None = None
    # Every length is asked for: the induction relies on it.
    for length in range(LONGEST + 1):
        if not paths.extend(length) or clock.left < SHORTEST_S:
            return ""
        answer = paths.reached(length, clock)
        if answer == z3.unknown:
            return ""
        if answer == z3.sat:
            raise CounterexampleError(paths.true_of(about))
        core = paths.core()
        if length <= 4 and len(core) <= MOST_DROPPED:
            core = paths.smaller(core, length, TimeLimit(clock.left * SMALLER_SHARE))
        if paths.inductive(clock):
            return f"induction of {length + 1} steps"
        kept |= core
        if length == 0 or kept == tried:
            continue
        tried = set(kept)
        if never(restricted(model, words, kept), TimeLimit(clock.left * SHARE)):
            return f"an invariant of {len(kept)} registers"
    return ""


def restricted(model: TransitionSystem, words: Sequence[str], kept: Iterable[str]) -> TransitionSystem:
    """Return the model in which registers of other words may have any value in every step."""
    kept = set(kept)
    registers = [each for each, word in zip(model.registers, words, strict=True) if word in kept]
    return TransitionSystem(model.gates, registers, model.bad)


class _Paths:
    """Paths of a model that end with the bad thing, as clauses. Step 0 is the last one."""

    def __init__(self, model: TransitionSystem, words: Sequence[str]) -> None:
        self._gates: Gates = model.gates
        self._bad = model.bad
        self._registers = {
            variable >> 1: (following, first, word)
            for (variable, following, first), word in zip(model.registers, words, strict=True)
        }
        self._clauses = Clauses()
        self._steps: list[Encoded] = []
        self._needed: list[int] = []  # registers that the last step added reads
        # Each switch makes the registers of a word keep their transitions and first values.
        self._switches = {word: self._clauses.variable() for word in dict.fromkeys(words)}
        self._words = {number: word for word, number in self._switches.items()}
        self._begins: list[Number] = []
        self._good_before = self._clauses.variable()

    def extend(self, length: int) -> bool:
        """Add steps up to so many before the last one. Return whether there is room for them."""
        while len(self._steps) <= length:
            if self._clauses.count > MOST_CLAUSES:
                return False
            self._add_step()
        return True

    def _add_step(self) -> None:
        clauses = self._clauses
        step = Encoded(clauses, self._gates)
        roots = [self._bad, *(self._registers[node][0] for node in self._needed)]
        step.encode(roots)
        for node in self._needed:
            following, _, word = self._registers[node]
            off, old, new = -self._switches[word], step.number(following), self._steps[-1].number(2 * node)
            clauses.add(off, -old, new)
            clauses.add(off, old, -new)
        self._needed = [node for node in self._gates.cone(roots) if node in self._registers]
        begins = clauses.variable()
        shared: dict[str, Number] = {}
        for node in self._needed:
            _, first, word = self._registers[node]
            if first is None:
                continue
            number = step.number(2 * node)
            if isinstance(first, str):
                value = shared.setdefault(first, number)
                clauses.add(-begins, -self._switches[word], -value, number)
                clauses.add(-begins, -self._switches[word], value, -number)
            else:
                clauses.add(-begins, -self._switches[word], number if first else -number)
        self._begins.append(begins)
        bad = step.number(self._bad)
        if self._steps:
            clauses.add(-self._good_before, -bad)
        else:
            clauses.add(bad)
        self._steps.append(step)

    def reached(self, length: int, clock: TimeLimit, words: Iterable[str] | None = None) -> z3.CheckSatResult:
        """Return whether so many steps lead from a first state to the bad thing, with these words alone."""
        switches = [self._switches[word] for word in (self._switches if words is None else words)]
        return self._clauses.check([*switches, self._begins[length]], clock)

    def inductive(self, clock: TimeLimit) -> bool:
        """Return whether steps from any state, all good but the last, cannot lead to the bad thing."""
        answer = self._clauses.check([*self._switches.values(), self._good_before], clock)
        return bool(answer == z3.unsat)

    def core(self) -> set[str]:
        """Return the words on which the last answer depends."""
        return {self._words[number] for number in self._clauses.core() if number in self._words}

    def smaller(self, core: set[str], length: int, clock: TimeLimit) -> set[str]:
        """Return a part of the words that is enough for the same answer."""
        for word in sorted(core):
            if word in core and self.reached(length, clock, core - {word}) == z3.unsat:
                core = self.core()
        return core

    def true_of(self, literals: Iterable[Literal]) -> set[Literal]:
        """Return which of the literals are true in the last step of the last answer."""
        last = self._steps[0]
        numbers = {last.number(literal): literal for literal in literals if literal in last}
        return {numbers[number] for number in self._clauses.true(numbers)}
