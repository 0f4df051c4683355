"""The recorder of npu_trace.sv, called from Python in the same process."""

import ctypes
from typing import Any

import numpy as np
from cocotb.handle import HierarchyObject

from echo_sim.trace_events import EVENT


class TraceRecorder:
    """Starts and stops recording what the device does in each cycle, and takes the events."""

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
        """Start recording; return the facts with which the events are read (`Timeline.start`)."""
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
        """Stop recording. Everything under way ends in this cycle."""
        self._lib.echo_trace_stop(self.cycle)
        self._dut.trace_enable.value = 0
        self.running = False

    def take(self) -> bytes:
        """Take the events since the last call, as the bytes of an array of `EVENT`."""
        events = np.empty(self._lib.echo_trace_pending(), EVENT)
        self._lib.echo_trace_take(events.ctypes.data)
        return events.tobytes()

    def _clients(self, is_write: int) -> list[str]:
        """Return the names of the clients by number; an empty name where there is no client."""
        return [self._lib.echo_trace_client(is_write, client).decode() for client in range(16)]
