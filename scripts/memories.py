"""The memories of the RTL that are not in the memory cell, as Yosys finds them."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tb.netlist.mapping import LARGEST
from tb.repository import ROOT

PAGE = ROOT / "docs" / "integration.md"
CELLS = ("ram_1r1w",)
"""Modules of rtl/cells that stand for a technology's macros, whose read is registered."""
SELECTED = "t:$mem_v2 t:$*dff*"
"""The cells to dump. A packed array, unlike an unpacked one, is registers to Yosys."""


class Memory(NamedTuple):
    """An array of a module, by the module's name without its parameters."""

    module: str
    name: str


def memories(dump: str) -> Iterator[tuple[Memory, int]]:
    """Yield each memory with its bits from what Yosys's `dump -m` says of the cells SELECTED; registers of
    one name are one memory."""
    module, width = "", 0
    memory = ""
    registers: Counter[str] = Counter()
    for line in (*dump.splitlines(), "module \\end"):
        if found := re.match(r"module \\(\S+)", line):
            for name, bits in registers.items():
                yield Memory(module, name), bits
            registers.clear()
            module = found[1].split("$")[0]
        elif found := re.match(r" +cell (\S+) \\?(\S+)", line):
            memory = found[2] if found[1] == "$mem_v2" else ""
        elif found := re.match(r" +parameter \\WIDTH (\d+)", line):
            width = int(found[1])
        elif memory and (found := re.match(r" +parameter \\SIZE (\d+)", line)):
            yield Memory(module, memory), width * int(found[1])
        elif found := re.match(r" +connect \\Q \\(\S+)", line):
            registers[found[1]] += width


def large(dump: str) -> set[Memory]:
    """Return the memories of more than LARGEST bits that are not in CELLS."""
    return {memory for memory, bits in memories(dump) if bits > LARGEST and memory.module not in CELLS}


def with_reason(page: str) -> set[Memory]:
    """Return the memories that the table in the text of PAGE names with the reason why they are no cell."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+_q)` \| \S.* \|$", page, re.MULTILINE)
    return {Memory(module, name) for module, name in rows}


def faults(dumps: Iterable[str], page: str) -> list[str]:
    """Return where the memories in `dumps`, one for each configuration, and the table differ; empty if
    nowhere."""
    found, named = set().union(*map(large, dumps)), with_reason(page)
    cells, where = " or ".join(CELLS), PAGE.relative_to(ROOT)
    return [
        *(
            f"{module}.{name} has more than {LARGEST} bits and is not in {cells}: put it there, or add it"
            f" and the reason to the table in {where}"
            for module, name in sorted(found - named)
        ),
        *(
            f"{module}.{name} has {LARGEST} bits at most, or is gone: take it out of the table in {where}"
            for module, name in sorted(named - found)
        ),
    ]
