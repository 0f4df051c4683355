"""Synthesise the NPU by Yosys: cells, area, longest path, memories and FPGA resources of each block.

Each different block is mapped once, with the blocks in it as boxes, in a process of its own. What was mapped
before is taken again, so an interrupted run goes on where it was.

The target osu018 takes the library of Debian's package qflow-tech-osu018: `apt-get install` puts it where
this command looks. Without root, `apt-get download` and `dpkg -x` unpack it, and --liberty names it.

Exit status: 0 all right, 1 a block could not be measured, 2 wrong arguments or a missing tool,
130 interrupted.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from echo_sim.config import NpuConfig, load_config
from echo_sim.numerals import Real, Whole
from scripts.synth import report
from scripts.synth.arguments import SingleModule, names, output, single_module, tell
from scripts.synth.blocks import Block
from scripts.synth.flow import TARGETS, elaborate, elaborate_module
from scripts.synth.kept_columns import with_kept_columns
from scripts.synth.liberty import Library, read_library
from scripts.synth.measure import MeasuredBlock, measure, selected
from scripts.synth.status import status_of
from spec.marked_page import generated_part, marks, replace_part
from tb.repository import ROOT
from tb.revision import revision

INSTALLED = Path("/usr/share/qflow/tech/osu018/osu018_stdcells.lib")
LIBERTY_VARIABLE = "ECHO_NPU_LIBERTY"
"""Names a Liberty file, as --liberty does."""
HTML = ROOT / "reports" / "synthesis.html"


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(
        prog="python -m scripts.synth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--config",
        type=names,
        action="extend",
        help="configurations, divided by commas; repeatable; default: small,default",
    )
    made.add_argument(
        "--block",
        type=names,
        action="extend",
        help="modules or instances such as u_host.u_b, divided by commas, with what they contain; repeatable;"
        " default: all",
    )
    made.add_argument(
        "--module",
        type=single_module,
        help="measure a module by itself, with its parameters: systolic_row:Cols=1,Pipeline=1",
    )
    made.add_argument(
        "--files", type=Path, help="a file list (.f) of other sources, one of whose modules --module names"
    )
    made.add_argument(
        "--target",
        type=names,
        action="extend",
        help=f"some of {','.join(TARGETS)}, divided by commas; repeatable; default: osu018 (without the"
        " library: gates), ecp5 and xilinx",
    )
    made.add_argument(
        "--liberty",
        type=Path,
        help=f"the library of the target osu018; default: ${LIBERTY_VARIABLE}, else {INSTALLED}",
    )
    made.add_argument("--timeout", type=Real(1, 1e6), default=1800.0, help="of one block, in seconds")
    made.add_argument("--kept", action="store_true", help="map nothing: report what was mapped before")
    made.add_argument("--jobs", type=Whole(1, 4096), default=os.cpu_count() or 1, help="processes at a time")
    made.add_argument("--json", type=output, help="write the results to this file")
    made.add_argument("--html", type=output, default=HTML, help=f"the report; default: {HTML}")
    made.add_argument(
        "--update",
        action="store_true",
        help="write the table of docs/silicon.md; columns of other targets stay as they are",
    )
    return made


def _library(given: Path | None) -> Path | None:
    """Return the Liberty file to take, or None if there is none and nobody named one."""
    named = given or (Path(text) if (text := os.environ.get(LIBERTY_VARIABLE)) else None)
    return named or (INSTALLED if INSTALLED.exists() else None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the process's exit status."""
    reads = parser()
    options = reads.parse_args(arguments)
    options.config = options.config or ["small", "default"]
    liberty = _library(options.liberty)
    targets = options.target or ["osu018" if liberty else "gates", "ecp5", "xilinx"]
    if unknown := [name for name in targets if name not in TARGETS]:
        reads.error(f"no target {', '.join(unknown)}: name some of {', '.join(TARGETS)}")
    if "osu018" in targets and liberty is None:
        reads.error("the target osu018 needs its library: see --help")
    if options.files and not options.module:
        reads.error("--files takes --module")
    if options.update:
        if options.block or options.module:
            reads.error("--update writes a table of all blocks, so it takes no --block and no --module")
        page = report.PAGE.read_text(encoding="utf-8")
        for name in options.config:
            if marks(report.command(name))[0] not in page:
                reads.error(f"{report.PAGE.name} has no table of the configuration {name}")
    return status_of(lambda: _run(targets, liberty, options))


def _run(targets: Sequence[str], liberty: Path | None, options: argparse.Namespace) -> int:
    library = read_library(liberty) if liberty and "osu018" in targets else None
    tops: list[SingleModule | NpuConfig] = [load_config(name) for name in options.config]
    measured = {}
    for top in [options.module] if options.module else tops:
        tell(f"{top.name}: elaborating")
        if isinstance(top, SingleModule):
            parts = elaborate_module(top.name, top.parameters, options.files)
        else:
            parts = elaborate(top)
        blocks = selected(parts, options.block or [])
        measured[top.name] = blocks, _measure(blocks, targets, liberty, library, options)
    _write(measured, liberty if library else None, options)
    missing = [
        each.why_not
        for _, results in measured.values()
        for found in results.values()
        for each in found.values()
    ]
    return 1 if any(missing) else 0


def _measure(
    blocks: Mapping[str, Block],
    targets: Sequence[str],
    liberty: Path | None,
    library: Library | None,
    options: argparse.Namespace,
) -> dict[str, dict[str, MeasuredBlock]]:
    return {
        name: measure(
            blocks,
            TARGETS[name],
            liberty,
            library if name == "osu018" else None,
            timeout=0.0 if options.kept else options.timeout,
            jobs=options.jobs,
            tell=tell,
        )
        for name in targets
    }


def _write(
    measured: Mapping[str, tuple[Mapping[str, Block], report.Results]],
    liberty: Path | None,
    options: argparse.Namespace,
) -> None:
    from tb.report import page  # Jinja2 is not installed everywhere

    if options.json:
        found = {config: report.as_json(*each) for config, each in measured.items()}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    options.html.parent.mkdir(parents=True, exist_ok=True)
    said = (
        f"Times and areas from {liberty.name}."
        if liberty
        else "No library: a path's length is its number of gates."
    )
    options.html.write_text(
        page.render(
            "synthesis",
            revision=revision(),
            library=said,
            meant=report.MEANT_NS,
            sections=report.sections(measured),
        ),
        encoding="utf-8",
    )
    for config, each in measured.items():
        lines = report.markdown(*each)
        print(f"{config}:", *lines, sep="\n")
        if options.update:
            before = generated_part(report.PAGE, report.command(config))
            replace_part(report.PAGE, report.command(config), with_kept_columns(lines, before, each[1]))
    print(f"report: {options.html}")


if __name__ == "__main__":
    sys.exit(main())
