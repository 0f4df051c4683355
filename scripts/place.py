"""Place and route a block of the NPU on a Lattice ECP5 by nextpnr: its clock and the resources it takes.

The block is mapped by Yosys first, with all that it contains; what `make synth` has mapped is taken again.
Registers stand at its ports, so the clock is that of the paths within it.

Exit status: 0 all right, 1 the block does not fit, 2 wrong arguments, or a tool is missing or fails,
130 interrupted.
"""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from echo_sim.config import load_config
from echo_sim.numerals import SEED, Real, Whole
from scripts.synth.arguments import SingleModule, output, single_module, tell
from scripts.synth.blocks import Block
from scripts.synth.flow import TARGETS, elaborate, elaborate_module
from scripts.synth.measure import measure, selected
from scripts.synth.placement import DEVICES, TARGET, Placement, place
from scripts.synth.status import status_of
from scripts.synth.tools import SynthesisError


def parser() -> argparse.ArgumentParser:
    """Return what reads the command line."""
    made = argparse.ArgumentParser(
        prog="python -m scripts.place",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--block",
        help="a module of the configuration, or the path of an instance of one, such as u_host.u_b",
    )
    what.add_argument(
        "--module",
        type=single_module,
        help="a module by itself, with its parameters: systolic_row:Cols=1,Pipeline=1",
    )
    made.add_argument("--config", default="small", help="the configuration that --block is in")
    made.add_argument("--device", choices=DEVICES, default="85k", help="LFE5U-12F to LFE5U-85F")
    made.add_argument("--seed", type=SEED, default=1, help="of the placer")
    made.add_argument("--timeout", type=Real(1, 1e6), default=1800.0, help="of each tool's run, in seconds")
    made.add_argument(
        "--jobs", type=Whole(1, 4096), default=os.cpu_count() or 1, help="blocks that are mapped at a time"
    )
    made.add_argument("--json", type=output, help="write the result to this file")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the process's exit status."""
    options = parser().parse_args(arguments)
    return status_of(lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    name, blocks = _blocks(options.module, options.config, options.block)
    tell(f"{name}: mapping")
    measured = measure(
        blocks, TARGETS[TARGET], None, None, timeout=options.timeout, jobs=options.jobs, tell=tell
    )
    failed = [f"{blocks[key].name}: {each.why_not}" for key, each in measured.items() if each.why_not]
    if failed:
        raise SynthesisError("\n".join(failed))
    tell(f"{name}: placing and routing")
    placed = place(blocks, options.device, seed=options.seed, timeout=options.timeout)
    _report(name, placed, options.device, options.json)
    return 0 if placed.mhz is not None else 1


def _blocks(module: SingleModule | None, config: str, block: str) -> tuple[str, dict[str, Block]]:
    """Return the name of what is placed, and it with what it contains, children before parents."""
    if module is not None:
        return module.name, elaborate_module(module.name, module.parameters)
    blocks = selected(elaborate(load_config(config)), [block])
    named = [each.instances[0] for each in blocks.values() if block == each.module]
    if len(named) > 1:
        raise SynthesisError(f"{block} has different parameters in {', '.join(named)}: name an instance")
    return block, blocks


def _report(name: str, placed: Placement, device: str, path: Path | None) -> None:
    clock = "does not fit" if placed.mhz is None else f"{placed.mhz:.1f} MHz, {1000 / placed.mhz:.1f} ns"
    print(f"{name} on LFE5U-{device[:-1]}F: {clock}")
    for resource, used in placed.used.items():
        there = placed.available[resource]
        print(f"  {resource:10} {used:7,} of {there:6,}  {used / there:4.0%}")
    if path:
        found = {"block": name, "device": device, **dataclasses.asdict(placed)}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
