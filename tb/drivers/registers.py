"""Register accesses as operation objects, one or many at a time."""

from collections.abc import Sequence

from echo_npu.errors import NpuBusError
from echo_npu.register_ops import ReadReg, RegisterOp, WriteReg, encoded
from echo_sim.registers import CLOCK_NS, RegisterPort, RegisterRefusedError, RegisterTimeoutError

__all__ = ["CLOCK_NS", "RegisterDriver", "RegisterTimeoutError"]


class RegisterDriver(RegisterPort):
    """Read and write registers by offset."""

    async def run(self, operations: Sequence[RegisterOp]) -> list[int]:
        """Perform operations in order. Returns the value of a read, 0 for a write, the level (0 or 1) for a
        wait.

        Raises NpuBusError: the device refused an access (SLVERR or DECERR); later operations were still
        performed. RegisterTimeoutError: the device did not answer.
        """
        try:
            results: list[int] = (await self.perform(encoded(operations))).tolist()
        except RegisterRefusedError as error:
            raise NpuBusError(error.offset, error.access) from None
        return results

    async def read(self, offset: int) -> int:
        """Read the 32-bit register at `offset`. Raises as `run`."""
        return (await self.run([ReadReg(offset)]))[0]

    async def read64(self, offset: int) -> int:
        """Read the 64-bit register at `offset`: the low word first, which latches the high word."""
        low, high = await self.run([ReadReg(offset), ReadReg(offset + 4)])
        return low | high << 32

    async def write(self, offset: int, value: int) -> None:
        """Write the 32-bit register at `offset`. Raises as `run`."""
        await self.run([WriteReg(offset, value)])
