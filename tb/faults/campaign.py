"""The fault campaign and the fuzz campaign: draws cases batch by batch, runs them natively, judges them, and
keeps those that fail.

python -m tb.faults.campaign faults --count 100000
python -m tb.faults.campaign fuzz --count 1000000 --config small --shard 1/4 --json reports/fuzz-1.json
python -m tb.faults.campaign fuzz --replay failures/fuzz-small-7-3-88.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tb.faults.fault_case import KINDS, FaultCase, FaultProgram, calibration, draw_program, traffic
from tb.faults.fuzz_case import FuzzCase
from tb.faults.predicted_case import PredictedCase
from tb.faults.prediction import PredictedDevice
from tb.faults.runner import Record, Runner, judge
from tb.faults.stage import Stage
from tb.npu_config import ROOT, ConfigError
from tb.results import CampaignResult, Item
from tb.runner import KINDS as BUILD_KINDS
from tb.runner import BuildError, as_kind, choose_seed
from tb.shard import WHOLE, Shard, parse_shard
from tb.tools import ToolMissingError

Name = Literal["faults", "fuzz"]
NAMES: Final[tuple[Name, ...]] = ("faults", "fuzz")
FAILURES: Final = ROOT / "failures"
MOST_FAILURES: Final = 20
"""Where a campaign ends early: more would not tell more."""

CASE_PACKETS: Final = 60
"""Packets of a case of the fuzz campaign."""
BATCH_PACKETS: Final = 15_000
BATCH_FAULTS: Final = 1_500
PROGRAM_FAULTS: Final = 30
"""How many faults hit one program."""
POOL: Final = 200
"""Legal commands that a batch has to choose from."""


@dataclasses.dataclass
class Failure:
    """A case that failed: its batch, its number in it, and what was wrong."""

    batch: int
    case: int
    wrong: list[str]
    notes: list[str]


class Campaign:
    """Cases of one kind on one configuration.

    Args:
        name: "faults" or "fuzz".
        config: hardware configuration.
        seed: with the number of a batch it decides everything in that batch.
        runner: where cases are executed.
    """

    def __init__(self, name: Name, config: str, seed: int, runner: Runner) -> None:
        self.name, self.config, self.seed = name, config, seed
        self._runner = runner
        self._device = PredictedDevice(config)
        self.figures: Counter[str] = Counter()
        self.failures: list[Failure] = []

    def run(self, count: int, shard: Shard = WHOLE) -> None:
        """So many faults or packets, or a part of them."""
        size = BATCH_FAULTS if self.name == "faults" else BATCH_PACKETS
        batch = shard.part - 1
        wanted = -(-count // shard.parts)
        what = "faults" if self.name == "faults" else "packets"
        while self.figures[what] < wanted and len(self.failures) < MOST_FAILURES:
            self.batch(batch, min(size, wanted - self.figures[what]))
            print(
                f"batch {batch}: {self.figures[what]} {what}, {self.figures['cycles']} cycles,"
                f" {len(self.failures)} cases failed",
                flush=True,
            )
            batch += shard.parts

    def batch(self, number: int, size: int, only: int | None = None) -> None:
        """One batch of at least `size` faults or packets; of it, with `only`, one case."""
        rng = random.Random(f"{self.name} {self.config} {self.seed} {number}")
        stage = Stage(self.config, rng, POOL, self._device)
        seed = rng.getrandbits(30)
        if self.name == "fuzz":
            self._fuzz(stage, rng, number, size, seed, only)
        else:
            self._faults(stage, rng, number, size, seed, only)

    def _fuzz(
        self, stage: Stage, rng: random.Random, number: int, size: int, seed: int, only: int | None
    ) -> None:
        cases: list[FuzzCase] = []
        packets = 0
        while packets < size or (only is not None and len(cases) <= only):
            case = FuzzCase(stage, rng.getrandbits(64), CASE_PACKETS)
            cases.append(case)
            packets += case.packets + case.dropped
        chosen = range(len(cases)) if only is None else [only]
        records = self._runner.run(
            stage.images, stage.routines, stage.first, [cases[index].script for index in chosen], seed
        )
        for index, record in zip(chosen, records, strict=True):
            case = cases[index]
            self._count(case, record)
            self.figures["packets"] += case.packets + case.dropped
            self.figures["packets_answered"] += case.packets
            self.figures["accesses"] += case.accesses
            self._blame(number, index, judge(case.script, record), case.notes)

    def _faults(
        self, stage: Stage, rng: random.Random, number: int, size: int, seed: int, only: int | None
    ) -> None:
        programs: list[FaultProgram] = []
        routines = list(stage.routines)
        for _ in range(-(-BATCH_FAULTS // PROGRAM_FAULTS)):
            program = draw_program(stage, rng, len(routines))
            programs.append(program)
            routines += [program.submit, program.compare]
        trials = [calibration(stage, program) for program in programs]
        records = self._runner.run(stage.images, routines, stage.first, trials, seed)
        usual = []
        for trial, record in zip(trials, records, strict=True):
            wrong = judge(trial, record)
            if wrong:
                self._blame(number, -1, wrong, ["a program without a fault"])
                return
            usual.append(traffic(record))
        kinds, weights = list(KINDS), list(KINDS.values())
        cases: list[FaultCase] = []
        for index in range(size if only is None else only + 1):
            kind = rng.choices(kinds, weights)[0]
            at = index % len(programs)
            cases.append(FaultCase(stage, rng.getrandbits(64), kind, programs[at], usual[at]))
        chosen = range(len(cases)) if only is None else [only]
        records = self._runner.run(
            stage.images, routines, stage.first, [cases[index].script for index in chosen], seed + 1
        )
        for index, record in zip(chosen, records, strict=True):
            case = cases[index]
            wrong, outcome = case.judge(record)
            self._count(case, record)
            self.figures[outcome] += 1
            if outcome != "missed":
                self.figures["faults"] += 1
                self.figures[f"faults_{case.kind}"] += 1
            self._blame(number, index, wrong, [case.kind, *case.notes])

    def _count(self, case: PredictedCase, record: Record) -> None:
        self.figures["cases"] += 1
        self.figures["cycles"] += record.cycles
        self.figures["stray_writes"] += record.stray_writes
        for code, count in case.errors.items():
            self.figures[f"errors_{code}"] += count

    def _blame(self, batch: int, case: int, wrong: list[str], notes: list[str]) -> None:
        self.figures["hangs"] += any(each.startswith("hang") for each in wrong)
        self.figures["wrong"] += any(each.startswith(("wrong", "and", "the case")) for each in wrong)
        self.figures["crashes"] += any(each.startswith(("crash", "protocol")) for each in wrong)
        self.figures["stray_writes"] += sum(each.startswith("stray write: burst") for each in wrong)
        if wrong:
            self.failures.append(Failure(batch, case, wrong, notes))

    # --- what stays of it ---

    def keep(self, failure: Failure, folder: Path = FAILURES) -> Path:
        """Write down where a failing case comes from."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}-{self.config}-{self.seed}-{failure.batch}-{failure.case}.json"
        where = {"campaign": self.name, "config": self.config, "seed": self.seed}
        path.write_text(json.dumps(where | dataclasses.asdict(failure), indent=1) + "\n", encoding="utf-8")
        return path

    def result(self, seconds: float, shard: Shard = WHOLE) -> CampaignResult:
        """In the form that reports read."""
        items = [
            Item(
                f"{self.name}-{self.config}-{self.seed}-{failure.batch}-{failure.case}",
                "fail",
                message="; ".join(failure.wrong),
                replay=f"make {self.name} REPLAY={self.keep(failure).relative_to(ROOT)}",
                detail="; ".join(failure.notes),
            )
            for failure in self.failures
        ]
        if not items:
            items = [Item(f"{self.name}-{self.config}-{self.seed}-part-{shard}", "pass", seconds)]
        return CampaignResult(self.name, self.seed, seconds, dict(sorted(self.figures.items())), items)


def replayed(path: Path, runner_name: str) -> list[str]:
    """Play a kept case again: alone, and if that passes with all before it. What is wrong, in words.

    Raises:
        ValueError: the file is none that `Campaign.keep` wrote.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        name, config, seed = kept["campaign"], kept["config"], int(kept["seed"])
        batch, case = int(kept["batch"]), int(kept["case"])
        if name not in NAMES:
            raise ValueError(name)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a kept case: {error}") from None
    runner = Runner(config, runner_name)
    size = BATCH_FAULTS if name == "faults" else BATCH_PACKETS
    for only in ([case] if case >= 0 else []) + [None]:
        campaign = Campaign(name, config, seed, runner)
        campaign.batch(batch, size, only)
        for failure in campaign.failures:
            if failure.case == case:
                print("\n".join(failure.notes))
                return failure.wrong
    return []


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when every case passed, 1 when not, 2 for wrong arguments or a missing
    tool."""
    parser = argparse.ArgumentParser(
        prog="python -m tb.faults.campaign", description="faults and random packets on the simulated NPU"
    )
    parser.add_argument("campaign", choices=NAMES)
    parser.add_argument("--count", type=int, default=10_000, help="faults, or packets")
    parser.add_argument("--config", default="small", help="hardware configuration")
    parser.add_argument("--kind", default="fast", choices=[kind for kind in BUILD_KINDS if kind != "waves"])
    parser.add_argument(
        "--shard", default=str(WHOLE), help="I/N: part I of N, which differ in what they draw"
    )
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--replay", type=Path, help="play a case that was kept")
    options = parser.parse_args(argv)
    try:
        if options.count < 1:
            raise ValueError("--count must be more than 0")
        shard = parse_shard(options.shard)
        if options.replay:
            wrong = replayed(options.replay, f"{options.campaign}-replay")
            print("FAIL " + "\n".join(wrong) if wrong else "pass")
            return int(bool(wrong))
        seed = choose_seed()
        print(f"{options.campaign} on {options.config}: seed {seed}", flush=True)
        name = f"{options.campaign}-{options.config}-{seed}-{shard.part}-of-{shard.parts}"
        runner = Runner(options.config, name, as_kind(options.kind))
        campaign = Campaign(options.campaign, options.config, seed, runner)
        started = time.monotonic()
        campaign.run(options.count, shard)
    except (ConfigError, ToolMissingError, BuildError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    result = campaign.result(time.monotonic() - started, shard)
    if options.json:
        result.save(options.json)
    for item in result.items:
        if item.status != "pass":
            print(f"FAIL  {item.name}: {item.message}\n      {item.detail}\nreplay: {item.replay}")
    print(", ".join(f"{name} {value}" for name, value in result.figures.items()))
    return int(not result.passed)


if __name__ == "__main__":
    sys.exit(main())
