"""Find combinational paths from inputs to outputs in a flat netlist that Yosys wrote as JSON."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

SEQUENTIAL = ("$dff", "$adff", "$sdff", "$aldff", "$memwr", "$_DFF")
"""Prefixes of the types of cells at which a path ends."""
BITWISE = {"$buf", "$pos", "$not", "$and", "$or", "$xor", "$xnor", "$mux", "$pmux", "$bwmux"}
"""Cells in which a bit of a data input reaches only the output bit of the same position."""

Netlist = Mapping[str, Any]
"""A module of Yosys's JSON: `ports`, `cells`, `netnames`."""


def combinational_paths(netlist: Netlist) -> list[tuple[str, str]]:
    """Return the pairs (input port, output port) with a path without a register.

    A cell that is not known to separate its bits connects each input to each output. A reported path may
    therefore be impossible, but none is missed.
    """
    cells = list(netlist["cells"].values())
    users: defaultdict[int, list[tuple[int, str, int]]] = defaultdict(list)
    for number, cell in enumerate(cells):
        if _is_sequential(cell):
            continue
        for port, bits in cell["connections"].items():
            if cell["port_directions"][port] != "output":
                for place, bit in enumerate(bits):
                    if isinstance(bit, int):  # a string is a constant
                        users[bit].append((number, port, place))
    ports = netlist["ports"].items()
    outputs = {bit: name for name, port in ports if port["direction"] == "output" for bit in port["bits"]}
    found = []
    for name, port in ports:
        if port["direction"] != "input":
            continue
        open_bits = [bit for bit in port["bits"] if isinstance(bit, int)]
        seen = set(open_bits)
        reached = set()
        while open_bits:
            bit = open_bits.pop()
            if bit in outputs:
                reached.add(outputs[bit])
            for number, pin, place in users[bit]:
                for result in _driven(cells[number], pin, place):
                    if result not in seen:
                        seen.add(result)
                        open_bits.append(result)
        found += [(name, output) for output in sorted(reached)]
    return found


def _is_sequential(cell: Netlist) -> bool:
    kind = cell["type"]
    if kind.startswith("$memrd"):
        return int(cell["parameters"]["CLK_ENABLE"], 2) == 1
    return bool(kind.startswith(SEQUENTIAL))


def _driven(cell: Netlist, pin: str, place: int) -> Iterator[int]:
    """The output bits that one input bit of a cell reaches."""
    connections = cell["connections"]
    if cell["type"] in BITWISE and pin != "S":
        out = connections["Y"]
        first = place % len(out)
        # The highest bit of a narrow operand may be repeated above its place.
        narrow = len(connections[pin]) < len(out) and place + 1 == len(connections[pin])
        yield from (bit for bit in (out[first:] if narrow else [out[first]]) if isinstance(bit, int))
        return
    for port, bits in connections.items():
        if cell["port_directions"][port] == "output":
            yield from (bit for bit in bits if isinstance(bit, int))
