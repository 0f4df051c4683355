"""The host window s_axi: an AXI4 master that reads and writes device memory through the NPU."""

import contextlib
from collections.abc import AsyncIterator, Collection
from typing import Any


class HostWindow:
    """The AXI4 master on s_axi (cocotbext-axi), whose clock runs only while it is used.

    It wakes at clock edges, which makes the simulation many times slower for that long.
    """

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self._master: Any = None
        self._users = 0

    async def front_write(self, address: int, data: bytes, **axi: Any) -> Any:
        """Write through the window; returns cocotbext-axi's response. `axi`: size, burst, awid ..."""
        async with self.front_door() as master:
            return await master.write(address, data, **axi)

    async def front_read(self, address: int, length: int, **axi: Any) -> Any:
        """Read through the window; returns cocotbext-axi's response, its `data` are the bytes."""
        async with self.front_door() as master:
            return await master.read(address, length, **axi)

    @contextlib.asynccontextmanager
    async def front_door(self) -> AsyncIterator[Any]:
        """The master itself, with its clock running inside the `with` block."""
        master = self._bound()
        self._users += 1
        self._dut.bus_enable.value = 1
        try:
            yield master
        finally:
            self._users -= 1
            if not self._users:
                self._dut.bus_enable.value = 0

    def hold(self, channels: Collection[str]) -> None:
        """Pause these of "aw" (write addresses), "w" (write data), "b" (responses) and "r" (read data).

        The other channels go on.
        """
        master = self._bound()
        write, read = master.write_if, master.read_if
        held = {"aw": write.aw_channel, "w": write.w_channel, "b": write.b_channel, "r": read.r_channel}
        for name, channel in held.items():
            channel.pause = name in channels

    def _bound(self) -> Any:
        if self._master is None:
            from cocotbext.axi import AxiBus, AxiMaster

            self._master = AxiMaster(
                AxiBus.from_prefix(self._dut, "s_axi"),
                self._dut.bus_clk,
                self._dut.rst_n,
                reset_active_level=False,
            )
        return self._master
