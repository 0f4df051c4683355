"""Compare the device's memory with that of the functional model, byte by byte."""

import numpy as np

from echo_npu.errors import NpuError
from echo_npu.language.network import Network


class MemoryDiffersError(NpuError):
    """The device's memory is not the functional model's; the message names the tensor and the address."""


def check_memory(network: Network, twin: Network) -> int:
    """Compare every tensor of two networks, and return the number of bytes.

    Args:
        twin: the same network on the functional model, after the same steps.

    Raises:
        MemoryDiffersError: a byte differs; it names the tensor, the address and both values.
    """
    count = 0
    for name, tensor in network.tensors.items():
        other = twin.tensors[name]
        ours, theirs = (
            made.device.backend.read_mem(each.ptr, each.nbytes)
            for made, each in ((network, tensor), (twin, other))
        )
        if not np.array_equal(ours, theirs):
            at = int(np.flatnonzero(ours != theirs)[0])
            raise MemoryDiffersError(
                f"{name}: the byte at 0x{tensor.ptr + at:08x} is 0x{ours[at]:02x}, the functional model's "
                f"0x{theirs[at]:02x}"
            )
        count += tensor.nbytes
    return count
