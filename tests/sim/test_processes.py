"""A build ends with the process that started it, however that process ends."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from echo_sim.processes import ChildProcess, run_bounded
from tests.processes import alive, eventually

pytestmark = pytest.mark.usefixtures("usual_signals")

BUILDER = """
import os, sys
from pathlib import Path
from echo_sim.processes import run_bounded
run_bounded(["sh", "-c", "sleep 600 & echo $! > pids; echo $$ >> pids; wait"], env=os.environ,
            cwd=Path(sys.argv[1]), log=Path(sys.argv[1]) / "log", timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_builder_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    """The command and its background processes are gone within seconds."""
    pids = tmp_path / "pids"
    builder = subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert eventually(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    family = [int(word) for word in pids.read_text().split()]
    assert all(alive(pid) for pid in family)
    builder.send_signal(number)
    builder.wait()
    assert eventually(lambda: not any(alive(pid) for pid in family))


def test_the_exit_status_passes_through(tmp_path: Path) -> None:
    """Success, failure, and death by a signal as a shell reports it."""
    for command, status in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)):
        run = run_bounded(
            ["sh", "-c", command], env=os.environ, cwd=tmp_path, log=tmp_path / "log", timeout=30
        )
        assert run == status


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """The time-out is an exception, and the command is gone."""
    pids = tmp_path / "pids"
    with pytest.raises(subprocess.TimeoutExpired):
        run_bounded(
            ["sh", "-c", "echo $$ > pids; sleep 600"],
            env=os.environ,
            cwd=tmp_path,
            log=tmp_path / "log",
            timeout=1,
        )
    assert eventually(lambda: not alive(int(pids.read_text())))


def test_a_log_is_continued_only_if_asked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word, append, text in (
        ("one", False, "one\n"),
        ("two", True, "one\ntwo\n"),
        ("three", False, "three\n"),
    ):
        run_bounded(["echo", word], env=os.environ, cwd=tmp_path, log=log, append=append, timeout=30)
        assert log.read_text() == text


@pytest.mark.parametrize(
    ("script", "status"),
    [("sleep 600 & echo $! > pids", 0), ("trap '' TERM; echo $$ > pids; while :; do sleep 1; done", -9)],
    ids=["left behind", "deaf to SIGTERM"],
)
def test_a_group_ends_whatever_it_does(tmp_path: Path, script: str, status: int) -> None:
    pids = tmp_path / "pids"
    log = tmp_path / "log"
    with ChildProcess(["sh", "-c", script], env=os.environ, cwd=tmp_path, log=log) as child:
        assert eventually(lambda: pids.exists() and pids.read_text().endswith("\n"))
        if status == 0:
            assert child.wait(30) == 0
    assert child.poll() == status
    assert eventually(lambda: not alive(int(pids.read_text())))


def test_threads_may_stop_a_child_at_once(tmp_path: Path) -> None:
    """Each file descriptor is closed once: a second close fails, or closes another file with that number."""
    closed: list[int] = []
    with ThreadPoolExecutor(8) as pool, pytest.MonkeyPatch.context() as patch:
        child = ChildProcess(["sleep", "60"], env=dict(os.environ), cwd=tmp_path, log=tmp_path / "log")

        def close(number: int) -> None:
            time.sleep(0.05)
            closed.append(number)

        patch.setattr("echo_sim.processes.os.close", close)
        statuses = list(pool.map(lambda _: child.stop(), range(8)))
    assert set(statuses) == {-signal.SIGTERM}
    assert len(closed) == 1
    os.close(closed[0])
