"""Operators that join tensors."""

from typing import Any

import torch

from echo_npu.ops.copy import copy_commands
from echo_npu.ops.methods import OpMethods
from echo_npu.torch.kernels import native
from echo_npu.torch.launch import launch
from echo_npu.torch.ops.common import Tensors


def _cat(npu: OpMethods, outputs: Tensors, inputs: Tensors, params: list[Any], axis: int) -> None:
    start, commands = 0, []
    for each in inputs:
        end = start + each.shape[axis]
        commands += copy_commands(each, outputs[0][(*(slice(None),) * axis, slice(start, end))])
        start = end
    npu.execute(commands)


@native("cat.out")
def cat(tensors: Any, dim: int = 0, *, out: torch.Tensor) -> Any:
    given = [each for each in tensors if each.numel()]
    if any(each.dim() != out.dim() for each in given):
        return NotImplemented
    if given:
        given = [each if each.dtype == out.dtype else each.to(out.dtype) for each in given]
        launch("aten::cat", _cat, (out,), given, (dim % out.dim(),))
    return out
