"""Register accesses through the AXI4-Lite master on the board: one wake-up for an array of them."""

from typing import Any

import numpy as np
from cocotb.handle import HierarchyObject
from cocotb.triggers import First, Lock, RisingEdge, Timer
from numpy.typing import NDArray

from echo_sim.native import RegisterQueue
from echo_sim.protocol import OPERATION, RegisterOpKind

CLOCK_NS = 10
"""Period of the board's clock in nanoseconds."""

_CYCLES_PER_ACCESS = 2000  # far more than any access takes, even with a whole list before it


class RegisterTimeoutError(RuntimeError):
    """The device did not answer a register access."""


class RegisterRefusedError(RuntimeError):
    """The device answered a register access with SLVERR or DECERR.

    Attributes: offset (bytes into the register window), access ("read" or "write").
    """

    def __init__(self, offset: int, access: str) -> None:
        self.offset = offset
        self.access = access
        super().__init__(f"the {access} of register offset 0x{offset:04x} was refused")


class RegisterPort:
    """Does register operations, and waits for the interrupt.

    Nothing here waits for a clock edge: the board gets an array of accesses at once, and Python wakes once.
    Several tasks may use it at the same time; their arrays are not interleaved.
    """

    def __init__(self, dut: HierarchyObject) -> None:
        self._dut: Any = dut
        self._queue = RegisterQueue()
        self._lock = Lock()

    def forget(self) -> None:
        """Drop accesses that a failed test left behind."""
        self._queue.flush()

    async def perform(self, operations: NDArray[np.void]) -> NDArray[np.uint32]:
        """Do the operations (`OPERATION` [n]) in order.

        Returns:
            uint32 [n]: the value for a read, 0 for a write, 1 or 0 for a wait: whether the interrupt is high.

        Raises:
            RegisterRefusedError: the device refused an access; the accesses after it were performed.
            RegisterTimeoutError: no answer at all.
        """
        results = np.zeros(len(operations), dtype=np.uint32)
        start = 0
        for wait in (*np.flatnonzero(operations["kind"] == RegisterOpKind.WAIT).tolist(), len(operations)):
            if wait > start:
                results[start:wait] = await self._access(operations[start:wait])
            if wait < len(operations):
                results[wait] = await self.wait_irq(int(operations["value"][wait]))
            start = wait + 1
        return results

    async def _access(self, operations: NDArray[np.void]) -> NDArray[np.uint32]:
        words = np.stack([operations[name].astype(np.uint32) for name in OPERATION.names or ()], axis=1)
        async with self._lock:
            self._queue.put(words)
            dut = self._dut
            dut.bfm_req.value = 1 - int(dut.bfm_done.value)
            limit = Timer(len(words) * _CYCLES_PER_ACCESS * CLOCK_NS, "ns")
            if await First(dut.bfm_done.value_change, limit) is limit:
                self._queue.flush()
                raise RegisterTimeoutError(
                    f"the device did not answer {len(words)} register accesses: {operations!r:.200}"
                )
            answers = self._queue.collect(len(words))
        refused = np.flatnonzero(answers[:, 1])
        if refused.size:
            kind, offset, _ = words[refused[0]].tolist()
            raise RegisterRefusedError(offset, "write" if kind == RegisterOpKind.WRITE else "read")
        return answers[:, 0]

    @property
    def irq(self) -> bool:
        """Level of the interrupt output."""
        return bool(self._dut.irq.value)

    async def wait_irq(self, timeout_cycles: int) -> bool:
        """Sleep until the interrupt is high, at most `timeout_cycles` clock cycles; return its level."""
        if self.irq:
            return True
        if timeout_cycles <= 0:
            return False
        limit = Timer(timeout_cycles * CLOCK_NS, "ns")
        await First(RisingEdge(self._dut.irq), limit)
        return self.irq
