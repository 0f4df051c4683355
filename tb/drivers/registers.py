"""Register accesses through the AXI4-Lite master in npu_tb: one wake-up for a list of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cocotb.handle import HierarchyObject
from cocotb.triggers import First, Lock, RisingEdge, Timer

from echo_npu.backends.base import ReadReg, RegisterOp, WaitIrq, WriteReg
from echo_npu.errors import NpuBusError
from tb.native import RegisterQueue

CLOCK_NS = 10
"""Period of npu_tb's clock."""

_CYCLES_PER_ACCESS = 2000  # far more than any access takes, even with a whole list before it


class RegisterTimeoutError(RuntimeError):
    """The device did not answer a register access."""


class RegisterDriver:
    """Reads and writes registers by offset, and waits for the interrupt.

    Nothing here waits for a clock edge: a list of accesses is handed to the bench natively, and Python wakes
    once. Tasks may use it at the same time: their lists follow one another, each as a whole.
    """

    def __init__(self, dut: HierarchyObject) -> None:
        self._dut: Any = dut
        self._queue = RegisterQueue()
        self._lock = Lock()

    def forget(self) -> None:
        """Drop accesses that a test which failed left behind."""
        self._queue.flush()

    async def run(self, operations: Sequence[RegisterOp]) -> list[int]:
        """Do the operations in order: the value for a read, 0 for a write, whether high (0 or 1) for a wait.

        Raises:
            NpuBusError: the device refused an access (SLVERR or DECERR); those behind it were done all the
                same.
            RegisterTimeoutError: no answer at all.
        """
        results: list[int] = []
        batch: list[RegisterOp] = []
        for operation in operations:
            if isinstance(operation, WaitIrq):
                results += await self._accesses(batch)
                batch = []
                results.append(int(await self.wait_irq(operation.timeout_cycles)))
            else:
                batch.append(operation)
        return results + await self._accesses(batch)

    async def read(self, offset: int) -> int:
        """The 32-bit register at `offset`. Raises as `run`."""
        return (await self.run([ReadReg(offset)]))[0]

    async def read64(self, offset: int) -> int:
        """The 64-bit register at `offset`: the low word first, which latches the high word."""
        low, high = await self.run([ReadReg(offset), ReadReg(offset + 4)])
        return low | high << 32

    async def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`. Raises as `run`."""
        await self.run([WriteReg(offset, value)])

    async def _accesses(self, operations: Sequence[RegisterOp]) -> list[int]:
        if not operations:
            return []
        words = [
            (True, op.offset, op.value) if isinstance(op, WriteReg) else (False, op.offset, 0)
            for op in operations
            if not isinstance(op, WaitIrq)
        ]
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
        for (write, offset, _), (_, response) in zip(words, answers, strict=True):
            if response:
                raise NpuBusError(offset, "write" if write else "read")
        return [data for data, _ in answers]

    @property
    def irq(self) -> bool:
        """Level of the interrupt output."""
        return bool(self._dut.irq.value)

    async def wait_irq(self, timeout_cycles: int) -> bool:
        """Sleep until the interrupt is high, at most `timeout_cycles` clock cycles; whether it is high."""
        if self.irq:
            return True
        if timeout_cycles <= 0:
            return False
        limit = Timer(timeout_cycles * CLOCK_NS, "ns")
        await First(RisingEdge(self._dut.irq), limit)
        return self.irq
