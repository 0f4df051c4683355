"""Command line of the verification: `python -m tb COMMAND`.

Exit status: 0 passed, 1 something was found, 2 wrong arguments or a missing tool, 130 interrupted.
"""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from echo_sim.build import BuildError
from echo_sim.messages import sentence
from echo_sim.numerals import SEED, Real, Whole, WholeNumbers, Wholes, choose_seed, option
from echo_sim.processes import stop_all
from echo_sim.run import SimulationError
from echo_sim.tools import ToolMissingError
from tb.repository import ROOT
from tb.results import CampaignResult, UnjudgedError, failures
from tb.shard import WHOLE, parse_shard

REPORTS = ROOT / "reports"
INTERRUPTED = 130


def _first_seed() -> int:
    try:
        return choose_seed()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Seed = Annotated[
    int,
    typer.Option(
        default_factory=_first_seed, help="First seed. Default: $SEED, else random.", **option(SEED)
    ),
]
Config = Annotated[str, typer.Option(help="Hardware configuration: a name, random-<seed>, or a TOML file.")]
Count = Annotated[int, typer.Option(help="How many to draw.", **option(Whole(1)))]
Jobs = Annotated[int, typer.Option(help="Simulators at a time.", **option(Whole(1, 4096)))]
Json = Annotated[Path | None, typer.Option(help="Write the result to this file.")]
Part = Annotated[str, typer.Option("--shard", help="I/N: part I of N; each part draws differently.")]
Replay = Annotated[Path | None, typer.Option(help="Replay the case or program kept in this file.")]
Kind = Annotated[Literal["fast", "coverage"], typer.Option(help="Kind of simulator.")]
Html = Annotated[Path | None, typer.Option(help="File or folder for the HTML.")]
JOBS = os.cpu_count() or 1

app = typer.Typer(
    help="Look for bugs of the NPU. Exit status: 0 all right, 1 something was found, 2 wrong arguments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def command(body: Callable[..., CampaignResult | bool]) -> Callable[..., None]:
    """Register a function as a command.

    The wrapper prints the seed, saves the result where --json says and turns the outcome into an exit status.

    Args:
        body: returns its findings, or whether it passed.
    """

    @app.command()
    @functools.wraps(body)
    def reported(**options: Any) -> None:
        raise typer.Exit(_status(body, options))

    return reported


def _status(body: Callable[..., CampaignResult | bool], options: dict[str, Any]) -> int:
    try:
        if "seed" in options:
            print(f"seed {options['seed']}", flush=True)
        result = body(**options)
        if isinstance(result, CampaignResult) and options["json"]:
            result.save(options["json"])
    except (UnjudgedError, SimulationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (BuildError, ToolMissingError, OSError, ValueError) as error:
        print(f"error: {sentence(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        stop_all()
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return int(not (result if isinstance(result, bool) else result.passed))


def _printed(result: CampaignResult) -> CampaignResult:
    """Print what did not pass, and return the result."""
    if text := failures(result):
        print(text)
    return result


@command
def rtl(
    seed: Seed,
    test: Annotated[str, typer.Option(help="A suite, or a test of it: matmul, matmul.test_alpha.")] = "",
    config: Annotated[str, typer.Option(help="As for the other commands, or all.")] = "default",
    waves: Annotated[bool, typer.Option("--waves", help="Write waves/<test>.vcd.")] = False,
    kind: Annotated[Literal["rtl", "netlist"], typer.Option(help="What is on the board.")] = "rtl",
    jobs: Jobs = JOBS,
    json: Json = None,
) -> CampaignResult:
    """Run the RTL regression: every command on the device, with and without memory stalls."""
    from tb import suites

    if waves and kind == "netlist":
        raise ValueError("WAVES=1: there are no waves of KIND=netlist")
    board: suites.BoardKind = "netlist" if kind == "netlist" else "waves" if waves else "fast"
    return suites.play(test, config, board, seed, jobs)


@command
def uvm(
    seed: Seed,
    sequence: Annotated[str, typer.Option(help="Kind of programs, see docs/verification.md.")] = "mixed",
    config: Config = "default",
    count: Count = 50,
    hours: Annotated[
        float | None,
        typer.Option(help="Run for this long, whatever the count.", **option(Real(0, 8760, above=True))),
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="End at the first failure, and shorten nothing.")
    ] = False,
    replay: Replay = None,
    json: Json = None,
) -> CampaignResult:
    """Play random programs on all ports at once; keep and shorten those that fail."""
    from tb.uvm import program_campaign
    from tb.uvm.sequences import SEQUENCES

    if sequence not in SEQUENCES:
        raise ValueError(f"SEQUENCE={sequence}: there are {', '.join(SEQUENCES)}")
    if replay:
        return _printed(program_campaign.replay(replay, config, seed))
    limit = None if hours else count
    return program_campaign.play(config, sequence, seed, count=limit, hours=hours, first=first)


def _cases(name: Literal["faults", "fuzz"], most: int, text: str) -> None:
    """Register the campaign `name` of native cases, of `most` faults or packets by default."""

    def cases(
        seed: Seed,
        config: Config = "small",
        count: Count = most,
        kind: Kind = "fast",
        shard: Part = str(WHOLE),
        first: Annotated[
            bool, typer.Option("--first", help="End with the first batch that has a failure.")
        ] = False,
        replay: Replay = None,
        json: Json = None,
    ) -> CampaignResult:
        from tb.faults import case_campaign

        if replay:
            return _printed(case_campaign.replay(replay, name, seed))
        part = parse_shard(shard)
        return _printed(case_campaign.play(name, config, seed, count, part, kind, first=first))

    cases.__name__, cases.__doc__ = name, text
    command(cases)


_cases("faults", 10_000, "Inject faults: bus errors, resets, flipped bits, late and lost responses.")
_cases("fuzz", 100_000, "Send random packets and random register traffic.")


@command
def mutate(
    seed: Seed,
    count: Count = 300,
    jobs: Jobs = JOBS,
    shard: Part = str(WHOLE),
    only: Annotated[
        WholeNumbers | None,
        typer.Option(help="Numbers of mutants, separated by commas.", **option(Wholes(Whole(1)))),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run first trials and module testbenches only.")
    ] = False,
    refute: Annotated[
        bool, typer.Option("--refute", help="Run equivalent ones as well: none may be found.")
    ] = False,
    where: Annotated[
        str, typer.Option(help="All mutants whose file, statement or change this expression finds; no draw.")
    ] = "",
    config: Annotated[str, typer.Option(help="Hardware configuration of the regression.")] = "small",
    prove_seconds: Annotated[
        float, typer.Option(help="Time to prove a survivor equivalent; 0: none.", **option(Real(0, 3600)))
    ] = 120.0,
    json: Json = REPORTS / "mutation.json",
) -> CampaignResult:
    """Draw mutants of the RTL and require that the regression finds them."""
    from tb.mutation import mutant_campaign

    part = parse_shard(shard)
    result = mutant_campaign.play(
        count,
        seed,
        jobs,
        part,
        only or (),
        quick=quick,
        refute=refute,
        where=where,
        config=config,
        prove_seconds=prove_seconds,
    )
    print(mutant_campaign.report(result))
    return _printed(result)


@command
def bugs(
    seed: Seed,
    jobs: Jobs = JOBS,
    only: Annotated[str, typer.Option(help="The name of one bug.")] = "",
    searches: Annotated[
        bool, typer.Option("--searches", help="Use the random campaigns that the patches name.")
    ] = False,
    on_board: Annotated[
        bool,
        typer.Option("--on-board", help="Use only the tests of the whole device that the patches name."),
    ] = False,
    chunks: Annotated[
        bool, typer.Option("--chunks", help="Use the backend rtlfarm, which must name the command.")
    ] = False,
    json: Json = REPORTS / "bugs.json",
) -> CampaignResult:
    """Put each known bug into the RTL and require that the regression finds it."""
    from tb.mutation import bugs as known

    if chunks:
        result = known.look_in_chunks(seed, jobs, only)
    else:
        result = known.search(seed, only) if searches else known.play(seed, jobs, only, on_board=on_board)
    print(known.report(result))
    return _printed(result)


@command
def coverage(
    seed: Seed,
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Add up these files, or *.dat of these folders, and run nothing."),
    ] = None,
    jobs: Jobs = JOBS,
    html: Html = REPORTS / "coverage",
    write: Annotated[Path | None, typer.Option(help="Keep the sum in this file.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Judge neither goals nor exclusions.")] = False,
    json: Json = REPORTS / "coverage.json",
) -> CampaignResult:
    """Measure the code coverage of the RTL: lines, branches, toggles."""
    from tb.coverage import code

    result = _printed(code.play(files or (), seed, jobs, html=html, write=write, partial=partial))
    for page in result.pages:
        print(f"report: {page}")
    return result


@command
def functional(
    seed: Seed,
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Merge the files of these folders, and run nothing.")
    ] = None,
    count: Count = 200,
    jobs: Jobs = JOBS,
    html: Html = REPORTS / "functional" / "index.html",
    json: Json = REPORTS / "functional.json",
) -> CampaignResult | bool:
    """Measure the functional coverage of regression and random programs."""
    from tb import functional_runs
    from tb.functional import merged

    good = bool(folders) or functional_runs.play(functional_runs.FOLDER, seed, count, jobs)
    rows, result = merged.report(folders or [functional_runs.FOLDER], html)
    merged.show(rows, result)
    if json:
        result.save(json)
    return good and result.passed


@command
def configurations(
    seed: Seed,
    name: Annotated[str, typer.Argument(help="Build random-<seed>, and play programs and suites.")] = "",
    count: Count = 12,
    json: Json = None,
) -> CampaignResult:
    """Lint random configurations, or play random programs and a few suites on one."""
    from tb import configurations as drawn

    return _printed(drawn.play(name, seed, count) if name else drawn.lint_many(seed, count))


@command
def formal(
    proofs: Annotated[list[str] | None, typer.Argument(help="Which proofs. Default: all.")] = None,
    json: Json = None,
) -> CampaignResult:
    """Prove properties of RTL blocks."""
    from tb import formal as proving

    return proving.play(proofs or ())


@command
def regress(
    seed: Seed,
    level: Annotated[Literal["quick", "full"], typer.Option(help="Level of effort.")] = "quick",
    executor: Annotated[
        str, typer.Option(help="processes, or a Dask scheduler: tcp://host:port.")
    ] = "processes",
    jobs: Jobs = JOBS,
    only: Annotated[str, typer.Option(help="Campaigns to run, a regular expression.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="Show the tasks and run nothing.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run of this level, seed and commit.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Write the summary to docs/verification.md.")
    ] = False,
    json: Json = None,
) -> bool:
    """Run everything of a level, and write one report."""
    from tb.regress import run
    from tb.regress.levels import LEVELS

    if listed:
        for task in run.planned(LEVELS[level], seed, only):
            print(f"{task.name:40} {task.replay}")
        return True
    return run.play(
        LEVELS[level], seed, jobs, where=executor, only=only, resume=resume, json=json, update=update
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status."""
    try:
        app(args=arguments, prog_name="python -m tb")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
