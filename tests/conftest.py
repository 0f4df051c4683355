"""What all tests share."""

import os
import signal
from collections.abc import Iterator

import pytest

from echo_sim.claims import own_folder
from tb.repository import ROOT

# Before anything imports echo_sim.run. Workers run at the same time, and some tests run the same simulation.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault("ECHO_NPU_RUNS", str(own_folder(ROOT / "sim_build" / "workers" / worker)))

LONGEST = (
    "tests/tb/mutation/test_bugs.py",
    "tests/plugins/test_ggml_backend.py",
    "tests/rtl/vector/vector_engine/cocotb_vector_engine.py",
    "tests/rtl/matrix/matrix_engine/cocotb_matrix_engine.py",
    "tests/sim/test_coverage.py",
    "tests/sim/test_lockstep.py",
    "tests/tb/netlist/test_design.py",
    "tests/house/test_wheel.py",
    "tests/runtime/torch/test_examples.py",
    "tests/rtlmodel/test_simulation.py",
)
"""Files that take a minute or more. They begin first: a worker that begins one last is alone at the end."""

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Move the tests of the files that take longest to the front."""
    places = {str(config.rootpath / name): place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(str(item.path), len(places)))


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Restore the default effect of signals, here and in processes started here.

    A shell ignores SIGINT for background processes, nohup ignores SIGHUP, and children inherit that.
    """
    before = {number: signal.signal(number, does) for number, does in USUAL.items()}
    yield
    for number, did in before.items():
        signal.signal(number, did)
