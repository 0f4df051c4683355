"""The recorder of npu_trace.sv, seen from Python in the same process."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from cocotb.handle import HierarchyObject

from echo_sim.trace_events import EVENT


class TraceRecorder:
    """Starts and stops the record of what the device does in each cycle, and takes what was recorded."""

    def __init__(self, dut: HierarchyObject) -> None:
        self._dut: Any = dut
        self._lib = ctypes.CDLL(None)
        self._lib.echo_trace_start.argtypes = (ctypes.c_uint64,)
        self._lib.echo_trace_stop.argtypes = (ctypes.c_uint64,)
        self._lib.echo_trace_take.argtypes = (ctypes.c_void_p,)
        self._lib.echo_trace_client.argtypes = (ctypes.c_uint32, ctypes.c_uint32)
        self._lib.echo_trace_client.restype = ctypes.c_char_p
        self.running = False

    @property
    def cycle(self) -> int:
        """Clock cycles since the simulation began."""
        return int(self._dut.cycle.value)

    def start(self) -> dict[str, Any]:
        """Record from now on; what a reader of the events has to know of the device."""
        self._lib.echo_trace_start(self.cycle)
        self._dut.trace_enable.value = 1
        self.running = True
        return {
            "cycle": self.cycle,
            "beat_bytes": int(self._lib.echo_trace_beat_bytes()),
            "window": int(self._lib.echo_trace_window()),
            "readers": self._clients(0),
            "writers": self._clients(1),
        }

    def stop(self) -> None:
        """Record nothing more; what is under way ends now."""
        self._lib.echo_trace_stop(self.cycle)
        self._dut.trace_enable.value = 0
        self.running = False

    def take(self) -> bytes:
        """The events since the last call, as an array of `EVENT`."""
        events = np.empty(self._lib.echo_trace_pending(), EVENT)
        self._lib.echo_trace_take(events.ctypes.data)
        return events.tobytes()

    def _clients(self, is_write: int) -> list[str]:
        """Names by the number of a client; empty where there is none."""
        return [self._lib.echo_trace_client(is_write, client).decode() for client in range(16)]
