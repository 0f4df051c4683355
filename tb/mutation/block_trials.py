"""Run the testbenches of modules on changed sources."""

import contextlib
import fcntl
import hashlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from echo_sim.run import SimulationError
from tb.blocks import sources_of
from tb.mutation.broken_rules import broken_rule
from tb.mutation.changed import run_changed
from tb.repository import ROOT
from tb.results import UnjudgedError

REFERENCE_S = 900.0
FACTOR = 2.0
MORE_S = 60.0


class UnchangedFailsError(UnjudgedError):
    """The RTL without a change fails, so changes cannot be judged."""


def blocks_of(file: str) -> list[str]:
    """Return the folders of module testbenches that contain this file, relative to the repository.

    The module's own comes first: it knows most about the file, and is shorter than those of larger modules.
    """
    found = []
    for folder in sorted((ROOT / "tests" / "rtl").glob("*/*/")):
        testbench = [*folder.glob("*.sv"), *(ROOT / "rtl").glob(f"*/{folder.name}.sv")]
        held = {source.name for source in sources_of(*testbench)}
        listed = (path.read_text(encoding="utf-8") for path in folder.glob("test_*.py"))
        if file in held or any(f"/{file}" in text for text in listed):
            found.append(folder)
    found.sort(key=lambda folder: folder.name != Path(file).stem)
    return [str(folder.relative_to(ROOT)) for folder in found]


def state_of_code(*folders: str) -> str:
    """Return a digest of all Python files and SystemVerilog files in folders of the repository."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sv", ".svh"):
                digest.update(path.read_bytes())
    return digest.hexdigest()


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock `path`, exclusively across processes."""
    with open(path, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class BlockTrials:
    """Runs module testbenches on the changes in the tree `folder`.

    Args:
        name: unique among concurrent users of the tree. Two never run one testbench at a time.
        measured: run each testbench whole without a change first: its time is the limit for hangs. This pays
            where many changes meet it. Otherwise only the tests that fail run without the change, afterwards.
    """

    def __init__(self, folder: Path, seed: int, name: str, *, measured: bool = True) -> None:
        self._folder = folder
        self._seed = seed
        self._name = name
        self._measured = measured
        self._sound: set[str] = set()
        self._state = state_of_code("tests/rtl", "tb", "runtime", "rtl")[:16]

    def find(self, file: str, number: int, *, own: bool) -> tuple[str, str]:
        """Return the testbench that finds change `number` of a file, and its message; empty if none does.

        Args:
            own: try the module's own testbench; otherwise those of the modules that contain it.

        Raises:
            UnchangedFailsError: a testbench fails without a change.
            SimulationError: a testbench does not run.
        """
        for testbench in blocks_of(file):
            if (Path(testbench).name == Path(file).stem) != own:
                continue
            with alone(self._folder / f".{Path(testbench).name}.lock"):
                limit = self._limit(testbench) if self._measured else REFERENCE_S
                how, failed = self._run(testbench, number, limit)
                if how and not self._measured:
                    self._pass_unchanged(testbench, failed)
            if how:
                return testbench, how
        return "", ""

    def _pass_unchanged(self, testbench: str, failed: Sequence[str]) -> None:
        """Require that the tests that found a change, or all if none is known, pass without it, once each."""
        if unknown := [test for test in failed or [testbench] if test not in self._sound]:
            how, _ = self._run(testbench, 0, REFERENCE_S, unknown)
            if how:
                raise UnchangedFailsError(f"{' '.join(unknown)} fails without a change: {how}")
            self._sound.update(unknown)

    def _limit(self, testbench: str) -> float:
        """Return the seconds after which a testbench hangs, from its time (with build) without a change.

        It is measured once per tree, seed and state of the code, and kept for other users of the tree.
        """
        kept = self._folder / f".{Path(testbench).name}-{self._seed}-{self._state}.seconds"
        with contextlib.suppress(OSError, ValueError):
            return MORE_S + FACTOR * float(kept.read_text(encoding="utf-8"))
        started = time.monotonic()
        how, _ = self._run(testbench, 0, REFERENCE_S)
        if how:
            raise UnchangedFailsError(f"{testbench} fails without a change: {how}")
        seconds = time.monotonic() - started
        kept.write_text(f"{seconds:.1f}", encoding="utf-8")
        return MORE_S + FACTOR * seconds

    def _run(
        self, testbench: str, number: int, limit: float, tests: Sequence[str] = ()
    ) -> tuple[str, list[str]]:
        """Run `tests` of a testbench, or all; return how they fail, empty if they pass, and which do."""
        tests = tests or [testbench]
        try:
            # Tests that insert their own faults do not simulate the changed sources.
            status, text = run_changed(
                ["-m", "pytest", "-x", "-q", "-k", "not is_found", *tests],
                self._folder,
                number,
                name=f"{self._name}-block-{Path(testbench).name}",
                limit=limit,
                environment={"SEED": str(self._seed)},
            )
        except subprocess.TimeoutExpired:
            return f"it hangs: no end after {limit:.0f} s", []
        if status == 0:
            return "", []
        if status != 1:
            raise SimulationError(f"{' '.join(tests)} does not run with change {number}:\n{text}")
        told = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
        failed = [line.partition(" ")[2].partition(" - ")[0] for line in told]
        return broken_rule(text) or "; ".join(told) or "it fails", failed
