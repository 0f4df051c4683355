"""The farm on a Dask cluster of two workers, which lose each other: right bits and cycles, nothing left."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from echo_npu.errors import BackendError
from tests.processes import eventually
from tests.refusals import refuses
from tests.rtlmodel.dask_processes import DaskProcesses, harmed_products, products

pytestmark = pytest.mark.sim

CONFIG = "small"
_COUNT = 10
_START_S = 120
_DEPTH = 256
_WEIGHT_BYTES = _DEPTH * 64 * 4


@pytest.fixture(scope="module")
def sequential() -> tuple[list[bytes], dict[str, int]]:
    with echo_npu.open("rtlmodel", config=CONFIG) as device:
        found = products(device, _COUNT, _DEPTH)
        device.wait()
        return found, device.counters()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskProcesses]:
    with DaskProcesses(tmp_path_factory.mktemp("cluster"), workers=2) as made:
        yield made
    assert eventually(lambda: not made.left())


def _opened(cluster: DaskProcesses, **options: Any) -> echo_npu.Device:
    """Open the farm as soon as the cluster has a worker."""
    opened: list[echo_npu.Device] = []

    def answers() -> bool:
        try:
            opened.append(
                echo_npu.open("rtlfarm", config=CONFIG, executor=cluster.address, chunk_cycles=1, **options)
            )
        except BackendError:
            return False
        return True

    assert eventually(answers, _START_S), cluster.log()
    return opened[0]


@pytest.mark.parametrize("what", ["workers killed", "network held up", "network cut", "scheduler killed"])
def test_a_run_survives(
    what: str, cluster: DaskProcesses, sequential: tuple[list[bytes], dict[str, int]]
) -> None:
    harms: dict[str, Callable[[], None]] = {
        "workers killed": cluster.arm,
        "network held up": lambda: cluster.proxy.hold(2.0),
        "network cut": lambda: cluster.proxy.cut(1.0),
        "scheduler killed": cluster.restart_scheduler,
    }
    with _opened(cluster) as device:
        backend = device.backend
        assert isinstance(backend, RtlfarmBackend)
        workers = backend.workers
        assert isinstance(workers, DaskWorkers)
        found, under_way = harmed_products(device, workers, _COUNT, _DEPTH, harms[what])
        device.wait()
        counters = device.counters()
        chunks = backend.info()["farm"]["chunks"]
    assert under_way >= 1
    assert cluster.armed == []
    assert found == sequential[0]
    assert counters == sequential[1]
    assert chunks >= _COUNT
    if what in ("workers killed", "network held up"):  # the scheduler still has the weights
        assert _WEIGHT_BYTES < workers.sent < 4 * _WEIGHT_BYTES
    assert eventually(lambda: not cluster.simulations(), _START_S), "a simulation outlived its run"


def test_a_scheduler_that_stays_away_is_an_error(cluster: DaskProcesses) -> None:
    device = _opened(cluster, timeout=1.0)
    products(device, _COUNT, _DEPTH)
    device.wait()
    cluster.kill_scheduler()
    try:
        device.add(np.ones(4, np.float32), np.ones(4, np.float32))
        with pytest.raises(BackendError, match=r"the scheduler has been away for 1 s; [1-9] chunks were not"):
            device.wait()
    finally:
        device.close()
        cluster.start_scheduler()


@pytest.mark.parametrize("executor", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nonsense://127.0.0.1:9"])
def test_a_farm_without_cluster_is_refused(executor: str) -> None:
    what = f"executor={executor}: no Dask scheduler answers"
    before = set(threading.enumerate())
    refuses(BackendError, what, echo_npu.open, "rtlfarm", config=CONFIG, executor=executor)
    left = [each.name for each in set(threading.enumerate()) - before]
    assert "IO loop" not in left, "the interpreter would wait for it at its end"
