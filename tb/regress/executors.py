"""Executors of tasks: a pool of local processes, or a Dask cluster."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tb.children import in_pool
from tb.regress.task import Task, TaskOutcome, run_task
from tb.results import CampaignResult, Item

CONNECT_TIMEOUT_S = 10


class ExecutorError(ConnectionError):
    """The cluster cannot be reached, or has no worker."""


class TaskExecutor(Protocol):
    """Runs tasks and yields one outcome each, in order of completion."""

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run all tasks."""


class ProcessPool:
    """A number of processes on this machine."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run all tasks. If the caller gives up, all processes end."""
        return in_pool(run_task, tasks, self._jobs)


class DaskCluster:
    """Workers of a Dask scheduler.

    Each worker needs this tree at its working directory's place and the packages of the extras "sim", "dev"
    and "verify". A task takes one thread. A task whose worker dies is repeated on another, up to Dask's
    setting distributed.scheduler.allowed-failures; only the last attempt is reported.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def run(self, tasks: Sequence[Task]) -> Iterator[TaskOutcome]:
        """Run all tasks. Raise ExecutorError if no scheduler answers, or if it has no worker."""
        # Imported late, since it takes a second and only this executor needs it.
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
            run = uuid.uuid4().hex  # a scheduler caches answers by key and may serve others
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
    """Return the executor for EXECUTOR: "" or "processes", or a scheduler's address tcp://host:port.

    Raises ValueError for anything else.
    """
    if where in ("", "processes"):
        return ProcessPool(jobs)
    if "://" in where:
        return DaskCluster(where)
    raise ValueError(f"EXECUTOR={where!r}: it must be processes, or a scheduler's address, tcp://host:port")
