"""Fault and fuzz campaigns: draw cases in batches, run them natively, judge them, keep those that fail."""

import dataclasses
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Final, Literal

from echo_npu.spec.status import ErrorCode
from echo_sim.build import Kind
from echo_sim.config import absolute, load_config
from tb.faults.fault_case import KINDS, FaultCase, FaultProgram, calibration, draw_program, traffic
from tb.faults.fuzz_case import FuzzCase
from tb.faults.predicted_case import PredictedCase
from tb.faults.prediction import PredictedDevice
from tb.faults.runner import CaseRunner, NotReadyError, Record, judge
from tb.faults.stage import FaultStage
from tb.repository import ROOT
from tb.results import CampaignResult, Item
from tb.shard import WHOLE, Shard

Name = Literal["faults", "fuzz"]
NAMES: Final[tuple[Name, ...]] = ("faults", "fuzz")
FAILURES: Final = ROOT / "failures"
MOST_FAILURES: Final = 20
"""The campaign stops after this many failures, since more would not tell more."""

CASE_PACKETS: Final = 60
"""Packets per case of the fuzz campaign."""
BATCH_PACKETS: Final = 15_000
BATCH_FAULTS: Final = 1_500
PROGRAM_FAULTS: Final = 30
"""Faults injected into one program."""
NOT_READY: Final = -2
POOL: Final = 200
"""Legal commands that a batch draws from."""


@dataclasses.dataclass
class FailedCase:
    """A failed case: batch, number within the batch (-1: a program without fault, NOT_READY: the device
    failed before the first case), what was wrong, and notes."""

    batch: int
    case: int
    wrong: list[str]
    notes: list[str]


class CaseCampaign:
    """Cases of one kind on one configuration.

    Args:
        name: "faults" or "fuzz".
        config: hardware configuration.
        seed: determines every batch, together with the batch's number.
        runner: executes the cases.
    """

    def __init__(self, name: Name, config: str, seed: int, runner: CaseRunner) -> None:
        self.name, self.config, self.seed = name, config, seed
        self._label = load_config(config).name
        self._runner = runner
        self._device = PredictedDevice(config)
        self.figures: Counter[str] = Counter()
        self.failures: list[FailedCase] = []

    def run(self, count: int, shard: Shard = WHOLE, *, first: bool = False) -> None:
        """Run batches until `count` faults or packets, or the shard's part of them, are reached.

        Args:
            first: end with the first batch that has a failure.
        """
        size = BATCH_FAULTS if self.name == "faults" else BATCH_PACKETS
        batch = shard.part - 1
        wanted = -(-count // shard.parts)
        what = "faults" if self.name == "faults" else "packets"
        most = 1 if first else MOST_FAILURES
        while self.figures[what] < wanted and len(self.failures) < most and not self._not_ready:
            self.batch(batch, min(size, wanted - self.figures[what]))
            print(
                f"batch {batch}: {self.figures[what]} {what}, {self.figures['cycles']} cycles,"
                f" {len(self.failures)} cases failed",
                flush=True,
            )
            batch += shard.parts

    def batch(self, number: int, size: int, only: int | None = None) -> None:
        """Run a batch of at least `size` faults or packets; with `only`, just that case of it."""
        rng = random.Random(f"{self.name} {self.config} {self.seed} {number}")
        stage = FaultStage(self.config, rng, POOL, self._device)
        seed = rng.getrandbits(30)
        try:
            if self.name == "fuzz":
                self._fuzz(stage, rng, number, size, seed, only)
            else:
                self._faults(stage, rng, number, size, seed, only)
        except NotReadyError as error:
            self._blame(number, NOT_READY, error.wrong, ["the device before the first case"])

    @property
    def _not_ready(self) -> bool:
        return bool(self.failures) and self.failures[-1].case == NOT_READY

    def _fuzz(
        self, stage: FaultStage, rng: random.Random, number: int, size: int, seed: int, only: int | None
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
        self, stage: FaultStage, rng: random.Random, number: int, size: int, seed: int, only: int | None
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
        kinds, weights = list(KINDS), [each.weight for each in KINDS.values()]
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
            self.figures[f"errors_{ErrorCode(code).name}"] += count

    def _blame(self, batch: int, case: int, wrong: list[str], notes: list[str]) -> None:
        self.figures["hangs"] += any(each.startswith("hang") for each in wrong)
        self.figures["wrong"] += any(each.startswith(("wrong", "and", "the case")) for each in wrong)
        self.figures["crashes"] += any(each.startswith(("crash", "protocol")) for each in wrong)
        self.figures["stray_writes"] += sum(each.startswith("stray write: burst") for each in wrong)
        if wrong:
            self.failures.append(FailedCase(batch, case, wrong, notes))

    # --- results ---

    def keep(self, failure: FailedCase, folder: Path = FAILURES) -> Path:
        """Write a file from which a failed case can be replayed, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}-{self._label}-{self.seed}-{failure.batch}-{failure.case}.json"
        where = {"campaign": self.name, "config": self.config, "seed": self.seed}
        path.write_text(json.dumps(where | dataclasses.asdict(failure), indent=1) + "\n", encoding="utf-8")
        return path

    def result(self, seconds: float, shard: Shard = WHOLE) -> CampaignResult:
        """Return the campaign's result and keep the failed cases."""
        items = [
            Item(
                f"{self.name}-{self._label}-{self.seed}-{failure.batch}-{failure.case}",
                "fail",
                message="; ".join(failure.wrong),
                replay=f"make {self.name} REPLAY={self.keep(failure).relative_to(ROOT)}",
                detail="; ".join(failure.notes),
            )
            for failure in self.failures
        ]
        if not items:
            items = [Item(f"{self.name}-{self._label}-{self.seed}-part-{shard}", "pass", seconds)]
        return CampaignResult(self.name, self.seed, seconds, dict(sorted(self.figures.items())), items)


def replayed(path: Path, runner_name: str) -> list[str]:
    """Replay a kept case, alone and, if it passes, together with its batch. Return what is wrong.

    Raises ValueError: `CaseCampaign.keep` did not write the file.
    """
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(kept, dict):
            raise ValueError("it holds no JSON object")
        name, config, seed = kept["campaign"], str(kept["config"]), int(kept["seed"])
        batch, case = int(kept["batch"]), int(kept["case"])
        if name not in NAMES:
            raise ValueError(f"there is no campaign {name!r}")
    except KeyError as error:
        raise ValueError(f"{path} is not a kept case: it has no {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a kept case: {error}") from None
    runner = CaseRunner(config, runner_name)
    size = BATCH_FAULTS if name == "faults" else BATCH_PACKETS
    for only in ([case] if case >= 0 else []) + [None]:
        campaign = CaseCampaign(name, config, seed, runner)
        campaign.batch(batch, size, only)
        for failure in campaign.failures:
            if failure.case == case:
                print("\n".join(failure.notes))
                return failure.wrong
    return []


def play(
    name: Name, config: str, seed: int, count: int, shard: Shard, kind: Kind, *, first: bool = False
) -> CampaignResult:
    """Draw and judge `count` faults or packets, or the shard's part of them; keep the cases that fail.

    Args:
        first: end with the first batch that has a failure.

    Raises: as `echo_sim.build.build`.
    """
    config = absolute(config)
    part = f"{shard.part}-of-{shard.parts}"
    runner = CaseRunner(config, f"{name}-{load_config(config).name}-{seed}-{part}", kind)
    campaign = CaseCampaign(name, config, seed, runner)
    started = time.monotonic()
    campaign.run(count, shard, first=first)
    result = campaign.result(time.monotonic() - started, shard)
    print(", ".join(f"{figure.replace('_', ' ')} {value}" for figure, value in result.figures.items()))
    return result


def replay(path: Path, name: Name, seed: int) -> CampaignResult:
    """Replay a kept case. Raises as `replayed` and `play`."""
    started = time.monotonic()
    wrong = replayed(path, f"{name}-replay")
    item = Item(path.stem, "fail" if wrong else "pass", time.monotonic() - started, "; ".join(wrong))
    return CampaignResult(name, seed, item.seconds, {}, [item])
