"""Questions about a pair of circuits: the original and the mutant."""

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence

from tb.mutation.equivalence.circuit import Circuit, Modules, Shared
from tb.mutation.equivalence.gates import FALSE, TRUE, Gates, Literal

RESETS = ("rst_ni", "rst_n")
"""Names of reset inputs; they are low in a reset."""

First = bool | None | str
"""Value before the first step: known, unknown, or an unknown with a name, which others may share."""


@dataclasses.dataclass
class TransitionSystem:
    """Registers and a bad thing that must never happen.

    Attributes:
        registers: for each register its variable, its next value, and what it is before the first step.
    """

    gates: Gates
    registers: Sequence[tuple[Literal, Literal, First]]
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
        unknowns: dict[str, Literal] = {}
        for variable, _, first in used:
            latch = gates.variable()
            latches.append(latch)
            if isinstance(first, bool):
                made[variable >> 1] = latch ^ first
            else:
                unknown = gates.variable()
                if first is not None:
                    unknown = unknowns.setdefault(first, unknown)
                made[variable >> 1] = gates.choose(begun, latch, unknown)
        for node in cone:
            operands = self.gates.operands[node]
            if operands is not None:
                a, b = operands
                made[node] = gates.both(made[a >> 1] ^ a & 1, made[b >> 1] ^ b & 1)
            elif node not in made:
                made[node] = gates.variable()

        def moved(literal: Literal) -> Literal:
            return made[literal >> 1] ^ literal & 1

        registers: list[tuple[Literal, Literal, First]] = [(begun, TRUE, False)] if used else []
        for latch, (_, following, first) in zip(latches, used, strict=True):
            registers.append((latch, moved(following) ^ (first is True), False))
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
        boxes: Collection[str] = (),
        late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.late = late
        self.gates = Gates()
        self._shared = Shared(self.gates)
        self._modules = (original, mutant)
        self._top = top
        self._inlined = inlined
        self._boxes = boxes
        self._reset_circuits: list[Circuit] | None = None
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

    def first_wires(self) -> Circuit:
        """Return the mutant, compared with the original at the first wires behind a change."""
        return self._circuit(self._modules[1], like=self.circuits[0])

    def kinds(self) -> dict[int, Hashable]:
        """Return the names of variables by node."""
        return {value >> 1: key for key, value in self._shared.variables.items()}

    def addresses(self) -> list[Literal]:
        """Return the bits of all addresses that memories are read at."""
        return self._shared.addresses()

    def _circuits(self, held: Mapping[str, Literal]) -> list[Circuit]:
        return [self._circuit(modules, held=held) for modules in self._modules]

    def _circuit(
        self, modules: Modules, *, held: Mapping[str, Literal] | None = None, like: Circuit | None = None
    ) -> Circuit:
        return Circuit(
            self._shared,
            modules,
            self._top,
            inlined=self._inlined,
            boxes=self._boxes,
            held=held,
            late=self.late,
            like=like,
        )

    def register(self, name: str) -> Literal:
        """Return the variable of a register's bit."""
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
        circuits = self._after_reset()
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
            registers.append((self.register(name), value, known))
        return TransitionSystem(self.gates, registers, self.any_step().bad)

    def with_own(self, own: Mapping[int, Literal], roots: Sequence[Literal]) -> Callable[[Literal], Literal]:
        """Return a function that puts other variables, by node, into what the roots depend on."""
        gates = self.gates
        keys = {
            value >> 1: list(_numbers(key))
            for key, value in self._shared.variables.items()
            if _undefined(key)
        }
        known: set[int] = set()
        wanted = list(roots)
        while True:
            cone = gates.cone(wanted)
            new = [node for node in cone if node in keys and node not in known]
            if not new:
                break
            known.update(new)
            wanted += [number for node in new for number in keys[node] if number >> 1 < node]
        made: dict[int, Literal] = {}
        for node in cone:
            operands = gates.operands[node]
            if node in own:
                made[node] = own[node]
            elif node in known:
                # Undefined: the operands may differ, and with them what is there.
                if any(number >> 1 in made for number in keys[node]):
                    made[node] = gates.variable()
            elif operands is not None:
                a, b = operands
                if a >> 1 in made or b >> 1 in made:
                    made[node] = gates.both(
                        made.get(a >> 1, a & ~1) ^ a & 1, made.get(b >> 1, b & ~1) ^ b & 1
                    )
        return lambda literal: made.get(literal >> 1, literal & ~1) ^ literal & 1

    def starts(self) -> dict[str, tuple[First, First]]:
        """Return what each register is after a reset, in both circuits; without a reset, at the beginning."""
        names = {**self.circuits[0].registers, **self.circuits[1].registers}
        if not self.resets:
            return {name: (name, name) for name in names}
        first, second = (circuit.registers for circuit in self._after_reset())

        def start(name: str, value: Literal | None) -> First:
            if value is None:
                return None
            if value < 2:
                return value == TRUE
            return name if first.get(name) == second.get(name) else None

        return {name: (start(name, first.get(name)), start(name, second.get(name))) for name in names}

    def reset_differs(self, apart: Collection[str]) -> Literal:
        """Return whether in a step of reset another register becomes different."""
        if not self.resets:
            return FALSE
        first, second = (circuit.registers for circuit in self._after_reset())
        return self.gates.any_of(
            self.gates.differ(value, second[name])
            for name, value in first.items()
            if name in second and name not in apart
        )

    def _after_reset(self) -> list[Circuit]:
        if self._reset_circuits is None:
            held = dict.fromkeys(self.resets, FALSE)
            held |= {f"tick {name}": TRUE for name in self._modules[0][self._top]["ports"]}
            self._reset_circuits = self._circuits(held)
        return self._reset_circuits

    def two_runs(self) -> TransitionSystem:
        """Bad: two runs from the same state differ at a point, after a clock in reset.

        Where there is no reset, from the first step on.
        """
        gates = self.gates
        other = Gates()
        begun = other.variable()
        registers: list[tuple[Literal, Literal, First]] = [(begun, TRUE, False)]
        first = {name: other.variable() for circuit in self.circuits for name in circuit.registers}
        kinds = self.kinds()
        addresses = self.addresses()
        inputs: dict[int, Literal] = {}
        points: list[dict[str, Literal]] = []

        def input_of(node: int) -> Literal:
            if node not in inputs:
                variable = other.variable()
                if self.is_reset(kinds.get(node)):
                    variable = other.both(begun, variable)
                elif is_tick(kinds.get(node)):
                    variable = other.either(begun ^ 1, variable)
                inputs[node] = variable
            return inputs[node]

        for circuit in self.circuits:
            own = {self.register(name) >> 1: (name, other.variable()) for name in circuit.registers}
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

    def is_reset(self, key: object) -> bool:
        """Return whether a variable's name is a reset's."""
        return any(key == f"input {name}[0]" for name in self.resets)


def _undefined(key: object) -> bool:
    return isinstance(key, tuple)


def _numbers(key: object) -> Iterator[int]:
    """Yield all numbers in the name of an undefined bit. Those of its operands are literals."""
    if isinstance(key, int):
        if key >= 0:
            yield key
    elif isinstance(key, tuple):
        for part in key:
            yield from _numbers(part)


def is_tick(key: object) -> bool:
    """Return whether a variable's name is that of a clock's edge."""
    return isinstance(key, str) and key.startswith("tick ")


def _differences(gates: Gates, points: Sequence[Mapping[str, Literal]]) -> Literal:
    """Return whether a value that both have differs, or one that only one has is not zero."""
    names = dict.fromkeys([*points[0], *points[1]])
    return gates.any_of(
        gates.differ(points[0].get(name, FALSE), points[1].get(name, FALSE)) for name in names
    )
