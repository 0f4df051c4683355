"""Open the backend of a card as a program does, and try it."""

import numpy as np

from echo_npu import Device, nop_packet
from echo_npu.backends.base import Backend
from tests.boards.conftest import CONFIG


def as_device(backend: Backend) -> Device:
    """Return the device of a backend, which is closed if it cannot be one."""
    try:
        return Device(backend, config=CONFIG)
    except BaseException:
        backend.close()
        raise


def works(npu: Device) -> None:
    """Check that the device computes."""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(npu.matmul(x, x.T), x @ x.T)
    npu.submit_batch([nop_packet()] * 5)
    npu.wait()
