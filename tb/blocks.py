"""Build and run the testbench of a single RTL module."""

import ast
import dataclasses
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from echo_sim.build import Kind
from echo_sim.designs import Design, tree_tag
from echo_sim.places import BOARD, CHECKERS, OWN_RTL, RTL, WAIVERS
from echo_sim.run import run
from tb import changed_trees
from tb.repository import ROOT

PARAMETERS_VARIABLE = "ECHO_NPU_MODULE_PARAMETERS"
"""Environment variable with the module's parameters as a JSON object; `parameter` reads it."""

_TOP_LEVEL = ("--public-depth", "1")
"""Makes the signals of the top level visible, and none below it."""

_FOLDERS = (OWN_RTL, CHECKERS, ROOT / "tests" / "rtl")
_UNIT = re.compile(r"^\s*(?:module|package|interface)\s+(?:automatic\s+)?(\w+)", re.MULTILINE)
_USE = re.compile(r"\b(\w+)(?=::|\s*#\s*\(|\s+\w+\s*(?:\[[^\]]*\]\s*)?\()")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@functools.cache
def _text(path: Path) -> str:
    return _COMMENT.sub("", path.read_text(encoding="utf-8"))


@functools.cache
def _units() -> dict[str, Path]:
    """Map each module, interface and package to its file."""
    files = [path for folder in _FOLDERS for path in sorted(folder.rglob("*.sv"))]
    return {name: path for path in files for name in _UNIT.findall(_text(path))}


def sources_of(*files: Path | str) -> list[Path]:
    """List the given files and everything they use, in dependency order.

    Args:
        files: paths, absolute or relative to the repository. What they define themselves is not searched for.
    """
    found: dict[Path, None] = {}
    given = [(ROOT / file).resolve() for file in files]
    own = {name for path in given for name in _UNIT.findall(_text(path))}

    def add(path: Path, above: tuple[Path, ...]) -> Iterator[Path]:
        if path in found or path in above:
            return
        for name in _USE.findall(_text(path)):
            if name in _units() and name not in own:
                yield from add(_units()[name], (*above, path))
        found[path] = None
        yield path

    return [path for file in given for path in add(file, ())]


def parameter(name: str) -> int:
    """Read a value that `run_module` passed in; call it inside the simulator. Raise KeyError if there is
    none."""
    return int(json.loads(os.environ[PARAMETERS_VARIABLE])[name])


def configurations(path: Path) -> list[dict[str, Any]]:
    """Return CONFIGURATIONS of a file of cocotb tests, the parameters of each run; empty if it has none.

    The file is not imported: that works inside the simulator only. Raise ValueError if it is no literal.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name("CONFIGURATIONS")], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name("CONFIGURATIONS"), value=ast.expr() as value)
            ):
                found: list[dict[str, Any]] = ast.literal_eval(value)
                return found
    return []


def run_module(
    test_file: Path | str,
    tests: str = "",
    *,
    verilator_args: Sequence[str] = (),
    **parameters: int,
) -> None:
    """Run the cocotb tests beside a test file on the module that its folder is named after.

    The top level is `<module>_tb.sv` of that folder, else the module itself. Its sources are found by
    `sources_of`, and `<module>_rules.sv` of the folder, if there is one, binds checkers. Visible are the
    signals of the top level, or with a `public.vlt` in the folder those that it names: every further one
    makes a module slower to build and to run.

    Args:
        test_file: a file in that folder.
        tests: module of cocotb tests in the same folder; default `cocotb_<module>`.
        verilator_args: further options of Verilator.
        parameters: parameters of the top level.

    Raises: as `run_block`.
    """
    folder = Path(test_file).resolve().parent
    module = folder.name
    testbench = folder / f"{module}_tb.sv"
    top = testbench.stem if testbench.exists() else module
    rules = folder / f"{module}_rules.sv"
    public = folder / "public.vlt"
    design = block_design(
        top,
        sources_of(_units()[top], *([rules] if rules.exists() else [])),
        parameters=parameters,
        control=(WAIVERS, public) if public.exists() else (WAIVERS,),
        public=not public.exists(),
        # A package declares parameters that this module does not use, a checker signals for other buses.
        verilator_args=("-Wno-UNUSEDPARAM", "-Wno-UNUSEDSIGNAL", *verilator_args),
    )
    name = ".".join([*folder.relative_to(ROOT).parts, tests or f"cocotb_{module}"])
    run_block(design, name, environment={PARAMETERS_VARIABLE: json.dumps(parameters)})


def _simulated(path: Path | str) -> Path:
    absolute = ROOT / path
    return RTL / absolute.relative_to(OWN_RTL) if absolute.is_relative_to(OWN_RTL) else absolute


def block_design(
    top: str,
    sources: Sequence[Path | str],
    *,
    parameters: Mapping[str, int | str] | None = None,
    cpp: Sequence[Path | str] = (),
    includes: Sequence[Path | str] = (),
    control: Sequence[Path | str] = (WAIVERS,),
    verilator_args: Sequence[str] = (),
    public: bool = True,
) -> Design:
    """Describe a design with one module as top level, whose own signals are visible if `public`.

    Paths are absolute, or relative to the repository. Sources in rtl/ are taken from the folder that
    `RTL_VARIABLE` names.
    """

    def absolute(paths: Sequence[Path | str]) -> tuple[Path, ...]:
        return tuple(_simulated(path).resolve() for path in paths)

    values = dict(parameters or {})
    tag = "".join(f"-{name}{value}" for name, value in sorted(values.items()))
    if len(tag) > 60:
        tag = "-" + hashlib.sha256(tag.encode()).hexdigest()[:12]
    return Design(
        name=f"block{tree_tag(RTL)}{tag}",
        top=top,
        sources=absolute(sources),
        parameters=values,
        includes=(RTL, BOARD, CHECKERS, *absolute(includes)),
        control=absolute(control),
        cpp=(*absolute(cpp), BOARD / "lifeline.cpp"),
        public=False,
        verilator_args=(*(_TOP_LEVEL if public else ()), *verilator_args, *changed_trees.verilator_args(RTL)),
        brief=True,  # tests of several modules compile at the same time, so no core is idle
    )


def run_block(
    design: Design,
    test_module: str,
    *,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run the testbench of one module, `test_module`, from a pytest test.

    Raises:
        AssertionError: a test failed. The message has every failed test, the seed and the replay command.

    Raises also as `run`.
    """
    kind: Kind = "fast" if os.environ.get("WAVES", "") in ("", "0") else "waves"
    name = f"{test_module.rsplit('.', 2)[-2]}-{design.name}"
    folder = "/".join(test_module.split(".")[:-1])
    result = run(
        # Inputs are random at time 0, so no rule holds then (rtl/npu_assert.svh).
        dataclasses.replace(design, defines={"NPU_TESTBENCH": "1"}),
        test_module,
        kind,
        name=name,
        replay=f"pytest {folder}",
        env=environment,
    )
    failures = result.failures()
    assert not failures, failures
