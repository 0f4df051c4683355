"""The designs that can be built: the board for a configuration, or one module with its testbench."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from echo_sim.config import LOCKSTEP, load_config
from echo_sim.places import BOARD, CHECKERS, OWN_RTL, RTL, WAIVERS

TOP: Final = "npu_top"
"""The NPU's top module."""


class FileListError(ValueError):
    """A file list that names a missing file or has an unknown option."""


@dataclasses.dataclass(frozen=True)
class Design:
    """Sources, parameters and top level of one simulator.

    `control` are Verilator control files (.vlt), `cpp` are C++ sources of DPI functions, `public` makes
    every signal visible to Python (slow; for small blocks). `main` is a C++ main program in place of
    cocotb's; with `cocotb` False it is one that knows neither VPI nor Python. Registers power up with random
    bits, or zero with `random_power_up` False. With `brief` the compiler gets all C++ as one file,
    and optimizes it less if cocotb drives it: that is half the work, on one core.
    """

    name: str
    top: str
    sources: tuple[Path, ...]
    parameters: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    includes: tuple[Path, ...] = ()
    control: tuple[Path, ...] = ()
    cpp: tuple[Path, ...] = ()
    defines: Mapping[str, str] = dataclasses.field(default_factory=dict)
    public: bool = False
    verilator_args: tuple[str, ...] = ()
    main: Path | None = None
    cocotb: bool = True
    random_power_up: bool = True
    brief: bool = False

    def files(self) -> list[Path]:
        """Return all files that it is made of, headers included, sorted."""
        cpp = (*self.cpp, *((self.main,) if self.main else ()))
        folders: list[tuple[Path, tuple[str, ...]]]
        folders = [(folder, ("*.svh", "*.vh")) for folder in self.includes]
        folders += [(source.parent, ("*.hpp",)) for source in cpp]
        headers = [path for folder, patterns in folders for each in patterns for path in folder.glob(each)]
        return sorted({*self.sources, *self.control, *cpp, *headers})

    def digest(self) -> str:
        """Return a hash of its files and parameters, the same wherever they lie."""
        parameters = sorted((name, str(value)) for name, value in self.parameters.items())
        facts = [self.top, parameters, sorted(self.defines.items()), self.random_power_up]
        digest = hashlib.sha256(json.dumps(facts).encode())
        for name, content in sorted((path.name, path.read_bytes()) for path in self.files()):
            digest.update(f"{name} {len(content)}\n".encode() + content)
        return digest.hexdigest()


def read_file_list(path: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the sources and include directories of a file list (.f). Its paths are relative to its folder.

    Raises:
        OSError: the list cannot be read.
        FileListError: the list is no text; a source that does not exist or is no file, such as a pipe, which
            may never end; or an option other than +incdir+.
    """
    if wrong := _no_file(path, missing=""):
        raise FileListError(f"{path} {wrong}")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FileListError(f"{path} is no text: byte {error.start} is no UTF-8") from None
    sources: list[Path] = []
    includes: list[Path] = []
    for number, line in enumerate(lines, 1):
        entry = line.split("//")[0].split("#")[0].strip()
        if not entry:
            continue
        if entry.startswith("+incdir+"):
            includes.append((path.parent / entry.removeprefix("+incdir+")).resolve())
        elif entry.startswith(("+", "-")):
            raise FileListError(f"{path}:{number}: {entry}: only +incdir+ and file names are understood")
        else:
            source = path.parent / entry
            if wrong := _no_file(source):
                raise FileListError(f"{path}:{number}: {entry} {wrong}")
            sources.append(source.resolve())
    return tuple(sources), tuple(includes)


def _no_file(path: Path, missing: str = "does not exist") -> str:
    """Return why a path is no file that can be read; empty if it is one, `missing` if nothing is there."""
    try:
        if path.is_file():
            return ""
        return "is no file" if path.exists() else missing
    except OSError:  # such as a name that is too long
        return "cannot be a file"


AXI_CHECKERS = tuple(
    CHECKERS / f"{name}.sv"
    for name in (
        "axi_channel_checker",
        "axi_burst_checker",
        "axi_write_checker",
        "axi_read_checker",
        "axi4_checker",
        "axil_checker",
    )
)
"""The protocol checkers axi4_checker and axil_checker, with their parts."""


def tree_tag(rtl: Path) -> str:
    """Return a suffix for the names of simulators of other sources; empty for those of rtl/."""
    return "" if rtl == OWN_RTL else f"-{rtl.name}"


def npu_design(config: str, rtl: Path = RTL) -> Design:
    """Return the board (npu_tb) with the NPU in the configuration `config`, from the sources in `rtl`.

    Raises:
        ConfigError: an unknown configuration, or an illegal one.
    """
    hardware = load_config(config)
    lockstep = hardware.name.startswith(LOCKSTEP)
    sources, includes = read_file_list(rtl / "npu.f")
    rules = ("axi_prot", "turn", "counter", "lockstep", "rest")
    checkers = [CHECKERS / f"{name}_checker.sv" for name in rules]
    board = [
        BOARD / name
        for name in (
            "dram_model.sv",
            "axil_bfm.sv",
            "axil_monitor.sv",
            "npu_trace.sv",
            "npu_cover.sv",
            "npu_tb.sv",
        )
    ]
    return Design(
        name=f"{hardware.name}{tree_tag(rtl)}",
        top="npu_tb",
        sources=(*sources, BOARD / "board_pkg.sv", *AXI_CHECKERS, *checkers, *board),
        parameters=hardware.parameters() | {"Lockstep": int(lockstep)},
        defines=hardware.defines(),
        includes=(rtl, BOARD, CHECKERS, *includes),
        control=(WAIVERS, BOARD / "public.vlt"),
        cpp=tuple(
            BOARD / name
            for name in (
                "dram.cpp",
                "axil_queue.cpp",
                "axil_monitor.cpp",
                "npu_trace.cpp",
                "npu_cover.cpp",
                "lifeline.cpp",
                "cases.cpp",
            )
        ),
        verilator_args=("--no-timing",),
        main=BOARD / "main.cpp",
        random_power_up=not lockstep,  # both devices power up alike
    )


def bare_design(config: str, main: Path) -> Design:
    """Return the board with the C++ main program `main`, without Python, VPI and visible signals.

    Raises: as `npu_design`.
    """
    board = npu_design(config)
    return dataclasses.replace(
        board,
        name=f"{board.name}-bare",
        control=(WAIVERS,),
        main=main,
        cocotb=False,
    )


def public_design(config: str) -> Design:
    """Return npu_top alone, with every signal public and cocotb's own main program: cocotb's usual set-up.

    Raises: as `npu_design`.
    """
    sources, includes = read_file_list(RTL / "npu.f")
    hardware = load_config(config)
    return Design(
        name=f"{hardware.name}{tree_tag(RTL)}-public",
        top=TOP,
        sources=sources,
        parameters=hardware.parameters(),
        defines=hardware.defines(),
        includes=(RTL, *includes),
        control=(WAIVERS,),
        cpp=(BOARD / "lifeline.cpp",),
        public=True,
    )
