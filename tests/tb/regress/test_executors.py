"""Every task has one outcome, wherever it runs and whatever dies meanwhile."""

import collections
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

from tb.regress.executors import ExecutorError, ProcessPool, executor
from tb.regress.run import collect
from tests.refusals import refuses
from tests.tb.regress.tasks import writer


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Start a scheduler on this machine with two workers, each a process."""
    make: Any = distributed.LocalCluster
    with make(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp://"
    ) as made:
        yield made


def test_pool(tmp_path: Path) -> None:
    """All outcomes, failures among them."""
    tasks = [writer(tmp_path / "marks", f"task {i}", "fail" if i == 2 else "pass") for i in range(5)]
    (result,) = collect(ProcessPool(2).run(tasks))
    assert [item.status for item in sorted(result.items, key=lambda item: item.name)].count("fail") == 1
    assert result.figures["tried"] == 5


def test_pool_that_is_given_up(tmp_path: Path) -> None:
    """Running tasks are stopped, waiting ones never start."""
    marks = tmp_path / "marks"
    tasks = [writer(marks, "quick"), *(writer(marks, f"slow {i}", seconds=300) for i in range(6))]
    started = time.monotonic()
    outcomes = ProcessPool(2).run(tasks)
    assert next(outcomes).task.name == "quick"
    refuses(KeyboardInterrupt, None, outcomes.throw, KeyboardInterrupt())
    assert time.monotonic() - started < 60
    assert len(marks.read_text().splitlines()) <= 3


def test_cluster_loses_a_worker(cluster: Any, tmp_path: Path) -> None:
    """One of two workers is killed during its task: the task is repeated elsewhere, and every task is in the
    report once."""
    marks = tmp_path / "marks"
    tasks = [writer(marks, f"task {i}", seconds=1.0) for i in range(8)]
    killed: list[str] = []

    def kill_one() -> None:
        while not marks.exists() or len(marks.read_text().splitlines()) < 3:
            time.sleep(0.02)
        with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            workers: dict[str, int] = client.run(os.getpid)
            victim = None
            while victim is None:
                running: dict[str, Any] = client.processing()
                victim = next((address for address, keys in running.items() if keys), None)
            killed.append(victim)
        os.kill(workers[victim], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    (result,) = collect(executor(cluster.scheduler_address, 1).run(tasks))
    killer.join()
    assert killed
    assert sorted(item.name for item in result.items) == sorted(task.name for task in tasks)
    assert result.passed
    assert result.figures["tried"] == len(tasks)
    began = collections.Counter(marks.read_text().splitlines())
    assert sum(began.values()) > len(tasks), "the task of the killed worker did not start again"


def test_nobody_answers() -> None:
    """No scheduler answers, or the name is no executor."""
    refuses(ExecutorError, "no Dask scheduler answers", list, executor("tcp://127.0.0.1:9", 1).run([]))
    refuses(ValueError, "EXECUTOR='dask'", executor, "dask", 1)
