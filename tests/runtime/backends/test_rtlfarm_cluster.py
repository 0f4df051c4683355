"""The farm on a Dask cluster whose network is cut and whose scheduler starts again, without simulations."""

import concurrent.futures
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from distributed.utils import LoopRunner

import echo_npu
from echo_npu.backends.rtlfarm import cluster as farm_cluster
from echo_npu.backends.rtlfarm import remote
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from echo_npu.backends.rtlfarm.pages import PAGE
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import BackendError, SimulatorError
from tests.processes import eventually
from tests.refusals import refuses
from tests.rtlmodel.dask_processes import DaskProcesses, harmed_products, products
from tests.runtime.backends import model_preload
from tests.runtime.backends.farm_work import farm_of
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, opened, simulations

__all__ = ["simulations"]

_START_S = 300
_COUNT = 8
_DEPTH = 64


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path_factory.mktemp("cluster"), 1, model_preload.__file__) as made:
        yield made
    assert eventually(lambda: not made.left(), _START_S)


def _opened(cluster: DaskProcesses) -> echo_npu.Device:
    """Open the farm as soon as the cluster has a worker."""
    found: list[echo_npu.Device] = []

    def answers() -> bool:
        try:
            found.append(opened(executor=cluster.address, chunk_cycles=1))
        except BackendError:
            return False
        return True

    assert eventually(answers, _START_S), cluster.log()
    return found[0]


def test_a_client_that_is_over_may_be_collected_at_any_moment(cluster: DaskProcesses) -> None:
    """Garbage is collected also by the thread that starts another client and holds the lock of all loops."""
    _opened(cluster).close()  # it is there
    client = farm_cluster._connected(cluster.address)
    client.close()
    with LoopRunner._lock:
        collection = threading.Thread(target=client.__del__, daemon=True)
        collection.start()
        collection.join(10)
        assert not collection.is_alive()


@pytest.mark.parametrize("what", ["network cut for 10 s", "scheduler started again"])
def test_a_run_is_whole_behind_what_its_cluster_lost(what: str, cluster: DaskProcesses) -> None:
    harms: dict[str, Callable[[], None]] = {
        "network cut for 10 s": lambda: cluster.proxy.cut(10.0),
        "scheduler started again": cluster.restart_scheduler,
    }
    with echo_npu.Device(ModelSimulation(CONFIG, Options())) as device:
        wanted = products(device, _COUNT, _DEPTH)
        device.wait()
        counters = device.counters()
    with _opened(cluster) as device:
        workers = farm_of(device).workers
        assert isinstance(workers, DaskWorkers)
        found, under_way = harmed_products(device, workers, _COUNT, _DEPTH, harms[what])
        device.wait()
        summed, chunks = device.counters(), farm_of(device).info()["farm"]["chunks"]
    assert under_way == 1
    assert found == wanted
    assert {name: summed[name] for name in ("cycles", "commands")} == {
        name: counters[name] for name in ("cycles", "commands")
    }
    assert chunks >= _COUNT


class _Future:
    """A task of `_Client`, which has ended when it is looked at."""

    def __init__(self, client: "_Client", outcome: Any) -> None:
        self.client, self._outcome = client, outcome
        self.status = "error" if isinstance(outcome, BaseException) else "finished"

    def add_done_callback(self, call: Callable[[object], None]) -> None:
        call(self)

    def result(self, timeout: float) -> Any:
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome


class _Client:
    """Dask's client of a scheduler in this thread, whose workers fail as a test says.

    Attributes:
        blocks: the contents of each block that was sent, by its name.
        pages: digests of the pages that each attempt got, by the chunk's number.
        error: what the first attempts at chunk 2 raise.
        times: how many of them.
    """

    def __init__(self, error: BaseException | None = None, times: int = 0) -> None:
        self.status = "running"
        self.blocks: dict[str, dict[bytes, bytes]] = {}
        self.pages: dict[int, list[set[bytes]]] = {}
        self.ran: list[Any] = []
        self.closed = 0
        self.workers = 1
        self._error, self._times = error, times

    def nthreads(self) -> dict[str, int]:
        return {f"worker {number}": 2 for number in range(self.workers)}

    def submit(self, function: Callable[..., Any], *arguments: Any, key: str, **_: Any) -> _Future:
        if function is remote.keep_block:
            self.blocks[key] = arguments[0]
            return _Future(self, key)
        packed, blocks, options, run = arguments
        contents = [self.blocks[block.result(0)] for block in blocks]
        got = self.pages.setdefault(packed.chunk.number, [])
        got.append({digest for block in contents for digest in block} & packed.wanted)
        if packed.chunk.number == 2 and len(got) <= self._times:
            return _Future(self, self._error)
        return _Future(self, remote.run_packed(packed, contents, options, run))

    def cancel(self, left: list[_Future], force: bool) -> None:
        assert force

    def run(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.ran.append(function)
        function(*arguments)

    def close(self) -> None:
        self.closed += 1


def _lost() -> BaseException:
    error = concurrent.futures.CancelledError()
    error.reason = "scheduler-connection-lost"  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "times", "survives"),
    [
        (ValueError("a worker died"), 4, True),
        (ValueError("a worker died"), 5, False),
        (OSError(28, "a worker died: no space left on device"), 4, True),
        (OSError(28, "a worker died: no space left on device"), 5, False),
        (TimeoutError("a worker died"), 5, False),
        (_lost(), 9, True),
        (SimulatorError("no compiler"), 1, False),
    ],
)
def test_a_chunk_that_workers_lose_is_sent_again_with_its_pages(
    error: BaseException,
    times: int,
    survives: bool,
    simulations: type[ModelSimulation],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five times, unless it was the connection; nothing is lost with it, and nothing counts twice."""
    client = _Client(error, times)
    monkeypatch.setattr(farm_cluster, "_connected", lambda _: client)
    monkeypatch.setattr(farm_cluster, "_LOOK_S", 0.01)
    device = opened(executor="tcp://here:1", chunk_cycles=1)
    if survives:
        products(device, 4, _DEPTH)
        device.wait()
        with echo_npu.Device(ModelSimulation(CONFIG, Options())) as single:
            products(single, 4, _DEPTH)
            single.wait()
            assert device.counters()["commands"] == single.counters()["commands"]
        assert {number: len(got) for number, got in client.pages.items() if len(got) > 1} == {2: times + 1}
        assert len(client.pages) == farm_of(device).info()["farm"]["chunks"]
        first, *others = client.pages[2]
        assert len(first) > 1
        assert others == [first] * times
        workers = farm_of(device).workers
        assert isinstance(workers, DaskWorkers)
        assert workers.sent == PAGE * sum(map(len, client.blocks.values()))
        whole = sum(block.keys() == first for block in client.blocks.values())
        assert whole >= (0 if isinstance(error, concurrent.futures.CancelledError) else times)
    else:
        what = "no compiler" if times == 1 else r"the cluster gave up chunk \d+: .*a worker died"

        def work() -> None:
            products(device, 4, _DEPTH)
            device.wait()

        refuses(SimulatorError, what, work)
    device.close()
    assert (client.ran, client.closed) == ([remote.end_runners], 1)
    assert all(each.closed for each in simulations.made)


@pytest.mark.parametrize(
    ("workers", "status", "what"),
    [(0, "running", "the scheduler has had no worker"), (1, "connecting", "the scheduler has been away")],
)
def test_a_cluster_that_stays_away_is_an_error(
    workers: int,
    status: str,
    what: str,
    simulations: type[ModelSimulation],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = _Client()
    monkeypatch.setattr(farm_cluster, "_connected", lambda _: client)
    for name in ("_LOOK_S", "_RECOUNT_S"):
        monkeypatch.setattr(farm_cluster, name, 0.01)
    device = opened(executor="tcp://here:1", chunk_cycles=1, timeout=0.3)
    device.add(np.ones(3, np.float32), np.ones(3, np.float32))
    device.wait()
    client.workers, client.status = workers, status

    def work() -> None:
        assert eventually(lambda: farm_of(device).workers._away is not None or status == "connecting")  # type: ignore[attr-defined]
        device.add(np.ones(3, np.float32), np.ones(3, np.float32))
        device.wait()

    refuses(BackendError, rf"executor=tcp://here:1: {what} for 0.3 s; [1-9] chunks were not checked", work)
    device.close()
    assert client.closed == 1
    client.workers, client.status = 0, "running"
    refuses(BackendError, "the scheduler has no worker", opened, executor="tcp://here:1")
    assert client.closed == 2


@pytest.mark.parametrize("answers", [False, True])
def test_what_answers_like_no_scheduler_is_refused(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the connection, and says nothing or what nobody asked for. No thread is left of it."""
    monkeypatch.setattr(farm_cluster, "_ANSWER_TIMEOUT_S", 0.5)
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = server.accept()
                    with link:
                        link.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        if answers:
            threading.Thread(target=serve, daemon=True).start()
        refuses(BackendError, f"executor={address}: no Dask scheduler answers", opened, executor=address)
        server.shutdown(socket.SHUT_RDWR)
    left = [each.name for each in set(threading.enumerate()) - before]
    assert "IO loop" not in left, "the interpreter would wait for it at its end"


def test_a_worker_with_other_hardware_refuses_chunks(
    cluster: DaskProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm_cluster, "hardware_of", lambda _: "of another commit")
    device = _opened(cluster)

    def work() -> None:
        with device:
            products(device, _COUNT, _DEPTH)
            device.wait()

    refuses(BackendError, "has other RTL of configuration 'small' than the program", work)
