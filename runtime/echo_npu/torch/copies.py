"""Copies between host and device and within the device, with conversion of the elements."""

from typing import Any

import numpy as np
import torch

from echo_npu import debug
from echo_npu.ops import cast as casts
from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.types import type_name
from echo_npu.tensor import DeviceTensor
from echo_npu.torch import counting
from echo_npu.torch.devices import opened
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import integers, store_int64, widened, words
from echo_npu.torch.overlaps import OverlapError
from echo_npu.torch.types import BITS, CAST_FROM, CAST_TO, FLOATS, SMALL_INTEGERS, WITHOUT_NUMBERS


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """`aten::_copy_from`: copy between devices, with conversion to the target's type."""
    if not target.numel():
        return target
    if source.dtype == target.dtype and source.dtype in WITHOUT_NUMBERS:
        source, target = source.view(BITS[source.dtype.itemsize]), target.view(BITS[target.dtype.itemsize])
    if source.is_cpu:
        opened(target.device.index).host(target).copy_(source)
        _traced("host_to_device", target)
    elif target.is_cpu:
        target.copy_(opened(source.device.index).host(source))
        _traced("device_to_host", source)
    elif source.device != target.device:
        opened(target.device.index).host(target).copy_(opened(source.device.index).host(source))
        _traced("device_to_device", target)
    else:
        _copy_within(source, target)
    return target


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """`aten::_copy_from_and_resize`."""
    target.resize_(source.shape)
    return copy_from(source, target)


def local_scalar(tensor: torch.Tensor) -> Any:
    """`aten::_local_scalar_dense`: the value of a tensor with one element."""
    _traced("device_to_host", tensor)
    return opened(tensor.device.index).host(tensor).item()


def _traced(direction: str, tensor: torch.Tensor) -> None:
    if debug.level() >= 2:
        debug.copy(f"{direction} {tensor.numel() * tensor.dtype.itemsize} bytes {tuple(tensor.shape)}")


def _copy_within(source: torch.Tensor, target: torch.Tensor) -> None:
    if source.shape != target.shape:
        source = source.expand(target.shape)
    try:
        native = _launched(source, target)
    except OverlapError:  # the CPU says what is wrong
        native = False
    counting.count("aten::copy_", counting.NPU if native else counting.CPU)
    if not native:
        device = opened(target.device.index)
        device.host(target).copy_(device.host(source))
        debug.cpu(f"aten::copy_ {source.dtype} to {target.dtype} {tuple(target.shape)}")


def _launched(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether the device copies and converts; if so, the commands are launched."""
    if source.is_conj() != target.is_conj() or source.is_neg() != target.is_neg():
        return False
    if source.dtype == target.dtype:
        launch("aten::copy_", _copy, (target,), (source,))
    elif torch.int64 in (source.dtype, target.dtype) and _through_words(source, target):
        launch("aten::copy_", _cast_words, (target,), (source,))
    elif source.dtype in CAST_FROM and target.dtype in CAST_TO:
        launch("aten::copy_", _cast, (target,), (source,), (str(target.dtype)[6:],))
    else:
        return False
    return True


def _copy(npu: OpMethods, outputs: list[DeviceTensor], inputs: list[DeviceTensor], params: list[Any]) -> None:
    (target,), (source,) = outputs, inputs
    if source.ptr == target.ptr and source.strides != target.strides:
        whole = npu.empty(source.shape, source.dtype)
        npu.execute(copy_commands(source, whole))
        source = whole
    if source.ptr != target.ptr:
        npu.execute(copy_commands(source, target))


def _through_words(source: torch.Tensor, target: torch.Tensor) -> bool:
    """Return whether an int64 on one side is exactly made of, or becomes, what its words give."""
    if source.dtype == torch.int64:
        return target.dtype in FLOATS or target.dtype in SMALL_INTEGERS
    return source.dtype in SMALL_INTEGERS or source.dtype in FLOATS


def _cast_words(
    npu: OpMethods, outputs: list[DeviceTensor], inputs: list[DeviceTensor], params: list[Any]
) -> None:
    (target,), (source,) = outputs, inputs
    if source.dtype == np.uint16:
        source = widened(npu, source)
    if target.dtype == np.int64 and source.dtype.kind == "f":
        value = widened(npu, source)
        low, high = words(target)
        integers(npu, "long_low", [value], low)
        integers(npu, "long_high", [value], high)
    elif target.dtype == np.int64:
        whole = npu.cast(source, np.int32) if source.dtype != np.int32 else source
        store_int64(npu, whole, target)
    elif target.dtype == np.bool_:
        integers(npu, "any_word", words(source), target)
    elif target.dtype.kind in "iu" and target.dtype != np.uint16:
        integers(npu, "mov", words(source)[:1], target)  # the low bits, as in C
    else:
        whole = integers(npu, "float_of", words(source))
        value = DeviceTensor.borrow(npu, whole.ptr, whole.shape, whole.strides, np.dtype(np.float32))
        casts.cast(npu, value, type_name(target.dtype), out=target)


def _cast(
    npu: OpMethods, outputs: list[DeviceTensor], inputs: list[DeviceTensor], params: list[Any], dtype: str
) -> None:
    casts.cast(npu, inputs[0], dtype, out=outputs[0])
