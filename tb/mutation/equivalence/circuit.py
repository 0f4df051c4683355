"""A hierarchy of Yosys's modules as gates: what its registers and outputs become within one clock.

A step is an edge of the clock. A module has no state but its registers: a memory is taken out of it, so that
what it reads is any value, the same for the same memory and address in both circuits. Instances below can be
taken out likewise ("boxes"): what they give is any value, the same in both circuits. What goes into a memory
or a box is compared. Where it is always equal, so is what comes out.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import Any

from tb.mutation.equivalence.cells import (
    BITWISE,
    UnknownCellError,
    bit_of,
    extended,
    is_signed,
    number,
    word_of,
)
from tb.mutation.equivalence.gates import FALSE, TRUE, Gates, Literal
from tb.results import UnjudgedError

Modules = Mapping[str, Mapping[str, Any]]
"""Modules of Yosys's JSON by name."""
Bit = int | str

CLOCK_GATE = "clock_gate"
MOST_GATES = 1_000_000
_CLOCK = re.compile(r"clk")
_IGNORED = frozenset(("$scopeinfo",))


class CircuitError(UnjudgedError):
    """A circuit of which no gates can be made."""


def base_of(name: str) -> str:
    """Return the name of a module that Yosys named after its instance."""
    return name.partition("$")[0]


class Shared:
    """Variables that stand for the same thing in two circuits, by name, and what their memories read."""

    def __init__(self, gates: Gates) -> None:
        self.gates = gates
        self.variables: dict[Hashable, Literal] = {}
        self._reads: dict[str, list[tuple[tuple[Literal, ...], list[Literal]]]] = {}

    def addresses(self) -> list[Literal]:
        """Return the bits of all addresses that were read."""
        return [bit for reads in self._reads.values() for address, _ in reads for bit in address]

    def named(self, name: Hashable) -> Literal:
        """Return the variable of this name."""
        if name not in self.variables:
            self.variables[name] = self.gates.variable()
        return self.variables[name]

    def read(self, memory: str, address: tuple[Literal, ...], width: int) -> list[Literal]:
        """Return what a memory has at an address: what an earlier read found if that was of the same."""
        reads = self._reads.setdefault(memory, [])
        for known, data in reads:
            if known == address:
                return data
        found = [self.gates.variable() for _ in range(width)]
        for known, data in reads:
            if len(data) == width:
                size = max(len(known), len(address))
                same = self.gates.equal(extended(known, size, False), extended(address, size, False))
                found = self.gates.choose_word(same, data, found)
        reads.append((address, found))
        return found


@dataclasses.dataclass
class _Scope:
    """An instance: its path with a dot behind it, its module, and how it is connected."""

    path: str
    name: str
    module: Mapping[str, Any]
    drivers: dict[int, tuple[str, str, int]]
    inputs: dict[int, tuple[str, int]]
    outer: "_Scope | None" = None
    connections: Mapping[str, list[Bit]] = dataclasses.field(default_factory=dict)
    wires: dict[int, tuple[str, int]] | None = None


class Circuit:
    """The module `top` with what is below it, or with boxes in its place unless `inlined`.

    Attributes:
        registers: next value of each bit of a register by its name.
        points: what can be seen from outside by name: outputs, and inputs of boxes, memories and clock gates.
        assumed: with `like`, where a named wire differs from that of the other circuit, by name. What reads
            the wire is made of the other's value, so the circuits are compared at the first wires behind a
            change. Their comparison says something only about steps in which none of these holds.

    Args:
        inlined: with what is below, but for the modules `boxes`.
        held: values of inputs, by name.
        like: the circuit of the same module in another design.
        late: says whether there is no time left.

    Raises CircuitError, UnknownCellError: no gates can be made of it, or not in time.
    """

    def __init__(
        self,
        shared: Shared,
        modules: Modules,
        top: str,
        *,
        inlined: bool,
        boxes: Collection[str] = (),
        held: Mapping[str, Literal] | None = None,
        late: Callable[[], bool] = lambda: False,
        like: "Circuit | None" = None,
    ) -> None:
        self._shared = shared
        self._gates = shared.gates
        self._modules = modules
        self._inlined = inlined
        self._boxes = boxes
        self._like = like
        self._held = held or {}
        self._late = late
        self._values: dict[tuple[str, int], Literal] = {}
        self._words: dict[tuple[str, str], list[Literal]] = {}
        self._open: set[tuple[str, object]] = set()
        self._scopes: dict[str, _Scope] = {}
        self.assumed: dict[str, Literal] = {}
        self.unknowns = 0
        self.registers: dict[str, Literal] = {}
        self.points: dict[str, Literal] = {}
        scope = self._scopes[""] = self._scope("", top, None, {})
        clocks = [name for name, port in self._ports(scope) if _is_clock(name, port)]
        self._only_clock = clocks[0] if len(clocks) == 1 else ""
        for name, port in self._ports(scope):
            if port["direction"] == "output":
                for place, bit in enumerate(port["bits"]):
                    self.points[f"{name}[{place}]"] = self._bit(scope, bit)
        self._look_at(scope)

    # ---- structure ----

    def _scope(
        self, path: str, name: str, outer: "_Scope | None", connections: Mapping[str, list[Bit]]
    ) -> _Scope:
        module = self._modules.get(name)
        if module is None:
            raise CircuitError(f"no module {name}")
        drivers: dict[int, tuple[str, str, int]] = {}
        inputs: dict[int, tuple[str, int]] = {}
        for cell_name, cell in module["cells"].items():
            for port, bits in cell["connections"].items():
                if cell["port_directions"].get(port) != "input":
                    for place, bit in enumerate(bits):
                        if isinstance(bit, int):
                            if bit in drivers:
                                raise CircuitError(f"{path}{cell_name}: two drivers")
                            drivers[bit] = (cell_name, port, place)
        for port_name, port in module["ports"].items():
            if port["direction"] == "input":
                for place, bit in enumerate(port["bits"]):
                    inputs[bit] = (port_name, place)
            elif port["direction"] != "output":
                raise CircuitError(f"{path}{port_name}: neither input nor output")
        return _Scope(path, name, module, drivers, inputs, outer, connections)

    def _ports(self, scope: _Scope) -> Iterator[tuple[str, Mapping[str, Any]]]:
        yield from scope.module["ports"].items()

    def _child(self, scope: _Scope, name: str, cell: Mapping[str, Any]) -> _Scope:
        path = f"{scope.path}{name}."
        if path not in self._scopes:
            self._scopes[path] = self._scope(path, cell["type"], scope, cell["connections"])
        return self._scopes[path]

    def _opens(self, kind: str) -> bool:
        """Return whether an instance of a module is part of the circuit, not a box."""
        return self._inlined and kind not in self._boxes

    def _look_at(self, scope: _Scope) -> None:
        """Find the registers and points of an instance."""
        # Numbers in names depend on what else was read; nothing that has them must change the order.
        for name, cell in sorted(scope.module["cells"].items(), key=_order):
            kind, connections = cell["type"], cell["connections"]
            path = f"{scope.path}{name}"
            if kind in _IGNORED:
                continue
            if kind == "$dff":
                if not number(cell["parameters"]["CLK_POLARITY"]) & 1:
                    raise CircuitError(f"{path}: a falling edge")
                tick = self._tick(scope, connections["CLK"][0])
                for place, bit in enumerate(connections["D"]):
                    register = self._register(path, place)
                    value = self._bit(scope, bit)
                    self.registers[f"{path}[{place}]"] = self._gates.choose(tick, value, register)
            elif kind == "$memwr_v2":
                self._write(scope, cell)
            elif kind.startswith("$"):
                continue
            elif base_of(kind) == CLOCK_GATE:
                enable = self._gates.either(
                    self._bit(scope, connections["enable_i"][0]),
                    self._bit(scope, connections["test_enable_i"][0]),
                )
                self.points[f"{path}.enable"] = enable
            elif self._opens(kind):
                self._look_at(self._child(scope, name, cell))
            else:
                for port, bits in connections.items():
                    if cell["port_directions"][port] == "input":
                        for place, bit in enumerate(bits):
                            self.points[f"{path}.{port}[{place}]"] = self._bit(scope, bit)

    def _write(self, scope: _Scope, cell: Mapping[str, Any]) -> None:
        parameters, connections = cell["parameters"], cell["connections"]
        if not number(parameters["CLK_ENABLE"]) & 1 or not number(parameters["CLK_POLARITY"]) & 1:
            raise CircuitError(f"{scope.path}{parameters['MEMID']}: a write without a clock")
        tick = self._tick(scope, connections["CLK"][0])
        memory = f"{scope.path}{parameters['MEMID']}"
        # Which of two writes to one word wins.
        port = f"{memory}.{number(parameters['PORTID'])}.{parameters['PRIORITY_MASK']}"
        enables = [self._gates.both(tick, self._bit(scope, bit)) for bit in connections["EN"]]
        written = self._gates.any_of(enables)
        for place, enable in enumerate(enables):
            data = self._bit(scope, connections["DATA"][place])
            self.points[f"{port}.enable[{place}]"] = enable
            self.points[f"{port}.data[{place}]"] = self._gates.both(enable, data)
        for place, bit in enumerate(connections["ADDR"]):
            self.points[f"{port}.addr[{place}]"] = self._gates.both(written, self._bit(scope, bit))

    # ---- values ----

    def _unknown(self) -> Literal:
        """Return a variable for a bit that may have any value, in this circuit alone."""
        self.unknowns += 1
        return self._gates.variable()

    def _undefined(self, *where: Hashable) -> Literal:
        """Return the variable for a bit that a cell leaves undefined.

        It is the same in the other circuit only for a cell with the same defined operands in the same
        instance.
        """
        self.unknowns += 1
        return self._shared.named(("undefined", *where))

    def _register(self, path: str, place: int) -> Literal:
        return self._shared.named(f"register {path}[{place}]")

    def _tick(self, scope: _Scope, bit: Bit) -> Literal:
        """Return whether a clock has an edge in a step."""
        if not isinstance(bit, int):
            raise CircuitError(f"{scope.path}: a constant clock")
        if bit in scope.inputs:
            port, place = scope.inputs[bit]
            if scope.outer is None:
                if port == self._only_clock:
                    return TRUE
                return self._held.get(f"tick {port}", self._shared.named(f"tick {port}"))
            return self._tick(scope.outer, scope.connections[port][place])
        if bit in scope.drivers:
            name, port, place = scope.drivers[bit]
            cell = scope.module["cells"][name]
            connections = cell["connections"]
            if cell["type"] == "$buf":
                return self._tick(scope, connections["A"][place])
            if base_of(cell["type"]) == CLOCK_GATE:
                enable = self._gates.either(
                    self._bit(scope, connections["enable_i"][0]),
                    self._bit(scope, connections["test_enable_i"][0]),
                )
                return self._gates.both(self._tick(scope, connections["clk_i"][0]), enable)
        raise CircuitError(f"{scope.path}: a clock that is neither an input nor of a gate")

    def _bit(self, scope: _Scope, bit: Bit) -> Literal:
        if not isinstance(bit, int):
            return {"0": FALSE, "1": TRUE}[bit] if bit in "01" else self._unknown()
        key = (scope.path, bit)
        if key not in self._values:
            if key in self._open:
                raise CircuitError(f"{scope.path}: a combinational loop")
            self._open.add(key)
            value = self._driven(scope, bit)
            self._values[key] = value if self._like is None else self._compared(scope, bit, value, self._like)
            self._open.discard(key)
        return self._values[key]

    def _compared(self, scope: _Scope, bit: int, value: Literal, like: "Circuit") -> Literal:
        """Return the value that a named wire's bit has in the other circuit; of another bit its own."""
        other = like._scopes.get(scope.path)
        if other is None or other.module is scope.module or other.name != scope.name:
            return value
        if scope.wires is None:
            scope.wires = {}
            for name, wire in scope.module["netnames"].items():
                if not wire["hide_name"] and name in other.module["netnames"]:
                    for place, each in enumerate(wire["bits"]):
                        scope.wires.setdefault(each, (name, place))
        name, place = scope.wires.get(bit, ("", 0))
        bits = other.module["netnames"][name]["bits"] if name else []
        if place >= len(bits):
            return value
        seen = like._bit(other, bits[place])
        if seen != value:
            self.assumed[f"{scope.path}{name}[{place}]"] = self._gates.differ(seen, value)
        return seen

    def _driven(self, scope: _Scope, bit: int) -> Literal:
        if len(self._gates.operands) > MOST_GATES:
            raise CircuitError(f"more than {MOST_GATES} gates")
        if self._late():
            raise CircuitError("no time is left")
        if bit in scope.inputs:
            port, place = scope.inputs[bit]
            if scope.outer is not None:
                bits = scope.connections.get(port)
                return self._bit(scope.outer, bits[place]) if bits else self._unknown()
            if port in self._held:
                return self._held[port]
            return self._shared.named(f"input {port}[{place}]")
        if bit not in scope.drivers:
            return self._unknown()
        name, port, place = scope.drivers[bit]
        cell = scope.module["cells"][name]
        kind = cell["type"]
        path = f"{scope.path}{name}"
        if kind == "$dff":
            return self._register(path, place)
        if kind in BITWISE:
            return self._bitwise(scope, cell, place)
        if kind == "$memrd_v2":
            return self._read(scope, path, cell)[place]
        if kind.startswith("$"):
            return self._word(scope, path, cell)[place]
        if base_of(kind) == CLOCK_GATE:
            return self._tick(scope, bit)
        if self._opens(kind):
            child = self._child(scope, name, cell)
            return self._bit(child, child.module["ports"][port]["bits"][place])
        return self._shared.named(f"box {path}.{port}[{place}]")

    def _bitwise(self, scope: _Scope, cell: Mapping[str, Any], place: int) -> Literal:
        kind, connections, parameters = cell["type"], cell["connections"], cell["parameters"]
        operands: dict[str, Literal] = {}
        binary = kind in ("$and", "$or", "$xor", "$xnor")
        undefined = []
        for port in ("A", "B", "S"):
            if port not in connections:
                continue
            bits = connections[port]
            names = ("A", "B") if binary else (port,)
            at = 0 if port == "S" and kind != "$bwmux" else place
            last = bits[-1] if is_signed(parameters, *names) else "0"
            bit = bits[at] if at < len(bits) else last
            if bit == "x":
                undefined.append(port)
            else:
                operands[port] = self._bit(scope, bit)
        known = tuple(sorted(operands.items()))
        for port in undefined:
            operands[port] = self._undefined(scope.path, kind, place, port, known)
        return bit_of(self._gates, kind, operands)

    def _word(self, scope: _Scope, path: str, cell: Mapping[str, Any]) -> list[Literal]:
        key = (path, "Y")
        if key not in self._words:
            if key in self._open:
                raise CircuitError(f"{path}: a combinational loop")
            self._open.add(key)
            outputs = [port for port, way in cell["port_directions"].items() if way != "input"]
            if outputs != ["Y"]:
                raise UnknownCellError(f"{path}: no gates for a cell {cell['type']}")
            operands, known = self._operands(scope, cell)
            pads = itertools.count()

            def unknown() -> Literal:
                return self._undefined(scope.path, cell["type"], known, next(pads))

            width = len(cell["connections"]["Y"])
            found = word_of(self._gates, cell["type"], cell["parameters"], operands, width, unknown)
            self._words[key] = extended(found, width, False)
            self._open.discard(key)
        return self._words[key]

    def _operands(self, scope: _Scope, cell: Mapping[str, Any]) -> tuple[dict[str, list[Literal]], Hashable]:
        """Return the inputs of a cell, and its defined inputs as a name for it."""
        inputs = {port: bits for port, bits in cell["connections"].items() if port != "Y"}
        found = {
            port: [-1 if bit == "x" else self._bit(scope, bit) for bit in bits]
            for port, bits in inputs.items()
        }
        known = tuple((port, tuple(bits)) for port, bits in sorted(found.items()))
        for port, bits in found.items():
            for place, bit in enumerate(bits):
                if bit < 0:
                    bits[place] = self._undefined(scope.path, cell["type"], known, port, place)
        return found, known

    def _read(self, scope: _Scope, path: str, cell: Mapping[str, Any]) -> list[Literal]:
        key = (path, "DATA")
        if key not in self._words:
            parameters, connections = cell["parameters"], cell["connections"]
            if number(parameters["CLK_ENABLE"]) & 1:
                raise CircuitError(f"{path}: a read with a clock")
            address = [self._bit(scope, bit) for bit in connections["ADDR"]]
            while address and address[-1] == FALSE:
                address.pop()
            memory = f"{scope.path}{parameters['MEMID']}"
            self._words[key] = self._shared.read(memory, tuple(address), len(connections["DATA"]))
        return self._words[key]


def _order(named: tuple[str, Mapping[str, Any]]) -> tuple[str, int, str]:
    name, cell = named
    if cell["type"] == "$memwr_v2":
        parameters = cell["parameters"]
        return "$memwr_v2", number(parameters["PORTID"]), parameters["MEMID"]
    return cell["type"] if cell["type"].startswith("$") else "", 0, name


def _is_clock(name: str, port: Mapping[str, Any]) -> bool:
    return port["direction"] == "input" and _CLOCK.search(name) is not None
