"""Agents for the three ports: commands, host memory, registers.

An agent has a sequencer, a driver that maps an item's step to calls of the testbench's drivers, and an
analysis port on which the driver publishes what it observed. The register agent's monitor publishes all
register writes that the device accepted, whatever their master.
"""

from collections.abc import Iterable
from typing import Any

import cocotb
from cocotbext.axi import AxiResp
from pyuvm import uvm_agent, uvm_analysis_port, uvm_component, uvm_driver, uvm_sequence_item, uvm_sequencer

from echo_sim.native import ObservedWrite
from tb.drivers.commands import Path
from tb.stimulus.steps import (
    BadTail,
    CommandStep,
    Doorbells,
    HostRead,
    HostWrite,
    RegisterRead,
    RegisterWrite,
    Step,
)
from tb.testbench import NpuTestbench


class StepItem(uvm_sequence_item):  # type: ignore[misc]
    """A step to be driven."""

    def __init__(self, step: Step) -> None:
        super().__init__(type(step).__name__)
        self.step = step


class StepDriver(uvm_driver):  # type: ignore[misc]
    """Drives items; `seen` publishes each step with its response."""

    def build_phase(self) -> None:
        self.seen = uvm_analysis_port("seen", self)
        self.tb: NpuTestbench = self.cdb_get("TESTBENCH")

    async def run_phase(self) -> None:
        while True:
            item = await self.seq_item_port.get_next_item()
            self.seen.write((item.step, await self.drive(item.step)))
            self.seq_item_port.item_done()

    async def drive(self, step: Any) -> Any:
        """Perform the step and return its response."""
        raise NotImplementedError


class CommandStepDriver(StepDriver):
    """Submits commands. Blocks while full; drains when the path changes. ConfigDB: VIA, TIMEOUT_CYCLES."""

    def build_phase(self) -> None:
        super().build_phase()
        self._last: Path | None = None

    async def drive(self, step: CommandStep | Doorbells | BadTail) -> None:
        commands = self.tb.commands
        if isinstance(step, BadTail):
            await commands.bad_tail(enabled=step.enabled, back=step.back)
            return
        via: Path = "window" if isinstance(step, Doorbells) else step.via or self.cdb_get("VIA")
        free = isinstance(step, CommandStep) and step.free
        if self._last not in (None, via) and not free:
            await commands.settle(self.cdb_get("TIMEOUT_CYCLES"))
        self._last = via
        if isinstance(step, Doorbells):
            await commands.ring_doorbells(step.packets)
        else:
            await commands.submit(step.packets, via)


class HostAnswerError(AssertionError):
    """The host window's AXI4 response is not the expected one."""


class HostStepDriver(StepDriver):
    """Accesses device memory through the host window.

    The response is the bytes read or written; empty if a hard reset intervened.
    """

    def build_phase(self) -> None:
        super().build_phase()
        self._early: list[Any] = []

    async def drive(self, step: HostWrite | HostRead) -> bytes:
        if isinstance(step, HostRead) and step.early:
            self._early.append(cocotb.start_soon(self._later(step)))
            return b""
        data = await self._access(step)
        await self.settle()
        return data

    async def settle(self) -> None:
        """Wait for outstanding early reads."""
        for task in self._early:
            await task
        self._early.clear()

    async def _later(self, step: HostRead) -> None:
        self.seen.write((step, await self._access(step)))

    async def _access(self, step: HostWrite | HostRead) -> bytes:
        if isinstance(step, HostWrite):
            answer = await self.tb.memory.front_write(step.address, step.data, refused=step.answer != "OKAY")
            data = step.data
        else:
            answer = await self.tb.memory.front_read(step.address, step.length)
            data = b"" if answer is None else bytes(answer.data)
        if answer is None:
            return b""  # a hard reset intervened
        if answer.resp != AxiResp[step.answer]:
            raise HostAnswerError(f"{step}: the answer is {answer.resp.name}")
        return data


class RegisterStepDriver(StepDriver):
    """Accesses registers.

    The response is the value read, or 0 for a write. It is None if the value cannot be judged, because the
    model has not been told everything.
    """

    async def drive(self, step: RegisterRead | RegisterWrite) -> int | None:
        if isinstance(step, RegisterWrite):
            await self.tb.registers.write(step.offset, step.value)
            return 0
        value = await self.tb.registers.read(step.offset)
        if self.tb.held:
            return None
        self.tb.monitor.sync()  # the scoreboard must see earlier writes first
        return value


class RegisterWriteMonitor(uvm_component):  # type: ignore[misc]
    """Publishes the register writes that the testbench's monitor delivers, as lists."""

    def build_phase(self) -> None:
        self.writes = uvm_analysis_port("writes", self)
        tb: NpuTestbench = self.cdb_get("TESTBENCH")
        tb.monitor.listener = self._deliver

    def _deliver(self, writes: Iterable[ObservedWrite]) -> None:
        self.writes.write(writes)


class Agent(uvm_agent):  # type: ignore[misc]
    """Sequencer and driver of one port; a subclass names the driver's type."""

    driver_type: type[StepDriver]

    def build_phase(self) -> None:
        super().build_phase()
        self.sequencer = uvm_sequencer.create("sequencer", self)
        self.driver = self.driver_type.create("driver", self)

    def connect_phase(self) -> None:
        self.driver.seq_item_port.connect(self.sequencer.seq_item_export)


class CommandAgent(Agent):
    """Window and ring."""

    driver_type = CommandStepDriver


class HostAgent(Agent):
    """The host window s_axi."""

    driver_type = HostStepDriver


class RegisterAgent(Agent):
    """Accesses through s_axil that are not commands."""

    driver_type = RegisterStepDriver

    def build_phase(self) -> None:
        super().build_phase()
        self.monitor = RegisterWriteMonitor.create("monitor", self)
