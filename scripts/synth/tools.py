"""Run Yosys and nextpnr of this Python environment.

They are WebAssembly programs with traps of their own. Their /tmp is private, so all files lie in the working
folder, under relative names. After `abc` nothing that Yosys says reaches standard output, so its log file
tells of errors.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from echo_sim.processes import run_bounded
from echo_sim.tools import find_python_tool
from tb.netlist.mapping import YOSYS

_SHELLS_SIGNALS = 128
"""What a shell adds to a signal's number to make an exit status."""


class SynthesisError(Exception):
    """A tool refused its input, or took too long; the text is what to print, and its first line says why."""


def yosys(script: Sequence[str], folder: Path, timeout: float) -> None:
    """Run commands of Yosys in a folder.

    Raises:
        SynthesisError: an error, whose text it has, or more than `timeout` seconds.
        PythonToolMissingError: there is no Yosys.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
    log = folder / "yosys.log"
    log.unlink(missing_ok=True)
    status, printed = run_tool(YOSYS, ["-Q", "-q", "-l", log.name, "script.ys"], folder, timeout)
    if status != 0:
        logged = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        raise refusal(YOSYS, logged + printed, status)


def run_tool(name: str, arguments: Sequence[str], folder: Path, timeout: float) -> tuple[int, str]:
    """Run a program of this Python environment in a folder; return its exit status and what it prints.

    The program ends with this process.

    Raises:
        SynthesisError: it takes more than `timeout` seconds.
        PythonToolMissingError: there is no such program.
    """
    printed = folder / f"{name}.txt"
    try:
        status = run_bounded(
            [find_python_tool(name), *arguments], env=os.environ, cwd=folder, log=printed, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise SynthesisError(f"{name} takes more than {timeout:.0f} s") from None
    return status, printed.read_text(encoding="utf-8", errors="replace")


def refusal(name: str, said: str, status: int) -> SynthesisError:
    """Return the error of a tool that ended with `status`: the errors in what it said, or how it ended.

    Args:
        name: of the program.
        said: what it printed.
        status: negative for a signal, or as a shell says it.
    """
    errors = dict.fromkeys(line for line in said.splitlines() if "ERROR" in line)
    return SynthesisError("\n".join(errors) or f"{name} ended with {_ending(status)}\n{said[-500:].strip()}")


def _ending(status: int) -> str:
    number = -status if status < 0 else status - _SHELLS_SIGNALS
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit status {status}"
