"""The RTL, simulated by Verilator under cocotb in a child process."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from echo_npu.backends.base import BatchBackend, check_number, check_register, check_whole, refuse_options
from echo_npu.backends.simulator import Simulator
from echo_npu.errors import SimulatorError
from echo_npu.model.memory import DeviceMemory, memory_map_of
from echo_npu.register_ops import RegisterOp, WaitIrq, WriteReg, encoded
from echo_npu.trace.timeline import Timeline
from echo_sim.config import load_config
from echo_sim.contract import CHANNELS, KNOBS

Access = Literal["backdoor", "frontdoor"]
_LATENCY = int(KNOBS["read_latency"].default or 0)
_MOST_STALL = KNOBS["stall_r"].most
_MOST = (1 << 32) - 1
_WINDOW_CHUNK = 1 << 16  # bytes of one request through the host window


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `echo_npu.open("rtlmodel", ...)` besides the configuration.

    Attributes:
        latency: cycles from a memory request to its first data.
        bandwidth: bytes a cycle, in each direction; None: as many as the bus is wide.
        stalls: how likely a channel of the memory is not ready in a cycle, 0..0.9: one figure for all, or a
            mapping from "aw", "w", "b", "ar", "r".
        seed: of the stalls, and of everything else that is random in the simulation.
        access: "backdoor": read_mem and write_mem use the shared memory and take no simulated time;
            "frontdoor": they go through the host window s_axi.
        waves: True, or a name: write a waveform, waves/<name>.vcd. The simulator is then slower.
        timeout: seconds of wall time that one request to the simulator may take.
        trace: the file to write a timeline to, in the format that Perfetto opens; None: no timeline.
        trace_events: the number of events after which the timeline is cut.

    Raises: TypeError, ValueError: naming the option and its value.
    """

    latency: int = _LATENCY
    bandwidth: float | None = None
    stalls: float | Mapping[str, float] = field(default_factory=dict)
    seed: int = 1
    access: Access = "backdoor"
    waves: bool | str = False
    timeout: float = 600.0
    trace: str | os.PathLike[str] | None = None
    trace_events: int = 4_000_000

    def __post_init__(self) -> None:
        check_whole("latency", self.latency, 1, _MOST)
        check_whole("seed", self.seed, 0, _MOST)
        check_whole("trace_events", self.trace_events, 1, _MOST)
        if self.trace is not None and not isinstance(self.trace, (str, os.PathLike)):
            raise TypeError(f"trace is {self.trace!r} ({type(self.trace).__name__}); it must be a path")
        if self.bandwidth is not None:
            check_number("bandwidth", self.bandwidth, KNOBS["read_bandwidth"].least, 4096)
        check_number("timeout", self.timeout, 0.001, 1e9)
        if self.access not in get_args(Access):
            raise ValueError(f"access is {self.access!r}; it is one of {', '.join(get_args(Access))}")
        if not isinstance(self.waves, bool) and not re.fullmatch(r"[\w.+-]+", str(self.waves)):
            raise ValueError(f"waves is {self.waves!r}; it is True or a name of letters, digits and . + - _")
        if isinstance(self.stalls, Mapping):
            for channel, chance in self.stalls.items():
                if channel not in CHANNELS:
                    raise ValueError(
                        f"stalls names channel {channel!r}; the channels are {', '.join(CHANNELS)}"
                    )
                check_number(f"stalls[{channel!r}]", chance, 0, _MOST_STALL)
        else:
            check_number("stalls", self.stalls, 0, _MOST_STALL)

    def knobs(self) -> dict[str, float]:
        """Return the settings of the memory model, in its own names."""
        stalls = self.stalls if isinstance(self.stalls, Mapping) else dict.fromkeys(CHANNELS, self.stalls)
        knobs: dict[str, float] = {
            "seed": self.seed,
            "read_latency": self.latency,
            "write_latency": self.latency,
        }
        if self.bandwidth is not None:
            knobs |= {"read_bandwidth": self.bandwidth, "write_bandwidth": self.bandwidth}
        return knobs | {f"stall_{channel}": chance for channel, chance in stalls.items()}


class RtlmodelBackend(BatchBackend):
    """The five primitives, served by a simulator whose clock stands still between two requests."""

    name = "rtlmodel"
    description = "the RTL in Verilator: bit-exact and cycle-exact"
    has_cycles = True
    shares_memory = True

    def __init__(self, config: str, options: Options) -> None:
        self.options = options
        self.memory = DeviceMemory(memory_map_of(load_config(config)))
        self._timeline: Timeline | None = None
        self._tracing = False
        with contextlib.ExitStack() as made:
            made.callback(self.memory.close)
            if self.memory.map.is_large and options.access != "backdoor":
                raise ValueError(
                    f"access is {options.access!r}: the host window does not reach the memory of {config}"
                )
            if options.trace is not None:
                self._timeline = self._make_timeline(config, Path(options.trace))
                made.callback(self._timeline.close)
            self.simulator = Simulator(
                config, self.memory, waves=options.waves, seed=options.seed, timeout=options.timeout
            )
            made.callback(self.simulator.close)
            self.set_memory_timing(options.knobs())
            made.pop_all()

    def _make_timeline(self, config: str, path: Path) -> Timeline:
        def read(address: int, nbytes: int) -> bytes:
            return self.memory.read(address, nbytes).tobytes()

        return Timeline(path, f"NPU, configuration {config}", read, limit=self.options.trace_events)

    @classmethod
    def open(cls, config: str, options: Mapping[str, Any]) -> RtlmodelBackend:
        refuse_options(cls.name, options, [option.name for option in fields(Options)])
        return cls(config, Options(**options))

    def run(self, ops: Sequence[RegisterOp]) -> list[int]:
        if not ops:
            return []
        for op in ops:
            if not isinstance(op, WaitIrq):
                check_register(op.offset, op.value if isinstance(op, WriteReg) else 0)
        if self._timeline is not None:
            self._timeline.see(ops)
        reply, data = self.simulator.request({"do": "run"}, encoded(ops).tobytes())
        results = np.frombuffer(data, "<u4", len(ops))
        if self._timeline is not None and self._tracing:
            self._timeline.add(data[results.nbytes :], reply["cycle"])
        return [int(value) for value in results]

    def read_mem(self, address: int, nbytes: int) -> NDArray[np.uint8]:
        if self.options.access == "backdoor":
            return self.memory.read(address, nbytes)
        self.memory.check(address, nbytes)
        data = bytearray()
        while len(data) < nbytes:
            part = min(_WINDOW_CHUNK, nbytes - len(data))
            data += self.simulator.request({"do": "read", "address": address + len(data), "nbytes": part})[1]
        return np.frombuffer(data, dtype=np.uint8)

    def write_mem(self, address: int, data: NDArray[np.uint8]) -> None:
        if self.options.access == "backdoor":
            self.memory.write(address, data)
            return
        self.memory.check(address, data.size)
        for start in range(0, data.size, _WINDOW_CHUNK):
            part = memoryview(data[start : start + _WINDOW_CHUNK].tobytes())
            self.simulator.request({"do": "write", "address": address + start}, part)

    @property
    def shared_memory(self) -> DeviceMemory | None:
        return self.memory if self.options.access == "backdoor" else None

    def set_memory_timing(self, knobs: Mapping[str, float]) -> None:
        """Change the memory model's timing; ValueError for a knob that it does not have."""
        self.simulator.request({"do": "memory_timing", "set": dict(knobs)})

    def statistics(self) -> dict[str, float]:
        """Return the cycles since start, wall seconds of simulating (wall_s) and the memory's statistics."""
        return dict(self.simulator.request({"do": "statistics"})[0]["statistics"])

    def ready(self) -> None:
        if self._timeline is not None:
            facts, _ = self.simulator.request({"do": "trace_start"})
            self._timeline.start(facts)
            self._tracing = True

    @property
    def timeline(self) -> Timeline | None:
        return self._timeline

    def _end_timeline(self) -> None:
        if self._timeline is None:
            return
        if self._tracing:
            self._tracing = False
            try:
                reply, events = self.simulator.request({"do": "trace_stop"})
                self._timeline.add(events, reply["cycle"])
            except SimulatorError:
                self._timeline.lost("the simulator had ended")
        self._timeline.close()

    def info(self) -> dict[str, Any]:
        waves = self.simulator.waves
        simulator = {"pid": self.simulator.pid, "log": str(self.simulator.log), "waves": waves and str(waves)}
        return {"simulator": simulator}

    @property
    def waves_hint(self) -> str:
        if self.simulator.waves is not None:
            return f"The waveform, complete once the device is closed: {self.simulator.waves}"
        return "A waveform: open the device with waves=True."

    def close(self) -> None:
        self._end_timeline()
        self.simulator.close()
        self.memory.close()


BACKEND = RtlmodelBackend
