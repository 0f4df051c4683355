"""Measure the blocks of a configuration: cells, area and longest path from the netlists of a target."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from echo_sim.designs import TOP
from echo_sim.processes import stop_pool
from scripts.synth.blocks import CLOCK_GATE, Block, counts_below
from scripts.synth.flow import Target, map_block
from scripts.synth.liberty import Cell, Library, generic_library
from scripts.synth.timing import Analysis, LongestPath, TimingModel
from scripts.synth.tools import SynthesisError

LATCHES = ("$_DLATCH_P_", "$_DLATCH_N_")

RESOURCES: Mapping[str, Mapping[str, str]] = {
    "ecp5": {
        "LUT4": r"LUT4",
        "flip-flops": r"TRELLIS_FF",
        "carry": r"CCU2C",
        "DSP": r"MULT18X18D|ALU54B",
        "block RAM": r"DP16KD|PDPW16KD",
        "LUT RAM": r"TRELLIS_DPR16X4",
    },
    "xilinx": {
        "LUT": r"LUT[1-6]|INV",
        "flip-flops": r"FD[RSCP]E(_1)?",
        "carry": r"CARRY4",
        "DSP": r"DSP48E1",
        "block RAM": r"RAMB(18|36)E1",
        "LUT RAM": r"RAM(32|64|128|256)(M|X1[DS])|SRL(16|C32)E",
    },
}
"""For each FPGA, what is counted by the types of cells."""


@dataclass(frozen=True)
class MeasuredBlock:
    """One block on one target.

    Attributes:
        cells: of the target, without children; of FPGAs, the resources instead.
        area: of the cells, in um2; 0 without a library.
        path: the longest path that ends in the block or at its outputs, through children too; None without
            one.
        cut: whether paths through some child are missing, as it was not measured.
        loop: a cell of a combinational loop; empty if there is none.
        why_not: why it could not be measured; empty if it could.
    """

    cells: int = 0
    area: float = 0.0
    path: LongestPath | None = None
    cut: bool = False
    loop: str = ""
    why_not: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)


def with_latches(library: Library) -> Library:
    """Return the library with Yosys's latches as its own: only clock gates have them, and no path does."""
    latch = library.get("LATCH")
    if latch is None:
        return library
    return {**library, **dict.fromkeys(LATCHES, Cell(latch.area, {}, {}, {}, sequential=True))}


def resources(cells: Iterable[str], target: str) -> Counter[str]:
    """Count the resources of an FPGA from the types of cells."""
    found: Counter[str] = Counter()
    for kind, count in Counter(cells).items():
        for name, pattern in RESOURCES[target].items():
            if re.fullmatch(pattern, kind):
                found[name] += count
    return found


def selected(blocks: Mapping[str, Block], names: Sequence[str]) -> dict[str, Block]:
    """Return the blocks that are named and what they contain, children before parents; all without names.

    Args:
        blocks: of a design, by key.
        names: modules, or paths of instances; like those of the tables, they may lack the top module's name.

    Raises:
        SynthesisError: there is no such block.
    """
    if not names:
        return dict(blocks)
    wanted: set[str] = set()
    for name in names:
        places = {name, f"{TOP}.{name}"}
        found = [
            key
            for key, block in blocks.items()
            if name == block.module or not places.isdisjoint(block.instances)
        ]
        if not found:
            modules = ", ".join(sorted({block.module for block in blocks.values()}))
            raise SynthesisError(f"no block {name!r}: name an instance, or one of the modules {modules}")
        for key in found:
            wanted |= counts_below(blocks, key).keys()
    return {key: block for key, block in blocks.items() if key in wanted}


def measure(
    blocks: Mapping[str, Block],
    target: Target,
    liberty: Path | None,
    library: Library | None,
    *,
    timeout: float,
    jobs: int,
    tell: Callable[[str], None],
) -> dict[str, MeasuredBlock]:
    """Map each block in a process of its own and measure it; return the results by key.

    If it is interrupted, no other process starts, and those that run end.

    Args:
        blocks: children before parents.
        target: what they are mapped to.
        liberty: the file of `library`, for the target osu018.
        library: its cells; default: Yosys's gates, each with the delay 1.
        timeout: of one block, in seconds; a block that takes longer is not measured.
        jobs: processes at a time.
        tell: is called with a line for each block.

    Raises:
        PythonToolMissingError: there is no Yosys.
    """
    cells = with_latches(library) if library is not None else generic_library()
    models: dict[str, TimingModel] = {}
    found: dict[str, MeasuredBlock] = {}
    done = threading.Lock()
    count = 0

    def netlist(block: Block) -> Mapping[str, Any] | SynthesisError:
        nonlocal count
        result: Mapping[str, Any] | SynthesisError
        try:
            if block.module == CLOCK_GATE and not target.timed:
                result = {"ports": {}, "cells": {}}  # the FPGA's own has no cell, see ip/fpga
            else:
                result = map_block(block, target, liberty, timeout)
        except SynthesisError as error:
            result = error
        with done:
            count += 1
            said = f": {result}" if isinstance(result, SynthesisError) else ""
            tell(f"{target.name} {count}/{len(blocks)}: {block.name}{said}")
        return result

    with ThreadPoolExecutor(jobs) as pool:
        # The largest ones first, so that the last process does not work alone.
        by_size = sorted(blocks.values(), key=lambda each: -len(each.netlist["modules"]["block"]["cells"]))
        running = {block.key: pool.submit(netlist, block) for block in by_size}
        submitted = list(running.values())
        try:
            for key, block in blocks.items():
                mapped = running.pop(key).result()
                if isinstance(mapped, SynthesisError):
                    found[key] = MeasuredBlock(why_not=str(mapped).splitlines()[0])
                else:
                    found[key] = _measured(block, mapped, target, cells, models)
        except BaseException:
            stop_pool(pool, submitted)
            raise
    return found


def _measured(
    block: Block, netlist: Mapping[str, Any], target: Target, library: Library, models: dict[str, TimingModel]
) -> MeasuredBlock:
    kinds = [cell["type"] for cell in netlist["cells"].values()]
    own = [kind for kind in kinds if not kind.startswith(("box_", "$mem"))]
    if not target.timed:
        return MeasuredBlock(cells=len(own), resources=resources(own, target.name))
    area = sum(library[kind].area for kind in own if kind in library) if target.name != "gates" else 0.0
    if block.module == CLOCK_GATE:
        models[f"box_{block.key}"] = TimingModel()  # clocks are ideal
        return MeasuredBlock(len(own), area)
    analysis = Analysis(netlist, library, models)
    models[f"box_{block.key}"] = analysis.model
    return MeasuredBlock(len(own), area, analysis.model.longest, analysis.model.cut, analysis.model.loop)
