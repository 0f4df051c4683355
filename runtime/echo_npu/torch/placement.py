"""Refuse operands on different devices before an operator runs.

The functional and in-place forms of structured operators are PyTorch's own and compute the result's shape in
C++ first, where some of them refuse such operands without their name, and some crash. So a check goes before
those of several tensors.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import torch

from echo_npu.torch.scalars import as_tensor
from echo_npu.torch.storages import KEYS
from echo_npu.torch.types import HALVES

_HOST_OPERANDS: Final = {
    "aten::index": {"indices"},
    "aten::_unsafe_index": {"indices"},
    "aten::index_put": {"indices"},
    "aten::index_put_": {"indices"},
    "aten::_index_put_impl_": {"indices"},
    "aten::_unsafe_index_put": {"indices"},
    "aten::_pack_padded_sequence": {"lengths"},
    "aten::_pack_padded_sequence_backward": {"batch_sizes"},
    "aten::_ctc_loss": {"input_lengths", "target_lengths"},
    "aten::_ctc_loss_backward": {"input_lengths", "target_lengths"},
}
"""Arguments that PyTorch lets be on the CPU whatever their shape."""


class MixedDevicesError(RuntimeError):
    """Operands on different devices."""


def mixed(name: str, tensors: Sequence[torch.Tensor]) -> MixedDevicesError:
    """Return the error of operands on different devices, which it names, as it names the operator."""
    found = " and ".join(sorted({str(each.device) for each in tensors}))
    return MixedDevicesError(
        f"{name}: Expected all tensors to be on the same device, but found at least two devices, {found}!"
    )


def check(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse operands of a call on different devices.

    Tensors of the CPU without dimensions are numbers, where they are only read.

    Raises:
        MixedDevicesError: it names operator and devices.
    """
    tensors: list[torch.Tensor] = []
    devices: set[int] = set()
    names, exempt, written = _arguments(op)
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        if isinstance(value, torch.Tensor):
            listed: Sequence[Any] = (value,)
        elif isinstance(value, (list, tuple)):
            listed = value
        else:
            continue
        for each in listed:
            if isinstance(each, torch.Tensor):
                number = each.get_device()
                if number >= 0 or (name not in exempt and (each.dim() or name in written)):
                    tensors.append(each)
                    devices.add(number)
    if len(devices) > 1:
        raise mixed(op._schema.name, tensors)


@cache
def _arguments(op: Any) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """Return the names of all arguments, of those that may be on the CPU, and of those that are written."""
    arguments = op._schema.arguments
    written = frozenset(each.name for each in arguments if each.is_write)
    exempt = frozenset(_HOST_OPERANDS.get(op._schema.name, ()))
    return tuple(each.name for each in arguments), exempt, written


def guards(taken: Sequence[str]) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield names and kernels of the structured operators of several tensors, but those that are `taken`."""
    for label in torch._C._dispatch_get_registrations_for_dispatch_key(
        "CompositeExplicitAutogradNonFunctional"
    ):
        name = label.removeprefix("aten::")
        if label == name or name in taken:
            continue
        base, _, kind = name.partition(".")
        op = getattr(getattr(torch.ops.aten, base), kind or "default")
        several = sum("Tensor" in str(each.type) for each in op._schema.arguments) > 1
        if several and not any(each.is_out for each in op._schema.arguments):
            yield name, _guard(label, op)


def _guard(label: str, op: Any) -> Callable[..., Any]:
    call = torch.library.get_kernel(label, "PrivateUse1").call_boxed
    operands = tuple(op._schema.arguments)
    rounded = label.partition(".")[0].rstrip("_") in _ROUNDED
    numeric = tuple(i for i, each in enumerate(operands) if str(each.type) == "Tensor")

    def kernel(*args: Any, **kwargs: Any) -> Any:
        check(op, args, kwargs)
        for i in numeric:
            if not isinstance(args[i], torch.Tensor):
                return _with_numbers(args, kwargs)
        return call(KEYS, *args, **kwargs)

    def _with_numbers(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        given = [as_tensor(each, of, tensors) for each, of in zip(args, operands, strict=False)]
        made = [each for each in given if isinstance(each, torch.Tensor) and each.is_cpu]
        if not rounded or not any(each.dtype in HALVES for each in made):
            return call(KEYS, *given, **kwargs)
        # Rounded to half precision, the number would be another one.
        wide = [each.float() if isinstance(each, torch.Tensor) else each for each in args]
        result = op(*wide, **kwargs)
        kind = made[0].dtype
        return args[0].copy_(result) if op._schema.is_mutable else result.to(kind)

    return kernel


_ROUNDED: Final = frozenset(("aten::add", "aten::sub", "aten::mul", "aten::div"))
"""Native operators of numbers."""
