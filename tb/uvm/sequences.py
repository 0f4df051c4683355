"""The sequences. Each draws a program from a seed, as plain data; how it is played, all share.

A new one is a subclass of ProgramSequence that overrides `draw`, in SEQUENCES under its name.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import cocotb
import numpy as np
from pyuvm import ConfigDB, uvm_sequence, uvm_sequencer

from echo_npu import registers as regs
from echo_npu.packets import Packet, load_program_packets, packet_bytes
from tb.bench import DEFAULT_TIMING, NpuBench, random_timing
from tb.npu_config import NpuConfig
from tb.scoreboards.registers import CONSTANT, STORED
from tb.stimulus.programs import ARENA_BYTES, ARENAS, CODE, INDICES, ProgramMaker
from tb.stimulus.steps import (
    CommandStep,
    HostRead,
    HostWrite,
    RegisterRead,
    RegisterWrite,
    Step,
    StepProgram,
)
from tb.uvm.agents import StepItem
from tb.uvm.env import NpuEnv

HOST_AREAS = (0x0200_0000, 0x1200_0000)
"""Memory that no command touches, one place in each region: the host writes here while commands run."""
HOST_AREA_BYTES = 8192

ZEROS = 0x0300_0000
"""Memory that nobody touches."""

TIMEOUT_CYCLES = 500_000


class PortSequence(uvm_sequence):  # type: ignore[misc]
    """The steps of one port, one after another."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("port")
        self._steps = steps

    async def body(self) -> None:
        for step in self._steps:
            item = StepItem(step)
            await self.start_item(item)
            await self.finish_item(item)


class ProgramSequence(uvm_sequence):  # type: ignore[misc]
    """A virtual sequence: draws a program, plays it on all ports at once, and has everything checked.

    ConfigDB: BENCH; ENV, the NpuEnv; SEED, of what is drawn; TIMEOUT_CYCLES.
    """

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        """The program of a seed. It may depend on nothing but these two: it is drawn again to be shrunk."""
        raise NotImplementedError

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        """The program that `body` plays."""
        return self.draw(random.Random(f"{type(self).__name__} {seed}"), config)

    async def body(self) -> None:
        bench: NpuBench = ConfigDB().get(None, "", "BENCH")
        program = self.program(ConfigDB().get(None, "", "SEED"), bench.config)
        ConfigDB().set(None, "*", "VIA", program.via)
        # Program memory has no reset: when a program is cut short, its VECTOR may run what was never loaded.
        await bench.run(load_program_packets(ZEROS, bench.config.program_words, 0))
        bench.dram.configure(program.timing)
        for address, data in program.images.items():
            bench.memory.write(address, data)
        together: list[Step] = []
        for step in program.steps:
            if isinstance(step, HostWrite) and step.alone:
                await self._play(together)
                await self._play([step])
                together = []
            else:
                together.append(step)
        await self._play(together)

    async def _play(self, steps: Sequence[Step]) -> None:
        """Play steps, each port by itself, and check when all is done."""
        if not steps:
            return
        env: NpuEnv = ConfigDB().get(None, "", "ENV")
        ports: list[tuple[uvm_sequencer, tuple[type, ...]]] = [
            (env.commands.sequencer, (CommandStep,)),
            (env.host.sequencer, (HostWrite, HostRead)),
            (env.registers.sequencer, (RegisterRead, RegisterWrite)),
        ]
        tasks = []
        for sequencer, kinds in ports:
            own = [step for step in steps if isinstance(step, kinds)]
            tasks.append(cocotb.start_soon(PortSequence(own).start(sequencer)))
        for task in tasks:
            await task
        await env.scoreboard.check(ConfigDB().get(None, "", "TIMEOUT_CYCLES"))


class ReplaySequence(ProgramSequence):
    """A program that was saved. ConfigDB: PROGRAM."""

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        saved: StepProgram = ConfigDB().get(None, "", "PROGRAM")
        return saved


def command_step(packets: Sequence[Packet]) -> CommandStep:
    """The step that submits these packets."""
    return CommandStep(tuple(packet_bytes(packet) for packet in packets))


def command_steps(
    maker: ProgramMaker, kinds: Sequence[str], length: int, *, irq: float = 0.0
) -> list[CommandStep]:
    """The commands that load the programs, then `length` commands of kinds that are methods of `maker`."""
    draws = [getattr(maker, kind) for kind in kinds]
    steps = [command_step(command) for command in maker.loads()]
    return steps + [command_step(maker.draw(draws, irq=irq)) for _ in range(length)]


def host_steps(rng: random.Random, count: int) -> list[Step]:
    """Writes and reads of any size and alignment, which may run beside commands."""
    values = np.random.default_rng(rng.getrandbits(64))
    steps: list[Step] = []
    for _ in range(count):
        length = rng.choice((1, 3, 8, 64, rng.randint(1, 300), rng.randint(1, 2000)))
        address = rng.choice(HOST_AREAS) + rng.randrange(HOST_AREA_BYTES - length)
        if rng.random() < 0.5:
            steps.append(HostWrite(address, values.bytes(length)))
        elif rng.random() < 0.7:
            steps.append(HostRead(address, length))
        else:  # what the engines read at the same time
            steps.append(HostRead(rng.choice((INDICES, CODE)), min(length, 256)))
    return steps


def register_steps(rng: random.Random, count: int) -> list[Step]:
    """Reads of registers of every kind, and writes that disturb nothing: of interrupts and counters."""
    clear_counters = regs.CONTROL_CLEAR_COUNTERS.mask | regs.CONTROL_RING_ENABLE.mask
    steps: list[Step] = []
    for _ in range(count):
        if rng.random() < 0.6:
            counter = getattr(regs, rng.choice(regs.COUNTERS)) + rng.choice((0, 4))
            places = (rng.choice(CONSTANT), rng.choice(STORED), counter, regs.IRQ_STATUS, regs.RING_HEAD)
            steps.append(RegisterRead(rng.choice((*places, regs.STATUS, regs.RETIRED))))
        else:
            writes = ((regs.IRQ_ENABLE, rng.randrange(8)), (regs.IRQ_STATUS, rng.randrange(8)))
            steps.append(RegisterWrite(*rng.choice((*writes, *writes, (regs.CONTROL, clear_counters)))))
    return steps


def shuffled(rng: random.Random, *ports: Sequence[Step]) -> list[Step]:
    """The steps of several ports in one list; each port's own order stays."""
    rest = [list(port) for port in ports]
    order = [number for number, port in enumerate(ports) for _ in port]
    rng.shuffle(order)
    return [rest[number].pop(0) for number in order]


def any_timing(rng: random.Random) -> dict[str, float]:
    """The usual memory, one that holds back, or one that reorders."""
    steady = rng.random() < 0.4
    return dict(DEFAULT_TIMING) if steady else {**random_timing(rng), "reorder": rng.choice((0, 0, 1))}


ALL_KINDS = (
    *("copy", "strided_copy", "add", "matmul", "matmul", "matmul", "vector", "vector"),
    *("vector_case", "gather", "load", "fence"),
)


class PacketSequence(ProgramSequence):
    """One command."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        steps = command_steps(maker, ALL_KINDS, 1, irq=0.5)
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))


class NeighbourSequence(ProgramSequence):
    """A few commands of two kinds in a row: what one leaves, the next one finds."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        steps = command_steps(maker, rng.sample(sorted(set(ALL_KINDS)), 2), rng.randint(2, 8))
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))


class LongSequence(ProgramSequence):
    """Dozens of commands of all kinds with interrupts among them, beside host and register traffic; now and
    then all ends, and the host changes what commands have worked on."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        values = np.random.default_rng(rng.getrandbits(64))
        steps: list[Step] = []
        for _ in range(rng.randint(1, 3)):
            commands = command_steps(maker, ALL_KINDS, rng.randint(5, 30), irq=0.15)
            host = host_steps(rng, rng.randint(0, 6))
            steps += shuffled(rng, commands, host, register_steps(rng, rng.randint(0, 20)))
            address = rng.choice(ARENAS) + rng.randrange(ARENA_BYTES // 2)
            floats = values.standard_normal(rng.randint(1, 100), dtype=np.float32)
            steps.append(HostWrite(address & ~3, floats.tobytes(), alone=True))
        steps += command_steps(maker, ALL_KINDS, rng.randint(1, 10))
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))


class VectorSequence(ProgramSequence):
    """Made-up vector programs one behind the other."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        commands = command_steps(maker, ("vector_case", "vector_case", "matmul", "copy"), rng.randint(2, 12))
        steps = shuffled(rng, commands, register_steps(rng, 8))
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))


class HostSequence(ProgramSequence):
    """Much traffic through the host window beside a few commands."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        commands = command_steps(maker, ALL_KINDS, rng.randint(3, 12))
        steps = shuffled(rng, commands, host_steps(rng, 25))
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))


class MixedSequence(ProgramSequence):
    """What another sequence draws; which one, the seed says."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        kinds = (PacketSequence, NeighbourSequence, LongSequence, LongSequence, VectorSequence, HostSequence)
        return rng.choice(kinds)("drawn").draw(rng, config)


SEQUENCES: dict[str, type[ProgramSequence]] = {
    "mixed": MixedSequence,
    "packet": PacketSequence,
    "neighbour": NeighbourSequence,
    "long": LongSequence,
    "vector": VectorSequence,
    "host": HostSequence,
}
"""By the name that SEQUENCE= takes."""
