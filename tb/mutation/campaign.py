"""Draws mutants of the RTL, runs the regression on each, and says which were found.

python -m tb.mutation.campaign [--count 300] [--jobs 2] [--shard 1/4] [--only 17] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tb.mutation.equivalents import EquivalentsError, check_known, load_equivalents
from tb.mutation.judge import Case, Finding, Judge, UnchangedFailsError
from tb.mutation.operators import mutants_of, sample
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import Source, SourceError
from tb.mutation.tree import TreeError, sources, usable
from tb.npu_config import ROOT
from tb.processes import stop_all
from tb.results import CampaignResult, Item
from tb.runner import BuildError, SimulationError, choose_seed
from tb.shard import WHOLE, parse_shard
from tb.tools import ToolMissingError

REPORT = ROOT / "reports" / "mutation.json"
GOAL = 0.97
"""Of the mutants that are not equivalent, so many must be found."""


def result_of(
    mutants: Mapping[int, Mutant],
    findings: Mapping[int, Finding],
    equivalents: Mapping[str, str],
    refused: Mapping[int, str],
    seed: int,
    count: int,
    seconds: float,
) -> CampaignResult:
    """The campaign's result; a mutant that was not found is an item that failed."""
    figures: Counter[str] = Counter(mutants=0, killed=0, survived=0, equivalent=0, illegal=0)
    items = []
    for number, mutant in mutants.items():
        replay = f"make mutate SEED={seed} N={count} MUTANT={number}"
        figures["mutants"] += 1
        if number in refused:
            figures["illegal"] += 1
            detail = f"illegal: {refused[number]}"
            items.append(Item(mutant.identity, "pass", detail=detail, replay=replay))
        elif number in findings and findings[number].killed:
            finding = findings[number]
            figures["killed"] += 1
            detail = f"killed by {finding.killer}: {finding.how}"
            items.append(Item(mutant.identity, "pass", finding.seconds, detail=detail, replay=replay))
        elif mutant.identity in equivalents:
            figures["equivalent"] += 1
            detail = f"equivalent: {equivalents[mutant.identity]}"
            items.append(Item(mutant.identity, "pass", detail=detail, replay=replay))
        elif number in findings:
            figures["survived"] += 1
            where = f"line {mutant.line}, {mutant.operator}"
            seconds_of = findings[number].seconds
            items.append(Item(mutant.identity, "fail", seconds_of, f"no test finds it ({where})", replay))
    return CampaignResult("mutation", seed, seconds, dict(figures), items)


def report(result: CampaignResult) -> str:
    """The result as text: survivors, a line for each file, the sums."""
    rows: dict[str, Counter[str]] = {}
    lines = []
    for item in result.items:
        row = rows.setdefault(item.name.partition(":")[0], Counter())
        state = "survived" if item.status == "fail" else item.detail.split(":")[0].split()[0]
        row["mutants"] += 1
        row[state] += 1
        if item.status == "fail":
            lines += [f"SURVIVED {item.name}", f"    {item.message}; {item.replay}"]
    lines += ["", f"{'file':26}{'mutants':>9}{'killed':>9}{'survived':>10}{'equivalent':>12}"]
    for name, row in sorted(rows.items()):
        lines.append(
            f"{name:26}{row['mutants']:9}{row['killed']:9}{row['survived']:10}{row['equivalent']:12}"
        )
    figures = result.figures
    able = figures["killed"] + figures["survived"]
    share = f"{100 * figures['killed'] / able:.1f} %" if able else "none"
    lines.append(
        f"{figures['mutants']} mutants: {figures['killed']} killed, {figures['survived']} survived,"
        f" {figures['equivalent']} equivalent, {figures['illegal']} illegal; {share} of those that can be"
        f" found, in {result.seconds:.0f} s, seed {result.seed}"
    )
    return "\n".join(lines)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tb.mutation.campaign", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="mutants")
    parser.add_argument("--jobs", type=int, default=1, help="simulators at a time")
    parser.add_argument("--shard", default=str(WHOLE), metavar="I/N", help="every N-th, from the I-th")
    parser.add_argument("--only", default="", help="numbers of mutants, separated by commas")
    parser.add_argument("--quick", action="store_true", help="first trials and block testbenches only")
    parser.add_argument(
        "--refute", action="store_true", help="run the equivalent ones as well: none may be found"
    )
    parser.add_argument("--json", type=Path, default=REPORT, metavar="FILE", help="where the result goes")
    return parser.parse_args(argv)


def _play(options: argparse.Namespace, seed: int) -> CampaignResult:
    shard = parse_shard(options.shard)
    started = time.monotonic()
    files = sources()
    equivalents = load_equivalents()
    check_known(equivalents, (mutant for path in files for mutant in mutants_of(Source(path))))
    drawn = dict(enumerate(sample(files, options.count, seed), 1))
    name = f"seed{seed}-{options.count}"
    folder, refused = usable(name, {number: mutant.edits for number, mutant in drawn.items()})
    mine = {
        number: mutant for number, mutant in drawn.items() if number % shard.parts == shard.part % shard.parts
    }
    if options.only:
        wanted = {int(number) for number in options.only.split(",")}
        mine = {number: mutant for number, mutant in drawn.items() if number in wanted}
    cases = [
        Case(number, mutant.file, reset=mutant.of_reset)
        for number, mutant in mine.items()
        if number not in refused and (options.refute or mutant.identity not in equivalents)
    ]
    judge = Judge(
        folder,
        seed,
        options.jobs,
        f"mutation-{name}-{shard.part}of{shard.parts}",
        lambda text: print(text, flush=True),
    )
    findings = judge.judge(cases, whole=not options.quick)
    seconds = time.monotonic() - started
    for number, finding in findings.items():
        if finding.killed and drawn[number].identity in equivalents:
            raise EquivalentsError(
                f"{drawn[number].identity} is listed as equivalent, but {finding.killer} finds it:"
                f" {finding.how}"
            )
    return result_of(mine, findings, equivalents, refused, seed, options.count, seconds)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when every mutant that can be found was, 1 when not, 2 for wrong arguments
    or a missing tool."""
    options = _arguments(argv)
    try:
        seed = choose_seed()
        print(f"seed {seed}", flush=True)
        if options.jobs < 1 or options.count < 1:
            raise ValueError("JOBS and N must be 1 or more")
        result = _play(options, seed)
    except (SourceError, TreeError, EquivalentsError, UnchangedFailsError, SimulationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BuildError, ToolMissingError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        stop_all()
        print("interrupted", file=sys.stderr)
        return 130
    result.save(options.json)
    print(report(result))
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(main())
