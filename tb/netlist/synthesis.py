"""Map a configuration of the NPU to gates with Yosys, each different module once."""

import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echo_sim.build import BuildError
from echo_sim.config import NpuConfig
from echo_sim.designs import TOP, read_file_list
from echo_sim.places import SIM_BUILD
from echo_sim.processes import run_bounded
from echo_sim.progress import BuildProgress
from echo_sim.tools import find_python_tool
from tb.netlist import mapping, table
from tb.netlist.mapping import TO_SMALL_CELLS, YOSYS, memory_name, netlist_digest

KEPT = SIM_BUILD / "netlists"
CLOCK_GATE = "clock_gate"
"""A technology's own cell takes its place, so it is not mapped."""
TIMEOUT_S = 1800.0

Module = Mapping[str, Any]
"""A module of Yosys's JSON."""

# Without abc: it would take most of an hour, and its gates do the same. One round of what `opt -fast` repeats
# until nothing changes: the others take longer than all the rest, and few gates go.
_TO_NETLIST = (
    "read_json words.json",
    f"hierarchy -check -top {TOP}",
    "memory_nordff",  # what a memory reads goes to registers of gates
    *TO_SMALL_CELLS,
    "opt_expr",
    "opt_merge",
    "opt_dff",
    "dfflegalize -cell $_DFF_P_ x -cell $_DFFE_PP_ x",
    "simplemap",
    "opt_clean",
    "write_verilog -noattr netlist.v",
    "write_json -noscopeinfo gates.json",
)


def netlist(config: NpuConfig, rtl: Path, *, quiet: bool = False) -> Path:
    """Return the folder with the gates of a configuration, mapped unless they are there.

    It has `netlist.v`, the netlist in Verilog without the clock gate's cell, and `gates.bin`, the same gates
    as a table for the simulation. The folder's name has a digest of the RTL, the parameters and this flow.

    Raises:
        BuildError: Yosys refuses the RTL, or takes too long.
        PythonToolMissingError: there is no Yosys.
    """
    sources, _ = read_file_list(rtl / "npu.f")
    find_python_tool(YOSYS)
    folder = KEPT / f"{config.name}-{_digest(config, rtl)}"
    if (folder / "gates.bin").exists():
        return folder
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=KEPT) as name:
        made = Path(name)
        progress = BuildProgress(f"{config.name}-netlist", made, quiet)
        shutil.copytree(rtl, made / "rtl")
        files = [path.relative_to(rtl).as_posix() for path in sources]
        _yosys(made, "words", _to_words(config, files))
        (made / "words.json").write_text(json.dumps(each_once(_modules(made / "design.json"))), "utf-8")
        _yosys(made, "gates", _TO_NETLIST)
        table.write_table(_modules(made / "gates.json"), TOP, CLOCK_GATE, made / "gates.bin")
        shutil.rmtree(made / "rtl")
        for large in ("design.json", "words.json", "gates.json"):
            (made / large).unlink()
        part = shutil.copytree(made, made.with_suffix(".part"))
        try:
            part.replace(folder)
        except OSError:  # another process was faster
            shutil.rmtree(part)
        progress.finish()
    return folder


@functools.cache
def _digest(config: NpuConfig, rtl: Path) -> str:
    flow = [Path(__file__), Path(mapping.__file__), Path(table.__file__)]
    files = sorted([*rtl.rglob("*.sv"), *rtl.rglob("*.svh"), rtl / "npu.f", *flow])
    named = [part for path in files for part in (path.name.encode(), path.read_bytes())]
    made_with = [sorted(config.parameters().items()), sorted(config.defines().items())]
    return netlist_digest(json.dumps(made_with).encode(), *named)


def _to_words(config: NpuConfig, files: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that read the RTL as word-level cells, with one module for each instance."""
    parameters = " ".join(f"-G {name}={value}" for name, value in config.parameters().items())
    defines = "".join(f" -D {name}={value}" for name, value in config.defines().items())
    sources = " ".join(f"rtl/{file}" for file in files)
    return (
        f"read_slang --threads 1 --single-unit --keep-hierarchy -D SYNTHESIS{defines} -I rtl"
        f" --top {TOP} {parameters} {sources}",
        f"hierarchy -check -top {TOP}",
        "proc",
        "opt",
        "memory -norom -nomap",  # a table of constants is logic: nothing would write its memory
        "opt_clean",
        "setattr -unset src *",
        "write_json -noscopeinfo design.json",
    )


def _yosys(folder: Path, name: str, script: Sequence[str]) -> None:
    (folder / f"{name}.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
    log = folder / f"{name}.log"
    try:
        status = run_bounded(
            [find_python_tool(YOSYS), "-Q", "-q", f"{name}.ys"],
            env=os.environ,
            cwd=folder,
            log=log,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise BuildError(f"the netlist takes Yosys more than {TIMEOUT_S:.0f} s") from None
    if status:
        raise BuildError(f"Yosys refuses the netlist:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _modules(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["modules"]
    return found


def each_once(modules: Mapping[str, Module], top: str = TOP) -> dict[str, Any]:
    """Return a design for Yosys with each different module of `modules` once, the clock gate's as a box.

    Modules differ if their contents do; names of nets and cells do not count.
    """
    keys: dict[str, str] = {}
    names: dict[str, str] = {}
    found: dict[str, Any] = {}
    count: Counter[str] = Counter()

    def visit(name: str) -> str:
        module = modules[name]
        for cell in module["cells"].values():
            if cell["type"] in modules and cell["type"] not in keys:
                visit(cell["type"])
        keys[name] = key = _key(module, keys)
        if key in names:
            return names[key]
        base = name.partition("$")[0]
        count[base] += 1
        names[key] = base if base in (top, CLOCK_GATE) else f"{base}_{count[base]}"
        box = base == CLOCK_GATE
        found[names[key]] = {
            "attributes": {"blackbox": "1"} if box else {"top": "1"} if base == top else {},
            "ports": module["ports"],
            "cells": {} if box else dict(_cell(*each) for each in module["cells"].items()),
            "netnames": {} if box else module["netnames"],
        }
        return names[key]

    def _cell(name: str, cell: Module) -> tuple[str, Module]:
        kind = cell["type"]
        if kind == "$mem_v2":
            values = cell["parameters"]
            size = int(values["SIZE"], 2) * int(values["WIDTH"], 2)
            return memory_name(name.lstrip("\\"), size), cell
        return name, {**cell, "type": names[keys[kind]]} if kind in modules else cell

    visit(top)
    return {"creator": "", "modules": found}


def _key(module: Module, keys: Mapping[str, str]) -> str:
    cells = [
        [
            keys.get(cell["type"], cell["type"]),
            {name: value for name, value in cell["parameters"].items() if name != "MEMID"},
            cell["connections"],
        ]
        for cell in module["cells"].values()
    ]
    return hashlib.sha256(json.dumps([module["ports"], cells]).encode()).hexdigest()
