"""Where tasks run: a pool of processes of this machine, or a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Protocol

from echo_sim.processes import stop_pool
from tb.regress.task import Task, TaskOutcome, run_task
from tb.results import CampaignResult, Item

CONNECT_TIMEOUT_S = 10


class ExecutorError(ConnectionError):
    """The cluster cannot be reached, or has no worker."""


class TaskExecutor(Protocol):
    """Runs tasks; each yields one outcome, in the order in which they end."""

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run them all."""


class ProcessPool:
    """So many processes at a time on this machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run them all; when the caller gives up, everything that was started ends."""
        # Each thread waits for a process of its own, so one that crashes takes nothing with it.
        with ThreadPoolExecutor(self._jobs) as pool:
            futures = [pool.submit(run_task, task) for task in tasks]
            try:
                for future in as_completed(futures):
                    yield future.result()
            except BaseException:
                stop_pool(pool, futures)
                raise


class DaskCluster:
    """The workers of a Dask scheduler. Each needs this tree at its working directory's place, with the
    packages of the extras "sim", "dev" and "verify"; each task takes one of its threads.

    A task whose worker dies runs again on another one, until it has lost as many workers as Dask's setting
    distributed.scheduler.allowed-failures says; only the attempt that ends is in the report.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run them all. ExecutorError: no scheduler at the address, or no worker."""
        # Imported late: it takes a second, and only this executor needs it.
        import distributed

        connect: Any = distributed.Client
        ended: Any = distributed.as_completed
        try:
            client: Any = connect(self._address, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ExecutorError(f"EXECUTOR={self._address}: no Dask scheduler answers ({error})") from None
        with client, client.as_current():
            if not client.scheduler_info()["workers"]:
                raise ExecutorError(f"EXECUTOR={self._address}: the scheduler has no worker")
            run = uuid.uuid4().hex  # a scheduler keeps answers by key, and may serve others
            by_key = {f"{run}-{task.name}": task for task in tasks}
            futures = [client.submit(run_task, task, key=key, pure=False) for key, task in by_key.items()]
            try:
                for future in ended(futures):
                    if future.status == "finished":
                        yield future.result()
                    else:
                        yield _lost(by_key[future.key], repr(future.exception()))
            finally:
                client.cancel(futures)


def _lost(task: Task, why: str) -> TaskOutcome:
    item = Item(task.name, "error", 0.0, f"the cluster gave it up: {why}", task.replay)
    return TaskOutcome(task, CampaignResult(task.campaign, 0, 0.0, {}, [item]), "", "")


def executor(where: str, jobs: int) -> TaskExecutor:
    """The executor that EXECUTOR names: "" or "processes", or the address tcp://host:port of a scheduler.
    ValueError: something else."""
    if where in ("", "processes"):
        return ProcessPool(jobs)
    if "://" in where:
        return DaskCluster(where)
    raise ValueError(f"EXECUTOR={where!r}: it must be processes, or a scheduler's address, tcp://host:port")
