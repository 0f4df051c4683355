"""Run FuseSoC with the tools that pip installed: `python -m scripts.ip.fusesoc lint`.

The first argument is a target, the others are options of the core, such as `--spoil`. The
Verilator that the simulator takes is put on PATH, with what it and its output need.
"""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from echo_sim.tools import find_python_tool, find_verilator
from scripts.ip.generate import version
from tb.repository import ROOT

BUILD = ROOT / "sim_build" / "fusesoc"


def environment() -> dict[str, str]:
    """Return the environment in which `verilator` works, as do makefiles that build its output.

    Raises:
        ToolMissingError: no Verilator, or nothing to run it with.
    """
    verilator = find_verilator()
    # For a testbench with delays: what Verilator's own configure finds out for this compiler.
    variables = {
        "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
        "CFG_CXXFLAGS_PCH_I": "-include",
        "CFG_CXXFLAGS_STD": "-std=gnu++20",
        **verilator.make_variables,
    }
    if not verilator.make_variables:  # a Verilator that configure fitted to this machine
        variables = {}
    given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return {
        **os.environ,
        **verilator.environment,
        "PATH": os.pathsep.join([str(verilator.program.parent), os.environ.get("PATH", "")]),
        **({"MAKEFLAGS": f"-- {given}"} if given else {}),
    }


def run(
    target: str, *arguments: str, root: Path = ROOT, build: Path = BUILD, shown: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run a target of the core in the repository `root`; what it builds lies in `build`. Return its result.

    Args:
        target: of echo_npu.core.
        arguments: of the core, such as `--spoil`.
        root: a folder with echo_npu.core and the files that it names.
        build: a folder for outputs.
        shown: what it says goes to this process's output as it comes, and not into the result.

    Raises:
        ToolMissingError: no FuseSoC, or no Verilator.
    """
    return subprocess.run(
        [
            *(find_python_tool("fusesoc"), "--cores-root", str(root), "run", "--build-root", str(build)),
            *(f"--target={target}", f"echo:npu:echo_npu:{version()}", *arguments),
        ],
        cwd=build,
        env=environment(),
        stdout=None if shown else subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry point; returns the process's exit status."""
    reads = argparse.ArgumentParser(prog="python -m scripts.ip.fusesoc", description=__doc__)
    reads.add_argument("target", help="of echo_npu.core: lint, sim, synth, lint_small ...")
    options, rest = reads.parse_known_args(arguments)
    if not options.target:
        reads.error("the target is empty: lint, sim, synth, lint_small ...")
    BUILD.mkdir(parents=True, exist_ok=True)
    return run(options.target, *rest, shown=True).returncode


if __name__ == "__main__":
    sys.exit(main())
