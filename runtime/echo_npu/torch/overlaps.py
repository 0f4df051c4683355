"""Tensors that share memory, where PyTorch refuses to write to them."""

from collections.abc import Iterable, Sequence

import torch

from echo_npu.commands.strided import overlaps
from echo_npu.torch.storages import dense


class OverlapError(RuntimeError):
    """An output of which several elements share memory, or which shares a part of it with an input."""


def overlapping(tensor: torch.Tensor) -> bool:
    """Return whether elements of a tensor share memory, as those of `expand` and of windows do."""
    return not tensor.is_contiguous() and overlaps(1, zip(tensor.stride(), tensor.shape, strict=True))


def refuse_partial(name: str, outputs: Iterable[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """Raise OverlapError if an output and an input without gaps overlap, but not element by element.

    PyTorch refuses those, and only those.
    """
    for out in outputs:
        for each in inputs:
            if dense(out) and dense(each) and _share(out, each) and not _alike(out, each):
                raise OverlapError(f"{name}: a part of the output's memory is an input's")


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors without gaps have bytes in common."""
    first, second = a.data_ptr(), b.data_ptr()
    return a.device == b.device and first < second + b.nbytes and second < first + a.nbytes


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.nbytes == b.nbytes and a.stride() == b.stride()
