"""Preloaded by the Dask workers of a test: a phase of a chunk kills its worker if it is armed.

A phase is armed by a file of its name in the folder $ECHO_NPU_TEST_KILLS; the file goes with the worker.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from echo_npu.backends.rtlfarm import remote
from echo_npu.backends.rtlfarm.runner import ChunkRunner

FOLDER: Final = "ECHO_NPU_TEST_KILLS"
_PLACES: Final[dict[str, object]] = {"_take": remote, "_play": ChunkRunner, "_give_back": remote}
PHASES: Final = tuple(_PLACES)
"""Before a worker has a simulation, while it has one, and when it has the result."""


def _killing(phase: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def killing(*arguments: Any) -> Any:
        try:
            (Path(os.environ[FOLDER]) / phase).unlink()
        except FileNotFoundError:
            return original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")

    return killing


def dask_setup(_worker: object) -> None:
    """Prepare a worker; Dask calls it."""
    for phase, place in _PLACES.items():
        setattr(place, phase, _killing(phase, getattr(place, phase)))
