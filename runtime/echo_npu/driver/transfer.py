"""The ends of a `memcpy`: device pointers and host memory."""

import operator
from enum import IntEnum
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.tensor import DeviceTensor


class MemcpyKind(IntEnum):
    """Source and destination of a copy; DEFAULT: as the arguments say."""

    HOST_TO_HOST = 0
    HOST_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    DEVICE_TO_DEVICE = 3
    DEFAULT = 4


HostBuffer: TypeAlias = NDArray[Any] | bytes | bytearray | memoryview


def is_device(end: Any) -> bool:
    """Return whether an argument of memcpy is a device pointer: an integer or a DeviceTensor."""
    return isinstance(end, DeviceTensor) or (
        isinstance(end, SupportsIndex) and not isinstance(end, np.ndarray)
    )


def resolve_kind(dst: Any, src: Any, kind: MemcpyKind) -> MemcpyKind:
    """Return the kind that the arguments have; TypeError if that contradicts the one asked for."""
    found = MemcpyKind(2 * is_device(src) + is_device(dst))
    kind = MemcpyKind(kind)
    if kind not in (MemcpyKind.DEFAULT, found):
        ends = f"dst is {_describe(dst)} and src is {_describe(src)}"
        raise TypeError(f"memcpy kind is {kind.name}, but {ends}: that is {found.name}")
    return found


def _describe(end: Any) -> str:
    if isinstance(end, DeviceTensor):
        return "a DeviceTensor"
    return (
        f"the device pointer 0x{operator.index(end):x}"
        if is_device(end)
        else f"host memory ({type(end).__name__})"
    )


def device_address(name: str, end: Any, nbytes: int) -> int:
    """Return the physical address of a copy's device end; ValueError for a tensor with gaps or too small."""
    if isinstance(end, DeviceTensor):
        if not end.is_contiguous or end.nbytes < nbytes:
            kind = "" if end.is_contiguous else "non-contiguous "
            raise ValueError(
                f"{name} is a {kind}DeviceTensor of {end.nbytes} bytes; memcpy of {nbytes} bytes"
            )
        return end.ptr
    return operator.index(end)


def host_bytes(name: str, end: Any, nbytes: int, *, writable: bool) -> NDArray[np.uint8]:
    """Return the first `nbytes` bytes of host memory, as a uint8 array that shares it.

    Raises:
        TypeError: no host memory, not contiguous, or read-only where it is written.
        ValueError: it is shorter than nbytes.
    """
    if isinstance(end, np.ndarray):
        if not end.flags.c_contiguous:
            raise TypeError(
                f"{name} is an array of shape {end.shape} and strides {end.strides}; it must be C-contiguous"
            )
        if end.dtype.hasobject:
            raise TypeError(f"{name} is an array of Python objects (dtype {end.dtype})")
        flat = end.reshape(-1).view(np.uint8)
    else:
        try:
            flat = np.frombuffer(end, dtype=np.uint8)
        except (TypeError, ValueError, BufferError):
            raise TypeError(
                f"{name} is {type(end).__name__}; memcpy takes a device pointer (int), a DeviceTensor, "
                "a numpy array or a bytes-like object"
            ) from None
    if writable and not flat.flags.writeable:
        raise TypeError(f"{name} is read-only host memory ({type(end).__name__}); memcpy writes to it")
    if flat.size < nbytes:
        raise ValueError(f"{name} has {flat.size} bytes; memcpy of {nbytes} bytes")
    return flat[:nbytes]
