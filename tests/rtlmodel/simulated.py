"""What tests of simulated devices share.

ECHO_NPU_THROUGH=fpga puts the backend fpga, and the files of a card over FUSE or on answers to its calls,
between the tests and the simulator.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import echo_npu
from echo_npu import Device
from echo_npu.backends.rtlmodel import RtlmodelBackend
from tests.boards.slots import inserted, shown_in

_THROUGH = os.environ.get("ECHO_NPU_THROUGH", "")
if _THROUGH not in ("", "fpga"):
    raise pytest.UsageError(f"ECHO_NPU_THROUGH is {_THROUGH!r}; it is fpga, or empty")
THROUGH_CARD = bool(_THROUGH)
simulator_only = pytest.mark.skipif(THROUGH_CARD, reason="is about the simulator, not about the device")

BENCHMARKED = "default"
"""The configuration of the benchmarks."""

STALLS = {"aw": 0.2, "w": 0.3, "b": 0.2, "ar": 0.2, "r": 0.3}
"""How likely each channel of the memory is not ready in a cycle."""


_behind: dict[int, RtlmodelBackend] = {}  # cards, by the identity of the device


@contextmanager
def open_rtl(config: str, *, ring_slots: int | None = None, **options: Any) -> Iterator[Device]:
    """Open a simulated device, as ECHO_NPU_THROUGH says."""
    if not THROUGH_CARD:
        with echo_npu.open("rtlmodel", config=config, ring_slots=ring_slots, **options) as device:
            yield device
        return
    backend = RtlmodelBackend.open(config, options)
    with (
        tempfile.TemporaryDirectory() as name,
        inserted(backend, config, shown_in(Path(name))) as slot,
        slot.open(ring_slots=ring_slots) as device,
    ):
        _behind[id(device)] = backend
        try:
            yield device
        finally:
            del _behind[id(device)]


def backend_of(device: Device) -> RtlmodelBackend:
    """Return the backend of a simulated device."""
    found = _behind.get(id(device), device.backend)
    assert isinstance(found, RtlmodelBackend)
    return found
