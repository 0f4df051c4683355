"""Memories with many read ports become copies with a few each, as in an FPGA, whose RAMs have one or two."""

from collections.abc import Iterator, Mapping
from typing import Any

from scripts.synth.tools import SynthesisError

MOST = 8
"""Read ports of a copy. Yosys's `memory_libmap` ends with an exception on 16."""

# What a cell of type $mem_v2 has of each read port, by bits a port: 1, its write ports or its width.
_BITS = ("RD_CE_OVER_SRST", "RD_CLK_ENABLE", "RD_CLK_POLARITY", "RD_WIDE_CONTINUATION")
_MASKS = ("RD_COLLISION_X_MASK", "RD_TRANSPARENCY_MASK")
_WORDS = ("RD_ARST_VALUE", "RD_INIT_VALUE", "RD_SRST_VALUE")
_SIGNALS = ("RD_ADDR", "RD_ARST", "RD_CLK", "RD_DATA", "RD_EN", "RD_SRST")

Cell = Mapping[str, Any]
"""A cell of Yosys's JSON: `type`, `parameters`, `connections`."""


def with_copies(design: Mapping[str, Any], most: int = MOST) -> Mapping[str, Any]:
    """Return a design with copies in the place of memories that have more than `most` read ports.

    All copies have all write ports, so they hold the same words. A design without such memories is returned
    itself.

    Args:
        design: of Yosys's JSON.
        most: read ports of a copy, at least 1.

    Raises:
        SynthesisError: a memory to be copied has wide read ports.
    """
    modules = {
        name: {**module, "cells": dict(_cells(module["cells"], most))}
        for name, module in design["modules"].items()
    }
    same = all(module["cells"] == design["modules"][name]["cells"] for name, module in modules.items())
    return design if same else {**design, "modules": modules}


def _cells(cells: Mapping[str, Cell], most: int) -> Iterator[tuple[str, Cell]]:
    for name, cell in cells.items():
        ports = int(cell["parameters"]["RD_PORTS"], 2) if cell["type"] == "$mem_v2" else 0
        if ports <= most:
            yield name, cell
        else:
            yield from ((f"{name}_copy{i}", copy) for i, copy in enumerate(_copies(cell, ports, most)))


def _copies(cell: Cell, ports: int, most: int) -> Iterator[Cell]:
    parameters, connections = cell["parameters"], cell["connections"]
    if "1" in parameters["RD_WIDE_CONTINUATION"]:
        raise SynthesisError(f"{parameters['MEMID']}: wide read ports are not copied")
    for number, first in enumerate(range(0, ports, most)):
        last = min(first + most, ports)
        yield {
            **cell,
            "parameters": {
                **parameters,
                # The last digit is the first port's.
                **{
                    name: digits[len(digits) - last * size : len(digits) - first * size]
                    for name in (*_BITS, *_MASKS, *_WORDS)
                    for digits, size in [(parameters[name], len(parameters[name]) // ports)]
                },
                "RD_PORTS": f"{last - first:032b}",
                "MEMID": f"{parameters['MEMID']}_copy{number}",
            },
            "connections": {
                **connections,
                **{
                    name: bits[first * size : last * size]
                    for name in _SIGNALS
                    for bits, size in [(connections[name], len(connections[name]) // ports)]
                },
            },
        }
