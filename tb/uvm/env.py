"""Environment of one device: agents and scoreboard."""

from collections.abc import Sequence
from typing import Any

from cocotb.triggers import Timer
from pyuvm import uvm_component, uvm_env, uvm_subscriber

from echo_npu.register_ops import ReadReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import ErrorCode, State
from echo_sim.native import ObservedWrite
from tb.drivers.commands import ALL_IRQS
from tb.drivers.registers import CLOCK_NS
from tb.scoreboards.commands import DeviceState
from tb.scoreboards.registers import RegisterScoreboard
from tb.stimulus.steps import (
    BadTail,
    CommandStep,
    Doorbells,
    Fault,
    HostRead,
    RegisterRead,
    RegisterWrite,
    Reset,
    Step,
)
from tb.testbench import RING_BASE, NpuTestbench
from tb.uvm.agents import CommandAgent, HostAgent, RegisterAgent
from tb.uvm.faults import commands_of, explains_address, suspects


class HostReadError(AssertionError):
    """The host window returned other bytes than the functional model's memory holds."""


class UnexpectedErrorState(AssertionError):  # noqa: N818  (the device's state of that name)
    """The device is in state ERROR, but the program does not recover."""


class WrongErrorError(AssertionError):
    """A provoked error did not occur, or was reported wrongly."""


class WriteSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Passes register writes to the functional model."""

    def write(self, tt: Sequence[ObservedWrite]) -> None:
        tb: NpuTestbench = self.cdb_get("TESTBENCH")
        tb.scoreboard.observe(tt)


class HostSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Checks what the host read from memory."""

    def write(self, tt: Any) -> None:
        step, data = tt
        if isinstance(step, HostRead) and step.answer == "OKAY" and data:
            tb: NpuTestbench = self.cdb_get("TESTBENCH")
            if data != tb.scoreboard.expected_bytes(step.address, step.length):
                raise HostReadError(f"{step}: not what the functional model's memory has")


class RegisterSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Checks what the host read from registers."""

    def build_phase(self) -> None:
        tb: NpuTestbench = self.cdb_get("TESTBENCH")
        self.registers = RegisterScoreboard(tb.scoreboard.expected_register)

    def write(self, tt: Any) -> None:
        step, value = tt
        if isinstance(step, RegisterRead) and value is not None:
            self.registers.check(step.offset, value)
        elif isinstance(step, RegisterWrite) and step.offset == regs.IRQ_STATUS:
            self.registers.cleared(step.value)


class Scoreboard(uvm_component):  # type: ignore[misc]
    """Checks commands and all memory (`tb.scoreboards.commands`), host reads and register reads."""

    def build_phase(self) -> None:
        self.tb: NpuTestbench = self.cdb_get("TESTBENCH")
        self.writes = WriteSubscriber.create("writes", self)
        self.host = HostSubscriber.create("host", self)
        self.registers = RegisterSubscriber.create("registers", self)

    async def check(self, timeout_cycles: int) -> None:
        """Wait until the device is idle and compare everything.

        Raises as the scoreboards, DeviceHangError, UnexpectedErrorState.
        """
        if await self._compare(timeout_cycles) == State.ERROR:
            raise UnexpectedErrorState(await self.tb.commands.describe())

    async def recover(self, timeout_cycles: int, steps: Sequence[Step]) -> None:
        """Do the same after `steps` that may have provoked an error; check and clear it. Raises
        WrongErrorError too."""
        tb = self.tb
        state = await tb.commands.settle(timeout_cycles)
        if tb.held:
            self.tell(steps, state, await tb.state())
            tb.held = False
        tb.dram.clear_faults()
        if await self._compare(timeout_cycles) == State.ERROR:
            head = await tb.commands.clear_error()
            tb.monitor.sync()
            expected = tb.scoreboard.expected_register(regs.RING_HEAD)
            if head != expected:
                raise WrongErrorError(f"the ring goes on at {head}, not at {expected}")

    async def reset(self, step: Reset, *, host: bool) -> None:
        """Reset the device when due, and compare memory; with `host`, bursts of the host may be
        outstanding."""
        tb = self.tb
        await Timer(max(step.after, 1) * CLOCK_NS, "ns")
        if step.again:
            await tb.commands.provoke_reset(doorbells=step.hard)
        if step.hard:
            tb.monitor.sync()  # earlier writes belong to the old model
            await tb.hard_reset()
            tb.scoreboard.after_reset(tb.memory.shared, hard=True)
            tb.monitor.sync()
        else:
            await tb.restart()
            outstanding = tb.dram.statistic("outstanding")
            if outstanding and not host:
                raise WrongErrorError(f"{outstanding} bursts are under way behind the reset")
            tb.monitor.sync()
            tb.scoreboard.after_reset(tb.memory.shared, hard=False)
        tb.dram.clear_faults()
        tb.scoreboard.restart_interrupts()
        self.registers.registers.restart()

    def interrupt(self) -> bool:
        """Return the level of the interrupt output."""
        return self.tb.registers.irq

    def restart(self) -> None:
        """Prepare for a program; the device is idle and its interrupts are cleared."""
        self.tb.monitor.sync()
        self.tb.scoreboard.restart_interrupts()

    async def _compare(self, timeout_cycles: int) -> State:
        tb = self.tb
        await tb.commands.settle(timeout_cycles)
        status, enable = await tb.registers.run([ReadReg(regs.IRQ_STATUS), ReadReg(regs.IRQ_ENABLE)])
        line = self.interrupt()
        tb.monitor.sync()
        tb.scoreboard.check_interrupt(status, enable, line)
        state = await tb.check(timeout_cycles)  # also clears all causes
        tb.scoreboard.restart_interrupts()
        self.registers.registers.cleared(ALL_IRQS)
        return state

    def tell(self, steps: Sequence[Step], state: State, reported: DeviceState) -> None:
        """Check an error that only the device can predict, and tell the model."""
        tb = self.tb
        scoreboard = tb.scoreboard
        faults = [step for step in steps if isinstance(step, Fault)]
        packets = [
            packet for step in steps if isinstance(step, CommandStep | Doorbells) for packet in step.packets
        ]
        commands = commands_of(packets, tb.config)
        doorbells = {
            ErrorCode.RING_INDEX if step.enabled else ErrorCode.RING_CONFIG
            for step in steps
            if isinstance(step, BadTail)
        }
        if any(isinstance(step, Doorbells) for step in steps):
            doorbells.add(ErrorCode.QUEUE_FULL)
        code = ErrorCode(reported.error_code)
        number = reported.error_index - scoreboard.taken
        if code in doorbells:
            good = 0 <= number <= len(commands) and not reported.error_address
            scoreboard.expect_fault(code, 0, command=reported.error_index, before=True)
        elif code == ErrorCode.READ_RESPONSE and reported.error_address >= RING_BASE:
            wanted = [fault for fault in faults if fault.low >= RING_BASE]
            good = 0 <= number < len(commands) and explains_address(wanted, reported.error_address)
            scoreboard.expect_fault(code, reported.error_address, command=reported.error_index, before=True)
        elif code in (ErrorCode.READ_RESPONSE, ErrorCode.WRITE_RESPONSE):
            wanted = [fault for fault in faults if fault.write == (code == ErrorCode.WRITE_RESPONSE)]
            good = suspects(commands, wanted, tb.config.bus_bytes).explain(number)
            good = good and explains_address(wanted, reported.error_address)
            scoreboard.expect_fault(code, reported.error_address, command=reported.error_index)
        else:  # no error, or one that the model predicts
            sure = bool(doorbells - {ErrorCode.QUEUE_FULL}) or any(fault.low >= RING_BASE for fault in faults)
            good = state == State.ERROR or not sure
            if state != State.ERROR:
                good = good and suspects(commands, faults, tb.config.bus_bytes).explain(None)
        if not good:
            raise WrongErrorError(f"{reported}, after {'; '.join(map(str, steps))}")


class NpuEnv(uvm_env):  # type: ignore[misc]
    """The whole environment. ConfigDB: TESTBENCH, a started NpuTestbench; VIA, "window" or "ring"."""

    def build_phase(self) -> None:
        self.commands = CommandAgent.create("commands", self)
        self.host = HostAgent.create("host", self)
        self.registers = RegisterAgent.create("registers", self)
        self.scoreboard = Scoreboard.create("scoreboard", self)

    def connect_phase(self) -> None:
        self.registers.monitor.writes.connect(self.scoreboard.writes.analysis_export)
        self.host.driver.seen.connect(self.scoreboard.host.analysis_export)
        self.registers.driver.seen.connect(self.scoreboard.registers.analysis_export)
