"""Constants on the device, one for all nodes of a graph."""

from typing import Any

from numpy.typing import NDArray

from echo_npu.server.operations.base import Emitter
from echo_npu.tensor import DeviceTensor


def constant(emitter: Emitter, values: NDArray[Any]) -> DeviceTensor:
    """Return an array on the device."""
    key = ("constant", values.dtype.str, values.shape, values.tobytes())
    if key not in emitter.shared:
        emitter.shared[key] = emitter.device.tensor(values)
    found: DeviceTensor = emitter.shared[key]
    return found
