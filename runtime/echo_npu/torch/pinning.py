"""Pinned memory: the device reaches all memory of the host alike, so pinned is a mark of a storage."""

import warnings
import weakref
from collections.abc import Callable
from typing import Any, Final

import torch

_CPU: Final = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_CONSTRUCTORS: Final = (
    "empty.memory_format",
    "empty_strided",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
)
"""Where all constructors of the CPU ask for memory."""

_marks: Final[dict[int, "_Mark"]] = {}
"""Marks of the living pinned storages, by the address of PyTorch's object, which resizing keeps."""


class _Mark(weakref.ref[torch.UntypedStorage]):
    """Marks a storage as pinned while it lives."""

    __slots__ = ("key",)
    key: int


def _forget(mark: weakref.ref[torch.UntypedStorage]) -> None:
    assert isinstance(mark, _Mark)
    if _marks.get(mark.key) is mark:
        del _marks[mark.key]


def apply(library: torch.library.Library) -> None:
    """Make `pin_memory=True`, `pin_memory()` and `is_pinned()` work for tensors of the CPU."""
    library.impl("_pin_memory", _pin, "CPU")
    library.impl("is_pinned", _is_pinned, "CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of kernels that replace its own
        for name in _CONSTRUCTORS:
            library.impl(name, _constructor(name), "CPU", allow_override=True)


def _constructor(name: str) -> Callable[..., torch.Tensor]:
    plain = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed

    def kernel(*args: Any, pin_memory: bool | None = None, **kwargs: Any) -> torch.Tensor:
        made: torch.Tensor = plain(_CPU, *args, pin_memory=False, **kwargs)
        if pin_memory:
            _mark(made)
        return made

    return kernel


def _mark(tensor: torch.Tensor) -> None:
    storage = tensor.untyped_storage()
    mark = _Mark(storage, _forget)
    mark.key = storage._cdata
    _marks[mark.key] = mark


def _pin(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
    made = torch.empty_like(tensor).copy_(tensor)
    _mark(made)
    return made


def _is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
    return tensor.untyped_storage()._cdata in _marks
