"""The question whether the original and the mutant stay one: one state, but for a few registers of each."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from tb.mutation.equivalence.gates import FALSE, Literal
from tb.mutation.equivalence.questions import CircuitPair, First, TransitionSystem

WIRE = "wire "
_REGISTER = "register "
"""Beginnings of the names of differences."""


def word_of_bit(name: str) -> str:
    """Return the register of which `name` is a bit."""
    return name.rpartition("[")[0]


@dataclasses.dataclass
class OwnBit:
    """A bit of a register of which each circuit has its own: variables, and values after a clock."""

    one: Literal
    two: Literal
    next_one: Literal
    next_two: Literal


@dataclasses.dataclass
class Lockstep:
    """The question.

    Attributes:
        model: its bad thing is that any of the differences is true, after a reset.
        words: for each register of the model the word that it is a bit of.
        differences: by name.
        reset: whether a step of reset makes a register different that must be the same.
        own: bits that both circuits have, but each its own, by name.
        shared: variable and value after a clock of each other bit, by name.
        starts: what registers are after a reset in the two circuits, by name.
    """

    model: TransitionSystem
    words: Sequence[str]
    differences: Mapping[str, Literal]
    reset: Literal
    own: Mapping[str, OwnBit]
    shared: Mapping[str, tuple[Literal, Literal]]
    starts: Mapping[str, tuple[First, First]]

    def parted(self, seen: Collection[Literal]) -> set[str] | None:
        """Return the registers that differ if these differences are true; None if anything else differs."""
        names = [name for name, value in self.differences.items() if value in seen]
        if not names or not all(name.startswith(_REGISTER) for name in names):
            return None
        return {name.removeprefix(_REGISTER) for name in names}


def lockstep(pair: CircuitPair, apart: Collection[str] = (), *, first_wires: bool = False) -> Lockstep:
    """Return the question for a pair whose circuits have their own registers `apart`.

    Bad: a point or any other register becomes different.

    Args:
        first_wires: compare the first wires behind the change as well, and what reads them no more.
    """
    gates = pair.gates
    first, second = pair.circuits
    if first_wires:
        second = pair.first_wires()
    names = sorted({**first.registers, **second.registers})
    apart = {name for name in apart if name in first.registers and name in second.registers}
    # With its first wires, the mutant is made of values of the original, which must not be moved.
    assert not (first_wires and apart)
    own = {pair.register(name) >> 1: gates.variable() for name in sorted(apart)}
    addresses = pair.addresses()
    moved = pair.with_own(own, [*second.points.values(), *second.registers.values(), *addresses])
    differences = {f"{WIRE}{name}": value for name, value in second.assumed.items()}
    for name in {**first.points, **second.points}:
        one, two = first.points.get(name, FALSE), second.points.get(name, FALSE)
        differences[f"point {name}"] = gates.differ(one, moved(two))
    # What a memory reads is the same only where the address is.
    for place, bit in enumerate(addresses):
        differences[f"address {place}"] = gates.differ(bit, moved(bit))
    starts = pair.starts()
    registers: list[tuple[Literal, Literal, First]] = []
    words: list[str] = []
    own_bits: dict[str, OwnBit] = {}
    shared: dict[str, tuple[Literal, Literal]] = {}
    for name in names:
        variable, word = pair.register(name), word_of_bit(name)
        next_one, next_two = first.registers.get(name), second.registers.get(name)
        if next_one is not None:
            registers.append((variable, next_one, starts[name][0]))
            words.append(word)
        if next_two is not None and next_one is None:
            registers.append((variable, next_two, starts[name][1]))
            words.append(word)
        elif next_two is not None and next_one is not None and name in apart:
            own_bits[name] = OwnBit(variable, own[variable >> 1], next_one, moved(next_two))
            registers.append((own_bits[name].two, moved(next_two), starts[name][1]))
            words.append(word)
        elif next_two is not None and next_one is not None:
            shared[name] = variable, next_one
            differences[f"{_REGISTER}{name}"] = gates.differ(next_one, moved(next_two))
    differences = {name: value for name, value in differences.items() if value != FALSE}
    model = TransitionSystem(gates, registers, gates.any_of(differences.values()))
    return Lockstep(model, words, differences, pair.reset_differs(apart), own_bits, shared, starts)
