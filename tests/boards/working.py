"""Open the backend of a card as a program does, and try it."""

import os
from collections.abc import Callable

import numpy as np

from echo_npu import Device, DeviceClosedError, nop_packet
from echo_npu.backends.base import Backend
from echo_npu.spec import registers as regs
from tests.boards.conftest import CONFIG
from tests.refusals import refuses


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


def refuses_after_close(backend: Backend) -> None:
    """Check that a closed backend makes no call: other files may have the numbers of its descriptors."""
    backend.close()
    closed = (DeviceClosedError, "the device is closed")
    refuses(*closed, backend.read_reg, regs.ID)
    refuses(*closed, backend.write_reg, regs.WATCHDOG, 1)
    refuses(*closed, backend.read_mem, 0, 4)
    refuses(*closed, backend.write_mem, 0, np.zeros(4, np.uint8))
    refuses(*closed, backend.wait_irq, 0)
    backend.close()


def in_a_child(does: Callable[[], bool]) -> bool:
    """Return what a function says in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if does() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
