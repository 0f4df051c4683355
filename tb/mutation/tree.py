"""A copy of rtl/ with many changes behind a selector, which can be simulated in its place."""

import contextlib
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from echo_sim.config import load_config
from echo_sim.designs import npu_design, read_file_list
from echo_sim.places import BOARD, CHECKERS, RTL, SIM_BUILD
from echo_sim.tools import find_verilator
from tb.changed_trees import SELECTOR_FILE, WITHOUT_LOOKING_BACK
from tb.mutation.held import held
from tb.mutation.schemata import (
    SELECTOR_TEXT,
    SELECTOR_TOP,
    SELECTOR_UPDATE,
    Edit,
    by_file,
    render,
)
from tb.repository import ROOT
from tb.results import UnjudgedError
from tb.whole_files import write_whole

TREES = SIM_BUILD / "mutation"
CONFIG = "small"
LINT_TIMEOUT_S = 600.0


class TreeError(UnjudgedError):
    """Verilator rejects the changed sources for another reason than a change."""


def sources() -> list[Path]:
    """Return the files to change: all RTL except the generated register file."""
    files, _ = read_file_list(RTL / "npu.f")
    return [path for path in files if path.parent.name != "regs"]


def render_tree(numbered: Mapping[int, Sequence[Edit]]) -> dict[str, str]:
    """Return the texts of the RTL with numbered changes, by their paths below rtl/."""
    edits = by_file(numbered)
    texts = {SELECTOR_FILE: SELECTOR_TEXT}
    for path in sorted(RTL.rglob("*")):
        if path.suffix in (".sv", ".svh", ".f", ".vlt"):
            text = path.read_text(encoding="utf-8")
            relative = str(path.relative_to(RTL))
            changed = render(text, edits[path.name]) if path.name in edits else text
            if relative == SELECTOR_TOP:
                head, end, tail = changed.rpartition("endmodule")
                changed = head + SELECTOR_UPDATE + end + tail
            texts[relative] = changed
    return texts


@contextlib.contextmanager
def usable(name: str, numbered: Mapping[int, Sequence[Edit]]) -> Iterator[tuple[Path, dict[int, str]]]:
    """Hold the tree `name` without the changes that Verilator rejects; yield its folder and the reasons by
    number.

    It does not change before the end of the `with`: campaigns with other changes wait, and those with the
    same ones share it.

    Raises TreeError: it is rejected for another reason.
    """
    folder = TREES / name
    asked = json.dumps(render_tree(numbered), sort_keys=True)
    digest = hashlib.sha256(asked.encode()).hexdigest()
    with held(folder, digest, lambda: _fill(folder, numbered)) as refused:
        yield folder, refused


def _fill(folder: Path, numbered: Mapping[int, Sequence[Edit]]) -> dict[int, str]:
    """Write the tree without the changes that Verilator rejects; return the reasons by number."""
    left = dict(numbered)
    refused: dict[int, str] = {}
    while True:
        for relative, text in render_tree(left).items():
            target = folder / relative
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                write_whole(target, text)
        complaints = _complaints(folder)
        if not complaints:
            return refused
        blamed: dict[int, str] = {}
        for path, line, message in complaints:
            text = path.read_text(encoding="utf-8").splitlines()[line - 1] if path.exists() else ""
            for number in re.findall(r"mutation_pkg::selected == 32'd(\d+)", text):
                blamed[int(number)] = message
        if not blamed:
            raise TreeError(f"{folder} is refused:\n" + "\n".join(f"{p}:{n}: {m}" for p, n, m in complaints))
        refused |= blamed
        for number in blamed:
            del left[number]


def _complaints(folder: Path) -> list[tuple[Path, int, str]]:
    """Return Verilator's errors about a tree: file, line, message."""
    design = npu_design(CONFIG, folder)
    verilator = find_verilator()
    result = subprocess.run(
        [
            str(verilator.program),
            *("--lint-only", "--assert", "--timing", "--quiet", "-Wno-fatal", "-Wno-lint", "-Wno-style"),
            *WITHOUT_LOOKING_BACK,
            *("--top-module", "npu_top", f"-I{folder}"),
            *(f"-G{name}={value}" for name, value in load_config(CONFIG).parameters().items()),
            *(str(path) for path in design.sources if path.parent not in (BOARD, CHECKERS)),
        ],
        cwd=ROOT,
        env={**os.environ, **verilator.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LINT_TIMEOUT_S,
    )
    found = re.findall(r"^%Error[^:]*: ([^:\n]+):(\d+):\d+: (.*)$", result.stdout, re.MULTILINE)
    if result.returncode and not found:
        raise TreeError(f"{folder} is refused:\n{result.stdout}")
    return [(Path(path), int(line), message) for path, line, message in found]
