"""A device with a bug, as the environment sees it: the factory puts a component in another's place that
spoils what the device did. $PLANTED_BUG says which bug:

- gather: a GATHER behind an ADD_TENSOR leaves the first byte of its destination wrong.
- host: a bit of what the host window answers is wrong.
- register: a bit of what a register answers is wrong.
"""

from __future__ import annotations

import os
from typing import Any

import cocotb
from pyuvm import uvm_factory, uvm_subscriber

from echo_npu.packets import NpuCommandPacket, Opcode
from tb.stimulus.steps import CommandStep, HostRead, HostWrite, RegisterRead, RegisterWrite
from tb.uvm.agents import HostDriver, RegisterDriver
from tb.uvm.env import Scoreboard
from tb.uvm.suite import REQUESTS_VARIABLE, ProgramTest, program_tests


class Neighbours(uvm_subscriber):
    """Remembers the destinations that the bug hits."""

    def build_phase(self) -> None:
        self.hit: list[int] = []
        self._last = -1

    def write(self, tt: Any) -> None:
        step, _ = tt
        assert isinstance(step, CommandStep)
        packet = NpuCommandPacket.unpack(step.packets[0])
        if packet.opcode == Opcode.GATHER and self._last == Opcode.ADD_TENSOR:
            self.hit.append(packet.dst_addr)
        self._last = packet.opcode


class BuggyScoreboard(Scoreboard):
    """Spoils what it compares."""

    def build_phase(self) -> None:
        super().build_phase()
        self.neighbours = Neighbours.create("neighbours", self)

    async def check(self, timeout_cycles: int) -> None:
        await self.bench.commands.wait(timeout_cycles)
        for address in self.neighbours.hit:
            self.bench.memory.shared.bytes[address] ^= 0x40
        self.neighbours.hit.clear()
        await super().check(timeout_cycles)


class BuggyHostDriver(HostDriver):
    """Spoils what it reads."""

    async def drive(self, step: HostWrite | HostRead) -> bytes:
        data = await super().drive(step)
        return data if isinstance(step, HostWrite) else bytes([data[0] ^ 1]) + data[1:]


class BuggyRegisterDriver(RegisterDriver):
    """Spoils what it reads."""

    async def drive(self, step: RegisterRead | RegisterWrite) -> int:
        return await super().drive(step) ^ 1


BUGS: dict[str, tuple[type, type]] = {
    "gather": (Scoreboard, BuggyScoreboard),
    "host": (HostDriver, BuggyHostDriver),
    "register": (RegisterDriver, BuggyRegisterDriver),
}


class PlantedTest(ProgramTest):
    """The test of the programs, with the bug."""

    def build_phase(self) -> None:
        uvm_factory().set_type_override_by_type(*BUGS[os.environ["PLANTED_BUG"]])
        super().build_phase()

    def connect_phase(self) -> None:
        scoreboard = self.env.scoreboard
        if isinstance(scoreboard, BuggyScoreboard):
            self.env.commands.driver.seen.connect(scoreboard.neighbours.analysis_export)


if cocotb.is_simulation and REQUESTS_VARIABLE in os.environ:
    test_program = program_tests(PlantedTest)
