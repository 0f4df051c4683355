"""Gates as clauses for the SAT solver of Z3, which keeps what it has learnt from question to question."""

from collections.abc import Iterable, Sequence

import z3

from tb.mutation.equivalence.gates import Gates, Literal
from tb.mutation.equivalence.solver import TimeLimit

Number = int
"""A literal of the solver: the number of a variable, negative for its inverse."""


class Clauses:
    """A solver.

    Attributes:
        count: clauses so far.
    """

    def __init__(self) -> None:
        self._solver = z3.SolverFor("QF_FD")
        self._variables = 0
        self._new: list[Sequence[Number]] = []
        self.count = 0

    def variable(self) -> Number:
        """Add a variable."""
        self._variables += 1
        return self._variables

    def add(self, *clause: Number) -> None:
        """Add a clause."""
        self._new.append(clause)
        self.count += 1

    def check(self, assumptions: Iterable[Number], clock: TimeLimit) -> z3.CheckSatResult:
        """Return whether all clauses and assumptions can be true; unknown if there is no time to find out."""
        if clock.left <= 0.1:
            return z3.unknown
        lines = "".join(f"{' '.join(map(str, clause))} 0\n" for clause in self._new)
        self._solver.from_string(f"p cnf {self._variables} {len(self._new)}\n{lines}")
        self._new.clear()
        self._solver.set("timeout", max(int(clock.left * 1000), 1))
        return self._solver.check(*map(_expression, assumptions))

    def core(self) -> set[Number]:
        """Return assumptions that cannot be true together, after `check` has said so."""
        found = set()
        for each in self._solver.unsat_core():
            inverse = z3.is_not(each)
            number = int(str(each.arg(0) if inverse else each).removeprefix("k!"))
            found.add(-number if inverse else number)
        return found

    def true(self, numbers: Iterable[Number]) -> set[Number]:
        """Return which are true, after `check` has found values."""
        model = self._solver.model()
        return {each for each in numbers if z3.is_true(model.eval(_expression(each), model_completion=True))}


def _expression(number: Number) -> z3.BoolRef:
    return z3.Bool(number) if number > 0 else z3.Not(z3.Bool(-number))


class Encoded:
    """Literals of a graph as numbers of a solver; the variables of each are its own."""

    def __init__(self, clauses: Clauses, gates: Gates) -> None:
        self._clauses = clauses
        self._gates = gates
        self._made = {0: clauses.variable()}
        clauses.add(-self._made[0])

    def encode(self, roots: Iterable[Literal]) -> None:
        """Add the gates that the literals depend on."""
        for node in self._gates.cone(roots):
            if node in self._made:
                continue
            number = self._made[node] = self._clauses.variable()
            operands = self._gates.operands[node]
            if operands is not None:
                a, b = map(self.number, operands)
                self._clauses.add(-number, a)
                self._clauses.add(-number, b)
                self._clauses.add(number, -a, -b)

    def __contains__(self, literal: Literal) -> bool:
        return literal >> 1 in self._made

    def number(self, literal: Literal) -> Number:
        """Return the number of a literal that is encoded."""
        number = self._made[literal >> 1]
        return -number if literal & 1 else number
