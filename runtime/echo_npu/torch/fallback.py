"""Operators that the device does not have: their decomposition, else the CPU on the device's memory."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from echo_npu import debug
from echo_npu.torch import counting, generators
from echo_npu.torch.decompositions import decomposed
from echo_npu.torch.devices import OpenDevice, opened
from echo_npu.torch.launch import mixed
from echo_npu.torch.settings import fallback_policy
from echo_npu.torch.storages import dense, empty_strided, strides_of, tensor_on
from echo_npu.torch.strictness import NotNativeError, forbidden

_INDEXING: Final = ("aten::index", "aten::_index_put_impl_", "aten::index_put", "aten::_unsafe_index")
"""Operators that take indices on the CPU."""

_warned: Final[set[str]] = set()


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operator that has no kernel for the device.

    Raises:
        NotNativeError: ECHO_NPU_FALLBACK is "error".
        MixedDevicesError: operands on several devices.
    """
    name = op._schema.name
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
        if len({each.device for each in tensors}) > 1:
            raise mixed(tensors)
        return tensors[0].device.index
    device = kwargs.get("device")
    return None if device is None else torch.device(device).index


def _on_host(op: Any, device: OpenDevice, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call an operator with CPU tensors that share the device's memory, and bring its results back."""
    device.synchronize()
    originals: dict[int, torch.Tensor] = {}
    hosts: list[torch.Tensor] = []
    name = op._schema.name

    def to_host(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type == "echo_npu":
                made = device.host(value)
                originals[id(made)] = value
                hosts.append(made)
                return made
            if value.dim() and not name.startswith(_INDEXING) and originals:
                raise mixed([value, *originals.values()])
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(to_host(each) for each in value)
        return value

    outs: dict[int, torch.Tensor] = {}
    given: dict[str, Any] = {}
    written = {each.name for each in op._schema.arguments if each.is_out}
    listed = op._schema.arguments
    tensors = _tensors([*args, *kwargs.values()])
    positional = [
        to_host(_as_tensor(value, each, tensors)) for value, each in zip(args, listed, strict=False)
    ]
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


def _as_tensor(value: Any, argument: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Return a number that stands for a tensor as one: it comes to a kernel without its tensor.

    The type of the result must be that of the tensors with the number. A tensor without dimensions, which is
    what stands for the number, has no say beside one of its kind with dimensions, and may so be exact.
    """
    if not isinstance(value, (bool, int, float, complex)):
        return value
    if str(argument.type) not in ("Tensor", "Optional[Tensor]"):
        return value
    widest = torch.tensor(value).dtype if isinstance(value, (bool, int)) else _EXACT[type(value)]
    if any(each.dim() and _kind(each.dtype) >= _kind(widest) for each in tensors):
        return torch.tensor(value, dtype=widest)
    given = [each for each in tensors if each.dtype != torch.bool] or tensors
    kinds = [torch.result_type(each, value) for each in given]
    if not kinds:
        return torch.tensor(value)
    # A number that the type does not have wraps, as in the kernels of the CPU.
    return torch.tensor(value, dtype=widest).to(functools.reduce(torch.promote_types, kinds))


_EXACT: Final = {float: torch.float64, complex: torch.complex128}


def _kind(dtype: torch.dtype) -> int:
    """Return a number that is greater for types to whose kind others are converted."""
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else int(dtype != torch.bool)


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
