"""How the parameters of a module go to the device and come back."""

import functools
import threading
from collections.abc import Callable
from typing import Any, Final

import torch

_lock: Final = threading.RLock()
"""Held while a module is converted, because PyTorch's setting is one for all threads."""


def apply() -> None:
    """Let `Module.to` and its kin keep the parameters of a module as objects, from and to the device.

    PyTorch would make new ones, and an optimizer or a tied weight would refer to the old ones. It has a
    setting with which contents are exchanged instead. That works without weak references and without a living
    graph only, so the setting is on for these modules alone.
    """
    plain: Any = torch.nn.Module._apply

    @functools.wraps(plain)
    def convert(self: Any, fn: Callable[[Any], Any], recurse: bool = True) -> Any:
        with _lock:
            before = torch.__future__.get_swap_module_params_on_conversion()
            torch.__future__.set_swap_module_params_on_conversion(before or _concerned(self, fn))
            try:
                return plain(self, fn, recurse)
            finally:
                torch.__future__.set_swap_module_params_on_conversion(before)

    torch.nn.Module._apply = convert  # type: ignore[method-assign]


def _concerned(module: torch.nn.Module, fn: Callable[[Any], Any]) -> bool:
    """Return whether a parameter of the module itself is on the device, or would come there."""
    params = [each for each in module._parameters.values() if each is not None]
    if not params:
        return False
    if any(each.device.type == "echo_npu" for each in params):
        return True
    try:
        moved = fn(torch.empty(0, device="cpu"))
    except Exception:  # a function of the user's that takes no such tensor says so at a parameter
        return False
    return isinstance(moved, torch.Tensor) and moved.device.type == "echo_npu"
