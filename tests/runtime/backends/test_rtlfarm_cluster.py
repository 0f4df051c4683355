"""The farm on a Dask cluster whose network is cut and whose scheduler starts again, without simulations."""

from collections.abc import Callable, Iterator

import pytest

import echo_npu
from echo_npu.backends.rtlfarm import cluster as farm_cluster
from echo_npu.backends.rtlfarm.cluster import DaskWorkers
from echo_npu.backends.rtlmodel import Options
from echo_npu.errors import BackendError
from tests.processes import eventually
from tests.refusals import refuses
from tests.rtlmodel.dask_processes import DaskProcesses, harmed_products, products
from tests.runtime.backends import model_preload
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, farm_of, opened

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
