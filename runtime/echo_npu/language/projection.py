"""Weights of a linear projection on the device, in the form in which the matrix engine takes them."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.device import Device
from echo_npu.errors import NpuOutOfMemoryError
from echo_npu.tensor import DeviceTensor

HALF: Final = np.dtype(np.float16)


def place(device: Device, values: NDArray[Any]) -> DeviceTensor:
    """Bring weights to the weight region, or to the activation region when that is full.

    Raises:
        NpuOutOfMemoryError: neither has room.
    """
    try:
        return device.tensor(values, region="weight")
    except NpuOutOfMemoryError:
        return device.tensor(values, region="activation")


class HalfProjection:
    """Weights in float16; the rows that they multiply are rounded to float16.

    Args:
        device: holds them.
        weight: float16 [out, in].
    """

    def __init__(self, device: Device, weight: DeviceTensor) -> None:
        self._device = device
        self._weight = weight

    @property
    def outputs(self) -> int:
        """Columns of the result."""
        return self._weight.shape[0]

    @property
    def size(self) -> int:
        """Number of weights."""
        return self._weight.size

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return self._weight.nbytes

    def apply(self, rows: DeviceTensor, rounded: DeviceTensor, out: DeviceTensor) -> None:
        """Multiply rows, float32 [n, in], into `out`, float32 [n, outputs].

        Args:
            rounded: float16, at least as many elements as the rows: holds them rounded.
        """
        half = rounded[: rows.size].reshape(*rows.shape)
        self._device.cast(rows, HALF, out=half)
        self._device.matmul(half, self._weight, trans_b=True, out=out)
