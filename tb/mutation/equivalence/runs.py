"""Random runs of a pair of circuits from the same state, through a reset."""

import random
import re
from collections.abc import Iterator, Mapping

from tb.mutation.equivalence.gates import FALSE, biased, value_of
from tb.mutation.equivalence.questions import CircuitPair, is_tick

CASES = 128
"""Random runs at a time, each in one bit of a number."""
MASK = (1 << CASES) - 1
CLOCKS = 60
FEWEST_CLOCKS = 6
MOST_VALUES = 4_000_000
"""Gates that are evaluated at most, clock by clock, unless these are fewer clocks."""
RESET_CHANCE = 0.03
RARE_CHANCE = 0.9
_RARE = re.compile(r"input (abort|clear|soft_reset)\w*\[")

State = Mapping[str, int]
"""Registers by name; each bit of a value is a case."""


class RandomRuns:
    """Random runs.

    Attributes:
        differ: whether a point has been seen to differ. The runs end there.
        apart: registers that have been seen to differ.
    """

    def __init__(self, pair: CircuitPair, rng: random.Random) -> None:
        self._pair = pair
        self._rng = rng
        self._kinds = pair.kinds()
        self.differ = False
        self.apart: set[str] = set()

    def play(self) -> None:
        """Run to the end."""
        for _ in self.states():
            pass

    def states(self) -> Iterator[tuple[State, State]]:
        """Yield the states of both circuits after each clock, the first of which is in reset."""
        pair, rng, gates = self._pair, self._rng, self._pair.gates
        names = dict.fromkeys(name for circuit in pair.circuits for name in circuit.points)
        points = [tuple(circuit.points.get(name, FALSE) for circuit in pair.circuits) for name in names]
        points = [(one, two) for one, two in points if one != two]
        cones = [
            gates.cone([*circuit.points.values(), *circuit.registers.values()]) for circuit in pair.circuits
        ]
        registers = sorted({name for circuit in pair.circuits for name in circuit.registers})
        nodes = {name: pair.register(name) >> 1 for name in registers}
        first = {name: rng.getrandbits(CASES) for name in registers}
        states: list[dict[str, int]] = [
            {name: first[name] for name in circuit.registers} for circuit in pair.circuits
        ]
        found = {node for cone in cones for node in cone if gates.operands[node] is None}
        inputs = sorted(found - set(nodes.values()))
        clocks = min(CLOCKS, max(FEWEST_CLOCKS, MOST_VALUES // (1 + sum(map(len, cones)))))
        for clock in range(clocks):
            if pair.late():
                return
            given = {node: self._stimulus(self._kinds.get(node), clock) for node in inputs}
            values = [
                gates.values(cone, given | {nodes[name]: value for name, value in state.items()}, MASK)
                for cone, state in zip(cones, states, strict=True)
            ]
            if (clock or not pair.resets) and any(
                value_of(values[0], one, MASK) != value_of(values[1], two, MASK) for one, two in points
            ):
                self.differ = True
                return
            states = [
                {name: value_of(value, each, MASK) for name, each in circuit.registers.items()}
                for circuit, value in zip(pair.circuits, values, strict=True)
            ]
            self.apart |= {name for name in registers if states[0].get(name) != states[1].get(name)}
            yield states[0], states[1]

    def _stimulus(self, key: object, clock: int) -> int:
        rng = self._rng
        if self._pair.is_reset(key):
            return MASK ^ (rng.getrandbits(CASES) if rng.random() < RESET_CHANCE else 0) if clock else 0
        if is_tick(key) and clock == 0:
            return MASK
        if isinstance(key, str) and _RARE.match(key) and rng.random() < RARE_CHANCE:
            return 0
        return biased(rng, CASES)
