"""Tables of what was measured: JSON, HTML, and the part of docs/silicon.md."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from echo_sim.designs import TOP
from scripts.synth.blocks import Block, counts_below
from scripts.synth.measure import RESOURCES, MeasuredBlock
from tb.repository import ROOT

PAGE = ROOT / "docs" / "silicon.md"
MEANT_NS = 15.6
"""Longest path that every block is meant to have in osu018, in ns."""
SLOWER = ", above the target"
"""Follows a longest path that is above MEANT_NS, which its rounded figure need not show."""
NOT_RUN = "not run"

Results = Mapping[str, Mapping[str, MeasuredBlock]]
"""By target and by key of the block."""


def command(config: str) -> str:
    """Return what writes the table of a configuration."""
    return f"make synth CONFIG={config}"


@dataclass(frozen=True)
class BlockRow:
    """What the tables say of a block: `own` by target, without children."""

    block: Block
    own: Mapping[str, MeasuredBlock]


def rows(blocks: Mapping[str, Block], results: Results) -> list[BlockRow]:
    """Return a row for each block, by module and instance."""
    made = [
        BlockRow(block, {target: each[key] for target, each in results.items() if key in each})
        for key, block in blocks.items()
    ]
    return sorted(made, key=lambda row: (row.block.module, row.block.instances[0]))


def totals(blocks: Mapping[str, Block], results: Results, top: str) -> dict[str, tuple[MeasuredBlock, int]]:
    """Return the sum over all instances below a block for each target, and how many of them are missing."""
    found = {}
    below = counts_below(blocks, top)
    for target, each in results.items():
        cells, area, missing = 0, 0.0, 0
        counted: dict[str, int] = {}
        for key, times in below.items():
            measured = each.get(key)
            if measured is None or measured.why_not:
                missing += times
                continue
            cells += times * measured.cells
            area += times * measured.area
            for name, count in measured.resources.items():
                counted[name] = counted.get(name, 0) + times * count
        found[target] = MeasuredBlock(cells, area, resources=counted), missing
    return found


def as_json(blocks: Mapping[str, Block], results: Results) -> list[dict[str, Any]]:
    """Return the rows as JSON's types."""
    return [
        {
            "module": row.block.module,
            "instances": list(row.block.instances),
            "memories": [
                {"name": each.name, "words": each.words, "bits": each.bits, "registered": each.registered}
                for each in row.block.memories
            ],
            "targets": {target: _target(target, measured) for target, measured in row.own.items()},
        }
        for row in rows(blocks, results)
    ]


def _target(target: str, measured: MeasuredBlock) -> dict[str, Any]:
    if measured.why_not:
        return {"not_measured": measured.why_not}
    if target in RESOURCES:
        return {"cells": measured.cells, "resources": dict(measured.resources)}
    path = measured.path
    return {
        "cells": measured.cells,
        "area_um2": measured.area,
        "cut": measured.cut,
        "loop": measured.loop,
        "longest_path": path
        and {
            "time": round(path.delay.time, 3),
            "gates": path.delay.gates,
            "start": path.start,
            "end": path.end,
        },
    }


COLUMNS = (
    "block",
    "instances",
    "cells",
    "area, mm2",
    "longest path, ns",
    "gates on it",
    "memories",
    "ECP5",
    "Xilinx 7",
)
SHORT = {
    "LUT4": "LUT",
    "flip-flops": "FF",
    "carry": "carry",
    "DSP": "DSP",
    "block RAM": "BRAM",
    "LUT RAM": "LUTRAM",
}


def table(blocks: Mapping[str, Block], results: Results) -> Iterator[list[str]]:
    """Yield the cells of the table's rows: each block, and the sum over the whole device."""
    timed = "osu018" if "osu018" in results else "gates"
    for row in rows(blocks, results):
        block = row.block
        times = len(block.instances)
        where = block.instances[0].removeprefix(f"{TOP}.")
        name = block.module if block.module == TOP else f"{block.module} {where}"
        memories = ", ".join(
            f"{each.words} x {each.bits}{'' if each.registered else ' async'}"
            for each in block.memories
            if each.large
        )
        yield [
            name,
            str(times),
            *_timed(row.own.get(timed), with_area=timed == "osu018"),
            memories or "-",
            *(_fpga(row.own.get(target), target) for target in RESOURCES),
        ]
    tops = [key for key, block in blocks.items() if block.module == TOP]
    for top in tops:
        sums = totals(blocks, results, top)
        whole, missing = sums.get(timed, (MeasuredBlock(why_not=NOT_RUN), 0))
        yield [
            "whole device",
            "",
            NOT_RUN if whole.why_not else f"{whole.cells:,}{_less(missing)}",
            f"{whole.area / 1e6:.3f}{_less(missing)}" if timed == "osu018" and not whole.why_not else "-",
            "",
            "",
            "",
            *(
                _fpga(sums[target][0], target) + _less(sums[target][1]) if target in sums else NOT_RUN
                for target in RESOURCES
            ),
        ]


def _less(missing: int) -> str:
    return f" (without {missing} instances)" if missing else ""


def _timed(measured: MeasuredBlock | None, *, with_area: bool) -> list[str]:
    if measured is None or measured.why_not:
        return [NOT_RUN] * 4
    area = f"{measured.area / 1e6:.4f}" if with_area else "-"
    if measured.path is None:
        return [f"{measured.cells:,}", area, "-", "-"]
    delay = measured.path.delay
    cut = ", at least" if measured.cut else ""
    slower = SLOWER if delay.time > MEANT_NS else ""
    time = f"{delay.time:.1f}{cut}{slower}" if with_area else "-"
    return [f"{measured.cells:,}", area, time, f"{delay.gates}{cut}"]


def _fpga(measured: MeasuredBlock | None, target: str) -> str:
    if measured is None or measured.why_not:
        return NOT_RUN
    names = [name for name in RESOURCES[target] if measured.resources.get(name)]
    return ", ".join(f"{measured.resources[name]:,} {SHORT.get(name, name)}" for name in names) or "-"


def slow(blocks: Mapping[str, Block], results: Results) -> list[BlockRow]:
    """Return the blocks whose longest path in osu018 is above MEANT_NS, the slowest first."""
    found = [
        row
        for row in rows(blocks, results)
        if (own := row.own.get("osu018")) and own.path and own.path.delay.time > MEANT_NS
    ]
    return sorted(found, key=lambda row: -_time(row))


def _time(row: BlockRow) -> float:
    path = row.own["osu018"].path
    return path.delay.time if path else 0.0


def markdown(blocks: Mapping[str, Block], results: Results) -> list[str]:
    """Return the lines of the generated part of docs/silicon.md."""
    lines = [
        f"| {' | '.join(COLUMNS)} |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |",
    ]
    for cells in table(blocks, results):
        first, *rest = cells
        module, _, where = first.partition(" ")
        named = f"`{module}` {where}".strip() if module != "whole" else first
        lines.append(f"| {' | '.join([named, *rest])} |")
    return lines


def sections(measured: Mapping[str, tuple[Mapping[str, Block], Results]]) -> Sequence[Mapping[str, Any]]:
    """Return what the HTML page shows: for each configuration its table and its slow blocks."""
    return [
        {
            "title": config,
            "columns": COLUMNS,
            "rows": list(table(blocks, results)),
            "slow": [
                {
                    "name": row.block.name,
                    "time": _time(row),
                    "gates": path.delay.gates,
                    "start": path.start,
                    "end": path.end,
                }
                for row in slow(blocks, results)
                if (path := row.own["osu018"].path)
            ],
            "missing": [
                f"{target} {row.block.name}: {own.why_not}"
                for row in rows(blocks, results)
                for target, own in row.own.items()
                if own.why_not
            ],
        }
        for config, (blocks, results) in measured.items()
    ]
