"""Preloaded by the Dask workers of a test: chunks run on functional models, as slowly as RTL simulations."""

import time

from echo_npu.backends.rtlfarm import runner
from tests.runtime.backends.model_simulation import ModelSimulation


def dask_setup(_worker: object) -> None:
    """Prepare a worker; Dask calls it."""
    runner.RtlmodelBackend = ModelSimulation  # type: ignore[assignment,misc]
    ModelSimulation.harm = lambda *_: time.sleep(0.5)
