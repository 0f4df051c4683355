"""Build simulators: a design once for each kind, and again when a source, a flag or a tool changes."""

import contextlib
import dataclasses
import fcntl
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import cocotb_tools.runner

from echo_sim.cocotb_commands import Planned, plan
from echo_sim.compilers import Compiler, find_compiler
from echo_sim.designs import Design, npu_design
from echo_sim.places import PACKAGE, SIM_BUILD
from echo_sim.processes import run_bounded
from echo_sim.progress import BuildProgress
from echo_sim.tools import Verilator, find_libpython, find_verilator

Kind = Literal["fast", "waves", "coverage", "profile"]
KINDS: tuple[Kind, ...] = ("fast", "waves", "coverage", "profile")

# These are make variables. Verilator's -CFLAGS would also apply the flags to its symbol tables, one of which
# would then compile for minutes.
MAKE_FLAGS = {"OPT_FAST": "-O3 -march=native", "OPT_GLOBAL": "-O2 -march=native", "OPT_SLOW": "-O0"}

ENOUGH_CORES = 4
"""With fewer, a simulator builds as one C++ file: that is half the work, as no header is compiled ahead."""

ONE_FILE_FLAGS = "-fno-inline-functions"
"""With more in sight g++ inlines too much: the simulation is 2.5 % slower, and with this flag 2 % faster."""

BRIEF_FLAGS = "-O1 -march=native"
"""For a brief build that cocotb drives, where Python takes most of the time, and for waves and coverage: -O3
takes twice as long to compile so much code, and runs 5 % faster with coverage, 15 % with waves."""

VERILATOR_ARGS = (
    "--no-public-flat-rw",
    "--timing",
    "--assert",
    "-Wall",
    "--x-initial",
    "unique",
    # Loops over lanes and array cells stay loops in C++: the compiler turns them into vector instructions,
    # and there is far less code to compile.
    "--unroll-count",
    "1",
    # Each C++ file costs a load of the precompiled header. Fewer and larger ones would leave cores idle.
    "--output-split",
    "20000",
    "--output-split-cfuncs",
    "2000",
    "-LDFLAGS",
    "-rdynamic",  # Python finds the memory model's functions in the running program
)
KIND_ARGS: dict[str, tuple[str, ...]] = {
    "fast": (),
    "waves": ("--trace-structs", "-DNPU_TB_CLOCK"),
    # Line (with branches) and toggle; expression coverage on top is an internal error of Verilator 5.48.
    "coverage": ("--coverage-line", "--coverage-toggle", "--coverage-user"),
    "profile": (),
}

KIND_CONTROL: dict[str, tuple[Path, ...]] = {
    "fast": (),
    "waves": (PACKAGE / "waves" / "trace.vlt",),
    "coverage": (),
    "profile": (),
}

PROFILE_FLAGS = "-fprofile-generate -fprofile-update=single"
"""Make g++ count the branches that are taken; the program writes the counts, *.gcda, when it ends."""
TUNED_FLAGS = "-fprofile-use -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch"

COVERAGE_VARIABLE = "ECHO_NPU_COVERAGE"
"""Names a folder. While it is set, the kind "coverage" is built and run in place of "fast", and every
simulator writes the points that it reached to a file of its own in that folder."""

PROFILE_VARIABLE = "ECHO_NPU_PROFILE"
"""While it is set, the kind "profile" is built and run in place of "fast"; `echo_sim.tuning` sets it."""

ZIG_VARIABLES = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
"""Name folders in which the clang of the package ziglang keeps what it compiled, its C++ library among it."""

TUNED = "tuned"
"""A file in the directory of a simulator that was compiled for what another one had run."""

BUILD_TIMEOUT_S = 1200.0


class BuildError(RuntimeError):
    """Verilator or the compiler failed. The message has the log's relevant lines and its path."""


def as_kind(text: str) -> Kind:
    """Return `text` as a Kind; ValueError if it is none."""
    if text not in KINDS:
        raise ValueError(f"kind {text!r}: it must be one of {', '.join(KINDS)}")
    return text


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("flags"):
                return hashlib.sha256(line.encode()).hexdigest()
    return platform.processor()


def _compilation(compiler: Compiler) -> str:
    """Return one hash of what an object file depends on besides its source."""
    flags = [sorted(MAKE_FLAGS.items()), ONE_FILE_FLAGS, BRIEF_FLAGS]
    facts = [compiler.command, compiler.version, flags, _cpu_model()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _fingerprint(design: Design, kind: Kind, verilator: Verilator, compilation: str) -> str:
    """Return one hash of everything that the simulator depends on."""
    digest = hashlib.sha256()
    facts = [
        design.top,
        sorted((name, str(value)) for name, value in design.parameters.items()),
        sorted(design.defines.items()),
        design.public,
        design.verilator_args,
        design.brief,
        [str(path) for path in design.sources],
        [str(design.main), design.cocotb],
        kind,
        VERILATOR_ARGS,
        KIND_ARGS[kind],
        str(verilator.program),
        verilator.version,
        compilation,
        importlib.metadata.version("cocotb"),
        sys.version,
    ]
    digest.update(json.dumps(facts).encode())
    for path in sorted({*design.files(), *KIND_CONTROL[kind]}):
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def as_design(design: Design | str) -> Design:
    """Return `design` itself, or the board for the configuration of that name."""
    return npu_design(design) if isinstance(design, str) else design


def as_asked(kind: Kind) -> Kind:
    """Return the kind to build for `kind`: "coverage" replaces "fast" while $ECHO_NPU_COVERAGE is set, else
    "profile" while $ECHO_NPU_PROFILE is set."""
    if kind == "fast" and os.environ.get(COVERAGE_VARIABLE):
        return "coverage"
    return "profile" if kind == "fast" and os.environ.get(PROFILE_VARIABLE) else kind


def build_directory(design: Design | str, kind: Kind = "fast") -> Path:
    """Return where `build` puts the simulator of this design and kind."""
    target = as_design(design)
    return SIM_BUILD / f"{target.name}-{kind}-{target.top}"


@contextlib.contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Lock out other builders, in other processes too. The kernel releases the lock if its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _host_refusals(name: str) -> Iterator[None]:
    """Turn an OSError, for example of a full disk, into a BuildError."""
    try:
        yield
    except OSError as error:
        raise BuildError(f"building {name} failed: {error}") from error


def build(
    design: Design | str = "default",
    kind: Kind = "fast",
    *,
    counts: Sequence[Path] | None = None,
    quiet: bool = False,
) -> Path:
    """Build the simulator unless it is there and up to date; return the build directory. With
    $ECHO_NPU_COVERAGE set, "coverage" is built in place of "fast".

    `design` is a Design or the name of a configuration. Building is serialised across processes. With
    `counts`, what a simulator of the kind "profile" has written, it is compiled again in any case, for what
    that one ran; the program does the same, faster.

    Raises:
        ToolMissingError: compiler, make, perl, libpython or Verilator is not there.
        ConfigError: no such configuration, or an illegal one.
        ValueError: no such kind.
        BuildError: Verilator or the compiler refused the sources (a warning is an error), or took too long,
            or the disk is full.
    """
    kind = as_asked(as_kind(kind))
    target = as_design(design)
    directory = build_directory(target, kind)
    if any(character.isspace() for character in str(directory)):
        raise BuildError(f"GNU make cannot build in a path with a space in it: {directory}")
    compiler = find_compiler()
    verilator = find_verilator()
    find_libpython()
    compilation = _compilation(compiler)
    stamp, objects = directory / "fingerprint", directory / "compilation"
    with _host_refusals(directory.name), _exclusive(SIM_BUILD / f".{directory.name}.lock"):
        fingerprint = _fingerprint(target, kind, verilator, compilation)
        there = (directory / target.top).exists() and stamp.exists() and stamp.read_text() == fingerprint
        if there and counts is None:
            return directory
        directory.mkdir(parents=True, exist_ok=True)
        stamp.unlink(missing_ok=True)
        (directory / TUNED).unlink(missing_ok=True)
        _remove_precompiled(directory)  # a killed compiler leaves an incomplete one, newer than its source
        made = compilation if counts is None else TUNED
        if not objects.exists() or objects.read_text() != made or counts is not None:
            for old in (*directory.glob("*.o"), *directory.glob("*.a")):
                old.unlink()  # Verilator leaves sources that did not change, so make would keep their objects
            objects.write_text(made)
        _remove_objects_without_sources(directory)
        for file in counts or ():
            shutil.copyfile(file, directory / file.name)
        progress = BuildProgress(directory.name, directory, quiet)
        try:
            _compile(target, kind, verilator, compiler, directory, progress.tick, tuned=counts is not None)
        finally:
            _remove_precompiled(directory)
            for file in counts or ():
                (directory / file.name).unlink()
        if counts is not None:
            (directory / TUNED).touch()
        stamp.write_text(fingerprint)
        progress.finish()
    return directory


def _remove_precompiled(directory: Path) -> None:
    """Delete the precompiled headers: they are hundreds of megabytes, and every build makes them anew."""
    for header in directory.glob("*.gch"):
        header.unlink()


def _remove_objects_without_sources(directory: Path) -> None:
    """Delete the objects made from files that are gone, such as those of a folder that was moved: make has no
    rule for what their lists of dependencies name."""
    for listed in directory.glob("*.d"):
        names = listed.read_text(encoding="utf-8").replace("\\\n", " ").split()
        if any(os.path.isabs(name) and not os.path.exists(name.rstrip(":")) for name in names):
            listed.unlink()
            listed.with_suffix(".o").unlink(missing_ok=True)


def _compile(
    design: Design,
    kind: Kind,
    verilator: Verilator,
    compiler: Compiler,
    directory: Path,
    tick: Callable[[float], None],
    *,
    tuned: bool,
) -> None:
    environment = {
        **{name: os.environ.get(name, str(SIM_BUILD / "zig")) for name in ZIG_VARIABLES},
        "PATH": f"{verilator.program.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        **verilator.environment,
    }
    planned = (_plan_cocotb if design.cocotb else _plan_plain)(design, kind, directory, environment)
    translate, compile_ = planned.commands
    variables = {**MAKE_FLAGS, **verilator.make_variables, **compiler.make_variables}
    if kind in ("waves", "coverage") or (design.brief and design.cocotb):
        variables["OPT_FAST"] = BRIEF_FLAGS
    one_file = design.brief or (os.cpu_count() or 1) < ENOUGH_CORES
    variables["VM_PARALLEL_BUILDS"] = str(int(not one_file))
    if one_file and not compiler.clang:
        variables["OPT_FAST"] += f" {ONE_FILE_FLAGS}"
    # Verilator's own runtime neither counts nor is tuned: its objects are kept for all simulators.
    if kind == "profile":
        variables["OPT_FAST"] += f" {PROFILE_FLAGS}"
        variables["USER_LDLIBS"] = "--coverage"
    elif tuned:
        variables["OPT_FAST"] += f" {TUNED_FLAGS}"
    if "OBJCACHE" not in os.environ:  # a user's ccache does the same and more
        tool = Path(__file__).with_name("object_cache.py")
        variables["OBJCACHE"] = shlex.join(
            [sys.executable, str(tool), str(SIM_BUILD / "objects"), _compilation(compiler)]
        )
        variables["OBJCACHE"] += " $(VERILATOR_ROOT)/include"
    compile_ += [f"{name}={value}" for name, value in variables.items()]
    log = directory / "build.log"
    for step, command in enumerate((translate, compile_)):
        try:
            status = run_bounded(
                command,
                env=planned.environment,
                cwd=directory,
                log=log,
                append=step > 0,
                timeout=BUILD_TIMEOUT_S,
                tick=tick,
            )
        except subprocess.TimeoutExpired as error:
            raise BuildError(
                f"building {directory.name} took more than {error.timeout:.0f} s; log: {log}"
            ) from None
        if status != 0:
            tail = _complaints(log.read_text(encoding="utf-8", errors="replace"))
            raise BuildError(f"building {directory.name} failed:\n{tail}\nfull log: {log}")


def _verilator_args(design: Design, kind: Kind) -> list[str]:
    return [
        *VERILATOR_ARGS,
        *(("--public-flat-rw",) if design.public else ()),
        *KIND_ARGS[kind],
        *design.verilator_args,
        *(str(path) for path in design.cpp),
    ]


def _plan_cocotb(design: Design, kind: Kind, directory: Path, environment: Mapping[str, str]) -> Planned:
    """Return the commands that build a simulator which runs cocotb."""
    planned = plan(
        environment,
        "build",
        sources=[
            *(
                cocotb_tools.runner.VerilatorControlFile(path)
                for path in (*design.control, *KIND_CONTROL[kind])
            ),
            *(cocotb_tools.runner.Verilog(path) for path in design.sources),
        ],
        includes=design.includes,
        defines=design.defines,
        parameters=design.parameters,
        hdl_toplevel=design.top,
        build_args=_verilator_args(design, kind),
        build_dir=directory,
        timescale=("1ns", "1ps"),
        waves=kind == "waves",
    )
    if design.main:
        ours = str(design.main)
        translate, compile_ = planned.commands
        translate = [ours if Path(word).name == "verilator.cpp" else word for word in translate]
        planned = dataclasses.replace(planned, commands=[translate, compile_])
    return planned


def _plan_plain(design: Design, kind: Kind, directory: Path, environment: Mapping[str, str]) -> Planned:
    """Return the commands that build a simulator without cocotb."""
    translate = [
        "verilator",
        "--cc",
        "--exe",
        *("-Mdir", str(directory), "--prefix", "Vtop", "--top-module", design.top, "-o", design.top),
        *("--timescale", "1ns/1ps"),
        *_verilator_args(design, kind),
        *(f"-D{name}={value}" for name, value in design.defines.items()),
        *(f"-I{folder}" for folder in design.includes),
        *(f"-G{name}={value}" for name, value in design.parameters.items()),
        *(str(path) for path in (*design.control, *KIND_CONTROL[kind], *design.sources)),
        str(design.main),
    ]
    compile_ = ["make", "-j", str(os.cpu_count() or 1), "-C", str(directory), "-f", "Vtop.mk"]
    return Planned([translate, compile_], {**os.environ, **environment})


def _complaints(text: str) -> str:
    """Return the lines of a build log that tell of errors, or its end if there are none."""
    lines = text.splitlines()
    wanted = [
        i for i, line in enumerate(lines) if re.search(r"%(Error|Warning)|\berror:|undefined reference", line)
    ]
    if not wanted:
        return "\n".join(lines[-30:])
    keep = sorted({j for i in wanted[:12] for j in range(i, min(i + 4, len(lines)))})
    return "\n".join(lines[i] for i in keep)
