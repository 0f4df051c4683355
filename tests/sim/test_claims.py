"""A folder belongs to one process at a time, and is free again when that process has ended."""

import os
import subprocess
import sys
from pathlib import Path

from echo_sim.claims import claim, own_folder

HOLD = """
import sys
from pathlib import Path
from echo_sim.claims import own_folder
print(own_folder(Path(sys.argv[1])).name, flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds a folder, prints which, and ends with its standard input."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_each_process_has_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with holder(folder) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "runs\n"
        assert not claim(folder)
        with holder(folder) as second:
            assert second.stdout is not None
            assert second.stdout.readline() == "runs-2\n"
            second.kill()
    assert own_folder(folder) == folder
    assert own_folder(folder) == folder
