"""The simulator's C functions, called from Python in the same process: memory model and register queue."""

import ctypes
import functools
import mmap
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from echo_sim.contract import KNOBS, MEMORY_BYTES, STATISTICS


class _Write(ctypes.Structure):
    _fields_ = (
        ("cycle", ctypes.c_uint64),
        ("addr", ctypes.c_uint32),
        ("data", ctypes.c_uint32),
        ("strb", ctypes.c_uint32),
        ("resp", ctypes.c_uint32),
    )


class ObservedWrite(NamedTuple):
    """A register write that the device answered: clock cycle, offset, data, byte strobes, AXI response."""

    cycle: int
    offset: int
    data: int
    strobes: int
    response: int


@functools.lru_cache(maxsize=1)
def _dram_functions() -> ctypes.CDLL:
    """Return what dram.cpp exports; AttributeError in a program without it."""
    lib = ctypes.CDLL(None)
    lib.echo_dram_fd.restype = ctypes.c_int
    lib.echo_dram_set.argtypes = (ctypes.c_char_p, ctypes.c_uint64)
    lib.echo_dram_get.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint64))
    lib.echo_dram_add_fault.argtypes = (
        ctypes.c_uint64,
        ctypes.c_uint64,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_int64,
    )
    lib.echo_dram_violation.argtypes = (ctypes.c_uint32,)
    lib.echo_dram_violation.restype = ctypes.c_char_p
    return lib


@functools.lru_cache(maxsize=1)
def _register_functions() -> ctypes.CDLL:
    """Return what axil_queue.cpp and axil_monitor.cpp export; AttributeError in a program without them."""
    lib = ctypes.CDLL(None)
    lib.echo_axil_submit.argtypes = (ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32)
    lib.echo_axil_collect.argtypes = (ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32)
    lib.echo_axil_collect.restype = ctypes.c_uint32
    lib.echo_axil_take_write.argtypes = (ctypes.POINTER(_Write),)
    return lib


class Dram:
    """The memory model behind m_axi: its timing knobs, its faults, what it counted, and its bytes."""

    def __init__(self) -> None:
        self._lib = _dram_functions()
        self.knobs: dict[str, float] = {}
        """What was set, by name."""

    def set(self, knob: str, value: float) -> None:
        """Set a knob. `contract.KNOBS` has the names, units and ranges.

        Raises:
            ValueError: no such knob (the message lists them), or a value out of its range.
            RuntimeError: the simulator was built with other knobs.
        """
        known = KNOBS.get(knob)
        if known is None:
            raise ValueError(f"the memory model has no knob {knob!r}; it has {', '.join(KNOBS)}")
        if not known.least <= value <= known.most:
            raise ValueError(
                f"{knob} = {value}: it must lie in {known.least:g}..{known.most:g} ({known.unit})"
            )
        if known.scale == 1 and value != int(value):
            raise ValueError(f"{knob} = {value}: it must be a whole number ({known.unit})")
        native = round(value * known.scale)
        if not self._lib.echo_dram_set(knob.encode(), native):
            raise RuntimeError(f"this simulator's memory model does not know {knob!r}: rebuild it")
        self.knobs[knob] = value

    def configure(self, knobs: Mapping[str, float]) -> None:
        """Set each of `knobs`."""
        for knob, value in knobs.items():
            self.set(knob, value)

    def statistic(self, name: str) -> int:
        """Return one of STATISTICS, counted since the start or `clear_statistics`; ValueError for another."""
        value = ctypes.c_uint64()
        if not self._lib.echo_dram_get(name.encode(), ctypes.byref(value)):
            raise ValueError(f"the memory model does not count {name!r}; it counts {', '.join(STATISTICS)}")
        return value.value

    def statistics(self) -> dict[str, int]:
        """Return all of STATISTICS by name."""
        return {name: self.statistic(name) for name in STATISTICS}

    def clear_statistics(self) -> None:
        """Start counting from 0 again; forget protocol violations."""
        self._lib.echo_dram_clear_statistics()

    def add_fault(
        self,
        lo: int,
        hi: int,
        *,
        read: bool = False,
        write: bool = False,
        decode: bool = False,
        count: int = -1,
    ) -> None:
        """Answer `count` bursts (-1: all) that touch [lo, hi) with SLVERR, or with DECERR if `decode`."""
        self._lib.echo_dram_add_fault(lo, hi, int(read), int(write), 3 if decode else 2, count)

    def clear_faults(self) -> None:
        """Remove all injected errors."""
        self._lib.echo_dram_clear_faults()

    def violations(self) -> list[str]:
        """Return the first AXI4 protocol violations of the device on m_axi, as text."""
        found: list[str] = []
        while (text := self._lib.echo_dram_violation(len(found))) is not None:
            found.append(text.decode())
        return found

    def fd(self) -> int:
        """Return the file descriptor of device memory (offset = physical address). The simulator owns it.

        Raises:
            RuntimeError: the memory model has no memory.
        """
        number = int(self._lib.echo_dram_fd())
        if number < 0:
            raise RuntimeError("the memory model has no memory yet")
        return number

    def map(self) -> NDArray[np.uint8]:
        """Return device memory as uint8 [512 Mi], shared with the model, not copied."""
        return np.frombuffer(mmap.mmap(self.fd(), MEMORY_BYTES), dtype=np.uint8)


class RegisterQueue:
    """The register operations that axil_bfm performs, and its answers."""

    def __init__(self) -> None:
        self._lib = _register_functions()

    def put(self, operations: NDArray[np.uint32]) -> None:
        """Append accesses: uint32 [n, 3], for each whether it writes, its offset (bytes), its data."""
        words = np.ascontiguousarray(operations)
        self._lib.echo_axil_submit(words.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)), len(words))

    def collect(self, room: int) -> NDArray[np.uint32]:
        """Take at most `room` answers: uint32 [n, 2], for each its data and its AXI response."""
        pairs = np.zeros((room, 2), dtype=np.uint32)
        count = self._lib.echo_axil_collect(pairs.ctypes.data_as(ctypes.POINTER(ctypes.c_uint32)), room)
        return pairs[:count]

    def flush(self) -> None:
        """Drop all waiting operations and answers."""
        self._lib.echo_axil_flush()


def record_writes() -> None:
    """Start recording the register writes on s_axil, for `observed_writes`."""
    _register_functions().echo_axil_record()


def observed_writes() -> list[ObservedWrite]:
    """Take the register writes seen on s_axil since the last call, in order."""
    lib = _register_functions()
    seen = []
    record = _Write()
    while lib.echo_axil_take_write(ctypes.byref(record)):
        seen.append(ObservedWrite(record.cycle, record.addr, record.data, record.strb, record.resp))
    return seen
