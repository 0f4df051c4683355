"""The places where PyTorch has no hook for a device written in Python."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.jit import _builtins
from torch.utils import _device

from echo_npu.devices import before_others, device_count, get_device
from echo_npu.torch import devices, events, generators, guard, modules, streams
from echo_npu.torch.storages import new_storage
from echo_npu.torch.types import CONVERTIBLE


def apply() -> None:
    """Patch storages, generators, events, streams, modules and torch.accelerator."""
    _storages()
    torch.Generator = generators.Generator  # type: ignore[misc]
    torch.Event = events.Event  # type: ignore[misc]
    torch.Stream = streams.OrderedStream  # type: ignore[misc]
    functions = torch._C
    for name, function in (
        ("_accelerator_getDeviceIndex", get_device),
        ("_accelerator_setDeviceIndex", devices.set_current),
        ("_accelerator_exchangeDevice", devices.exchange_current),
        ("_accelerator_maybeExchangeDevice", devices.exchange_current),
        ("_accelerator_getStream", streams.current),
        ("_accelerator_synchronizeDevice", lambda index: devices.opened(_index(index)).synchronize()),
        ("_accelerator_isAllocatorInitialized", lambda: True),
        ("_accelerator_emptyCache", devices.empty_caches),
        ("_accelerator_emptyHostCache", lambda: None),  # pinned memory is not cached
        ("_accelerator_getDeviceCapability", _capability),
        ("_accelerator_getDeviceStats", _nested_statistics),
        ("_accelerator_getMemoryInfo", _memory_info),
        ("_accelerator_resetPeakStats", lambda index: devices.opened(_index(index)).allocator.reset_peak()),
        (
            "_accelerator_resetAccumulatedStats",
            lambda index: devices.opened(_index(index)).allocator.reset_accumulated(),
        ),
    ):
        setattr(functions, name, function)
    torch.accelerator.device_count = device_count
    _backward()
    # A process with one device keeps PyTorch's own functions: others may know them by identity.
    before_others(_indices)
    modules.apply()


def _backward() -> None:
    """Run backward passes in the calling thread where there are several devices, and raise what hooks raised.

    The engine has a thread for device 0 and none for others. Why hooks need that, `guard` knows.
    """
    plain = torch.autograd.graph._engine_run_backward

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            if device_count() == 1:
                return plain(*args, **kwargs)
            with torch.autograd.set_multithreading_enabled(False):
                return plain(*args, **kwargs)
        except SystemError:
            guard.raise_pending()
            raise

    torch.autograd.graph._engine_run_backward = run
    torch.autograd._engine_run_backward = run  # type: ignore[attr-defined]


def _indices() -> None:
    """Let the functions that take a device from text take "echo_npu" as the current one."""
    # `with torch.device(...)` and the default device know constructors by identity: here still PyTorch's own.
    _device._device_constructors()
    for place, name in (
        (torch.Tensor, "to"),
        (torch.Tensor, "new_tensor"),
        (torch, "tensor"),
        (torch, "as_tensor"),
    ):
        plain = getattr(place, name)
        wrapper = _indexed(plain)
        setattr(place, name, wrapper)
        if (builtin := _builtins._find_builtin(plain)) is not None:
            _builtins._register_builtin(wrapper, builtin)  # for torch.jit.script


def _indexed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes "echo_npu" without an index as the current device, not as device 0."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        index = get_device()
        if index:
            args = tuple(_with_index(each, index) for each in args)
            kwargs = {name: _with_index(each, index) for name, each in kwargs.items()}
        return function(*args, **kwargs)

    return wrapper


def _with_index(value: Any, index: int) -> Any:
    plain = value == "echo_npu" if isinstance(value, str) else value == torch.device("echo_npu")
    return torch.device("echo_npu", index) if isinstance(value, (str, torch.device)) and plain else value


def _storages() -> None:
    """Let `torch.UntypedStorage(n, device="echo_npu")` allocate on the device."""
    plain = torch.UntypedStorage.__new__

    def new(cls: type[torch.UntypedStorage], *args: Any, device: Any = None, **kwargs: Any) -> Any:
        wanted = None if device is None else torch.device(device)
        if wanted is None or wanted.type != "echo_npu":
            if wanted is not None:
                kwargs["device"] = wanted
            return plain(cls, *args, **kwargs)
        nbytes = int(args[0]) if args else 0
        return new_storage(devices.opened(wanted.index), nbytes)

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign,assignment]


def _index(index: int) -> int | None:
    return None if index < 0 else index


def _nested_statistics(index: int) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in devices.opened(_index(index)).allocator.statistics().items():
        *path, last = name.split(".")
        place = nested
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return nested


def _capability(index: int) -> dict[str, Any]:
    if index >= 0:
        devices.check_index(index)
    return {"supported_dtypes": set(CONVERTIBLE)}


def _memory_info(index: int) -> tuple[int, int]:
    figures = devices.opened(_index(index)).npu.memory_statistics().values()
    return sum(each.free for each in figures), sum(each.capacity for each in figures)
