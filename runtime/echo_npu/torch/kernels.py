"""How a function becomes the kernel of an operator."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

from echo_npu import debug
from echo_npu.torch import counting
from echo_npu.torch.fallback import fallback
from echo_npu.torch.outputs import settle
from echo_npu.torch.overlaps import OverlapError
from echo_npu.torch.placement import check
from echo_npu.torch.storages import KEYS, metadata_kernel

Kernel: TypeAlias = Callable[..., Any]

natives: Final[dict[str, Kernel]] = {}
"""The functions of the native operators, by the operator's name with its overload."""


def native(*names: str) -> Callable[[Kernel], Kernel]:
    """Make a function the kernel of operators, named as `add.out`.

    It takes the operator's arguments and returns its result. It returns NotImplemented, before it has changed
    anything, for arguments that the device has no commands for: these go to the fallback.
    """

    def register(function: Kernel) -> Kernel:
        for name in names:
            natives[name] = function
        return function

    return register


def overload(name: str) -> Any:
    """Return the operator of a name such as `add.out`."""
    base, _, kind = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), kind or "default")


def counted(name: str, function: Kernel) -> Kernel:
    """Return the kernel that counts a native operator, or falls back."""
    op = overload(name)
    label = op._schema.name
    outs = tuple(each.name for each in op._schema.arguments if each.is_out)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        check(op, args, kwargs)
        if outs and not settle(op, outs, args, kwargs):
            return fallback(op, *args, **kwargs)
        try:
            result = function(*args, **kwargs)
        except OverlapError:
            result = NotImplemented
        if result is NotImplemented:
            return fallback(op, *args, **kwargs)
        counting.count(label, counting.NPU)
        return result

    return kernel


def view(name: str) -> Kernel:
    """Return the kernel of an operator that only makes another view."""
    call, label = metadata_kernel(name), f"aten::{name.partition('.')[0]}"

    counts, where = counting.counts, counting.VIEW

    def kernel(*args: Any) -> Any:
        entry = counts.get(label)
        if entry is None:
            entry = counts[label] = [0, 0, 0]
        entry[where] += 1
        made = call(KEYS, *args)
        if debug.level() >= 3:
            debug.view(f"{label} {tuple(args[0].shape)} -> {tuple(made.shape)}")
        return made

    return kernel
