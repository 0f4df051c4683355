"""Small modules in Yosys's JSON, for the table of gates."""

from collections.abc import Mapping, Sequence
from typing import Any

Bits = Sequence[int | str]
"""Numbers of nets from 2 up, or the constants "0", "1", "x" and "z"."""


def module(inputs: Mapping[str, Bits], outputs: Mapping[str, Bits], *cells: dict[str, Any]) -> dict[str, Any]:
    """Return a module with these ports and cells."""
    ports = {name: {"direction": "input", "bits": bits} for name, bits in inputs.items()}
    ports |= {name: {"direction": "output", "bits": bits} for name, bits in outputs.items()}
    return {"ports": ports, "cells": {f"c{number}": each for number, each in enumerate(cells)}}


def cell(kind: str, parameters: Mapping[str, str] | None = None, **pins: Bits | int | str) -> dict[str, Any]:
    """Return a cell; a pin of one bit may be named by the bit itself."""
    connections = {pin: [bits] if isinstance(bits, int | str) else list(bits) for pin, bits in pins.items()}
    return {"type": kind, "parameters": dict(parameters or {}), "connections": connections}


def memory(
    size: int, width: int, reads: Sequence[tuple[Bits, Bits]], writes: Sequence[tuple[int, Bits, Bits, Bits]]
) -> dict[str, Any]:
    """Return a memory without registers.

    Args:
        size, width: words, and bits of each.
        reads: address and data of each port.
        writes: clock, address, data and enable of each port.
    """
    address_bits = len(reads[0][0])
    parameters = {
        "SIZE": f"{size:032b}",
        "WIDTH": f"{width:032b}",
        "ABITS": f"{address_bits:032b}",
        "OFFSET": f"{0:032b}",
        "RD_PORTS": f"{len(reads):032b}",
        "WR_PORTS": f"{len(writes):032b}",
        "RD_CLK_ENABLE": "0" * len(reads),
        "WR_CLK_ENABLE": "1" * len(writes),
        "WR_CLK_POLARITY": "1" * len(writes),
    }

    def joined(parts: Sequence[Bits]) -> list[int | str]:
        return [bit for part in parts for bit in part]

    return cell(
        "$mem_v2",
        parameters,
        RD_ADDR=joined([each[0] for each in reads]),
        RD_DATA=joined([each[1] for each in reads]),
        WR_CLK=[each[0] for each in writes],
        WR_ADDR=joined([each[1] for each in writes]),
        WR_DATA=joined([each[2] for each in writes]),
        WR_EN=joined([each[3] for each in writes]),
    )
