"""Autocast: which operators run in the lower precision, and which in float32."""

from collections.abc import Callable
from typing import Any, Final

import torch

from echo_npu.torch.kernels import overload

_LOWER: Final = (
    "_convolution",
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "linear",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "scaled_dot_product_attention",
)
_FLOAT32: Final = (
    "binary_cross_entropy_with_logits",
    "cross_entropy_loss",
    "cumsum",
    "exp",
    "expm1",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax.int",
    "logsumexp",
    "mse_loss",
    "nll_loss",
    "nll_loss_nd",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "prod",
    "reciprocal",
    "rms_norm",
    "rsqrt",
    "smooth_l1_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
)
"""The lists of CUDA's autocast, of operators that the device meets."""

_KEYS: Final = torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
)


def register(library: torch.library.Library, everything: torch.library.Library) -> None:
    """Register the operators; all others run in the type of their operands."""
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _LOWER:
        library.impl(name, _casting(name, lower=True), "AutocastPrivateUse1")
    for name in _FLOAT32:
        library.impl(name, _casting(name, lower=False), "AutocastPrivateUse1")


def _casting(name: str, *, lower: bool) -> Callable[..., Any]:
    op = overload(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = torch.get_autocast_dtype("echo_npu") if lower else torch.float32

        def cast(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                wanted = value.is_floating_point() and value.dtype not in (torch.float64, dtype)
                return value.to(dtype) if wanted and not value.is_cpu else value
            if isinstance(value, (list, tuple)):
                return type(value)(cast(each) for each in value)
            return value

        with torch._C._ExcludeDispatchKeyGuard(_KEYS):
            return op(*(cast(each) for each in args), **{key: cast(each) for key, each in kwargs.items()})

    return kernel
