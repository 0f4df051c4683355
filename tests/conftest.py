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

USUAL = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGHUP: signal.SIG_DFL,
}


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Restore the default effect of signals, here and in processes started here.

    A shell ignores SIGINT for background processes, nohup ignores SIGHUP, and children inherit that.
    """
    before = {number: signal.signal(number, does) for number, does in USUAL.items()}
    yield
    for number, did in before.items():
        signal.signal(number, did)
