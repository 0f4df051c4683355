"""Components that corrupt what the device did, so that the environment sees a bug.

The factory replaces a component by one of these; $PLANTED_BUG names the bug:

- gather: a GATHER behind an ADD_TENSOR leaves the first byte of its destination wrong.
- host: a bit of what the host window answers is wrong.
- register: a bit of what a register answers is wrong.
- interrupt: the interrupt output is the wrong way round.
- address: an error names the wrong address.
- accepted: a range that memory refuses does no harm.
- stray: a reset changes a byte that no command writes.
- half: a reset leaves a byte that no command computes.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import cocotb
from pyuvm import uvm_factory, uvm_subscriber

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.scoreboards.commands import DeviceState
from tb.stimulus.steps import (
    CommandStep,
    Fault,
    HostRead,
    HostWrite,
    RegisterRead,
    RegisterWrite,
    Reset,
    Step,
)
from tb.uvm.agents import HostStepDriver, RegisterStepDriver
from tb.uvm.env import Scoreboard
from tb.uvm.suite import REQUESTS_VARIABLE, ProgramTest, program_tests

SOURCE, DESTINATION = 0x1000_2000, 0x1000_3000
"""Source and destination of the 64 bytes that the tests' programs copy."""


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
    """Corrupts what it compares."""

    def build_phase(self) -> None:
        super().build_phase()
        self.neighbours = Neighbours.create("neighbours", self)

    async def check(self, timeout_cycles: int) -> None:
        await self.tb.commands.wait(timeout_cycles)
        for address in self.neighbours.hit:
            self.tb.memory.shared.bytes[address] ^= 0x40
        self.neighbours.hit.clear()
        await super().check(timeout_cycles)


class InterruptScoreboard(Scoreboard):
    """Sees the interrupt inverted."""

    def interrupt(self) -> bool:
        return not super().interrupt()


class AddressScoreboard(Scoreboard):
    """Sees errors a page above their address."""

    def tell(self, steps: Sequence[Step], state: State, reported: DeviceState) -> None:
        super().tell(steps, state, reported._replace(error_address=reported.error_address + 4096))


class AcceptedScoreboard(Scoreboard):
    """Ignores memory errors."""

    def tell(self, steps: Sequence[Step], state: State, reported: DeviceState) -> None:
        assert state == State.DONE, "no command of the program touches the range"
        moved = [
            dataclasses.replace(step, low=SOURCE, high=SOURCE + 8)
            for step in steps
            if isinstance(step, Fault)
        ]
        super().tell([*moved, *(step for step in steps if not isinstance(step, Fault))], state, reported)


class ResetScoreboard(Scoreboard):
    """Corrupts a byte before the reset: next to the commands' destination, or its first byte."""

    async def reset(self, step: Reset, *, host: bool) -> None:
        await self.tb.commands.settle(10_000)
        place = DESTINATION if os.environ["PLANTED_BUG"] == "half" else DESTINATION + 64
        self.tb.memory.shared.bytes[place] ^= 0x40
        await super().reset(step, host=host)


class BuggyHostDriver(HostStepDriver):
    """Spoils what it reads."""

    async def drive(self, step: HostWrite | HostRead) -> bytes:
        data = await super().drive(step)
        return data if isinstance(step, HostWrite) else bytes([data[0] ^ 1]) + data[1:]


class BuggyRegisterDriver(RegisterStepDriver):
    """Spoils what it reads."""

    async def drive(self, step: RegisterRead | RegisterWrite) -> int | None:
        value = await super().drive(step)
        return None if value is None else value ^ 1


BUGS: dict[str, tuple[type, type]] = {
    "gather": (Scoreboard, BuggyScoreboard),
    "host": (HostStepDriver, BuggyHostDriver),
    "register": (RegisterStepDriver, BuggyRegisterDriver),
    "interrupt": (Scoreboard, InterruptScoreboard),
    "address": (Scoreboard, AddressScoreboard),
    "accepted": (Scoreboard, AcceptedScoreboard),
    "stray": (Scoreboard, ResetScoreboard),
    "half": (Scoreboard, ResetScoreboard),
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
