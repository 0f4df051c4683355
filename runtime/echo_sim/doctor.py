"""Check what a simulation needs of this machine, and say how to get what is missing."""

import dataclasses
import importlib.metadata
import os
from collections.abc import Callable

from echo_sim import compilers, places, tools

PACKAGES = ("cocotb", "cocotbext-axi", "pytest")
"""Python packages without which no simulation starts: the simulator imports the first two, and cocotb imports
pytest. The extra `sim` has them."""


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that is needed: what it is, whether it is there, and where, or how to get it."""

    name: str
    found: bool
    detail: str


def findings() -> list[Finding]:
    """Return a finding for everything that is needed, found or not."""
    checks: list[tuple[str, Callable[[], str]]] = [
        ("C++ compiler", _compiler),
        ("make", tools.find_make),
        ("perl", tools.find_perl),
        ("Verilator", _verilator),
        ("libpython", tools.find_libpython),
        *((f"Python package {name}", _package(name)) for name in PACKAGES),
        ("sources", _sources),
        ("builds", _builds),
    ]
    return [_finding(name, check) for name, check in checks]


def _finding(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, check())
    except (tools.ToolMissingError, OSError) as error:
        return Finding(name, False, str(error))
    except ImportError as error:
        return Finding(name, False, f"{error.name} is not installed: pip install 'echo-npu[sim]'")


def _compiler() -> str:
    found = compilers.find_compiler()
    shown = f"{' '.join(found.command)}: {found.version}"
    advice = compilers.advice(found)
    return f"{shown} ({advice})" if advice else shown


def _verilator() -> str:
    found = tools.find_verilator()
    return f"{found.program}: {found.version[0]}.{found.version[1]:03d}"


def _package(name: str) -> Callable[[], str]:
    return lambda: importlib.metadata.version(name)


def _sources() -> str:
    if not (places.RTL / "npu.f").is_file():
        raise FileNotFoundError(f"{places.RTL} has no npu.f; ${places.RTL_VARIABLE} names the folder")
    return str(places.RTL)


def _builds() -> str:
    # The folder is made by the first build: what counts is whether that can make it.
    present = next(each for each in (places.SIM_BUILD, *places.SIM_BUILD.parents) if each.exists())
    if not present.is_dir() or not os.access(present, os.W_OK | os.X_OK):
        raise PermissionError(
            f"{places.SIM_BUILD} cannot be written; ${places.CACHE_VARIABLE} names another folder"
        )
    return str(places.SIM_BUILD)
