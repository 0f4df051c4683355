"""The numbered NPUs of a process: 0, 1, ..., each with a backend, a memory and a simulation of its own.

A device opens on first use, and closes when the process ends. Each thread has a current device, at first 0.
"""

import atexit
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, SupportsIndex

import numpy as np

from echo_npu.backends import get_backend_class
from echo_npu.commands.integers import integer
from echo_npu.device import Device
from echo_npu.errors import DeviceClosedError

MOST_DEVICES: Final = 16

_PIECE_BYTES: Final = 1 << 24
"""Of a copy between devices, so much is on the host at a time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How devices are opened.

    Attributes:
        backend: a name of `echo_npu.list_backends()`; None: the default one, ECHO_NPU_BACKEND.
        config: the hardware configuration.
        devices: how many NPUs there are.
        options: of the backend.
    """

    backend: str | None = None
    config: str = "default"
    devices: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)


def open(  # noqa: A001  (the public name; this module does not use the builtin)
    backend: str | None = None, config: str = "default", *, ring_slots: int | None = None, **options: Any
) -> Device:
    """Open a device.

    Args:
        backend: a name of `list_backends()`; None: the one of `get_backend_name()`.
        config: the hardware configuration: a file of rtl/configs without its ending, `random-<seed>`, the
            path of a TOML file; one of these behind `pipeline-`, or any of all these behind `lockstep-`.
        ring_slots: length of the command ring; None: the default of `Device`.
        options: options of the backend: `Options` of `echo_npu.backends.rtlmodel`, `FpgaOptions` of `.fpga`,
            `AsicOptions` of `.asic`.

    Raises:
        BackendError: no such backend.
        ValueError: no such configuration (the message lists those that exist), or a wrong option value.
        TypeError: an option that the backend does not have, or a configuration that is no string.
        SimulatorError: rtlmodel could not be built or started.
        NpuCardError: fpga or asic: there is no card, or it is in use, or it is another one.
    """
    chosen = get_backend_class(backend)
    if not isinstance(config, str):
        raise TypeError(f"config must be a name or a path as text, got {config!r} ({type(config).__name__})")
    if options.get("trace") is not None and not chosen.has_cycles:
        raise ValueError(f"the backend {chosen.name} has no cycles, so it has no timeline to trace")
    opened = chosen.open(config, options)
    try:
        return Device(opened, config=config, **({} if ring_slots is None else {"ring_slots": ring_slots}))
    except BaseException:
        opened.abandon()  # nothing that it did is of use
        opened.close()
        raise


# --- settings -----------------------------------------------------------------------------------------------


def from_environment() -> Settings:
    """Return the settings of ECHO_NPU_CONFIG and ECHO_NPU_DEVICES; ValueError for no number of devices."""
    text = os.environ.get("ECHO_NPU_DEVICES", "") or "1"
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"ECHO_NPU_DEVICES is {text!r}; it is a number of devices")
    return checked(Settings(config=os.environ.get("ECHO_NPU_CONFIG", "") or "default", devices=int(text)))


def checked(settings: Settings) -> Settings:
    """Return the settings; TypeError, ValueError or BackendError for those with which nothing can open."""
    if not isinstance(settings.devices, int) or isinstance(settings.devices, bool):
        raise TypeError(
            f"devices is {settings.devices!r} ({type(settings.devices).__name__}); it is a number"
        )
    if not 1 <= settings.devices <= MOST_DEVICES:
        raise ValueError(f"devices is {settings.devices}; it is 1 to {MOST_DEVICES}")
    if settings.backend is not None:
        get_backend_class(settings.backend)
    return settings


def configure(
    *, backend: str | None = None, config: str | None = None, devices: int | None = None, **options: Any
) -> None:
    """Choose what the numbered devices are, before the first one is used.

    Args:
        backend: a name of `list_backends()`; None: the default one, ECHO_NPU_BACKEND.
        config: the hardware configuration; None: ECHO_NPU_CONFIG, or "default".
        devices: how many NPUs, 1..16; None: ECHO_NPU_DEVICES, or 1.
        options: of the backend, as for `open`; every device has the same.

    Raises:
        RuntimeError: a device is open already, with other settings.
        BackendError, TypeError, ValueError: no such backend, or a wrong value.
    """
    found = from_environment()
    _devices.configure(
        Settings(
            backend,
            found.config if config is None else config,
            found.devices if devices is None else devices,
            options,
        )
    )


def settings() -> Settings:
    """Return the settings in force."""
    return _devices.settings


# --- devices ------------------------------------------------------------------------------------------------


class _NumberedDevices:
    """The devices of this process, open or not."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._configured: Settings | None = None
        self._open: dict[int, Device] = {}
        self._pid = os.getpid()
        self._thread = threading.local()
        self._before_others: list[Callable[[], None]] = []

    @property
    def settings(self) -> Settings:
        return from_environment() if self._configured is None else self._configured

    def configure(self, wanted: Settings) -> None:
        checked(wanted)
        with self._lock:
            if self.listed() and wanted != self.settings:
                raise RuntimeError(
                    "configure() comes before the first tensor, and before any other use: a device is open"
                )
            self._configured = wanted

    @property
    def current(self) -> int:
        return int(getattr(self._thread, "current", 0))

    @current.setter
    def current(self, index: int) -> None:
        with self._lock:
            while index and self._before_others:
                self._before_others.pop()()
        self._thread.current = index

    def before_others(self, call: Callable[[], None]) -> None:
        """Do as the function of that name."""
        with self._lock:
            self._before_others.append(call)

    def check(self, index: SupportsIndex) -> int:
        """Return a device's number as an int; TypeError or ValueError if there is no such device."""
        number, count = integer("device", index), self.settings.devices
        if not 0 <= number < count:
            there = "the only device is 0" if count == 1 else f"the devices are 0 to {count - 1}"
            raise ValueError(
                f"there is no device {number}; {there} (configure(devices=...) or ECHO_NPU_DEVICES says how "
                "many)"
            )
        return number

    def opened(self, index: SupportsIndex) -> Device:
        number = self.check(index)
        with self._lock:
            if os.getpid() != self._pid and self._open:
                raise DeviceClosedError(
                    f"the devices belong to process {self._pid}; a process that uses them is started, not "
                    "forked"
                )
            self._pid = os.getpid()
            found = self._open.get(number)
            if found is None or found.closed:
                wanted = self.settings
                found = self._open[number] = open(wanted.backend, wanted.config, **wanted.options)
            return found

    def listed(self) -> list[Device]:
        return [each for each in self._open.values() if not each.closed]

    def close(self) -> None:
        """Close all of them, in the process that opened them."""
        with self._lock:
            if os.getpid() == self._pid:
                for each in self.listed():
                    each.close()
                self._open.clear()


_devices: Final = _NumberedDevices()
atexit.register(_devices.close)


def device_count() -> int:
    """Return the number of devices, open or not."""
    return _devices.settings.devices


def set_device(index: SupportsIndex) -> None:
    """Make a device the current one of this thread.

    Raises:
        ValueError: there is no such device; the message names those that exist.  TypeError: no integer.
    """
    _devices.current = _devices.check(index)


def before_others(call: Callable[[], None]) -> None:
    """Have a function called once, before a device other than 0 becomes current in any thread."""
    _devices.before_others(call)


def get_device() -> int:
    """Return the number of this thread's current device, 0 until `set_device`."""
    return _devices.current


def check_device(index: SupportsIndex) -> int:
    """Return a device's number as an int; TypeError or ValueError as `set_device`."""
    return _devices.check(index)


def open_device(index: SupportsIndex | None = None) -> Device:
    """Return a numbered device, open; None: the current one.

    It stays open until `close()`, `close_devices()` or the end of the process, and is opened anew after that.

    Raises:
        ValueError, TypeError: as `set_device`.
        DeviceClosedError: this process was forked from one that has devices open.
        BackendError, SimulatorError: as `open`.
    """
    return _devices.opened(_devices.current if index is None else index)


def close_devices() -> None:
    """Close all numbered devices that are open."""
    _devices.close()


def memcpy_peer(
    dst: SupportsIndex,
    dst_device: SupportsIndex | Device,
    src: SupportsIndex,
    src_device: SupportsIndex | Device,
    nbytes: SupportsIndex,
) -> None:
    """Copy bytes from one device to another, or within one; return when they have arrived.

    Between two devices the bytes go through the host: they are read after everything submitted to the source,
    and written after everything submitted to the destination. Ranges of one device may overlap.

    Args:
        dst, src: physical addresses.
        dst_device, src_device: numbers, or devices of `open`.

    Raises:
        ValueError: there is no device of such a number, or a negative number of bytes.
        TypeError: an address, a device or a number of bytes that is none.
        NpuPointerError: a range that is not inside one memory region. Nothing is copied then.
        NpuRecordingError: one of two devices records.
    """
    target, source = (
        each if isinstance(each, Device) else _devices.opened(each) for each in (dst_device, src_device)
    )
    end, begin, count = integer("dst", dst), integer("src", src), integer("nbytes", nbytes)
    if count < 0:
        raise ValueError(f"nbytes is {count}; it must not be negative")
    if target is source and abs(end - begin) >= count:
        target.memcpy(end, begin, count)
        return
    source.check_peer_range("src", begin, count)
    target.check_peer_range("dst", end, count)
    pieces = range(0, count, _PIECE_BYTES)
    for at in pieces if end <= begin else reversed(pieces):  # no piece overwrites what another one reads
        staged = np.empty(min(_PIECE_BYTES, count - at), np.uint8)
        source.memcpy(staged, begin + at, staged.size)
        target.memcpy(end + at, staged, staged.size)
