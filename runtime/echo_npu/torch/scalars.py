"""Numbers that stand for tensors."""

import functools
from collections.abc import Sequence
from typing import Any, Final

import torch


def as_tensor(value: Any, argument: Any, tensors: Sequence[torch.Tensor]) -> Any:
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
