"""Small netlists of library cells."""

from collections.abc import Mapping, Sequence
from typing import Any


def gate(kind: str, out: int, *inputs: int) -> dict[str, Any]:
    """Return a gate of Yosys with the net of its output and those of its inputs."""
    pins = dict(zip("ABS", ([each] for each in inputs), strict=False))
    return {"type": f"$_{kind}_", "connections": {**pins, "Y": [out]}}


def register(d: int, q: int) -> dict[str, Any]:
    """Return a register with the nets of its data and of its output."""
    return {"type": "$_DFF_P_", "connections": {"C": [0], "D": [d], "Q": [q]}}


def netlist(inputs: Sequence[int], outputs: Sequence[int], cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return a netlist with the ports `in` and `out`."""
    ports = {
        "in": {"direction": "input", "bits": list(inputs)},
        "out": {"direction": "output", "bits": list(outputs)},
    }
    return {"ports": ports, "cells": cells}


def box(key: str, inputs: Sequence[int], outputs: Sequence[int]) -> dict[str, Any]:
    """Return an instance of the box of a child with those ports."""
    return {"type": f"box_{key}", "connections": {"in": list(inputs), "out": list(outputs)}}
