"""Runs random programs, keeps those that fail, and makes them short.

python -m tb.uvm.campaign [--sequence mixed] [--config small] [--count 50 | --hours 8 | --replay FILE]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tb.npu_config import ROOT, ConfigError, load_config
from tb.results import CampaignResult, Item
from tb.runner import RUNS, BuildError, SimulationError, build, choose_seed, run
from tb.stimulus.steps import StepProgram
from tb.tools import ToolMissingError
from tb.uvm.sequences import SEQUENCES
from tb.uvm.shrink import shrink
from tb.uvm.suite import REQUESTS_VARIABLE

FAILURES = ROOT / "failures"
BATCH = 25
"""Programs that one simulator plays."""
TIMEOUT_S = 900.0
SUITE = "tb.uvm.suite"


@dataclasses.dataclass(frozen=True)
class Failure:
    """A program that failed: the exception's name, and its text."""

    kind: str
    message: str


@dataclasses.dataclass(frozen=True)
class Campaign:
    """Plays programs on one configuration.

    `suite` is the module of cocotb tests that plays them, `name` names the runs' files, `failures` is where
    failing programs are kept.
    """

    config: str
    sequence: str = "mixed"
    suite: str = SUITE
    name: str = "uvm"
    failures: Path = FAILURES

    def seeds(self, seeds: Sequence[int]) -> list[Failure | None]:
        """Play the programs of these seeds; what failed of each. BuildError, ToolMissingError."""
        return self._play([{"sequence": self.sequence, "seed": seed} for seed in seeds])

    def programs(self, programs: Sequence[StepProgram]) -> list[Failure | None]:
        """Play programs; what failed of each. BuildError, ToolMissingError."""
        files = []
        for number, program in enumerate(programs):
            files.append(RUNS / f"{self.name}-programs" / f"{number}.json")
            program.save(files[-1])
        return self._play([{"program": str(file)} for file in files])

    def drawn(self, seed: int) -> StepProgram:
        """The program of a seed."""
        return SEQUENCES[self.sequence]("drawn").program(seed, load_config(self.config))

    def shrunk(self, program: StepProgram, failure: Failure) -> StepProgram:
        """A short program that fails with the same kind of exception."""

        def fails(candidates: Sequence[StepProgram]) -> list[bool]:
            return [each is not None and each.kind == failure.kind for each in self.programs(candidates)]

        return shrink(program, fails)

    def keep(self, seed: int, failure: Failure) -> tuple[Path, StepProgram]:
        """Save the program of a failing seed, then the short one in its place; where, and the short one."""
        path = self.failures / f"{self.sequence}-{self.config}-{seed}.json"
        program = self.drawn(seed)
        notes = {
            "failure": f"{failure.kind}: {failure.message}",
            "seed": str(seed),
            "sequence": self.sequence,
            "config": self.config,
        }
        program.save(path, **notes)  # whatever becomes of the rest
        again = self.programs([program])[0]
        if again is None or again.kind != failure.kind:
            return path, program  # it depends on more than the program: the seed replays it
        short = self.shrunk(program, failure)
        short.save(path, **notes)
        return path, short

    def _play(self, requests: Sequence[dict[str, object]]) -> list[Failure | None]:
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
                seed=1,  # of what the simulator draws by itself; programs have their own
                timeout=TIMEOUT_S,
                quiet=True,
            )
        except SimulationError as error:
            if len(requests) == 1:
                return [Failure("SimulationError", str(error))]
            return [failure for request in requests for failure in self._play([request])]
        found: list[Failure | None] = [Failure("SimulationError", "it was not played")] * len(requests)
        for outcome in result.outcomes:
            number = re.search(r"index=(\d+)", outcome.name)
            assert number is not None, f"{outcome.name} is not a program's test"
            kind, _, message = outcome.message.partition(": ")
            found[int(number[1])] = None if outcome.passed else Failure(kind, message)
        return found


def batches(first: int, count: int | None, until: float | None) -> Iterator[list[int]]:
    """Seeds from `first` on, so many at a time: `count` of them, or until time.monotonic() is `until`."""
    done = 0
    while (count is None or done < count) and (until is None or time.monotonic() < until):
        size = BATCH if count is None else min(BATCH, count - done)
        yield list(range(first + done, first + done + size))
        done += size


def _config_of(path: Path, otherwise: str) -> str:
    """The configuration on which a kept program failed; of one that was saved without, `otherwise`."""
    read = json.loads(path.read_text(encoding="utf-8"))
    return str(read.get("config", otherwise)) if isinstance(read, dict) else otherwise


def _replay(campaign: Campaign, path: Path) -> int:
    program = StepProgram.load(path)
    print(program)
    failure = campaign.programs([program])[0]
    print("pass" if failure is None else f"FAIL {failure.kind}: {failure.message}")
    return int(failure is not None)


def _run(campaign: Campaign, seed: int, count: int | None, hours: float | None) -> CampaignResult:
    started = time.monotonic()
    played = 0
    failed: list[Item] = []
    for seeds in batches(seed, count, started + 3600 * hours if hours else None):
        for number, failure in zip(seeds, campaign.seeds(seeds), strict=True):
            played += 1
            if failure is None:
                continue
            again = f"make uvm SEQUENCE={campaign.sequence} CONFIG={campaign.config} SEED={number} N=1"
            print(f"FAIL  seed {number}: {failure.kind}: {failure.message}\nreplay: {again}", flush=True)
            path, program = campaign.keep(number, failure)
            print(f"{program}\nreplay: make uvm REPLAY={path}", flush=True)
            name = f"{campaign.sequence} {campaign.config} {number}"
            failed.append(Item(name, "fail", 0.0, f"{failure.kind}: {failure.message}", again, str(program)))
        print(f"{played} programs, {len(failed)} failed, next seed {seeds[-1] + 1}", flush=True)
    seconds = time.monotonic() - started
    drawn = f"{played} programs of {campaign.sequence!r} from seed {seed}"
    print(f"{drawn} in {seconds:.0f} s: {len(failed)} failed")
    figures = {"uvm_programs": played, "uvm_failed": len(failed)}
    return CampaignResult("uvm", seed, seconds, figures, failed)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when every program passed, 1 when not, 2 for wrong arguments or a missing
    tool."""
    parser = argparse.ArgumentParser(
        prog="python -m tb.uvm.campaign", description="random programs on the simulated NPU"
    )
    parser.add_argument("--sequence", default="mixed", choices=list(SEQUENCES))
    parser.add_argument("--config", default="default", help="hardware configuration")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--count", type=int, default=50, help="programs, from seed $SEED on")
    length.add_argument("--hours", type=float, help="go on for so long")
    length.add_argument("--replay", type=Path, help="play a program that was saved, on its configuration")
    parser.add_argument("--json", type=Path, help="write the result, with the programs that failed")
    options = parser.parse_args(argv)
    try:
        if options.count < 1 or (options.hours is not None and options.hours <= 0):
            raise ValueError("N and HOURS must be more than 0")
        seed = choose_seed()
        config = _config_of(options.replay, options.config) if options.replay else options.config
        build(config)
        name = f"uvm-{options.sequence}-{config}-{seed}"  # others may run at the same time
        campaign = Campaign(config, options.sequence, name=name)
        if options.replay:
            return _replay(campaign, options.replay)
        result = _run(campaign, seed, None if options.hours else options.count, options.hours)
        if options.json:
            result.save(options.json)
        return 0 if result.passed else 1
    except (ConfigError, ToolMissingError, BuildError, OSError, KeyError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
