"""Longest paths of a netlist of library cells, by static analysis: no wires, ideal clocks.

A child is a box with the model that its own analysis gave. So a path that crosses blocks is found whole, and
each block is mapped once.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from scripts.synth.liberty import CLOCK_TRANSITION, Arc, Cell, Library

OUTPUT_LOADS = 4
"""What an output port drives: this many of the library's smallest inverters."""
BOX_TRANSITION = 0.18
"""Transition time of what comes out of a box, in the library's unit of time."""


@dataclass(frozen=True, order=True)
class Delay:
    """Time in the library's unit, and the number of gates in it."""

    time: float = 0.0
    gates: int = 0

    def __add__(self, other: "Delay") -> "Delay":
        return Delay(self.time + other.time, self.gates + other.gates)


PortBit = tuple[str, int]
"""A port's name and the number of a bit."""


@dataclass(frozen=True)
class LongestPath:
    """The longest path: from where, to where, how long."""

    delay: Delay
    start: str
    end: str


@dataclass
class TimingModel:
    """What a parent must know of a block.

    Attributes:
        longest: the longest path that ends in the block or at its outputs; None if it has none.
        arrival: from registers inside to an output.
        required: from an input to registers inside.
        through: from an input to an output, without a register.
        loads: of inputs.
        loop: a cell or a box on a combinational loop; empty if there is none.
        cut: whether a box in it has no model, so that paths through that one are missing.
    """

    longest: LongestPath | None = None
    arrival: dict[PortBit, Delay] = field(default_factory=dict)
    required: dict[PortBit, Delay] = field(default_factory=dict)
    through: dict[PortBit, dict[PortBit, Delay]] = field(default_factory=dict)
    loads: dict[PortBit, float] = field(default_factory=dict)
    loop: str = ""
    cut: bool = False


Netlist = Mapping[str, Any]
"""`ports` and `cells` of Yosys's JSON; of a cell, `type` and `connections`."""


@dataclass
class _Edges:
    """Arrival at a net: for rise and fall the time, the transition and the gates; and the path's start."""

    time: list[float]
    transition: list[float]
    gates: list[int]
    start: str

    def worst(self) -> Delay:
        edge = 0 if self.time[0] >= self.time[1] else 1
        return Delay(self.time[edge], self.gates[edge])


_NEVER = Delay(-1.0)
_Edged = list[Delay]
"""A delay for rise and one for fall; _NEVER for an edge that nothing leads to."""
_Step = tuple[int, int, int, Delay]
"""From which net (negative: a clock), from which of its edges, to which edge of the output, and how long."""
_BOTH = ((0, 0), (0, 1), (1, 0), (1, 1))


def _at(time: float, transition: float, gates: int, start: str) -> _Edges:
    return _Edges([time, time], [transition, transition], [gates, gates], start)


@dataclass(frozen=True)
class _Node:
    """A cell's output: the nets that it depends on by their pins."""

    name: str
    cell: Cell | None
    arcs: tuple[tuple[int, Arc | Delay], ...]


class Analysis:
    """A block's netlist with the models of its children, analysed once.

    Args:
        netlist: of library cells and boxes. Cells of Yosys that are in neither end paths and begin them:
            memories.
        library: cells by name.
        children: the model of each type of box that has one.
    """

    def __init__(self, netlist: Netlist, library: Library, children: Mapping[str, TimingModel]) -> None:
        self._library = library
        self._children = children
        self._ports = netlist["ports"]
        self._nodes: dict[int, _Node] = {}
        self._users: defaultdict[int, list[int]] = defaultdict(list)
        self._loads: defaultdict[int, float] = defaultdict(float)
        self._begins: dict[int, _Edges] = {}
        self._ends: defaultdict[int, list[tuple[str, Delay]]] = defaultdict(list)
        self._names: dict[int, str] = {}
        self._arrival: dict[int, _Edges] = {}
        self._steps: dict[int, list[_Step]] = {}
        self.model = TimingModel()
        self._read_ports()
        for name, cell in netlist["cells"].items():
            self._read_cell(name, cell)
        for net, node in self._nodes.items():
            for source, _ in node.arcs:
                self._users[source].append(net)
        self._order = list(self._sorted())
        self._forward()
        self._summarise()

    def _bits(self, direction: str) -> Iterator[tuple[PortBit, int]]:
        for name, port in self._ports.items():
            if port["direction"] == direction:
                for place, bit in enumerate(port["bits"]):
                    if isinstance(bit, int):
                        yield (name, place), bit

    def _read_ports(self) -> None:
        inverter = self._library.get("INVX1")
        load = OUTPUT_LOADS * inverter.loads["A"] if inverter else 0.0
        for (name, place), net in self._bits("input"):
            self._begins[net] = _at(0.0, CLOCK_TRANSITION, 0, f"input {name}[{place}]")
        for (name, place), net in self._bits("output"):
            self._loads[net] += load
            self._ends[net].append((f"output {name}[{place}]", Delay()))

    def _read_cell(self, name: str, instance: Mapping[str, Any]) -> None:
        kind, connections = instance["type"], instance["connections"]
        if kind in self._library:
            self._read_gate(name, self._library[kind], connections)
        elif kind in self._children:
            self._read_box(name, self._children[kind], connections)
        elif kind.startswith("box_"):
            self.model.cut = True
            # Its outputs come from nowhere: nets without a driver are never reached.
        else:
            self._read_memory(name, connections)

    def _read_gate(self, name: str, cell: Cell, connections: Mapping[str, list[int | str]]) -> None:
        for pin, load in cell.loads.items():
            (net,) = connections.get(pin, ["x"])
            if isinstance(net, int):
                self._loads[net] += load
                if pin in cell.setup:
                    self._ends[net].append((f"register {name}", Delay(cell.setup[pin])))
        for pin, arcs in cell.outputs.items():
            (net,) = connections.get(pin, ["x"])
            if not isinstance(net, int):
                continue
            if cell.sequential:
                # Set later: the delay depends on the load.
                self._nodes[net] = _Node(name, cell, tuple((-1, arc) for arc in arcs[:1]))
                continue
            sources = [(connections[arc.pin][0], arc) for arc in arcs]
            given = tuple((source, arc) for source, arc in sources if isinstance(source, int))
            self._nodes[net] = _Node(name, cell, given)

    def _read_box(self, name: str, model: TimingModel, connections: Mapping[str, list[int | str]]) -> None:
        def net(bit: PortBit) -> int | None:
            bits = connections.get(bit[0], [])
            found = bits[bit[1]] if bit[1] < len(bits) else "x"
            return found if isinstance(found, int) else None

        self.model.cut |= model.cut
        for bit, load in model.loads.items():
            if (found := net(bit)) is not None:
                self._loads[found] += load
        for bit, delay in model.required.items():
            if (found := net(bit)) is not None:
                self._ends[found].append((f"{name}.{bit[0]}[{bit[1]}]", delay))
        arcs: defaultdict[int, list[tuple[int, Arc | Delay]]] = defaultdict(list)
        for bit, delay in model.arrival.items():
            if (found := net(bit)) is not None:
                arcs[found].append((-1, delay))
        for bit, outputs in model.through.items():
            if (source := net(bit)) is None:
                continue
            for output, delay in outputs.items():
                if (found := net(output)) is not None:
                    arcs[found].append((source, delay))
        for found, given in arcs.items():
            self._nodes[found] = _Node(name, None, tuple(given))

    def _read_memory(self, name: str, connections: Mapping[str, list[int | str]]) -> None:
        for pin, bits in connections.items():
            for net in bits:
                if not isinstance(net, int):
                    continue
                if pin in ("RD_DATA", "Q"):
                    self._begins[net] = _at(0.0, BOX_TRANSITION, 0, f"memory {name}")
                elif pin != "RD_CLK" and pin != "WR_CLK":
                    self._ends[net].append((f"memory {name}", Delay()))

    def _sorted(self) -> Iterator[int]:
        """Yield the nets with a driver after all that they depend on."""
        waiting = {
            net: len({source for source, _ in node.arcs if source in self._nodes})
            for net, node in self._nodes.items()
        }
        ready = deque(net for net, count in waiting.items() if not count)
        while ready:
            net = ready.popleft()
            yield net
            for user in dict.fromkeys(self._users[net]):
                waiting[user] -= 1
                if not waiting[user]:
                    ready.append(user)
        stuck = {net for net, count in waiting.items() if count > 0}
        if stuck:
            self.model.loop = self._nodes[self._on_loop(stuck)].name

    def _on_loop(self, stuck: set[int]) -> int:
        """Return a net of a loop, of nets each of which depends on one of them."""
        net, seen = next(iter(stuck)), set[int]()
        while net not in seen:
            seen.add(net)
            net = next(source for source, _ in self._nodes[net].arcs if source in stuck)
        return net

    def _forward(self) -> None:
        self._arrival.update(self._begins)
        for net in self._order:
            node = self._nodes[net]
            load = self._loads[net]
            found = _Edges([-1.0, -1.0], [0.0, 0.0], [0, 0], "")
            steps: list[_Step] = []
            latest = -1.0
            for source, arc in node.arcs:
                if source < 0:
                    begin = f"{'register' if node.cell else 'box'} {node.name}"
                    given = _at(0.0, CLOCK_TRANSITION, 0, begin)
                elif source in self._arrival:
                    given = self._arrival[source]
                else:
                    continue
                if isinstance(arc, Delay):
                    slowest = given.worst() + arc
                    steps += [(source, cause, edge, arc) for cause, edge in _BOTH]
                    if slowest.time > max(found.time):
                        found = _at(slowest.time, BOX_TRANSITION, slowest.gates, given.start)
                    continue
                is_gate = int(source >= 0)  # a register is no gate of a path
                for edge in (0, 1):
                    for cause in arc.causes[edge]:
                        delay = arc.delay[edge].at(load, given.transition[cause])
                        steps.append((source, cause, edge, Delay(delay, is_gate)))
                        time = given.time[cause] + delay
                        if time > found.time[edge]:
                            found.time[edge] = time
                            found.transition[edge] = arc.transition[edge].at(load, given.transition[cause])
                            found.gates[edge] = given.gates[cause] + is_gate
                        if time > latest:
                            latest = time
                            found.start = given.start
            self._steps[net] = steps
            if max(found.time) >= 0:
                self._arrival[net] = found

    def _summarise(self) -> None:
        model = self.model
        for net, ends in self._ends.items():
            arrived = self._arrival.get(net)
            if arrived is None:
                continue
            for end, delay in ends:
                total = arrived.worst() + delay
                if model.longest is None or total > model.longest.delay:
                    model.longest = LongestPath(total, arrived.start, end)
        from_registers = self._from_registers()
        to_registers = self._to_registers()
        to_outputs = self._reaching_outputs()
        outputs = defaultdict(list)
        for bit, net in self._bits("output"):
            outputs[net].append(bit)
            if net in from_registers:
                model.arrival[bit] = from_registers[net]
        for bit, net in self._bits("input"):
            model.loads[bit] = self._loads[net]
            if net in to_registers:
                model.required[bit] = to_registers[net]
            if net in to_outputs:
                found = self._from_net(net, to_outputs)
                model.through[bit] = {
                    output: delay for end, delay in found.items() for output in outputs.get(end, ())
                }

    def _from_registers(self) -> dict[int, Delay]:
        """Return the longest delay from a register, a memory or a box to each net that has one."""
        inputs = {net for _, net in self._bits("input")}
        found = {net: [edges.worst()] * 2 for net, edges in self._begins.items() if net not in inputs}
        self._spread(found, self._order, clocked=True)
        return {net: max(edges) for net, edges in found.items()}

    def _spread(self, found: dict[int, _Edged], nets: Iterable[int], *, clocked: bool) -> None:
        """Add to `found` the longest delays to these nets, each behind all that it depends on; with
        `clocked` those from a clock too."""
        for net in nets:
            edges = [_NEVER, _NEVER]
            for source, cause, edge, delay in self._steps[net]:
                if source < 0:
                    begin = Delay() if clocked else _NEVER
                else:
                    begin = found[source][cause] if source in found else _NEVER
                if begin != _NEVER:
                    edges[edge] = max(edges[edge], begin + delay)
            if max(edges) != _NEVER:
                found[net] = edges

    def _to_registers(self) -> dict[int, Delay]:
        """Return the longest delay from each net that has one to a register, a memory or into a box."""
        found: dict[int, _Edged] = {}
        for net, ends in self._ends.items():
            given = [delay for end, delay in ends if not end.startswith("output ")]
            if given:
                found[net] = [max(given)] * 2
        for net in reversed(self._order):
            if net not in found:
                continue
            for source, cause, edge, delay in self._steps[net]:
                if source >= 0 and found[net][edge] != _NEVER:
                    edges = found.setdefault(source, [_NEVER, _NEVER])
                    edges[cause] = max(edges[cause], found[net][edge] + delay)
        return {net: max(edges) for net, edges in found.items()}

    def _reaching_outputs(self) -> set[int]:
        found = {net for _, net in self._bits("output")}
        for net in reversed(self._order):
            if net in found:
                found.update(source for source, *_ in self._steps[net] if source >= 0)
        return found

    def _from_net(self, start: int, within: set[int]) -> dict[int, Delay]:
        """Return the longest delay from a net to each net of `within` that it reaches.

        Nets on loops and behind them have none.
        """
        cone, open_nets = {start}, [start]
        while open_nets:
            for user in self._users[open_nets.pop()]:
                if user in within and user in self._place and user not in cone:
                    cone.add(user)
                    open_nets.append(user)
        found = {start: [Delay(), Delay()]}
        reached = cone - {start}
        self._spread(found, sorted(reached, key=self._place.__getitem__), clocked=False)
        return {net: max(edges) for net, edges in found.items()}

    @cached_property
    def _place(self) -> dict[int, int]:
        return {net: place for place, net in enumerate(self._order)}
