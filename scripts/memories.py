"""The memories of the RTL that are not made of the memory cells, as Yosys finds them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "integration.md"
CELLS = ("tile_memory", "masked_memory")
"""Modules that stand for a technology's macros: one write and one read port, the read registered."""
LARGEST = 4096
"""Bits of the largest memory that needs no reason."""


class Memory(NamedTuple):
    """An array of a module, by the module's name without its parameters."""

    module: str
    name: str


def memories(dump: str) -> Iterator[tuple[Memory, int]]:
    """Yield each memory with its bits from what Yosys's `dump -m` says of cells of type $mem_v2."""
    module, name, width = "", "", 0
    for line in dump.splitlines():
        if found := re.match(r"module \\([^\s$]+)", line):
            module = found[1]
        elif found := re.match(r" +cell \$mem_v2 \\?(\S+)", line):
            name = found[1]
        elif found := re.match(r" +parameter \\WIDTH (\d+)", line):
            width = int(found[1])
        elif found := re.match(r" +parameter \\SIZE (\d+)", line):
            yield Memory(module, name), width * int(found[1])


def outside_of_cells(dump: str) -> set[Memory]:
    """Return the memories of more than LARGEST bits that are not in CELLS."""
    return {memory for memory, bits in memories(dump) if bits > LARGEST and memory.module not in CELLS}


def with_reason(page: str) -> set[Memory]:
    """Return the memories that the table in the text of PAGE names with the reason why they are no cell."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+_q)` \| \S.* \|$", page, re.MULTILINE)
    return {Memory(module, name) for module, name in rows}


def faults(dump: str, page: str) -> list[str]:
    """Return what the table lacks of the memories in `dump`; empty if nothing."""
    return [
        f"{memory.module}.{memory.name} has more than {LARGEST} bits: use {' or '.join(CELLS)}, or add it and"
        f" the reason to the table in {PAGE.relative_to(ROOT)}"
        for memory in sorted(outside_of_cells(dump) - with_reason(page))
    ]
