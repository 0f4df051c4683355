"""A message that cannot be written to standard error changes no exit status."""

import shlex
import subprocess
import sys

import pytest

from tb.repository import ROOT

LOSE = "import sys; from echo_sim.standard_error import lose_errors; lose_errors()"
WRITE = f"{LOSE}; print('lost', file=sys.stderr)"


@pytest.mark.parametrize("target", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize(
    ("words", "status"), [(("-c", f"{WRITE}; sys.exit(7)"), 7), (("-m", "tb", "mutate", "--shard", "0/3"), 2)]
)
def test_the_status_stays(words: tuple[str, ...], status: int, target: str) -> None:
    command = f"exec {shlex.join([sys.executable, *words])} {target}"
    assert subprocess.run(["sh", "-c", command], cwd=ROOT, check=False).returncode == status


def test_what_can_be_written_is() -> None:
    done = subprocess.run([sys.executable, "-c", WRITE], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "lost\n")
