"""Cells of a technology library in Liberty's format: area, loads and delay tables."""

import bisect
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLOCK_TRANSITION = 0.06
"""Transition time of clocks and of inputs of a block, in the library's unit of time."""


class LibertyError(Exception):
    """A library that cannot be read; the text is what to print."""


@dataclass
class LibertyGroup:
    """`name(arguments) { ... }`: attributes by name, and groups in their order."""

    name: str
    arguments: list[str]
    attributes: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    groups: list["LibertyGroup"] = field(default_factory=list)

    def of(self, name: str) -> Iterator["LibertyGroup"]:
        """Yield the groups of that name."""
        return (group for group in self.groups if group.name == name)


@dataclass(frozen=True)
class Table:
    """Values over an output's load and an input's transition, interpolated linearly, held at the edges.

    Each row belongs to a load, each column to a transition.
    """

    loads: Sequence[float]
    transitions: Sequence[float]
    values: Sequence[Sequence[float]]

    def at(self, load: float, transition: float) -> float:
        """Return the value at a load and a transition time, in the library's units."""
        row, down = _place(self.loads, load)
        column, right = _place(self.transitions, transition)
        first = self.values[row]
        value = first[column] + right * (first[column + 1] - first[column]) if right else first[column]
        if not down:
            return value
        second = self.values[row + 1]
        other = second[column] + right * (second[column + 1] - second[column]) if right else second[column]
        return value + down * (other - value)


def _place(index: Sequence[float], value: float) -> tuple[int, float]:
    """Return the place of the last entry not above `value`, and the share of the way to the next one."""
    if value <= index[0]:
        return 0, 0.0
    if value >= index[-1]:
        return len(index) - 1, 0.0
    place = bisect.bisect_right(index, value) - 1
    return place, (value - index[place]) / (index[place + 1] - index[place])


def constant(value: float) -> Table:
    """Return a table that has the same value everywhere."""
    return Table((0.0,), (0.0,), ((value,),))


@dataclass(frozen=True)
class Arc:
    """From an input pin to an output: for each edge of the output (0 rise, 1 fall) the delay, the transition
    time, and the edges of the input that lead to it."""

    pin: str
    delay: tuple[Table, Table]
    transition: tuple[Table, Table]
    causes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Cell:
    """A cell. `setup` is that of each data pin of a register, and empty for a gate.

    `outputs` has the arcs of each output pin, for a register those from its clock and asynchronous pins.
    """

    area: float
    loads: Mapping[str, float]
    outputs: Mapping[str, Sequence[Arc]]
    setup: Mapping[str, float]
    sequential: bool


Library = Mapping[str, Cell]


def generic_library() -> Library:
    """Return Yosys's own gates, each with the delay and the area 1; registers have neither delay nor set-up
    time.

    A path's delay is then its number of gates.
    """
    both = ((0, 1), (0, 1))

    def arcs(pins: str, delay: float) -> list[Arc]:
        tables = (constant(delay), constant(delay))
        flat = (constant(0.0), constant(0.0))
        return [Arc(pin, tables, flat, both) for pin in pins]

    gates = {
        "BUF": "A",
        "NOT": "A",
        **dict.fromkeys(("AND", "NAND", "OR", "NOR", "XOR", "XNOR", "ANDNOT", "ORNOT"), "AB"),
        **dict.fromkeys(("MUX", "NMUX"), "ABS"),
    }
    cells = {
        f"$_{name}_": Cell(1.0, dict.fromkeys(pins, 0.0), {"Y": arcs(pins, 1.0)}, {}, sequential=False)
        for name, pins in gates.items()
    }
    register = Cell(1.0, {"C": 0.0, "D": 0.0}, {"Q": arcs("C", 0.0)}, {"D": 0.0}, sequential=True)
    return {**cells, "$_DFF_P_": register, "$_DFF_N_": register}


def read_library(path: Path) -> Library:
    """Return the cells of a Liberty file. Three-state cells are left out.

    Raises:
        LibertyError: the file is not there, or is no such library.
    """
    if path.exists() and not path.is_file():  # a pipe may never end
        raise LibertyError(f"{path} is no file")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LibertyError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise LibertyError(f"{path} cannot be read: byte {error.start} is no UTF-8") from None
    try:
        library = _parse(text)
        templates = {each.arguments[0]: each for each in library.of("lu_table_template")}
        return {
            group.arguments[0]: cell
            for group in library.of("cell")
            if (cell := _cell(group, templates)) is not None
        }
    except (IndexError, KeyError, ValueError) as error:
        raise LibertyError(f"{path} is not a Liberty library that is understood: {error!r}") from None


_TOKEN = re.compile(r'/\*.*?\*/|"([^"]*)"|([{}();:,])|([^\s{}();:,"\\]+)|\\', re.DOTALL)


def _parse(text: str) -> LibertyGroup:
    """Return the library of a Liberty file as a tree."""
    tokens = [
        found[1] if found[1] is not None else found[2] or found[3]
        for found in _TOKEN.finditer(text)
        if found[1] is not None or found[2] or found[3]
    ]
    root = LibertyGroup("", [])
    open_groups = [root]
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token == "}":
            open_groups.pop()
            place += 1
        elif token in ";,":
            place += 1
        elif tokens[place + 1] == ":":
            end = place + 2
            while tokens[end] not in (";", "}"):
                end += 1
            open_groups[-1].attributes[token] = " ".join(tokens[place + 2 : end])
            place = end
        elif tokens[place + 1] == "(":
            end = tokens.index(")", place)
            arguments = [each for each in tokens[place + 2 : end] if each != ","]
            place = end + 1
            if place < len(tokens) and tokens[place] == "{":
                group = LibertyGroup(token, arguments)
                open_groups[-1].groups.append(group)
                open_groups.append(group)
                place += 1
            else:
                open_groups[-1].lists[token] = arguments
        else:
            raise ValueError(f"{token} is followed by {tokens[place + 1]}")
    libraries = list(root.of("library"))
    if len(libraries) != 1:
        raise ValueError(f"it has {len(libraries)} groups `library`, not one")
    return libraries[0]


def _cell(group: LibertyGroup, templates: Mapping[str, LibertyGroup]) -> Cell | None:
    pins = {pin.arguments[0]: pin for pin in group.of("pin")}
    if any("three_state" in pin.attributes for pin in pins.values()):
        return None
    outputs: dict[str, list[Arc]] = {}
    setup: dict[str, float] = {}
    for name, pin in pins.items():
        if pin.attributes["direction"] == "output":
            outputs[name] = [arc for timing in pin.of("timing") for arc in _arcs(timing, templates)]
            continue
        for timing in pin.of("timing"):
            if timing.attributes.get("timing_type", "").startswith("setup"):
                tables = [_table(each, templates) for each in timing.groups]
                setup[name] = max(table.at(CLOCK_TRANSITION, CLOCK_TRANSITION) for table in tables)
    return Cell(
        float(group.attributes["area"]),
        {
            name: float(pin.attributes.get("capacitance", 0))
            for name, pin in pins.items()
            if name not in outputs
        },
        outputs,
        setup,
        any(True for kind in ("ff", "latch") for _ in group.of(kind)),
    )


_CAUSES = {
    "positive_unate": ((0,), (1,)),
    "negative_unate": ((1,), (0,)),
}


def _arcs(timing: LibertyGroup, templates: Mapping[str, LibertyGroup]) -> Iterator[Arc]:
    tables = {each.name: _table(each, templates) for each in timing.groups if each.lists}
    names = ("cell_rise", "cell_fall"), ("rise_transition", "fall_transition")
    found = [[tables.get(name) for name in pair] for pair in names]
    # An asynchronous input may have one edge only.
    (rise, fall), (rise_transition, fall_transition) = found
    delay, transition = rise or fall, rise_transition or fall_transition
    if delay is None or transition is None:
        return
    causes: Any = _CAUSES.get(timing.attributes.get("timing_sense", ""), ((0, 1), (0, 1)))
    for pin in timing.attributes["related_pin"].split():
        yield Arc(
            pin,
            (rise or delay, fall or delay),
            (rise_transition or transition, fall_transition or transition),
            causes,
        )


_SCALAR = "scalar"
"""Template of a table of one value, which no library declares."""
_VARIABLES = ("variable_1", "variable_2", "variable_3")


def _numbers(text: str) -> list[float]:
    return [float(each) for each in re.split(r"[\s,]+", text.strip())]


def _index(group: LibertyGroup, template: LibertyGroup, name: str) -> list[float]:
    """Return an index of a table: its own, or else that of its template."""
    found = group.lists.get(name) or template.lists.get(name)
    if found is None:
        raise ValueError(f"neither {group.name} nor its template {group.arguments[0]} has {name}")
    index = _numbers(found[0])
    if sorted(set(index)) != index:
        raise ValueError(f"{name} of {group.name} by {group.arguments[0]} does not rise")
    return index


def _table(group: LibertyGroup, templates: Mapping[str, LibertyGroup]) -> Table:
    values = [value for row in group.lists["values"] for value in _numbers(row)]
    if group.arguments[0] == _SCALAR:
        (value,) = values
        return constant(value)
    template = templates.get(group.arguments[0])
    if template is None:
        raise ValueError(f"no template {group.arguments[0]} of {group.name}")
    variables = [name for name in _VARIABLES if name in template.attributes]
    if not 1 <= len(variables) <= 2:
        raise ValueError(f"template {group.arguments[0]} has {len(variables)} variables, not one or two")
    indices = [_index(group, template, name.replace("variable", "index")) for name in variables]
    if len(values) != math.prod(map(len, indices)):
        sizes = " x ".join(str(len(index)) for index in indices)
        raise ValueError(f"{group.name} by {group.arguments[0]} has {len(values)} values, not {sizes}")
    load_first = "capacitance" in template.attributes["variable_1"]
    if len(indices) == 1:
        column = [[value] for value in values]
        return Table(indices[0], (0.0,), column) if load_first else Table((0.0,), indices[0], [values])
    width = len(indices[1])
    rows = [values[place : place + width] for place in range(0, len(values), width)]
    # A constraint has two transition times, and either order will do where both are the same.
    if load_first or "capacitance" not in template.attributes["variable_2"]:
        return Table(indices[0], indices[1], rows)
    return Table(indices[1], indices[0], [list(column) for column in zip(*rows, strict=True)])
