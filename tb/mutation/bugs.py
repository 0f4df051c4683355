"""Puts each known bug into the RTL and demands that the regression finds it.

python -m tb.mutation.bugs [--jobs 2] [--only name] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tb.mutation.judge import Case, Judge, UnchangedFailsError
from tb.mutation.patches import PatchError, load_bugs
from tb.mutation.syntax import SourceError
from tb.mutation.tree import TreeError, usable
from tb.npu_config import ROOT
from tb.processes import stop_all
from tb.results import CampaignResult, Item
from tb.runner import BuildError, SimulationError, choose_seed
from tb.tools import ToolMissingError

REPORT = ROOT / "reports" / "bugs.json"
TREE = "bugs"


def play(seed: int, jobs: int, only: str = "", *, named: bool = False) -> CampaignResult:
    """Run the regression on each known bug, or on the one named `only`. `named`: only the tests that the
    patches name, all of them on each bug.

    Raises:
        PatchError: a patch does not apply any more. ValueError: no such bug.
        TreeError, UnchangedFailsError, SimulationError, BuildError, ToolMissingError: as `Judge.judge`.
    """
    started = time.monotonic()
    bugs = dict(enumerate(load_bugs(), 1))
    chosen = {number: bug for number, bug in bugs.items() if only in ("", bug.name)}
    if not chosen:
        raise ValueError(f"no bug {only!r}; there are {', '.join(bug.name for bug in bugs.values())}")
    folder, refused = usable(TREE, {number: bug.edits for number, bug in bugs.items()})
    for number, message in refused.items():
        raise PatchError(f"{bugs[number].name}: the RTL with it is no legal SystemVerilog: {message}")
    cases = [Case(number, bug.edits[0].file, bug.hints) for number, bug in chosen.items()]
    among = [hint for bug in bugs.values() for hint in bug.hints] if named else []
    judge = Judge(folder, seed, jobs, "bugs", lambda text: print(text, flush=True), among)
    findings = judge.judge(cases)
    items = []
    for number, bug in chosen.items():
        finding = findings[number]
        detail = f"found by {finding.killer}: {finding.how}" if finding.killed else ""
        message = "" if finding.killed else f"no test finds it: {bug.text}"
        items.append(
            Item(
                bug.name,
                "pass" if finding.killed else "fail",
                finding.seconds,
                message,
                f"make bugs BUG={bug.name} SEED={seed}",
                detail,
            )
        )
    found = sum(item.status == "pass" for item in items)
    figures = {"bugs": len(items), "bugs_found": found}
    return CampaignResult("bugs", seed, time.monotonic() - started, figures, items)


def report(result: CampaignResult) -> str:
    """The result as text."""
    lines = [f"{item.name:40} {item.detail or 'NOT FOUND: ' + item.message}" for item in result.items]
    figures = result.figures
    lines.append(
        f"{figures['bugs_found']} of {figures['bugs']} known bugs found in {result.seconds:.0f} s,"
        f" seed {result.seed}"
    )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0 when every bug was found, 1 when not, 2 for wrong arguments or a missing
    tool."""
    parser = argparse.ArgumentParser(prog="python -m tb.mutation.bugs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="simulators at a time")
    parser.add_argument("--only", default="", help="the name of one bug")
    parser.add_argument("--named", action="store_true", help="only the tests that the patches name: a minute")
    parser.add_argument("--json", type=Path, default=REPORT, metavar="FILE", help="where the result goes")
    options = parser.parse_args(argv)
    try:
        seed = choose_seed()
        if options.jobs < 1:
            raise ValueError(f"JOBS={options.jobs}: it must be 1 or more")
        result = play(seed, options.jobs, options.only, named=options.named)
    except (PatchError, SourceError, TreeError, UnchangedFailsError, SimulationError) as error:
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
