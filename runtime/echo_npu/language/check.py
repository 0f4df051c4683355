"""Compare the device's memory with that of the functional model, byte by byte."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from echo_npu.errors import NpuError
from echo_npu.tensor import DeviceTensor


class MemoryDiffersError(NpuError):
    """The device's memory is not the functional model's; the message names the tensor and the address."""


def check_memory(tensors: Mapping[str, DeviceTensor], twins: Mapping[str, DeviceTensor]) -> int:
    """Compare every tensor of a network with its twin's, and return the number of bytes.

    Args:
        tensors: contiguous ones, by name.
        twins: those of the same network on the functional model, after the same steps.

    Raises:
        MemoryDiffersError: a byte differs; it names the tensor, the address and both values.
    """
    count = 0
    for name, tensor in tensors.items():
        ours, theirs = _content(tensor), _content(twins[name])
        if not np.array_equal(ours, theirs):
            at = int(np.flatnonzero(ours != theirs)[0])
            raise MemoryDiffersError(
                f"{name}: the byte at 0x{tensor.ptr + at:08x} is 0x{ours[at]:02x}, the functional model's "
                f"0x{theirs[at]:02x}"
            )
        count += tensor.nbytes
    return count


def _content(tensor: DeviceTensor) -> NDArray[np.uint8]:
    found = np.empty(tensor.nbytes, np.uint8)
    tensor.device.memcpy(found, tensor, tensor.nbytes)
    return found
