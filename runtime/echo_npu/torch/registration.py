"""Register the device with PyTorch, once a process."""

from functools import partial
from typing import Final

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from echo_npu.torch import (
    autocast,
    backend_module,
    copies,
    distributed,
    fallback,
    kernels,
    ops,
    optimizers,
    patches,
    pinning,
    placement,
    storages,
)
from echo_npu.torch.guard import Guard

NAME: Final = "echo_npu"

_VIEWS: Final = ("as_strided", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex")
_METADATA: Final = (
    "set_.source_Storage",
    "set_.source_Tensor",
    "set_.source_Storage_storage_offset",
    "is_set_to",
)

_KNOWING_DEVICES: Final = ("mode.values",)
"""Operators that PyTorch has for all devices and that refuse those they do not know."""

_NOT_STORED: Final = (
    "SparsePrivateUse1",
    "SparseCsrPrivateUse1",
    "NestedTensorPrivateUse1",
    "QuantizedPrivateUse1",
)
"""Keys of tensors that the device has no memory for."""

_libraries: list[torch.library.Library] = []


class _Hooks(torch._C._acc.PrivateUse1Hooks):
    def has_primary_context(self, device_index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True


def register() -> None:
    """Make `torch.device("echo_npu")` known. Idempotent."""
    if _libraries:
        return
    aten = torch.library.Library("aten", "IMPL")
    everything = torch.library.Library("_", "IMPL")
    _libraries.extend([aten, everything])
    _setup_privateuseone_for_python_backend(NAME, backend_module.MODULE, _Hooks(), Guard())
    patches.apply()
    for name in _VIEWS:
        aten.impl(name, kernels.view(name), "PrivateUse1")
    for name in _METADATA:
        aten.impl(name, _on_any_device(name), "PrivateUse1")
    for name, function in (
        ("empty.memory_format", storages.empty),
        ("empty_strided", storages.empty_strided),
        ("resize_", storages.resize),
        ("set_", storages.set_empty),
        ("_copy_from", copies.copy_from),
        ("_copy_from_and_resize", copies.copy_from_and_resize),
        ("_local_scalar_dense", copies.local_scalar),
        ("record_stream", lambda tensor, stream: None),
        ("_efficientzerotensor", storages.zeros),
    ):
        aten.impl(name, function, "PrivateUse1")
    ops.load()
    for name, function in kernels.natives.items():
        aten.impl(name, kernels.counted(name, function), "PrivateUse1")
    for name, function in placement.guards(tuple(kernels.natives)):
        aten.impl(name, function, "PrivateUse1")
    for name in _KNOWING_DEVICES:
        aten.impl(name, partial(fallback.fallback, kernels.overload(name)), "PrivateUse1")
    for key in ("Conjugate", "Negative"):
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    pinning.apply(aten)
    optimizers.apply(aten)
    autocast.register(aten, everything)
    everything.fallback(fallback.fallback, "PrivateUse1")
    for key in _NOT_STORED:
        everything.fallback(fallback.refuse, key)
    distributed.register()


def _on_any_device(name: str) -> kernels.Kernel:
    call = storages.metadata_kernel(name)
    return lambda *args: call(storages.KEYS, *args)
