"""Run random programs; keep and shrink those that fail."""

import dataclasses
import json
import re
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from echo_sim.build import build
from echo_sim.config import absolute, load_config
from echo_sim.run import RUNS, SimulationError, run
from tb.repository import ROOT
from tb.results import CampaignResult, Item
from tb.stimulus.steps import StepProgram
from tb.uvm.sequences import SEQUENCES
from tb.uvm.shrink import shrink
from tb.uvm.suite import REQUESTS_VARIABLE

FAILURES = ROOT / "failures"
BATCH = 25
"""Programs per simulator run."""
TIMEOUT_S = 900.0
SUITE = "tb.uvm.suite"


@dataclasses.dataclass(frozen=True)
class FailedProgram:
    """Name and text of the exception that a program failed with."""

    kind: str
    message: str


@dataclasses.dataclass(frozen=True)
class ProgramCampaign:
    """Plays programs on one configuration.

    Attributes:
        config: the configuration.
        sequence: that programs are drawn from.
        suite: module of cocotb tests that plays them.
        name: of its runs' files; unique in this process.
        failures: folder for failing programs.
    """

    config: str
    sequence: str = "mixed"
    suite: str = SUITE
    name: str = "uvm"
    failures: Path = FAILURES

    def seeds(self, seeds: Sequence[int]) -> list[FailedProgram | None]:
        """Play the programs of these seeds and return the failure of each. Raises BuildError,
        ToolMissingError."""
        return self._play([{"sequence": self.sequence, "seed": seed} for seed in seeds])

    def programs(self, programs: Sequence[StepProgram]) -> list[FailedProgram | None]:
        """Play programs and return the failure of each. Raises BuildError, ToolMissingError."""
        files = []
        for number, program in enumerate(programs):
            files.append(RUNS / f"{self.name}-programs" / f"{number}.json")
            program.save(files[-1])
        return self._play([{"program": str(file)} for file in files])

    def drawn(self, seed: int) -> StepProgram:
        """Draw the program of a seed."""
        return SEQUENCES[self.sequence]("drawn").program(seed, load_config(self.config))

    def shrunk(self, program: StepProgram, failure: FailedProgram) -> StepProgram:
        """Return a short program that fails with the same type of exception."""

        def fails(candidates: Sequence[StepProgram]) -> list[bool]:
            return [each is not None and each.kind == failure.kind for each in self.programs(candidates)]

        return shrink(program, fails)

    def keep(self, seed: int, failure: FailedProgram) -> tuple[Path, StepProgram]:
        """Save the program of a failing seed, then the shrunk one in its place; return path and program."""
        path = self.failures / f"{self.sequence}-{load_config(self.config).name}-{seed}.json"
        program = self.drawn(seed)
        notes = {
            "failure": f"{failure.kind}: {failure.message}",
            "seed": str(seed),
            "sequence": self.sequence,
            "config": self.config,
        }
        program.save(path, **notes)  # in case the rest fails
        again = self.programs([program])[0]
        if again is None or again.kind != failure.kind:
            return path, program  # the failure depends on more than the program; the seed replays it
        short = self.shrunk(program, failure)
        short.save(path, **notes)
        return path, short

    def _play(self, requests: Sequence[dict[str, object]]) -> list[FailedProgram | None]:
        if not requests:
            return []
        asked = RUNS / f"{self.name}-requests.json"
        asked.parent.mkdir(parents=True, exist_ok=True)
        asked.write_text(json.dumps(list(requests)), encoding="utf-8")
        try:
            result = run(
                self.config,
                self.suite,
                name=self.name,
                replay=f"make uvm CONFIG={self.config}",
                env={"ECHO_NPU_CONFIG": self.config, REQUESTS_VARIABLE: str(asked)},
                seed=1,  # for the simulator itself; programs have their own
                timeout=TIMEOUT_S,
                quiet=True,
            )
        except SimulationError as error:
            if len(requests) == 1:
                return [FailedProgram("SimulationError", str(error))]
            return [failure for request in requests for failure in self._play([request])]
        found: list[FailedProgram | None] = [FailedProgram("SimulationError", "it was not played")] * len(
            requests
        )
        for outcome in result.outcomes:
            number = re.search(r"index=(\d+)", outcome.name)
            assert number is not None, f"{outcome.name} is not a program's test"
            kind, _, message = outcome.message.partition(": ")
            found[int(number[1])] = None if outcome.passed else FailedProgram(kind, message)
        return found


def batches(first: int, count: int | None, until: float | None) -> Iterator[list[int]]:
    """Yield batches of seeds from `first` on: `count` in total, or until time.monotonic() reaches `until`."""
    done = 0
    while (count is None or done < count) and (until is None or time.monotonic() < until):
        size = BATCH if count is None else min(BATCH, count - done)
        yield list(range(first + done, first + done + size))
        done += size


def _config_of(path: Path, otherwise: str) -> str:
    """Return the configuration in a kept program's file; `otherwise` if it has none."""
    read = json.loads(path.read_text(encoding="utf-8"))
    return str(read.get("config", otherwise)) if isinstance(read, dict) else otherwise


def replay(path: Path, config: str, seed: int) -> CampaignResult:
    """Replay a kept program on the configuration in its file, else on `config`. Raises as `play`."""
    try:
        program = StepProgram.load(path)
    except KeyError as error:
        raise ValueError(f"{path} is not a kept program: it has no {error}") from None
    except (AttributeError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"{path} is not a kept program: {error}") from None
    started = time.monotonic()
    print(program)
    failure = _campaign(_config_of(path, config), "mixed", seed).programs([program])[0]
    message = "" if failure is None else f"{failure.kind}: {failure.message}"
    item = Item(path.stem, "fail" if failure else "pass", time.monotonic() - started, message)
    figures = {"uvm_programs": 1, "uvm_failed": int(failure is not None)}
    return CampaignResult("uvm", seed, item.seconds, figures, [item])


def play(
    config: str, sequence: str, seed: int, *, count: int | None, hours: float | None, first: bool = False
) -> CampaignResult:
    """Play `count` programs of the sequence, or for `hours`; print and keep each that fails.

    With `first` the campaign ends behind the batch of the first failure, and nothing is kept or shortened.

    Figures: uvm_programs, uvm_failed.

    Raises: as `echo_sim.build.build`.
    """
    campaign = _campaign(config, sequence, seed)
    started = time.monotonic()
    played = 0
    failed: list[Item] = []
    for seeds in batches(seed, count, started + 3600 * hours if hours else None):
        for number, failure in zip(seeds, campaign.seeds(seeds), strict=True):
            played += 1
            if failure is None:
                continue
            again = f"make uvm SEQUENCE={sequence} CONFIG={campaign.config} SEED={number} N=1"
            print(f"FAIL  seed {number}: {failure.kind}: {failure.message}\nreplay: {again}", flush=True)
            program = campaign.drawn(number)
            if not first:
                path, program = campaign.keep(number, failure)
                print(f"{program}\nreplay: make uvm REPLAY={path}", flush=True)
            name = f"{sequence} {campaign.config} {number}"
            failed.append(Item(name, "fail", 0.0, f"{failure.kind}: {failure.message}", again, str(program)))
        print(f"{played} programs, {len(failed)} failed, next seed {seeds[-1] + 1}", flush=True)
        if first and failed:
            break
    seconds = time.monotonic() - started
    drawn = f"{played} programs of {sequence!r} from seed {seed}"
    print(f"{drawn} in {seconds:.0f} s: {len(failed)} failed")
    figures = {"uvm_programs": played, "uvm_failed": len(failed)}
    return CampaignResult("uvm", seed, seconds, figures, failed)


def _campaign(config: str, sequence: str, seed: int) -> ProgramCampaign:
    """Build the simulator of a configuration and return its campaign."""
    config = absolute(config)
    build(config)
    return ProgramCampaign(config, sequence, name=f"uvm-{sequence}-{load_config(config).name}-{seed}")
