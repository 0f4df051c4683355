"""What the operations share: checks of operands, and their upload to the device."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from echo_npu.driver.command_device import CommandDevice
from echo_npu.tensor import DeviceTensor

FLOAT32: Final = np.dtype(np.float32)
FLOAT16: Final = np.dtype(np.float16)


def require_float32(op: str, **operands: Any) -> None:
    """Raise TypeError unless every operand is a float32 numpy array or DeviceTensor; it names all of them."""
    names = ", ".join(f"{name} is {kind(value)}" for name, value in operands.items())
    for value in operands.values():
        if not isinstance(value, (np.ndarray, DeviceTensor)) or value.dtype != FLOAT32:
            raise TypeError(f"{op} takes float32 numpy arrays or DeviceTensors: {names}")


def kind(value: Any) -> str:
    """Describe the type of an operand, with its dtype."""
    if isinstance(value, (np.ndarray, DeviceTensor)):
        return f"{type(value).__name__} of {value.dtype}"
    return type(value).__name__


def check_out(
    device: CommandDevice, op: str, out: DeviceTensor | None, shape: Sequence[int], dtype: DTypeLike = FLOAT32
) -> None:
    """Refuse an `out` that cannot hold the result: TypeError, ValueError.

    It is a DeviceTensor of `device`, of the result's shape and dtype, whose elements share no bytes.
    """
    if out is None:
        return
    if not isinstance(out, DeviceTensor):
        raise TypeError(f"{op}: out must be a DeviceTensor, got {type(out).__name__}")
    check_device(device, out)
    if out.shape != tuple(shape):
        raise ValueError(f"{op}: out has shape {out.shape}, the result has shape {tuple(shape)}")
    if out.dtype != np.dtype(dtype):
        raise TypeError(f"{op}: out is {out.dtype}, the result is {np.dtype(dtype)}")
    if out.overlaps_itself:
        raise ValueError(f"{op}: out has shape {out.shape} and strides {out.strides}: elements share bytes")


def float_out(
    device: CommandDevice, op: str, out: DeviceTensor | None, shape: Sequence[int]
) -> np.dtype[Any]:
    """Check an `out` of float32 or float16 as `check_out` does, and return the type of the result."""
    made = FLOAT16 if isinstance(out, DeviceTensor) and out.dtype == FLOAT16 else FLOAT32
    check_out(device, op, out, shape, made)
    return made


def check_device(device: CommandDevice, tensor: DeviceTensor) -> None:
    """Raise ValueError unless a tensor is one of `device`: its address means nothing to another."""
    if tensor.device is not device:
        raise ValueError(f"a DeviceTensor of shape {tensor.shape} belongs to another device")


def upload(device: CommandDevice, value: NDArray[Any] | DeviceTensor, region: str) -> DeviceTensor:
    """Return a tensor of `device` itself, or an array's copy in `region`; ValueError for another device's."""
    if isinstance(value, DeviceTensor):
        check_device(device, value)
        return value
    return device.tensor(value, region=region)
