"""Run a program on RTL with a change in it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from echo_sim.places import RTL_VARIABLE
from echo_sim.run import RUNS
from tb.children import run_python
from tb.mutation.schemata import SELECTOR_VARIABLE


def run_changed(
    arguments: Sequence[str],
    folder: Path,
    number: int,
    *,
    name: str,
    limit: float,
    environment: Mapping[str, str],
) -> tuple[int, str]:
    """Run Python on the tree `folder` with change `number`; return its status and what it printed.

    Args:
        name: of the log, unique among concurrent runs.
        limit: seconds.
        environment: what the program gets besides.

    Raises subprocess.TimeoutExpired: it takes longer.
    """
    log = RUNS / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    variables = {RTL_VARIABLE: str(folder), SELECTOR_VARIABLE: str(number), **environment}
    status = run_python(arguments, log, limit, variables)
    return status, log.read_text(encoding="utf-8", errors="replace")
