"""What the makers of random commands share: contents and strides of operands."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from echo_npu.benchmark.measure import random_elements
from echo_npu.spec.data_types import DataType


def elements(values: np.random.Generator, kind: DataType, nbytes: int) -> bytes:
    """Draw `nbytes` of elements: normally distributed, or any int8."""
    return random_elements(values, kind, (nbytes // kind.itemsize,)).tobytes()


def stride_options(*operands: Sequence[int]) -> dict[str, Any]:
    """Return the options of `matmul_packets` or `memcpy_packets` for the strides of each operand.

    Args:
        operands: strides of rows, inner and outer batches; the destination is last.
    """
    sources = ("src",) if len(operands) == 2 else ("src1", "src2")
    batches = {
        f"{name}_batch_strides": tuple(strides[1:])
        for name, strides in zip((*sources, "dst"), operands, strict=True)
    }
    return {"row_strides": tuple(strides[0] for strides in operands), **batches}
