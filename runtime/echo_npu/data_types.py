"""The element types of a matrix product: how operands are stored, and what a result is stored as."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import DTypeLike


class DataType(IntEnum):
    """Type of both operands of a MATMUL; the number is that of its DTYPE flags."""

    FP32 = 0
    BF16 = 1
    """The upper half of a float32."""
    FP16 = 2
    INT8 = 3

    @property
    def label(self) -> str:
        """fp32, bf16, fp16 or int8: as the capabilities and the command line call it."""
        return self.name.lower()

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return np.dtype(self.storage).itemsize

    @property
    def storage(self) -> DTypeLike:
        """The numpy dtype of an element in memory; the bits in uint16 for bf16, which numpy does not have."""
        return _STORAGE[self]

    @classmethod
    def of(cls, value: DataType | str) -> DataType:
        """A type, or the one of that label. TypeError, ValueError: `value` is neither."""
        if isinstance(value, DataType):
            return value
        if not isinstance(value, str):
            raise TypeError(f"dtype must be a DataType or a name, got {value!r} ({type(value).__name__})")
        for each in cls:
            if each.label == value:
                return each
        raise ValueError(f"dtype is {value!r}; it must be one of {', '.join(each.label for each in cls)}")


class OutType(IntEnum):
    """Type of the result of a MATMUL; the number is that of its OUT flags."""

    FLOAT32 = 0
    OWN = 1
    """That of the operands."""
    INT32 = 2
    """The sums of int8 products as they are."""

    def storage(self, operands: DataType) -> DTypeLike:
        """The numpy dtype of a result's element in memory."""
        if self == OutType.OWN:
            return operands.storage
        return np.int32 if self == OutType.INT32 else np.float32

    def itemsize(self, operands: DataType) -> int:
        """Bytes of a result's element."""
        return np.dtype(self.storage(operands)).itemsize


_STORAGE: Final[dict[DataType, DTypeLike]] = {
    DataType.FP32: np.float32,
    DataType.BF16: np.uint16,
    DataType.FP16: np.float16,
    DataType.INT8: np.int8,
}
