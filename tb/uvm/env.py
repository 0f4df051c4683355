"""The environment around one device: the agents, and the scoreboard that judges everything they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyuvm import uvm_component, uvm_env, uvm_subscriber

from echo_npu.status import State
from tb.bench import NpuBench
from tb.native import ObservedWrite
from tb.scoreboards.registers import RegisterScoreboard
from tb.stimulus.steps import HostRead, RegisterRead
from tb.uvm.agents import CommandAgent, HostAgent, RegisterAgent


class HostReadError(AssertionError):
    """The host window gave other bytes than the functional model's memory has."""


class UnexpectedErrorState(AssertionError):  # noqa: N818  (the device's state of that name)
    """The device is in state ERROR after a program of legal commands."""


class WriteSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Shows the functional model every register write."""

    def write(self, tt: Sequence[ObservedWrite]) -> None:
        bench: NpuBench = self.cdb_get("BENCH")
        bench.scoreboard.observe(tt)


class HostSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Judges what the host read from memory."""

    def write(self, tt: Any) -> None:
        step, data = tt
        if isinstance(step, HostRead):
            bench: NpuBench = self.cdb_get("BENCH")
            if data != bench.scoreboard.expected_bytes(step.address, step.length):
                raise HostReadError(f"{step}: not what the functional model's memory has")


class RegisterSubscriber(uvm_subscriber):  # type: ignore[misc]
    """Judges what the host read from registers."""

    def build_phase(self) -> None:
        bench: NpuBench = self.cdb_get("BENCH")
        self.registers = RegisterScoreboard(bench.scoreboard.expected_register)

    def write(self, tt: Any) -> None:
        step, value = tt
        if isinstance(step, RegisterRead):
            self.registers.check(step.offset, value)


class Scoreboard(uvm_component):  # type: ignore[misc]
    """Commands and all of memory (`tb.scoreboards.commands`), host reads, and register reads."""

    def build_phase(self) -> None:
        self.bench: NpuBench = self.cdb_get("BENCH")
        self.writes = WriteSubscriber.create("writes", self)
        self.host = HostSubscriber.create("host", self)
        self.registers = RegisterSubscriber.create("registers", self)

    async def check(self, timeout_cycles: int) -> None:
        """Wait until the device has nothing to do, and compare everything. Raises as the scoreboards do,
        DeviceHangError, UnexpectedErrorState."""
        state = await self.bench.check(timeout_cycles)
        if state == State.ERROR:
            raise UnexpectedErrorState(await self.bench.commands.describe())


class NpuEnv(uvm_env):  # type: ignore[misc]
    """All of it. ConfigDB: BENCH, an NpuBench that was started; VIA, "window" or "ring"."""

    def build_phase(self) -> None:
        self.commands = CommandAgent.create("commands", self)
        self.host = HostAgent.create("host", self)
        self.registers = RegisterAgent.create("registers", self)
        self.scoreboard = Scoreboard.create("scoreboard", self)

    def connect_phase(self) -> None:
        self.registers.monitor.writes.connect(self.scoreboard.writes.analysis_export)
        self.host.driver.seen.connect(self.scoreboard.host.analysis_export)
        self.registers.driver.seen.connect(self.scoreboard.registers.analysis_export)
