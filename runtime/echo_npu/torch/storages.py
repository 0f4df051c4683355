"""Tensors and storages whose data pointers are physical addresses of the device."""

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch._prims_common import compute_elementwise_output_strides

from echo_npu.torch.blanks import blank
from echo_npu.torch.devices import OpenDevice, opened

KEYS: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1)
"""What metadata kernels are called with."""

_set: Final = torch.library.get_kernel("aten::set_.source_Storage_storage_offset", "CPU").call_boxed
_construct: Final[Callable[..., Any]] = torch._C._construct_storage_from_data_pointer


class _Owner(weakref.ref[torch.UntypedStorage]):
    """Frees a block when its storage is gone. Keeps itself alive until then."""

    __slots__ = ("address", "device")
    address: int
    device: OpenDevice


_owners: Final[dict[tuple[int, int], _Owner]] = {}


def _released(owner: weakref.ref[torch.UntypedStorage]) -> None:
    assert isinstance(owner, _Owner)
    del _owners[owner.device.index, owner.address]
    owner.device.allocator.free(owner.address)


def new_storage(device: OpenDevice, nbytes: int) -> torch.UntypedStorage:
    """Return a storage of `nbytes` bytes with undefined content; torch.OutOfMemoryError, RuntimeError."""
    if nbytes < 0:
        raise RuntimeError(f"a storage of {nbytes} bytes")
    if not nbytes:
        empty: torch.UntypedStorage = _construct(0, device.device, 0)
        return empty
    address = device.allocator.allocate(nbytes)
    storage: torch.UntypedStorage = _construct(address, device.device, nbytes)
    owner = _Owner(storage, _released)
    owner.address, owner.device = address, device
    if device.recorder is not None:
        device.recorder.allocated(address, nbytes)
    _owners[device.index, address] = owner
    return storage


def tensor_on(
    storage: torch.UntypedStorage,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    dtype: torch.dtype,
) -> torch.Tensor:
    """Return a tensor over a storage; offset and strides count elements."""
    made: torch.Tensor = _set(KEYS, blank(storage.device.index, dtype), storage, offset, size, stride)
    return made


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """`aten::empty_strided`: a tensor with undefined content."""
    if pin_memory:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    if size and min(size) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    kind = torch.get_default_dtype() if dtype is None else dtype
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    nbytes = 0 if 0 in size else extent * kind.itemsize
    target = opened(None if device is None else device.index)
    return tensor_on(new_storage(target, nbytes), 0, size, stride, kind)


def empty(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
    memory_format: torch.memory_format | None = None,
) -> torch.Tensor:
    """`aten::empty.memory_format`: a tensor with undefined content."""
    if layout not in (None, torch.strided):
        raise NotImplementedError(f"echo_npu has no tensors of layout {layout}")
    strides = strides_of(size, memory_format)
    return empty_strided(size, strides, dtype=dtype, device=device, pin_memory=pin_memory)


def zeros(
    size: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """`aten::_efficientzerotensor`: a tensor of zeros; this device has none without memory."""
    return empty(size, dtype=dtype, layout=layout, device=device).zero_()


def strides_of(size: Sequence[int], memory_format: torch.memory_format | None) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense tensor."""
    order = list(range(len(size)))
    if memory_format == torch.channels_last and len(size) == 4:
        order = [0, 2, 3, 1]
    elif memory_format == torch.channels_last_3d and len(size) == 5:
        order = [0, 2, 3, 4, 1]
    strides = [1] * len(size)
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(size[axis], 1)
    return tuple(strides)


def like(tensor: torch.Tensor, size: Sequence[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a new contiguous tensor on the device of another one."""
    kind = tensor.dtype if dtype is None else dtype
    return empty_strided(size, strides_of(size, None), dtype=kind, device=tensor.device)


def dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements lie side by side in some order, each in a place of its own."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def of_elements(size: torch.Size, operands: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    """Return a new tensor for an elementwise result, in the order of memory that PyTorch gives it.

    Args:
        operands: tensors of the device that broadcast to `size`.
    """
    strides = strides_of(size, None)
    if not all(each.is_contiguous() for each in operands):
        strides = compute_elementwise_output_strides(*(each.expand(size) for each in operands))
    return empty_strided(size, strides, dtype=dtype, device=operands[0].device)


def resize(
    tensor: torch.Tensor, size: Sequence[int], *, memory_format: torch.memory_format | None = None
) -> torch.Tensor:
    """`aten::resize_`: give a tensor another shape; a storage that is too small is replaced by a larger one.

    Other tensors on the old storage keep it.
    """
    if tuple(tensor.shape) == tuple(size) and memory_format is None:
        return tensor
    strides = strides_of(size, memory_format)
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    needed = (int(offset) + math.prod(size)) * tensor.dtype.itemsize if 0 not in size else 0
    if storage.nbytes() < needed:
        device = opened(tensor.device.index)
        larger = new_storage(device, needed)
        if storage.nbytes():
            device.synchronize()
            memory, old, new = device.memory_as(torch.uint8), storage.data_ptr(), larger.data_ptr()
            device.npu.backend.exposed(new, storage.nbytes())
            memory[new : new + storage.nbytes()] = memory[old : old + storage.nbytes()]
        storage = larger
    _set(KEYS, tensor, storage, offset, size, strides)
    return tensor


def set_empty(tensor: torch.Tensor) -> torch.Tensor:
    """`aten::set_`: make a tensor empty."""
    made: torch.Tensor = _set(KEYS, tensor, new_storage(opened(tensor.device.index), 0), 0, [0], [1])
    return made


def metadata_kernel(name: str) -> Any:
    """Return ATen's CPU kernel of an operator that only reads shapes and storages, for any device."""
    return torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
