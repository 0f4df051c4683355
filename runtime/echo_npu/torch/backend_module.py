"""`torch.echo_npu`, the functions that PyTorch expects of a device."""

from collections import OrderedDict
from types import ModuleType, TracebackType
from typing import Any, Final

import torch

from echo_npu.devices import device_count, get_device
from echo_npu.torch import devices, generators


def _number(device: Any) -> int | None:
    """Return the index that a device was given by; ValueError for one of another type."""
    if device is None or isinstance(device, int):
        return device
    found = torch.device(device)
    if found.type != "echo_npu":
        raise ValueError(f"expected a device echo_npu, but got {found}")
    return found.index


def _existing(device: Any) -> int:
    """Return the index of a device, or of the current one; RuntimeError if there is none of that index."""
    number = _number(device)
    index = get_device() if number is None else number
    devices.check_index(index)
    return index


class device:  # noqa: N801  (PyTorch's name)
    """A `with` block with another current device."""

    def __init__(self, device: Any) -> None:
        self._wanted = _number(device)
        self._before = 0

    def __enter__(self) -> None:
        self._before = get_device()
        if self._wanted is not None:
            devices.set_current(self._wanted)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        devices.set_current(self._before)


def synchronize(device: Any = None) -> None:
    """Let everything run that was launched."""
    devices.opened(_number(device)).synchronize()


def set_device(device: Any) -> None:
    """Choose the device that "echo_npu" means."""
    number = _number(device)
    devices.set_current(0 if number is None else number)


def get_device_name(device: Any = None) -> str:
    """Return backend and configuration of a device."""
    npu = devices.opened(_number(device)).npu
    return f"ECHO NPU ({npu.backend.name}, {npu.config})"


def memory_stats(device: Any = None) -> "OrderedDict[str, int]":
    """Return the allocator's figures."""
    return OrderedDict(devices.opened(_number(device)).allocator.statistics())


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that tensors hold."""
    return memory_stats(device)["allocated_bytes.all.current"]


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that tensors and the cache hold."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_allocated(device: Any = None) -> int:
    """Return the most bytes that tensors held."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def max_memory_reserved(device: Any = None) -> int:
    """Return the most bytes that tensors and the cache held."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Any = None) -> None:
    """Make the present figures the peaks."""
    devices.opened(_number(device)).allocator.reset_peak()


def empty_cache() -> None:
    """Give unused memory back to the device."""
    devices.empty_caches()


def get_rng_state(device: Any = None) -> torch.Tensor:
    """Return the state of a device's generator."""
    return generators.default_generator(_existing(device)).get_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Set the state of a device's generator."""
    generators.default_generator(_existing(device)).set_state(state)


class NpuStream:
    """The one stream of a device: everything runs in order."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = torch.device("echo_npu", _existing(device))

    def synchronize(self) -> None:
        """Let everything run that was launched."""
        synchronize(self.device)

    def query(self) -> bool:
        """Whether everything has run."""
        return devices.opened(self.device.index).stream.idle

    def wait_event(self, event: "NpuEvent") -> None:
        """Do nothing: what comes later runs later."""

    def wait_stream(self, stream: "NpuStream") -> None:
        """Do as `wait_event`."""

    def record_event(self, event: "NpuEvent | None" = None) -> "NpuEvent":
        """Return an event at this place."""
        made = NpuEvent() if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> "NpuStream":
        return self

    def __exit__(self, *error: object) -> None:
        pass


class NpuEvent:
    """A place in a stream."""

    def __init__(self, enable_timing: bool = False, **others: Any) -> None:
        self._cycles = 0

    def record(self, stream: NpuStream | None = None) -> None:
        """Let everything run that was launched, and note the cycle."""
        place = devices.opened(None if stream is None else stream.device.index)
        place.synchronize()
        self._cycles = place.npu.counters()["cycles"]

    def wait(self, stream: NpuStream | None = None) -> None:
        """Do nothing: everything before the event has run."""

    def query(self) -> bool:
        """Return True: `record` has waited."""
        return True

    def synchronize(self) -> None:
        """Do nothing: `record` has waited."""

    def elapsed_time(self, end: "NpuEvent") -> float:
        """Return the device's cycles between two events; 0.0 on a backend without cycles."""
        return float(end._cycles - self._cycles)


def current_stream(device: Any = None) -> NpuStream:
    """Return the stream of a device."""
    return NpuStream(device)


MODULE: Final = ModuleType("torch.echo_npu", __doc__)
for _name, _function in (
    ("is_available", lambda: True),
    ("is_initialized", lambda: bool(devices.all_open())),
    ("_is_in_bad_fork", devices.in_bad_fork),
    ("device_count", device_count),
    ("current_device", get_device),
    ("manual_seed", generators.manual_seed_all),
    ("manual_seed_all", generators.manual_seed_all),
    ("default_stream", current_stream),
    ("get_amp_supported_dtype", lambda: [torch.bfloat16, torch.float16]),
    ("is_bf16_supported", lambda including_emulation=True: True),
    ("Stream", NpuStream),
    ("Event", NpuEvent),
    ("_lazy_init", lambda: None),
    ("init", lambda: None),
):
    setattr(MODULE, _name, _function)
for _each in (
    device,
    synchronize,
    set_device,
    get_device_name,
    memory_stats,
    memory_allocated,
    memory_reserved,
    max_memory_allocated,
    max_memory_reserved,
    reset_peak_memory_stats,
    empty_cache,
    get_rng_state,
    set_rng_state,
    current_stream,
):
    setattr(MODULE, _each.__name__, _each)
