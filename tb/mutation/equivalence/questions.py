"""Questions about a pair of circuits: the original and the mutant."""

import dataclasses
import hashlib
import random
import re
from collections.abc import Callable, Mapping, Sequence

from tb.mutation.equivalence.circuit import Circuit, Modules, Shared
from tb.mutation.equivalence.gates import FALSE, TRUE, Gates, Literal, biased, value_of

RESETS = ("rst_ni", "rst_n")
"""Names of reset inputs; they are low in a reset."""
CASES = 128
"""Random runs at a time, each in one bit of a number."""
CLOCKS = 60
RESET_CHANCE = 0.03
RARE_CHANCE = 0.9
_RARE = re.compile(r"input (abort|clear|soft_reset)\w*\[")


@dataclasses.dataclass
class TransitionSystem:
    """Registers and a bad thing that must never happen.

    Attributes:
        registers: for each register its variable, its next value, and what it is before the first step:
            False, True, or None for either.
    """

    gates: Gates
    registers: Sequence[tuple[Literal, Literal, bool | None]]
    bad: Literal

    def lowered(self) -> "TransitionSystem":
        """Return the model with the registers that the bad thing depends on, all False before the first step.

        A register that may begin as either is one that counts from the second step on, with a variable in the
        first.
        """
        gates = Gates()
        cone = self.gates.cone(self._roots())
        inside = set(cone)
        used = [each for each in self.registers if each[0] >> 1 in inside]
        begun = gates.variable() if used else FALSE
        made = {0: FALSE}
        latches = []
        for variable, _, first in used:
            latch = gates.variable()
            latches.append(latch)
            made[variable >> 1] = (
                gates.choose(begun, latch, gates.variable()) if first is None else latch ^ bool(first)
            )
        for node in cone:
            operands = self.gates.operands[node]
            if operands is not None:
                a, b = operands
                made[node] = gates.both(made[a >> 1] ^ a & 1, made[b >> 1] ^ b & 1)
            elif node not in made:
                made[node] = gates.variable()

        def moved(literal: Literal) -> Literal:
            return made[literal >> 1] ^ literal & 1

        registers: list[tuple[Literal, Literal, bool | None]] = [(begun, TRUE, False)] if used else []
        for latch, (_, following, first) in zip(latches, used, strict=True):
            registers.append((latch, moved(following) ^ bool(first), False))
        return TransitionSystem(gates, registers, moved(self.bad))

    def _roots(self) -> list[Literal]:
        """Return the literals that decide whether the bad thing happens, now or later."""
        following = {variable >> 1: value for variable, value, _ in self.registers}
        found = [self.bad]
        done: set[int] = set()
        while True:
            new = [node for node in self.gates.cone(found) if node in following and node not in done]
            if not new:
                return found
            done.update(new)
            found += [following[node] for node in new]

    def aiger(self) -> bytes:
        """Return the model in AIGER's binary format. Every register must be False before the first step."""
        assert all(first is False for _, _, first in self.registers)
        cone = self.gates.cone([self.bad, *(value for _, value, _ in self.registers)])
        latches = [variable >> 1 for variable, _, _ in self.registers]
        inputs = [node for node in cone if self.gates.operands[node] is None and node not in set(latches)]
        name = {0: 0} | {node: 2 * place for place, node in enumerate([*inputs, *latches], 1)}
        ands = [node for node in cone if self.gates.operands[node] is not None]
        name |= {node: 2 * place for place, node in enumerate(ands, len(inputs) + len(latches) + 1)}

        def literal(each: Literal) -> int:
            return name[each >> 1] ^ each & 1

        sizes = (len(inputs) + len(latches) + len(ands), len(inputs), len(latches), 1, len(ands))
        lines = [f"aig {' '.join(map(str, sizes))}"]
        lines += [str(literal(value)) for _, value, _ in self.registers]
        out = bytearray("\n".join([*lines, str(literal(self.bad)), ""]).encode())
        for node in ands:
            operands = self.gates.operands[node]
            assert operands is not None
            high, low = sorted(map(literal, operands), reverse=True)
            for delta in (name[node] - high, high - low):
                while delta >= 0x80:
                    out.append(delta & 0x7F | 0x80)
                    delta >>= 7
                out.append(delta)
        return bytes(out)


class CircuitPair:
    """Two circuits with the same inputs, memories and boxes: the original and the mutant."""

    def __init__(
        self,
        original: Modules,
        mutant: Modules,
        top: str,
        *,
        inlined: bool,
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self._late = late
        self.gates = Gates()
        self._shared = Shared(self.gates)
        self._modules = (original, mutant)
        self._top = top
        self._inlined = inlined
        self.circuits = self._circuits({})
        self.resets = [name for name in RESETS if name in original[top]["ports"]]

    def digest(self) -> str:
        """Return a digest of both circuits."""
        facts = hashlib.sha256(repr(self.gates.operands).encode())
        for circuit in self.circuits:
            facts.update(repr(sorted(circuit.points.items())).encode())
            facts.update(repr(sorted(circuit.registers.items())).encode())
        facts.update(repr([(str(key), value) for key, value in self._shared.variables.items()]).encode())
        return facts.hexdigest()

    def _circuits(self, held: Mapping[str, Literal]) -> list[Circuit]:
        return [
            Circuit(self._shared, modules, self._top, inlined=self._inlined, held=held, late=self._late)
            for modules in self._modules
        ]

    def _register(self, name: str) -> Literal:
        return self._shared.named(f"register {name}")

    def _states(self, circuits: Sequence[Circuit]) -> Literal:
        """Return whether a register that both circuits have becomes different."""
        first, second = (circuit.registers for circuit in circuits)
        return self.gates.any_of(
            self.gates.differ(value, second[name]) for name, value in first.items() if name in second
        )

    def any_step(self) -> TransitionSystem:
        """Bad: in one step from any state whatever, a point or a register becomes different."""
        bad = self.gates.either(
            _differences(self.gates, [circuit.points for circuit in self.circuits]),
            self._states(self.circuits),
        )
        return TransitionSystem(self.gates, [], bad)

    def in_reset(self) -> tuple[TransitionSystem, dict[str, Literal]]:
        """Bad: in a step of reset from any state, a register becomes different.

        Also returns what registers of the original become then.
        """
        held = dict.fromkeys(self.resets, FALSE)
        held |= {f"tick {name}": TRUE for name in self._modules[0][self._top]["ports"]}
        circuits = self._circuits(held)
        return TransitionSystem(self.gates, [], self._states(circuits)), circuits[0].registers

    def reachable(self, after: Mapping[str, Literal]) -> TransitionSystem:
        """Bad: from reset, both in the same state, a point or a register becomes different.

        Args:
            after: what registers of the original are after a reset. What is no constant may be anything.
        """
        first, second = (circuit.registers for circuit in self.circuits)
        registers = []
        for name, value in {**second, **first}.items():
            begin = after.get(name) if name in first else None
            known = begin == TRUE if begin is not None and begin < 2 else None
            registers.append((self._register(name), value, known))
        return TransitionSystem(self.gates, registers, self.any_step().bad)

    def two_runs(self) -> TransitionSystem:
        """Bad: two runs from the same state differ at a point, after a clock in reset.

        Where there is no reset, from the first step on.
        """
        gates = self.gates
        other = Gates()
        begun = other.variable()
        registers: list[tuple[Literal, Literal, bool | None]] = [(begun, TRUE, False)]
        first = {name: other.variable() for circuit in self.circuits for name in circuit.registers}
        kinds = {value >> 1: key for key, value in self._shared.variables.items()}
        addresses = self._shared.addresses()
        inputs: dict[int, Literal] = {}
        points: list[dict[str, Literal]] = []

        def input_of(node: int) -> Literal:
            if node not in inputs:
                variable = other.variable()
                if self._is_reset(kinds.get(node)):
                    variable = other.both(begun, variable)
                elif _is_tick(kinds.get(node)):
                    variable = other.either(begun ^ 1, variable)
                inputs[node] = variable
            return inputs[node]

        for circuit in self.circuits:
            own = {self._register(name) >> 1: (name, other.variable()) for name in circuit.registers}
            made: dict[int, Literal] = {0: FALSE}
            for node in gates.cone([*circuit.points.values(), *circuit.registers.values(), *addresses]):
                operands = gates.operands[node]
                if operands is not None:
                    a, b = operands
                    made[node] = other.both(made[a >> 1] ^ a & 1, made[b >> 1] ^ b & 1)
                elif node in own:
                    name, latch = own[node]
                    made[node] = other.choose(begun, latch, first[name])
                elif isinstance(kinds.get(node), tuple):
                    # Undefined: the operands may differ between the runs, and with them what is there.
                    made[node] = other.variable()
                else:
                    made[node] = input_of(node)

            def moved(value: Literal, made: Mapping[int, Literal] = made) -> Literal:
                return made[value >> 1] ^ value & 1

            registers += [(latch, moved(circuit.registers[name]), False) for name, latch in own.values()]
            seen = {name: moved(value) for name, value in circuit.points.items()}
            # What a memory reads is the same only where the address is.
            points.append(seen | {f"address {place}": moved(bit) for place, bit in enumerate(addresses)})
        bad = _differences(other, points)
        return TransitionSystem(other, registers, other.both(begun, bad) if self.resets else bad)

    def seen_to_differ(self, rng: random.Random) -> bool:
        """Return whether random runs from the same state, through a reset, show a different point."""
        gates, mask = self.gates, (1 << CASES) - 1
        pairs = [
            tuple(circuit.points.get(name, FALSE) for circuit in self.circuits)
            for name in {**self.circuits[0].points, **self.circuits[1].points}
        ]
        pairs = [(one, two) for one, two in pairs if one != two]
        cones = [
            gates.cone([*circuit.points.values(), *circuit.registers.values()]) for circuit in self.circuits
        ]
        first = {
            name: rng.getrandbits(CASES) for circuit in self.circuits for name in sorted(circuit.registers)
        }
        nodes = {name: self._register(name) >> 1 for name in first}
        states = [{nodes[name]: first[name] for name in circuit.registers} for circuit in self.circuits]
        kinds = {value >> 1: key for key, value in self._shared.variables.items()}
        found = {node for cone in cones for node in cone if gates.operands[node] is None}
        inputs = sorted(found - set(nodes.values()))
        for clock in range(CLOCKS if pairs else 0):
            if self._late():
                break
            given = {node: self._stimulus(rng, kinds.get(node), clock) for node in inputs}
            values = [
                gates.values(cone, given | state, mask) for cone, state in zip(cones, states, strict=True)
            ]
            if (clock or not self.resets) and any(
                value_of(values[0], one, mask) != value_of(values[1], two, mask) for one, two in pairs
            ):
                return True
            states = [
                {nodes[name]: value_of(value, each, mask) for name, each in circuit.registers.items()}
                for circuit, value in zip(self.circuits, values, strict=True)
            ]
        return False

    def _is_reset(self, key: object) -> bool:
        return any(key == f"input {name}[0]" for name in self.resets)

    def _stimulus(self, rng: random.Random, key: object, clock: int) -> int:
        mask = (1 << CASES) - 1
        if self._is_reset(key):
            return mask ^ (rng.getrandbits(CASES) if rng.random() < RESET_CHANCE else 0) if clock else 0
        if _is_tick(key) and clock == 0:
            return mask
        if isinstance(key, str) and _RARE.match(key) and rng.random() < RARE_CHANCE:
            return 0
        return biased(rng, CASES)


def _is_tick(key: object) -> bool:
    return isinstance(key, str) and key.startswith("tick ")


def _differences(gates: Gates, points: Sequence[Mapping[str, Literal]]) -> Literal:
    """Return whether a value that both have differs, or one that only one has is not zero."""
    names = dict.fromkeys([*points[0], *points[1]])
    return gates.any_of(
        gates.differ(points[0].get(name, FALSE), points[1].get(name, FALSE)) for name in names
    )
