"""The steps of a matrix product between an element's sum and memory, defined to the bit.

The steps are float32 operations of the vector engine's instruction set (docs/vector.md), each with one
rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.model import vector_alu as alu
from echo_npu.model.numerics import FloatArray
from echo_npu.spec.data_types import DataType, OutType

Words = NDArray[np.uint32]

INT8_RANGE: Final = (-128, 127)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The steps, in their order; None or False: there is no such step.

    Attributes:
        alpha: multiplies all elements.
        row_scale: float32 [M], multiplies row m.
        column_scale: float32 [N], multiplies column n.
        bias: float32 [N], is added to column n.
        relu: the greater of the element and +0.0; a NaN stays.
    """

    alpha: np.float32 | None = None
    row_scale: FloatArray | None = None
    column_scale: FloatArray | None = None
    bias: FloatArray | None = None
    relu: bool = False

    def apply(self, sums: NDArray[np.float32] | NDArray[np.int32]) -> FloatArray:
        """Apply every step to the sums [M, N]; return float32 [M, N]."""
        values = alu.int_to_float(_words(sums)) if sums.dtype == np.int32 else _words(sums)
        with np.errstate(all="ignore"):
            if self.alpha is not None:
                values = alu.mul(values, _words(np.array(self.alpha)))
            if self.row_scale is not None:
                values = alu.mul(values, _words(self.row_scale)[:, None])
            if self.column_scale is not None:
                values = alu.mul(values, _words(self.column_scale))
            if self.bias is not None:
                values = alu.add(values, _words(self.bias))
            if self.relu:
                values = alu.maximum(values, np.zeros((), np.uint32))
        return values.view(np.float32)


def widen(values: NDArray[Any], dtype: DataType) -> FloatArray:
    """Convert stored bf16, fp16 or fp32 elements to float32, which is exact."""
    if dtype == DataType.BF16:
        return (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == DataType.FP16:
        with np.errstate(all="ignore"):
            return alu.half_to_float(values.view(np.uint16).astype(np.uint32)).view(np.float32)
    return values


def store(values: FloatArray, operands: DataType, out: OutType) -> NDArray[Any]:
    """Convert float32 elements to what is stored: float32, or rounded to the operands' type."""
    if out == OutType.FLOAT32:
        return values
    with np.errstate(all="ignore"):
        return _NARROW[operands](_words(values))


def _int8(bits: Words) -> NDArray[np.int8]:
    return np.clip(alu.float_to_int(bits).view(np.int32), *INT8_RANGE).astype(np.int8)


def _words(values: NDArray[Any]) -> Words:
    return values.view(np.uint32)


_NARROW: Final[dict[DataType, Callable[[Words], NDArray[Any]]]] = {
    DataType.FP32: lambda bits: bits.view(np.float32),
    DataType.BF16: lambda bits: alu.float_to_bfloat(bits).astype(np.uint16),
    DataType.FP16: lambda bits: alu.float_to_half(bits).astype(np.uint16).view(np.float16),
    DataType.INT8: _int8,
}
