"""The farm on a Dask cluster: two workers of this machine."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import distributed
import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from echo_npu.errors import BackendError
from tests.refusals import refuses

pytestmark = pytest.mark.sim

CONFIG = "small"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    make: Any = distributed.LocalCluster
    with make(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, protocol="tcp://"
    ) as made:
        yield made


def _products(device: echo_npu.Device, count: int) -> list[bytes]:
    rng = np.random.default_rng(2)
    weights = device.tensor(rng.standard_normal((256, 64)).astype(np.float32))
    rows = [rng.standard_normal((4, 256)).astype(np.float32) for _ in range(count)]
    return [device.matmul(device.tensor(each), weights).to_numpy().tobytes() for each in rows]


def test_a_killed_worker_changes_nothing_and_pages_travel_once(cluster: Any) -> None:
    with echo_npu.open("rtlmodel", config=CONFIG) as device:
        wanted = _products(device, 12)
        device.wait()
        counters = device.counters()
    address = cluster.scheduler_address
    with echo_npu.open("rtlfarm", config=CONFIG, executor=address, chunk_cycles=1) as device:
        assert isinstance(device.backend, RtlfarmBackend)
        workers = device.backend.workers
        assert isinstance(workers, DaskWorkers)
        killed: list[int] = []

        def kill_one() -> None:
            connect: Any = distributed.Client
            with connect(address, set_as_default=False) as client:
                pids: dict[str, int] = client.run(os.getpid)
                deadline = time.monotonic() + 60
                while not killed and time.monotonic() < deadline:
                    for name, keys in client.processing().items():
                        if keys and name in pids and not killed:
                            killed.append(pids[name])
                            os.kill(pids[name], signal.SIGKILL)
                    time.sleep(0.01)

        killer = threading.Thread(target=kill_one)
        killer.start()
        found = _products(device, 12)
        device.wait()
        killer.join()
        assert device.counters() == counters
        chunks = device.backend.info()["farm"]["chunks"]
    assert found == wanted
    assert killed
    assert chunks >= 12
    # The weights, 16 pages, are in every chunk and were sent once.
    assert 16 * 4096 < workers.sent < 16 * 4096 * 4


def test_a_farm_without_cluster_is_refused() -> None:
    refuses(
        BackendError,
        "no Dask scheduler answers",
        echo_npu.open,
        "rtlfarm",
        config=CONFIG,
        executor="tcp://127.0.0.1:9",
    )
