"""Operators that the device does not have: their decomposition, else the CPU on the device's memory."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from echo_npu import debug
from echo_npu.torch import counting, generators
from echo_npu.torch.decompositions import decomposed
from echo_npu.torch.devices import OpenDevice, opened
from echo_npu.torch.placement import check
from echo_npu.torch.scalars import as_tensor
from echo_npu.torch.settings import fallback_policy
from echo_npu.torch.storages import dense, empty_strided, strides_of, tensor_on
from echo_npu.torch.strictness import NotNativeError, forbidden

_warned: Final[set[str]] = set()


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator that has no kernel for the device.

    Raises:
        NotNativeError: ECHO_NPU_FALLBACK is "error".
        MixedDevicesError: operands on several devices.
    """
    name = op._schema.name
    check(op, args, kwargs)
    tensors = [each for each in _tensors([*args, *kwargs.values()]) if not each.is_cpu]
    inputs = [each for each in _tensors(args) if not each.is_cpu]
    result = decomposed(op, args, kwargs)
    if result is not NotImplemented:
        return result
    if forbidden():
        raise NotNativeError(name)
    types = sorted({str(each.dtype)[6:] for each in tensors})
    policy = fallback_policy()
    if policy == "error":
        raise NotNativeError(
            f"{name} of {', '.join(types) or 'no tensor'} would run on the CPU: ECHO_NPU_FALLBACK is error"
        )
    if policy == "warn" and name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} of {', '.join(types)} runs on the CPU", stacklevel=2)
    index = _index(tensors, kwargs)
    device = opened(index)
    counting.count(name, counting.CPU)
    if device.recorder is not None:
        device.recorder.obstacle(f"{name} of {', '.join(types)} on the CPU")
    debug.cpu(f"{name} {' '.join(str(tuple(each.shape)) for each in inputs)} {' '.join(types)}")
    return _on_host(op, device, args, kwargs)


def _index(tensors: list[torch.Tensor], kwargs: dict[str, Any]) -> int | None:
    if tensors:
        return tensors[0].device.index
    device = kwargs.get("device")
    return None if device is None else torch.device(device).index


def _on_host(op: Any, device: OpenDevice, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator with CPU tensors that share the device's memory, and bring its results back."""
    device.synchronize()
    originals: dict[int, torch.Tensor] = {}
    hosts: list[torch.Tensor] = []

    def to_host(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type == "echo_npu":
                made = device.host(value)
                originals[id(made)] = value
                hosts.append(made)
                return made
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(to_host(each) for each in value)
        return value

    outs: dict[int, torch.Tensor] = {}
    given: dict[str, Any] = {}
    written = {each.name for each in op._schema.arguments if each.is_out}
    listed = op._schema.arguments
    tensors = _tensors([*args, *kwargs.values()])
    positional = [to_host(as_tensor(value, each, tensors)) for value, each in zip(args, listed, strict=False)]
    for key, value in kwargs.items():
        if key in written and isinstance(value, torch.Tensor):
            # It may be resized, which must not happen to device memory.
            fresh = torch.empty(0, dtype=value.dtype)
            outs[id(fresh)] = value
            hosts.append(fresh)
            given[key] = fresh
        elif isinstance(value, torch.device):
            given[key] = torch.device("cpu")
        else:
            given[key] = to_host(value)
    if any(each.name == "generator" for each in op._schema.arguments):
        given["generator"] = generators.host_generator(device.index, given.get("generator"))
    result = _call(op, positional, given)

    def back(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) in outs:
                return _into(outs[id(value)], value, device)
            if id(value) in originals:
                return originals[id(value)]
            return _adopted(value, device, originals)
        if isinstance(value, (list, tuple)):
            return type(value)(back(each) for each in value)
        return value

    return back(result)


def _call(op: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    replacement: Callable[..., Any] | None = _HOST.get(op._schema.name)
    return op(*args, **kwargs) if replacement is None else replacement(*args, **kwargs)


_HOST: Final[dict[str, Callable[..., Any]]] = {
    "aten::convolution_overrideable": torch.ops.aten.convolution.default,
    "aten::convolution_backward_overrideable": lambda grad, x, weight, *others: (
        torch.ops.aten.convolution_backward.default(grad, x, weight, [weight.shape[0]], *others)
    ),
}
"""Operators that only accelerators have, and what computes the same on the CPU."""


def _into(target: torch.Tensor, value: torch.Tensor, device: OpenDevice) -> torch.Tensor:
    """Write a result to the caller's `out`."""
    if target.shape != value.shape:
        target.resize_(value.shape)
    if value.numel():
        device.host(target).copy_(value)
    return target


def _adopted(value: torch.Tensor, device: OpenDevice, originals: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return a result as a tensor of the device: a view of an operand's memory, or a copy."""
    if value.layout != torch.strided:
        return value
    memory = device.memory_as(torch.uint8)
    if value.numel() and value.untyped_storage().data_ptr() == memory.data_ptr():
        address = value.data_ptr() - memory.data_ptr()
        for each in originals.values():
            storage = each.untyped_storage()
            if 0 <= address - storage.data_ptr() < storage.nbytes():
                offset = (address - storage.data_ptr()) // value.dtype.itemsize
                return tensor_on(storage, offset, value.shape, value.stride(), value.dtype)
    strides = value.stride() if dense(value) else strides_of(value.shape, None)
    made = empty_strided(value.shape, strides, dtype=value.dtype, device=device.device)
    if value.numel():
        device.host(made).copy_(value)
    return made


def _tensors(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for each in values:
        if isinstance(each, torch.Tensor):
            found.append(each)
        elif isinstance(each, (list, tuple)):
            found += _tensors(each)
    return found
