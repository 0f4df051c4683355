"""Child processes that cannot outlive a run: process group, time-out, and a lifeline to the simulator."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

_running: weakref.WeakSet[ChildProcess] = weakref.WeakSet()


def stop_all() -> None:
    """End every child process that still runs, for a program with many threads that was interrupted."""
    for child in list(_running):
        child.stop()


def stop_pool(pool: Executor, futures: Sequence[Future[Any]]) -> None:
    """Shut down a pool of threads that run child processes: cancel what waits, end what runs."""
    pool.shutdown(wait=False, cancel_futures=True)
    while not all(future.done() for future in futures):  # one may be about to start its process
        stop_all()
        time.sleep(0.05)


class ChildProcess:
    """A program in its own process group; leaving the `with` block, or `stop()`, ends the whole group.

    The child gets the read end of a pipe as ECHO_NPU_LIFELINE. This process holds the write end, so a
    simulator notices when this process is gone, even when it was killed (board/lifeline.cpp).
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, append: bool = False
    ) -> None:
        """Start `command` in `cwd`; standard output and error go to the file `log`."""
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited: exit statuses would be lost
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._closing = threading.Lock()
        read_end, self._lifeline = os.pipe()
        try:
            with open(log, "ab" if append else "wb") as output:
                self.process = subprocess.Popen(
                    list(command),
                    env={**env, "ECHO_NPU_LIFELINE": str(read_end)},
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(read_end,),
                )
        except BaseException:
            os.close(self._lifeline)
            self._lifeline = -1
            raise
        finally:
            os.close(read_end)
        _running.add(self)

    @property
    def pid(self) -> int:
        """Process id, and the id of its process group."""
        return self.process.pid

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self.process.poll()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit status; subprocess.TimeoutExpired after `timeout` seconds."""
        return self.process.wait(timeout)

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines that it wrote."""
        try:
            with open(self.log, "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 65536))
                return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])
        except OSError:
            return ""

    def stop(self) -> int:
        """End the whole group now (if it still runs) and return the exit status."""
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self.process.wait()
        self._signal(signal.SIGKILL)  # processes that the leader may have left behind
        _running.discard(self)
        # Threads may stop a child at once, and a number that is closed twice may be another file's by then.
        with self._closing:
            lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        return self.process.returncode

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def run_bounded(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    append: bool = False,
    timeout: float,
    tick: Callable[[float], None] | None = None,
) -> int:
    """Run to the end and return the exit status; `tick(seconds so far)` is called a few times a second.

    The command and all that it starts end with this process, even when this process is killed.

    Raises:
        subprocess.TimeoutExpired: after `timeout` seconds; nothing of the group is left running.
    """
    started = time.monotonic()
    supervised = [sys.executable, str(Path(__file__).with_name("lifeline.py")), *command]
    with ChildProcess(supervised, env=env, cwd=cwd, log=log, append=append) as child:
        while True:
            elapsed = time.monotonic() - started
            if elapsed > timeout:
                raise subprocess.TimeoutExpired(list(command), timeout)
            try:
                return child.wait(0.2 if tick else timeout - elapsed)
            except subprocess.TimeoutExpired:
                if tick:
                    tick(time.monotonic() - started)
