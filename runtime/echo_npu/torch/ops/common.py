"""What the operators share."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from echo_npu.ops import cast as casts
from echo_npu.ops.broadcast import compute
from echo_npu.ops.methods import OpMethods
from echo_npu.ops.operands import FLOAT32
from echo_npu.ops.rows import last_axis_commands
from echo_npu.ops.types import type_name
from echo_npu.tensor import DeviceTensor
from echo_npu.torch.types import HALVES
from echo_npu.vector.kernels.counting import counting
from echo_npu.vector.kernels.pointwise import integer

Tensors: TypeAlias = list[DeviceTensor]
Number: TypeAlias = bool | int | float


def number_of(value: Any) -> Any:
    """Return the number of a CPU tensor without dimensions; any other value as it is."""
    if isinstance(value, torch.Tensor) and value.is_cpu and not value.dim():
        return value.item()
    return value


def rounded(value: Any, dtype: torch.dtype) -> Any:
    """Return a number as an element of bfloat16 or float16; any other value as it is.

    A comparison needs that: it decides between the number and the elements that it rounds to.
    """
    if dtype in HALVES and isinstance(value, (bool, int, float)):
        return torch.tensor(value, dtype=dtype).item()
    return value


# --- inside a plan ------------------------------------------------------------------------------------------


def widened(npu: OpMethods, x: DeviceTensor) -> DeviceTensor:
    """Return a tensor in float32."""
    made = x if x.dtype == FLOAT32 else casts.cast(npu, x, "float32")
    assert isinstance(made, DeviceTensor)
    return made


def float_target(npu: OpMethods, out: DeviceTensor) -> DeviceTensor:
    """Return `out` if it is float32, else a float32 tensor of its shape for `narrowed`."""
    return out if out.dtype == FLOAT32 else npu.empty(out.shape)


def narrowed(npu: OpMethods, result: DeviceTensor, out: DeviceTensor) -> None:
    """Round a float32 result to the type of `out`, if it is not `out` itself."""
    if result is not out:
        casts.cast(npu, result, type_name(out.dtype), out=out)


def words(x: DeviceTensor) -> tuple[DeviceTensor, DeviceTensor]:
    """Return the low and the high words of an int64 tensor as int32 views."""
    word = np.dtype(np.int32)
    low = DeviceTensor.borrow(x.device, x.ptr, x.shape, x.strides, word)
    return low, DeviceTensor.borrow(x.device, x.ptr + 4, x.shape, x.strides, word)


def integers(
    npu: OpMethods,
    name: str,
    operands: Sequence[Any],
    out: DeviceTensor | None = None,
    *,
    params: Sequence[Any] = (),
    letters: str | None = None,
) -> DeviceTensor:
    """Apply a function of `pointwise.INTEGER_BODIES`; the result is `out` or a new int32 tensor."""
    sources = tuple(type_name(each.dtype) for each in operands)
    chosen = "s" * len(operands) + "p" * len(params) if letters is None else letters
    program = integer(name, chosen, sources)
    given = {str(i): each for i, each in enumerate(operands)}
    dtype = np.dtype(np.int32) if out is None else out.dtype
    made = compute(npu, name, program, given, out, params=params, dtype=dtype)
    assert isinstance(made, DeviceTensor)
    return made


def store_int64(npu: OpMethods, value: DeviceTensor, out: DeviceTensor) -> None:
    """Write int32 values to an int64 tensor."""
    low, high = words(out)
    integers(npu, "mov", [value], low)
    integers(npu, "sign_word", [value], high)


def int32_indices(npu: OpMethods, x: DeviceTensor, count: int | None = None) -> DeviceTensor:
    """Return indices as dense int32; those that no table has as -1.

    Args:
        count: negative indices count from the end of so many.
    """
    if x.dtype == np.int64:
        if count is None:
            return integers(npu, "index", words(x))
        return integers(npu, "wrapped", words(x), params=[np.int32(count)])
    high = integers(npu, "sign_word", [x])
    if count is None:
        return integers(npu, "index", [x, high])
    return integers(npu, "wrapped", [x, high], params=[np.int32(count)])


def ascending(npu: OpMethods, count: int, start: int = 0, step: int = 1) -> DeviceTensor:
    """Return int32 start, start + step, ..."""
    made = npu.empty((count,), np.int32)
    params = [np.int32(start), np.int32(step)]
    npu.execute(last_axis_commands(npu, counting(whole=True), [], made, params=params))
    return made
