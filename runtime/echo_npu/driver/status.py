"""Read a device's state, errors and counters."""

from dataclasses import dataclass

from echo_npu.backends.base import Backend
from echo_npu.errors import NpuDeviceError
from echo_npu.register_ops import ReadReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import NpuStatus, State


def state_of(status: int) -> State:
    """Return the state in a value of the register STATUS."""
    return State(regs.STATUS_STATE.get(status))


def read_state(backend: Backend) -> State:
    """Read the device's state."""
    (status,) = backend.run([ReadReg(regs.STATUS)])
    return state_of(status)


def read_status(backend: Backend) -> NpuStatus:
    """Read state, error code and cycle counter at one moment."""
    offsets = (regs.STATUS, regs.ERROR_CODE, regs.CYCLES, regs.CYCLES + 4)
    status, code, low, high = backend.run([ReadReg(offset) for offset in offsets])
    return NpuStatus(state_of(status), code, high << 32 | low)


def read_error(backend: Backend) -> NpuDeviceError:
    """Read the error that a device in state ERROR reports."""
    offsets = (regs.ERROR_CODE, regs.ERROR_INDEX, regs.ERROR_ADDR, regs.ERROR_ADDR + 4)
    code, index, low, high = backend.run([ReadReg(offset) for offset in offsets])
    return NpuDeviceError(code, index, high << 32 | low)


def read_counters(backend: Backend) -> dict[str, int]:
    """Read the performance counters; return them by name, in lower case."""
    offsets = [getattr(regs, name) + half for name in regs.COUNTERS for half in (0, 4)]
    words = backend.run([ReadReg(offset) for offset in offsets])
    pairs = zip(regs.COUNTERS, words[0::2], words[1::2], strict=True)
    return {name.lower(): high << 32 | low for name, low, high in pairs}


@dataclass(frozen=True, slots=True)
class KnownCounters:
    """Counters that were read already, as `LaterCounters`."""

    counters: dict[str, int]

    @property
    def known(self) -> bool:
        return True

    def wait(self) -> dict[str, int]:
        """Return the counters."""
        return self.counters


def read_progress(backend: Backend) -> list[int]:
    """Read counters of which at least one changes while a command makes progress."""
    offsets = (regs.RETIRED, regs.MACS, regs.READ_BEATS, regs.WRITE_BEATS)
    return backend.run([ReadReg(offset) for offset in offsets])
