"""Operators that the device does not have: their decomposition, else the CPU on the device's memory."""

import warnings
from collections.abc import Callable
from typing import Any, Final

import torch

from echo_npu import debug
from echo_npu.torch import counting, generators
from echo_npu.torch.decompositions import cause, decomposed, undecided
from echo_npu.torch.devices import OpenDevice, marked, opened
from echo_npu.torch.outputs import tensors_in
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
    tensors = [each for each in tensors_in([*args, *kwargs.values()]) if not each.is_cpu]
    inputs = [each for each in tensors_in(args) if not each.is_cpu]
    result = decomposed(op, args, kwargs)
    if result is not NotImplemented:
        return result
    why = cause(op, args, kwargs)
    if forbidden():
        raise NotNativeError(name) from why
    types = sorted({str(each.dtype)[6:] for each in tensors})
    policy = fallback_policy()
    if policy == "error":
        raise NotNativeError(
            f"{name} of {', '.join(types) or 'no tensor'} would run on the CPU: ECHO_NPU_FALLBACK is error"
        ) from why
    if policy == "warn" and name not in _warned:
        _warned.add(name)
        warnings.warn(f"{name} of {', '.join(types)} runs on the CPU", stacklevel=2)
    index = _index(tensors, kwargs)
    device = opened(index)
    counting.count(name, counting.CPU)
    if device.recorder is not None:
        device.recorder.obstacle(f"{name} of {', '.join(types)} on the CPU")
    shapes = " ".join(str(tuple(each.shape)) for each in inputs)
    debug.cpu(f"{name} {shapes} {' '.join(types)}{_failure(why)}")
    try:
        return _on_host(op, device, args, kwargs)
    except Exception:
        undecided(op, args, kwargs)
        raise


def _failure(why: BaseException | None) -> str:
    """Return what a decomposition failed by, for people; nothing if a part of it merely is not native."""
    while why is not None and why.__cause__ is not None:
        why = why.__cause__
    return "" if why is None or isinstance(why, NotNativeError) else f", after {why!r}"


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

    listed = op._schema.arguments
    written = {each.name for each in listed if each.is_out}
    tensors = tensors_in([*args, *kwargs.values()])
    outs = tensors_in([value for key, value in kwargs.items() if key in written])
    copies = _copies(device, outs, tensors)
    made_for: dict[int, torch.Tensor] = {}

    def to_host(value: Any, out: bool = False) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type != "echo_npu":
                return value
            copy = copies.get(value.untyped_storage().data_ptr())
            if copy is not None:
                made = _over(copy, value)
            elif out:
                # It may be resized, which must not happen to device memory.
                made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            else:
                made = device.host(value)
            originals[id(made)] = value
            if out:
                made_for[id(made)] = value
            hosts.append(made)
            return made
        if isinstance(value, (list, tuple)):
            return type(value)(to_host(each, out) for each in value)
        return value

    positional = [to_host(as_tensor(value, each, tensors)) for value, each in zip(args, listed, strict=False)]
    given: dict[str, Any] = {
        key: torch.device("cpu") if isinstance(value, torch.device) else to_host(value, key in written)
        for key, value in kwargs.items()
    }
    if any(each.name == "generator" for each in op._schema.arguments):
        given["generator"] = generators.host_generator(device.index, given.get("generator"))
    result = _call(op, positional, given)
    for each in hosts:
        if id(each) in made_for:
            _into(made_for[id(each)], each, device)

    def back(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
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


def _copies(
    device: OpenDevice, outs: list[torch.Tensor], tensors: list[torch.Tensor]
) -> dict[int, torch.UntypedStorage]:
    """Return copies for the host of the storages in which an output and another operand lie, by address.

    So the CPU sees how they overlap, and may resize the output.
    """
    found: dict[int, torch.UntypedStorage] = {}
    places = [each.untyped_storage().data_ptr() for each in tensors]
    for each in outs:
        storage = each.untyped_storage()
        if storage.nbytes() and places.count(storage.data_ptr()) > 1:
            whole = tensor_on(storage, 0, (storage.nbytes(),), (1,), torch.uint8)
            found[storage.data_ptr()] = device.host(whole).clone().untyped_storage()
    return found


def _over(storage: torch.UntypedStorage, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the CPU that lies in a storage as another one lies in its own."""
    made = torch.empty(0, dtype=tensor.dtype)
    made.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    return marked(made, tensor)


def _into(target: torch.Tensor, value: torch.Tensor, device: OpenDevice) -> None:
    """Write a result to the caller's `out`, which takes its shape."""
    if target.shape != value.shape:
        target.resize_(value.shape)
        if dense(value):
            target.as_strided_(value.shape, value.stride())
    if value.numel():
        device.host(target).copy_(value)


def refuse(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand for the operators of tensors that the device does not store: NotImplementedError."""
    raise NotImplementedError(f"{op._schema.name}: echo_npu has no sparse, nested or quantized tensors")


def _adopted(value: torch.Tensor, device: OpenDevice, originals: dict[int, torch.Tensor]) -> torch.Tensor:
    """Return a result as a tensor of the device: a view of an operand's memory, or a copy."""
    if value.layout != torch.strided or value.is_quantized or value.is_nested:
        kind = "quantized" if value.is_quantized else "nested" if value.is_nested else str(value.layout)
        raise NotImplementedError(f"echo_npu has no {kind} tensors: move the operands to the CPU first")
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
