"""The element types of operations, by name: numpy's, and bfloat16, which numpy lacks.

bfloat16 is the dtype of that name if the package ml_dtypes is installed, else its bits in uint16. A uint16
array counts as bfloat16.
"""

import importlib
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from echo_npu.spec.data_types import DataType

BFLOAT16: Final = "bfloat16"
_OPERANDS: Final = {
    "float32": DataType.FP32,
    BFLOAT16: DataType.BF16,
    "float16": DataType.FP16,
    "int8": DataType.INT8,
}


def type_name(dtype: DTypeLike | str) -> str:
    """Return the name of an element type; TypeError if numpy does not know it."""
    if isinstance(dtype, str) and dtype == BFLOAT16:
        return BFLOAT16
    return _name_of(np.dtype(dtype))


@lru_cache(maxsize=256)
def _name_of(dtype: np.dtype[Any]) -> str:
    return BFLOAT16 if dtype.name == "uint16" else dtype.name


def named_type(name: str, given: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """Return the numpy dtype of that name; `given` if it has the name."""
    if given is not None and type_name(given) == name:
        return given
    if name != BFLOAT16:
        return np.dtype(name)
    try:
        bfloat16: np.dtype[Any] = np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        return np.dtype(np.uint16)
    return bfloat16


def operand_type(dtype: DTypeLike) -> DataType | None:
    """Return the type of a matrix product's operands; None if there is no product of such elements."""
    return _OPERANDS.get(type_name(dtype))
