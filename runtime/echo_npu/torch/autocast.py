"""Autocast: which operators run in the lower precision, in float32, or in the widest type they are given."""

from collections.abc import Callable, Sequence
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
    "cdist",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy_loss",
    "cumprod",
    "cumsum",
    "dist",
    "exp",
    "expm1",
    "group_norm",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "linalg_vector_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax.int",
    "logsumexp",
    "margin_ranking_loss",
    "mse_loss",
    "nll_loss",
    "nll_loss_nd",
    "poisson_nll_loss",
    "pow.Scalar",
    "pow.Tensor_Scalar",
    "pow.Tensor_Tensor",
    "prod",
    "prod.dim_int",
    "reciprocal",
    "renorm",
    "rms_norm",
    "rsqrt",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
    "tan",
    "triplet_margin_loss",
)
_WIDEST: Final = ("bilinear", "cross", "dot", "grid_sampler", "index_put", "scatter_add", "tensordot", "vdot")
"""The lists of CUDA's autocast, of operators that the device meets."""

_KEYS: Final = torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastPrivateUse1  # type: ignore[attr-defined]
)


def register(library: torch.library.Library, everything: torch.library.Library) -> None:
    """Register the operators; all others run in the type of their operands."""
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    for name in _LOWER:
        library.impl(name, _casting(name, _lower), "AutocastPrivateUse1")
    for name in _FLOAT32:
        library.impl(name, _casting(name, lambda values: torch.float32), "AutocastPrivateUse1")
    for name in _WIDEST:
        library.impl(name, _casting(name, _widest), "AutocastPrivateUse1")


def _lower(values: Sequence[Any]) -> torch.dtype:
    return torch.get_autocast_dtype("echo_npu")


def _widest(values: Sequence[Any]) -> torch.dtype:
    """Return float32 if one of the operands is, else the lower precision."""
    tensors = [each for each in values if isinstance(each, torch.Tensor)]
    return torch.float32 if any(each.dtype == torch.float32 for each in tensors) else _lower(values)


def _casting(name: str, chosen: Callable[[Sequence[Any]], torch.dtype]) -> Callable[..., Any]:
    op = overload(name)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        dtype = chosen((*args, *kwargs.values()))

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
