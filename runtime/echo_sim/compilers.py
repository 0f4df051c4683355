"""Choose the C++ compiler: the one in $CXX, else clang 19 or newer, else g++."""

import dataclasses
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from typing import Final

from echo_sim.tools import CompilerMissingError

VARIABLE: Final = "CXX"
"""Environment variable with the compiler's command: a program, perhaps with arguments, as in `ccache g++`."""
MINIMUM_CLANG: Final = 19
"""Older ones make slower simulators than g++."""
NEWEST_CLANG: Final = 40
"""The highest version that is looked for by its number, as in clang++-19."""
PACKAGE: Final = "ziglang"
"""A package of pip that contains clang."""

VERSION_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Compiler:
    """A C++ compiler that works.

    Attributes:
        command: the program and its first arguments.
        version: first line of what it answers to --version.
        clang: its major version if it is a clang, else 0.
    """

    command: tuple[str, ...]
    version: str
    clang: int = 0

    @property
    def make_variables(self) -> dict[str, str]:
        """Variables of Verilator's makefile, which names the compiler that Verilator was built with."""
        return {
            "CXX": shlex.join(self.command),
            "LINK": shlex.join(self.command),
            "CFG_CXXFLAGS_PCH_I": "-include",
            "CFG_CXXFLAGS_COROUTINES": "" if self.clang else "-fcoroutines",
            "CFG_CXXFLAGS_STD": "-std=gnu++20",
            # The code is generated: warnings of unused names are of no use. The clang of ziglang traps
            # undefined behaviour in what is compiled without optimization.
            "CFG_CXXFLAGS_NO_UNUSED": "-w -fno-sanitize=undefined",
        }


def find_compiler() -> Compiler:
    """Return the compiler in $CXX if that is set; else clang on PATH, else clang of the package ziglang, both
    from version 19 on; else g++. Raise CompilerMissingError if there is none, or $CXX does not work."""
    return _chosen(os.environ.get(VARIABLE, ""), os.environ.get("PATH", ""))


@functools.lru_cache(maxsize=8)
def _chosen(named: str, path: str) -> Compiler:
    if named.strip():
        return _answering(shlex.split(named), f"${VARIABLE} names it")
    return _clang_on_path(path) or _clang_of_pip() or _answering(["g++"], "the simulator is compiled with it")


def forget() -> None:
    """Look again for what was found before: a compiler was installed or removed."""
    _chosen.cache_clear()


def _answering(command: list[str], why: str) -> Compiler:
    """Return the compiler of a command; CompilerMissingError if it is not there or does not answer."""
    program = shutil.which(command[0])
    if program is None:
        raise CompilerMissingError(
            f"{command[0]} was not found on PATH; {why}. Install it, for example: apt-get install g++"
        )
    version = _version((program, *command[1:]))
    if version is None:
        raise CompilerMissingError(f"{shlex.join(command)} --version fails; {why}")
    return Compiler((program, *command[1:]), version, _clang(version))


def _version(command: tuple[str, ...]) -> str | None:
    """Return the first line of the answer to --version; None if the command fails."""
    try:
        answer = subprocess.run(
            [*command, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    return answer.stdout.splitlines()[0] if answer.stdout else "unknown"


def _clang(version: str) -> int:
    found = re.search(r"clang version (\d+)", version)
    return int(found[1]) if found else 0


def _new_enough(command: tuple[str, ...]) -> Compiler | None:
    version = _version(command)
    if version is None or _clang(version) < MINIMUM_CLANG:
        return None
    return Compiler(command, version, _clang(version))


def _clang_on_path(path: str) -> Compiler | None:
    """Return clang++, else the newest clang++-<version>; None if there is none that is new enough."""
    for name in ("clang++", *(f"clang++-{number}" for number in range(NEWEST_CLANG, MINIMUM_CLANG - 1, -1))):
        program = shutil.which(name, path=path)
        if program is not None and (found := _new_enough((program,))) is not None:
            return found
    return None


def _clang_of_pip() -> Compiler | None:
    """Return the clang in the package ziglang; None if that is not installed or too old."""
    if importlib.util.find_spec(PACKAGE) is None:
        return None
    return _new_enough((sys.executable, "-m", PACKAGE, "c++"))


def advice(compiler: Compiler) -> str:
    """Return what another compiler would bring, as a sentence; empty if the compiler is from $CXX."""
    if os.environ.get(VARIABLE, "").strip():
        return ""
    if compiler.clang:
        return f"g++ builds sooner, and its simulators are slower: {VARIABLE}=g++"
    return f"clang {MINIMUM_CLANG} or newer makes faster simulators, and builds later: pip install {PACKAGE}"
