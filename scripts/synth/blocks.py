"""The blocks of an elaborated design: each different module once, with the instances that share it."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from echo_sim.designs import TOP
from tb.netlist.mapping import LARGEST, memory_name

CLOCK_GATE = "clock_gate"
"""A technology's own cell takes its place, so it is no part of a path."""

Module = Mapping[str, Any]
"""A module of Yosys's JSON: `ports`, `cells`."""


@dataclass(frozen=True)
class InferredMemory:
    """An array that Yosys found: words of bits, and whether every read is registered."""

    name: str
    words: int
    bits: int
    registered: bool

    @property
    def size(self) -> int:
        """Bits of the whole array."""
        return self.words * self.bits

    @property
    def large(self) -> bool:
        """Whether it stays a memory; a smaller one becomes registers."""
        return self.size > LARGEST


@dataclass(frozen=True)
class Block:
    """A module with its parameters.

    Attributes:
        key: a hash of the contents, those of its children included.
        module: the name in the RTL.
        instances: paths in the design, the first one in the design's order first.
        children: the key of the module of each instance in it, by the instance's name.
        memories: the arrays in it, without those of children.
        netlist: a design for Yosys: the module as `block`, each child as a box `box_<key>`.
    """

    key: str
    module: str
    instances: tuple[str, ...]
    children: Mapping[str, str]
    memories: tuple[InferredMemory, ...]
    netlist: Mapping[str, Any] = field(repr=False)

    @property
    def name(self) -> str:
        """The module and its first instance: unique in a design."""
        return f"{self.module} {self.instances[0]}"


def blocks_of(modules: Mapping[str, Module], top: str = TOP) -> dict[str, Block]:
    """Return the blocks of a design by key, children before parents.

    Args:
        modules: of Yosys's JSON, with one module for each instance, as --keep-hierarchy makes them.
        top: name of the module at the top.
    """
    keys: dict[str, str] = {}
    paths: dict[str, list[str]] = {}
    found: dict[str, str] = {}

    def visit(name: str, path: str) -> str:
        module = modules[name]
        cells = module["cells"]
        for instance, cell in cells.items():
            if cell["type"] in modules:
                visit(cell["type"], f"{path}.{instance}")
        if name not in keys:
            keys[name] = _key(module, keys)
        paths.setdefault(keys[name], []).append(path)
        found.setdefault(keys[name], name)
        return keys[name]

    visit(top, top)
    order = sorted(found, key=lambda key: _depth(found[key], modules))
    return {key: _block(key, found[key], paths[key], modules, keys) for key in order}


def _depth(name: str, modules: Mapping[str, Module]) -> int:
    below = {cell["type"] for cell in modules[name]["cells"].values()} & modules.keys()
    return 1 + max((_depth(each, modules) for each in below), default=0)


def _key(module: Module, keys: Mapping[str, str]) -> str:
    """Return a hash of what the module does: names of nets and cells do not matter."""
    contents = [
        module["ports"],
        [
            [
                keys.get(cell["type"], cell["type"]),
                {name: value for name, value in cell["parameters"].items() if name != "MEMID"},
                cell["connections"],
            ]
            for cell in module["cells"].values()
        ],
    ]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]


def _block(
    key: str, name: str, paths: list[str], modules: Mapping[str, Module], keys: Mapping[str, str]
) -> Block:
    memories, children = [], {}
    cells: dict[str, Any] = {}
    boxes: dict[str, Any] = {}
    for instance, cell in modules[name]["cells"].items():
        kind = cell["type"]
        if kind == "$mem_v2":
            memory = inferred_memory(instance, cell["parameters"])
            memories.append(memory)
            cells[memory_name(str(len(memories)), memory.size)] = cell
        elif kind in modules:
            child = modules[kind]
            children[instance] = keys[kind]
            boxes[f"box_{keys[kind]}"] = {
                "attributes": {"blackbox": "1"},
                "ports": child["ports"],
                "cells": {},
                "netnames": {},
            }
            cells[instance] = {**cell, "type": f"box_{keys[kind]}"}
        else:
            cells[instance] = cell
    block = {"attributes": {"top": "1"}, "ports": modules[name]["ports"], "cells": cells, "netnames": {}}
    return Block(
        key,
        name.partition("$")[0],
        tuple(paths),
        children,
        tuple(memories),
        {"creator": "", "modules": {"block": block, **boxes}},
    )


def inferred_memory(name: str, parameters: Mapping[str, str]) -> InferredMemory:
    """Return what the parameters of a cell of type $mem_v2 say."""
    clocked = parameters["RD_CLK_ENABLE"][-int(parameters["RD_PORTS"], 2) :]
    return InferredMemory(
        name.lstrip("\\"),
        int(parameters["SIZE"], 2),
        int(parameters["WIDTH"], 2),
        "0" not in clocked,
    )


def counts_below(blocks: Mapping[str, Block], key: str) -> Counter[str]:
    """Return how often each block, itself included, is in one instance of a block."""
    total = Counter({key: 1})
    for child, times in Counter(blocks[key].children.values()).items():
        for below, inner in counts_below(blocks, child).items():
            total[below] += times * inner
    return total
