"""The open NPUs behind `echo_npu:0`, `echo_npu:1`, ..."""

import atexit
import os
import sys
import threading
from typing import Any

import numpy as np
import torch

import echo_npu
from echo_npu.commands.packets import nop_packet
from echo_npu.device import Device
from echo_npu.torch.allocator import CachingAllocator
from echo_npu.torch.counting import Profile
from echo_npu.torch.plan import Plan, Planner
from echo_npu.torch.settings import Settings, announcement, checked, from_environment
from echo_npu.torch.stream import CommandStream

_lock = threading.RLock()
_configured: Settings | None = None
_open: dict[int, "OpenDevice"] = {}
_current = 0
_pid = os.getpid()


class OpenDevice:
    """One NPU, its memory, and the commands that wait to run.

    Attributes:
        index: of the torch device.
        npu: the device of the runtime.
        memory: all of device memory as a uint8 tensor of the host that shares its bytes.
        allocator, stream, planner: see their classes.
        plans: launch plans by their key.
        profile: cycles of each operator, while they are asked for.
    """

    def __init__(self, index: int, npu: Device) -> None:
        self.index = index
        self.npu = npu
        self.device = torch.device("echo_npu", index)
        self.lock = threading.RLock()
        npu.submit_batch(nop_packet())  # makes the ring while there is memory for it
        npu.wait()
        self.allocator = CachingAllocator(npu, index)
        self.stream = CommandStream(npu)
        self.planner = Planner(npu)
        self.plans: dict[Any, Plan] = {}
        self.profile = Profile()
        self._memory = torch.from_numpy(_shared_memory(npu))
        self._views = {torch.uint8: self._memory}

    def memory_as(self, dtype: torch.dtype) -> torch.Tensor:
        """Return all of memory as a tensor of elements of that type."""
        view = self._views.get(dtype)
        if view is None:
            view = self._views[dtype] = self._memory.view(dtype)
        return view

    def host(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a CPU tensor that shares the bytes of a tensor of this device, after all commands ran."""
        with self.lock:
            self.stream.finish()
        dtype = tensor.dtype
        if not tensor.numel():
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=dtype)
        extent = sum(stride * (n - 1) for stride, n in zip(tensor.stride(), tensor.shape, strict=True)) + 1
        self.npu.backend.exposed(tensor.data_ptr(), extent * dtype.itemsize)
        alias = self.memory_as(dtype).as_strided(
            tensor.shape, tensor.stride(), tensor.data_ptr() // dtype.itemsize
        )
        if tensor.is_conj():
            alias = alias.conj()
        return torch._neg_view(alias) if tensor.is_neg() else alias

    def synchronize(self) -> None:
        """Let everything run that was launched."""
        with self.lock:
            self.stream.synchronize()


def _shared_memory(npu: Device) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return device memory as an array of the host; RuntimeError if the host does not share it."""
    memory = getattr(npu.backend, "memory", None)
    options = getattr(npu.backend, "options", None)
    if memory is None or getattr(options, "access", "backdoor") != "backdoor":
        raise RuntimeError(f"PyTorch needs a backend that shares its memory; {npu.backend.name} does not")
    array: np.ndarray[Any, np.dtype[np.uint8]] = memory.bytes
    return array


def configure(
    *, backend: str | None = None, config: str | None = None, devices: int | None = None, **options: Any
) -> None:
    """Choose what the devices of PyTorch are, before the first tensor.

    Args:
        backend: a name of `echo_npu.list_backends()`; None: the default one, ECHO_NPU_BACKEND.
        config: the hardware configuration; None: ECHO_NPU_CONFIG, or "default".
        devices: how many NPUs; None: ECHO_NPU_DEVICES, or 1.
        options: of the backend, as for `echo_npu.open`.

    Raises:
        RuntimeError: a device is open already, with other settings.
        BackendError, TypeError, ValueError: no such backend, or a wrong value.
    """
    global _configured
    found = from_environment()
    wanted = Settings(
        backend,
        found.config if config is None else config,
        found.devices if devices is None else devices,
        options,
    )
    with _lock:
        if _open and wanted != settings():
            raise RuntimeError("configure() comes before the first tensor: the device is open already")
        _configured = checked(wanted)


def settings() -> Settings:
    """Return the settings in force."""
    return from_environment() if _configured is None else _configured


def device_count() -> int:
    """Return the number of devices, open or not."""
    return settings().devices


def current_index() -> int:
    """Return the index that "echo_npu" without one means."""
    return _current


def exchange_current(index: int) -> int:
    """Make `index` the current device, unless it is negative, and return which was current before."""
    before = _current
    if index >= 0:
        set_current(index)
    return before


def set_current(index: int) -> None:
    """Make `index` the current device; RuntimeError if there is no such device."""
    global _current
    check_index(index)
    _current = index


def check_index(index: int) -> None:
    """Raise RuntimeError unless there is a device of that index."""
    if not 0 <= index < device_count():
        raise RuntimeError(
            f"there is no echo_npu:{index}; the devices are echo_npu:0 to echo_npu:{device_count() - 1}"
        )


def opened(index: int | None = None) -> OpenDevice:
    """Return a device, open; RuntimeError for an unknown index or in a forked child."""
    number = _current if index is None else index
    found = _open.get(number)
    if found is not None and os.getpid() == _pid:
        return found
    with _lock:
        if os.getpid() != _pid and _open:
            raise RuntimeError("echo_npu cannot be used in a forked process; start processes with spawn")
        check_index(number)
        if number not in _open:
            if not _open:
                _remember_process()
            wanted = settings()
            said = announcement(wanted)
            if said and not _open:
                print(said, file=sys.stderr, flush=True)
            npu = echo_npu.open(wanted.backend, wanted.config, **wanted.options)
            _open[number] = OpenDevice(number, npu)
        return _open[number]


def _remember_process() -> None:
    global _pid
    _pid = os.getpid()


def all_open() -> list[OpenDevice]:
    """Return the devices that are open."""
    return list(_open.values())


def empty_caches() -> None:
    """Give the unused memory of all open devices back to them."""
    for each in all_open():
        each.synchronize()
        each.allocator.empty_cache()


def in_bad_fork() -> bool:
    """Return whether this is a child that was forked from a process with an open device."""
    return bool(_open) and os.getpid() != _pid


@atexit.register
def close_all() -> None:
    """Close the devices at the end of the process that opened them."""
    if os.getpid() == _pid:
        for each in _open.values():
            each.npu.close()
