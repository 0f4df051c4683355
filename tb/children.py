"""Child processes of campaigns, alone and on a pool of threads."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import TypeVar

from echo_sim.processes import run_bounded, stop_pool
from tb.repository import ROOT

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")


def in_pool(work: Callable[[_Given], _Made], items: Sequence[_Given], jobs: int) -> Iterator[_Made]:
    """Apply `work`, which waits for a child process, to items on `jobs` threads; yield results on arrival.

    If the caller gives up, everything that was started ends.
    """
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            stop_pool(pool, futures)
            raise


def run_python(arguments: Sequence[str], log: Path, timeout: float, environment: dict[str, str]) -> int:
    """Run Python in this tree with additional environment variables and return its exit status.

    Output goes to `log`. Raises subprocess.TimeoutExpired after `timeout` seconds.
    """
    paths = f"{ROOT / 'runtime'}{os.pathsep}{ROOT}"
    variables = {**os.environ, "PYTHONPATH": paths, **environment}
    return run_bounded([sys.executable, *arguments], env=variables, cwd=ROOT, log=log, timeout=timeout)
