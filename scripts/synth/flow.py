"""Elaborate a configuration by Yosys, and map one block of it to a target's cells."""

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyslang import driver as slang

from echo_sim.config import NpuConfig
from echo_sim.designs import TOP, read_file_list
from scripts.synth.blocks import Block, blocks_of
from scripts.synth.tools import SynthesisError, yosys
from scripts.synth.working import working_folder
from tb.netlist.mapping import TO_GATES, netlist_digest
from tb.repository import ROOT
from tb.whole_files import write_whole

WORK = ROOT / "sim_build" / "synth"
FILE_LIST = "npu.f"
"""Name of the NPU's file list, in rtl/."""
LIBERTY = "library.lib"
"""Name of the copy of the technology library in the working folder."""

# For speed: balanced for depth, then mapped, then sized for the loads. With the library's default script a
# multiply-add has half as many gates again on its path, for a tenth less area.
_ABC = "+strash;ifraig;scorr;dc2;strash;&get,-n;&st;&if,-g,-K,6;&synch2;&nf;&put;buffer,-c;topo;upsize;dnsize"

MOST_READ_PORTS = 8
"""Read ports of a memory that goes to an FPGA's RAMs as it is."""
READ_PORTS = "ip/read_ports.v"
"""What makes copies of the others, below ROOT and in the working folder."""
COPIES = f"techmap -map {READ_PORTS} -D MOST_READ_PORTS={MOST_READ_PORTS}"

_COARSE_END = ("alumacc", "opt", "memory -nomap", "opt_clean", COPIES)

SYNTH_ECP5 = "synth_ecp5 -nowidelut -noccu2"
# abc in the place of abc9, which does not end on the logic of the lanes in 18 minutes. It does not look into
# carry cells: a cell of the array would take the room of 3633 LUT4 with them, and takes 2157 without. Part
# `coarse` is here without `share`, whose proofs take up to 20 minutes a block.
_MAP_ECP5 = (
    f"{SYNTH_ECP5} -top block -run :coarse",
    "proc -latches error",
    "flatten",
    "opt_expr",
    "opt_clean",
    "opt -nodffe -nosdff",
    "fsm",
    "opt",
    "wreduce",
    "peepopt",
    "opt_clean",
    "techmap -map +/cmp2lut.v -D LUT_WIDTH=4",
    "opt_expr",
    "opt_clean",
    "techmap -map +/mul2dsp.v -D DSP_A_MAXWIDTH=18 -D DSP_B_MAXWIDTH=18 -D DSP_A_MINWIDTH=2"
    " -D DSP_B_MINWIDTH=2 -D DSP_NAME=$__MUL18X18",
    "chtype -set $mul t:$__soft_mul",
    "techmap -map +/lattice/dsp_map_18x18.v",
    *_COARSE_END,
    f"{SYNTH_ECP5} -top block -run map_ram:map_luts",
    "techmap -map +/lattice/latches_map.v",
    "abc -lut 4",
    "clean",
    f"{SYNTH_ECP5} -top block -run map_cells:",
)

_SYNTH_XILINX = "synth_xilinx -family xc7 -noiopad -noclkbuf -nocarry -nowidelut -top block"
# Likewise: a cell of the array takes 2197 LUT with carry cells, and 1546 without; and there is no `share`.
_MAP_XILINX = (
    f"{_SYNTH_XILINX} -run :coarse",
    "techmap -map +/cmp2lut.v -D LUT_WIDTH=6",
    *_COARSE_END,
    f"{_SYNTH_XILINX} -run map_memory:map_luts",
    "opt_expr -mux_undef -noclkinv",
    "abc -lut 6",
    "clean",
    "techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6",
    "xilinx_dffopt",
    "opt_lut_ins -tech xilinx",
    "clean",
    "blackbox =A:whitebox",
)


@dataclass(frozen=True)
class Target:
    """What a block is mapped to.

    Attributes:
        name: as users write it.
        script: commands of Yosys between reading a block and writing its netlist.
        timed: whether the netlist's cells have delays.
    """

    name: str
    script: Sequence[str]
    timed: bool


TARGETS = {
    target.name: target
    for target in (
        Target("gates", (*TO_GATES, "dfflegalize -cell $_DFF_P_ x", "abc -g simple"), timed=True),
        Target(
            "osu018",
            (*TO_GATES, f"dfflibmap -liberty {LIBERTY}", f"abc -liberty {LIBERTY} -script {_ABC}"),
            timed=True,
        ),
        Target("ecp5", _MAP_ECP5, timed=False),
        Target("xilinx", _MAP_XILINX, timed=False),
    )
}


def elaborate(config: NpuConfig, rtl: Path = ROOT / "rtl", timeout: float = 600.0) -> dict[str, Block]:
    """Return the blocks of a configuration by key, children before parents.

    Args:
        config: its parameters.
        rtl: folder with npu.f.
        timeout: in seconds.

    Raises: as `yosys`.
    """
    return _elaborated(TOP, config.parameters(), config.defines(), rtl / FILE_LIST, timeout)


def elaborate_module(
    module: str, parameters: Mapping[str, int], files: Path | None = None, timeout: float = 600.0
) -> dict[str, Block]:
    """Return the blocks of a single module by key, children before parents.

    Args:
        module: its name.
        parameters: values of its parameters, by name; the others keep their defaults.
        files: a file list (.f) whose sources lie in its folder and below; default: that of the NPU.
        timeout: as `elaborate`.

    Raises: as `yosys`; OSError: the list cannot be read; FileListError: it names what is not there;
        SynthesisError: it names nothing, or the module has no such parameter, which slang would pass over in
        silence.
    """
    file_list = _resolved(files or ROOT / "rtl" / FILE_LIST)
    _check_parameters(module, parameters, file_list)
    return _elaborated(module, parameters, {}, file_list, timeout)


def _resolved(path: Path) -> Path:
    """Return the path without links; SynthesisError for a circle of links."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        raise SynthesisError(f"{path} cannot be a file") from None


def _check_parameters(module: str, parameters: Mapping[str, int], file_list: Path) -> None:
    """Raise SynthesisError for parameters that the module, if it is there, does not have."""
    if not parameters:
        return
    sources, includes = read_file_list(file_list)
    driver = slang.Driver()
    driver.addStandardArgs()
    folders = [word for folder in (file_list.parent, *includes) for word in ("-I", f'"{folder}"')]
    files = [f'"{path}"' for path in sources]
    words = ["slang --single-unit -D SYNTHESIS --top", module, *folders, *files]
    read = driver.parseCommandLine(" ".join(words), slang.CommandLineOptions())
    if not (read and driver.processOptions() and driver.parseAllSources()):
        return  # Yosys says what is wrong
    for top in driver.createCompilation().getRoot().topInstances:
        known = {each.name for each in top.body.parameters if not each.isLocalParam}
        if unknown := [name for name in parameters if name not in known]:
            raise SynthesisError(f"{module} has no parameter {', '.join(unknown)}")


def _elaborated(
    top: str,
    parameters: Mapping[str, int],
    defines: Mapping[str, str],
    file_list: Path,
    timeout: float,
) -> dict[str, Block]:
    sources, includes = ([_below(path, file_list) for path in paths] for paths in read_file_list(file_list))
    if not sources:
        raise SynthesisError(f"{file_list} names no source")
    places = " -I ".join(["rtl", *includes])
    with working_folder(WORK) as folder:
        shutil.copytree(file_list.resolve().parent, folder / "rtl", ignore=_not_copied)
        yosys(
            [
                f"read_slang {_elaboration(top, parameters, defines, sources, places)}",
                f"hierarchy -check -top {top}",
                "proc",
                "opt",  # enables become part of registers, which then become part of memories
                "memory -norom -nomap",  # a table of constants is logic, not an array without area
                "opt_clean",
                "setattr -unset src",
                "write_json -noscopeinfo design.json",
            ],
            folder,
            timeout,
        )
        design = json.loads((folder / "design.json").read_text(encoding="utf-8"))
    return blocks_of(design["modules"], top)


def _not_copied(folder: str, entries: Sequence[str]) -> list[str]:
    """Return what of a folder is not copied: pipes and devices, which may never end, what is hidden, and the
    copies themselves."""
    paths = [Path(folder, entry) for entry in entries]
    return [
        path.name
        for path in paths
        if path.name.startswith(".") or path == WORK or not (path.is_file() or path.is_dir())
    ]


def _below(path: Path, file_list: Path) -> str:
    """Return a path of a file list in the copy of its folder; SynthesisError if it is not in that folder."""
    folder = file_list.resolve().parent
    if not path.is_relative_to(folder):
        raise SynthesisError(f"{file_list}: {path.name} does not lie in its folder")
    return f"rtl/{path.relative_to(folder).as_posix()}"


def _elaboration(
    top: str, parameters: Mapping[str, int], defines: Mapping[str, str], files: Sequence[str], includes: str
) -> str:
    values = " ".join(
        (
            *(f"-G {name}={value}" for name, value in parameters.items()),
            *(f"-D {name}={value}" for name, value in defines.items()),
        )
    )
    return (
        f"--threads 1 --single-unit --keep-hierarchy -D SYNTHESIS -I {includes} --top {top}"
        f" {values} {' '.join(files)}"
    )


def _has_many_read_ports(block: Block) -> bool:
    cells = (cell for module in block.netlist["modules"].values() for cell in module["cells"].values())
    memories = (cell["parameters"] for cell in cells if cell["type"] == "$mem_v2")
    return any(int(each["RD_PORTS"], 2) > MOST_READ_PORTS for each in memories)


def map_block(block: Block, target: Target, liberty: Path | None, timeout: float) -> Mapping[str, Any]:
    """Return the netlist of a block in the target's cells: `ports` and `cells` of Yosys's JSON.

    If the same commands of the same Yosys have mapped a block with this key before, its netlist is taken
    again. With `timeout` 0 nothing else is.

    Raises: as `yosys`.
    """
    library = liberty.read_bytes() if liberty and target.name == "osu018" else b""
    script, marks = list(target.script), []
    if COPIES in script:
        # Where there is nothing to copy, the pass would still number what comes after it anew.
        if _has_many_read_ports(block):
            marks.append((ROOT / READ_PORTS).read_bytes())
        else:
            script.remove(COPIES)
    made = netlist_digest(block.key.encode(), "\n".join(script).encode(), library, *marks)
    kept = WORK / "netlists" / f"{target.name}-{made}.json"
    with contextlib.suppress(FileNotFoundError, ValueError):  # a damaged file is made anew
        found: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return found
    if timeout == 0:
        raise SynthesisError("not mapped before")
    with working_folder(WORK) as folder:
        (folder / "block.json").write_text(json.dumps(block.netlist), encoding="utf-8")
        for mark in marks:
            (folder / READ_PORTS).parent.mkdir()
            (folder / READ_PORTS).write_bytes(mark)
        if library:
            (folder / LIBERTY).write_bytes(library)
        yosys(["read_json block.json", *script, "opt_clean", "write_json out.json"], folder, timeout)
        modules = json.loads((folder / "out.json").read_text(encoding="utf-8"))["modules"]
    netlist = {
        "ports": modules["block"]["ports"],
        "cells": {
            name: {
                "type": cell["type"],
                "connections": cell["connections"],
                # An FPGA's cells are placed, which takes what their LUTs compute.
                **({} if target.timed else {"parameters": cell["parameters"]}),
            }
            for name, cell in modules["block"]["cells"].items()
            if cell["type"] != "$scopeinfo"
        },
    }
    write_whole(kept, json.dumps(netlist))
    return netlist
