"""Tensors without a storage of their own yet, on any device.

PyTorch makes such a tensor in Python on device 0 only. Those of other devices come through DLPack, the format
in which libraries exchange tensors, as empty ones.
"""

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import torch

_EXTENSION_DEVICE: Final = 12
_CODES: Final = {
    torch.int8: 0,
    torch.int16: 0,
    torch.int32: 0,
    torch.int64: 0,
    torch.uint8: 1,
    torch.uint16: 1,
    torch.uint32: 1,
    torch.uint64: 1,
    torch.float16: 2,
    torch.float32: 2,
    torch.float64: 2,
    torch.bfloat16: 4,
    torch.complex32: 5,
    torch.complex64: 5,
    torch.complex128: 5,
    torch.bool: 6,
    torch.float8_e4m3fn: 10,
    torch.float8_e4m3fnuz: 11,
    torch.float8_e5m2: 12,
    torch.float8_e5m2fnuz: 13,
    torch.float8_e8m0fnu: 14,
}


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Managed(ctypes.Structure):
    """DLManagedTensor, with its DLTensor written out."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("type", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_zero: Final = (ctypes.c_int64 * 1)(0)
_one: Final = (ctypes.c_int64 * 1)(1)
_capsule: Final = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_on_first: Final[Callable[..., torch.Tensor]] = torch._C._acc.create_empty_tensor
_from_capsule: Final[Callable[[Any], torch.Tensor]] = torch._C._from_dlpack


def blank(index: int, dtype: torch.dtype) -> torch.Tensor:
    """Return an empty tensor of one axis on `echo_npu:index`, which may be given another storage.

    Raises:
        NotImplementedError: a type that devices other than 0 cannot store.
    """
    if not index:
        return _on_first([0], dtype)
    return _from_capsule(_capsule(ctypes.addressof(_described(index, dtype)), b"dltensor", None))


@cache
def _described(index: int, dtype: torch.dtype) -> _Managed:
    code = _CODES.get(dtype)
    if code is None:
        raise NotImplementedError(f"echo_npu:{index} has no tensors of {dtype}; echo_npu:0 has")
    kind = _Type(code, 8 * dtype.itemsize, 1)
    return _Managed(None, _Device(_EXTENSION_DEVICE, index), 1, kind, _zero, _one, 0, None, None)
