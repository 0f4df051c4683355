"""Draw mutants of the RTL, run the regression on each, and report which were found."""

import dataclasses
import hashlib
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from tb.coverage.exclusions import load_exclusions
from tb.mutation.equivalence import prover
from tb.mutation.equivalents import EquivalentsError, check_known, load_equivalents
from tb.mutation.judge import Case, Judge, MutantFinding
from tb.mutation.operators import CLASSES, matching, mutants_of, sample
from tb.mutation.schemata import Mutant
from tb.mutation.syntax import RtlSource
from tb.mutation.tree import CONFIG, sources, usable
from tb.mutation.unreached import why_unreached
from tb.results import CampaignResult, Item
from tb.shard import Shard

MUTATION = "mutation"
"""Name of the campaign's results."""

_PROVEN = "equivalent (proven: "


def result_of(
    mutants: Mapping[int, Mutant],
    findings: Mapping[int, MutantFinding],
    equivalents: Mapping[str, str],
    refused: Mapping[int, str],
    seed: int,
    replays: str,
    seconds: float,
    proofs: Mapping[int, prover.EquivalenceProof] | None = None,
) -> CampaignResult:
    """Return the campaign's result; a mutant that was not found and is not proven equivalent has survived.

    `replays` and a mutant's number are the command that replays it.
    Figures include `<class> killed` and `<class> survived` of each class. `proven` counts those of
    `equivalent` that the prover found, not a person.
    """
    figures: Counter[str] = Counter(mutants=0, killed=0, survived=0, equivalent=0, proven=0, illegal=0)
    proofs = proofs or {}
    items = []
    for number, mutant in mutants.items():
        replay = f"{replays}{number}"
        figures["mutants"] += 1
        if number in refused:
            figures["illegal"] += 1
            detail = f"illegal: {refused[number]}"
            items.append(Item(mutant.identity, "pass", detail=detail, replay=replay))
        elif number in findings and findings[number].killed:
            finding = findings[number]
            figures["killed"] += 1
            figures[f"{mutant.operator} killed"] += 1
            detail = f"killed by {finding.killer}: {finding.how}"
            items.append(Item(mutant.identity, "pass", finding.seconds, detail=detail, replay=replay))
        elif mutant.identity in equivalents:
            figures["equivalent"] += 1
            detail = f"equivalent: {equivalents[mutant.identity]}"
            items.append(Item(mutant.identity, "pass", detail=detail, replay=replay))
        elif number in proofs and proofs[number].proven:
            figures["equivalent"] += 1
            figures["proven"] += 1
            detail = f"{_PROVEN}{proofs[number].how})"
            items.append(Item(mutant.identity, "pass", proofs[number].seconds, detail=detail, replay=replay))
        elif number in findings:
            figures["survived"] += 1
            figures[f"{mutant.operator} survived"] += 1
            message = f"no test finds it (line {mutant.line})"
            seconds_of = findings[number].seconds
            items.append(
                Item(mutant.identity, "survived", seconds_of, message, replay, detail=mutant.operator)
            )
    return CampaignResult(MUTATION, seed, seconds, dict(figures), items)


def judged(result: CampaignResult, equivalents: Mapping[str, str]) -> CampaignResult:
    """Return a campaign's result with the survivors that `equivalents` lists, by identity, as equivalent.

    A survivor's detail is its class. The figure `proven after` counts them.
    """
    figures = Counter(result.figures)
    items = []
    for item in result.items:
        reason = equivalents.get(item.name) if item.status == "survived" else None
        if reason is not None:
            figures["survived"] -= 1
            figures["equivalent"] += 1
            figures["proven after"] += 1
            figures[f"{item.detail} survived"] -= 1
            item = dataclasses.replace(item, status="pass", message="", detail=f"equivalent: {reason}")
        items.append(item)
    return dataclasses.replace(result, figures=dict(figures), items=items)


def report(result: CampaignResult) -> str:
    """Format the result as text: a line per file and per class, and totals."""
    rows: dict[str, Counter[str]] = {}
    for item in result.items:
        row = rows.setdefault(item.name.partition(":")[0], Counter())
        state = "survived" if item.status == "survived" else item.detail.split(":")[0].split()[0]
        row["mutants"] += 1
        row[state] += 1
    lines = [f"{'file':26}{'mutants':>9}{'killed':>9}{'survived':>10}{'equivalent':>12}"]
    for name, row in sorted(rows.items()):
        lines.append(
            f"{name:26}{row['mutants']:9}{row['killed']:9}{row['survived']:10}{row['equivalent']:12}"
        )
    figures = result.figures
    lines += ["", f"{'class':26}{'killed':>9}{'survived':>10}{'share':>9}"]
    for name in CLASSES:
        killed, survived = figures.get(f"{name} killed", 0), figures.get(f"{name} survived", 0)
        if killed + survived:
            share = f"{100 * killed / (killed + survived):.0f} %"
            lines.append(f"{name:26}{killed:9}{survived:10}{share:>9}")
    if proven := [item for item in result.items if item.detail.startswith(_PROVEN)]:
        lines += [
            "",
            f"{'proven equivalent':26}{'seconds':>9}  in each configuration: part of the design, method",
        ]
        for item in proven:
            how = item.detail.removeprefix(_PROVEN).removesuffix(")")
            lines.append(f"{item.name.partition(':')[0]:26}{item.seconds:9.0f}  {how}")
        lines.append("")
    able = figures["killed"] + figures["survived"]
    share = f"{100 * figures['killed'] / able:.1f} %" if able else "none"
    lines.append(
        f"{figures['mutants']} mutants: {figures['killed']} killed, {figures['survived']} survived,"
        f" {figures['equivalent']} equivalent ({figures['proven']} of them proven by tools),"
        f" {figures['illegal']} illegal; {share} of those that can be found,"
        f" in {result.seconds:.0f} s, seed {result.seed}"
    )
    return "\n".join(lines)


def play(
    count: int,
    seed: int,
    jobs: int,
    shard: Shard,
    only: Sequence[int],
    *,
    quick: bool,
    refute: bool,
    where: str = "",
    config: str = CONFIG,
    prove_seconds: float = prover.SECONDS,
) -> CampaignResult:
    """Draw `count` mutants and judge those of the shard, or those whose numbers `only` lists.

    Args:
        where: a regular expression: all mutants whose class and identity it finds, instead of a draw.
        config: of the regression's hardware; `lockstep-small` finds a clock that rests too long.
        quick: run only first trials and block testbenches.
        refute: judge equivalent mutants as well; none may be found.
        prove_seconds: time to prove each survivor equivalent; 0 for no proofs.

    Raises:
        UnjudgedError: a list or a file of the RTL is unusable, or the unchanged RTL fails.
        ValueError: `count` exceeds the number of mutants, `where` finds none, or `only` lists one of neither.
        ConfigError: as `load_config`.
        BuildError, ToolMissingError: as `build`.
    """
    started = time.monotonic()
    files = sources()
    equivalents = load_equivalents()
    check_known(equivalents, (mutant for path in files for mutant in mutants_of(RtlSource(path))))
    drawn = dict(enumerate(matching(files, where) if where else sample(files, count, seed), 1))
    if strange := [str(number) for number in only if number not in drawn]:
        raise ValueError(f"--only {','.join(strange)}: the mutants have the numbers 1 to {len(drawn)}")
    exclusions, places = load_exclusions(), {path.name: path for path in files}
    for mutant in drawn.values():
        if reason := why_unreached(mutant, RtlSource(places[mutant.file]), exclusions):
            equivalents.setdefault(mutant.identity, reason)
    name = f"seed{seed}-{count}"
    replays = f"make mutate SEED={seed} N={count} MUTANT="
    if where or config != CONFIG:
        name = hashlib.sha256(f"{where} {config}".encode()).hexdigest()[:12]
        options = ["--where", where] if where else ["--count", str(count)]
        options += ["--seed", str(seed), "--config", config]
        replays = f"python -m tb mutate {shlex.join(options)} --only "
    mine = {
        number: mutant for number, mutant in drawn.items() if number % shard.parts == shard.part % shard.parts
    }
    if only:
        mine = {number: mutant for number, mutant in drawn.items() if number in only}
    part = f"mutation-{name}-{shard.part}of{shard.parts}"
    proofs: dict[int, prover.EquivalenceProof] = {}

    def proven(case: Case, share: float) -> bool:
        mutant = drawn[case.number]
        if refute or not prove_seconds or mutant.identity in equivalents:
            return False
        proof = proofs[case.number] = prover.prove_apart(mutant.edits, share * prove_seconds)
        word = f"equivalent, {proof.how}" if proof.proven else "not proven equivalent"
        _say(f"{case.number:4} {mutant.file:24} {word} ({proof.seconds:.0f} s)")
        return proof.proven

    with usable(name, {number: mutant.edits for number, mutant in drawn.items()}) as (folder, refused):
        cases = [
            Case(number, mutant.file, reset=mutant.of_reset)
            for number, mutant in mine.items()
            if number not in refused and (refute or mutant.identity not in equivalents)
        ]
        if shard.part % 2 == 0:
            cases.reverse()  # so that two shards meet in few testbenches of modules, which run once at a time
        judge = Judge(folder, seed, jobs, part, _say, config=config)
        findings = judge.judge(cases, whole=not quick, proven=proven)
    for number, finding in findings.items():
        if finding.killed and drawn[number].identity in equivalents:
            raise EquivalentsError(
                f"{drawn[number].identity} is listed as equivalent, but {finding.killer} finds it:"
                f" {finding.how}"
            )
    seconds = time.monotonic() - started
    return result_of(mine, findings, equivalents, refused, seed, replays, seconds, proofs)


def _say(text: str) -> None:
    print(text, flush=True)
