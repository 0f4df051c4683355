"""The open NPUs behind `echo_npu:0`, `echo_npu:1`, ..."""

import os
import sys
import threading
from typing import Any

import numpy as np
import torch

from echo_npu.commands.builders import nop_packet
from echo_npu.device import Device
from echo_npu.devices import device_count, get_device, open_device, set_device, settings
from echo_npu.torch.allocator import CachingAllocator
from echo_npu.torch.compiled.recorder import GraphRecorder
from echo_npu.torch.counting import Profile
from echo_npu.torch.plan import Plan, Planner
from echo_npu.torch.settings import announcement
from echo_npu.torch.stream import CommandStream

_lock = threading.RLock()
_open: dict[int, "OpenDevice"] = {}
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
        recorder: takes what is launched, while a graph is recorded.
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
        self.recorder: GraphRecorder | None = None
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
        if self.recorder is not None:
            self.recorder.obstacle("a value that the host reads or writes")
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
        return marked(alias, tensor)

    def synchronize(self) -> None:
        """Let everything run that was launched."""
        with self.lock:
            self.stream.synchronize()


def marked(alias: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor, or its conjugate or negative, as a view if another tensor is such a view."""
    if tensor.is_conj():
        alias = alias.conj()
    return torch._neg_view(alias) if tensor.is_neg() else alias


def _shared_memory(npu: Device) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return device memory as an array of the host; RuntimeError if the host does not share it."""
    memory = npu.backend.shared_memory
    if memory is None:
        raise RuntimeError(f"PyTorch needs a backend that shares its memory; {npu.backend.name} does not")
    return memory.bytes


def exchange_current(index: int) -> int:
    """Make `index` the current device, unless it is negative, and return which was current before."""
    before = get_device()
    if index >= 0:
        set_current(index)
    return before


def set_current(index: int) -> None:
    """Make `index` the current device of this thread; RuntimeError if there is no such device."""
    check_index(index)
    set_device(index)


def check_index(index: int) -> None:
    """Raise RuntimeError unless there is a device of that index."""
    if not 0 <= index < device_count():
        raise RuntimeError(
            f"there is no echo_npu:{index}; the devices are echo_npu:0 to echo_npu:{device_count() - 1}"
        )


def opened(index: int | None = None) -> OpenDevice:
    """Return a device, open; RuntimeError for an unknown index or in a forked child."""
    number = get_device() if index is None else index
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
            _open[number] = OpenDevice(number, open_device(number))
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
