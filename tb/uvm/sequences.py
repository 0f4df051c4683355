"""The sequences. Each draws a program from a seed as plain data; all are played alike.

To add one, subclass ProgramSequence, override `steps` or `draw`, and enter it in SEQUENCES.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cocotb
import numpy as np
from pyuvm import ConfigDB, uvm_sequence, uvm_sequencer

from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import MAX_BATCH, NpuCommandPacket, Packet, packet_bytes
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import REGISTERS, RESERVED
from echo_sim.config import NpuConfig
from tb.drivers.commands import Path as Via
from tb.functional.plan import COMMANDS
from tb.scoreboards.accuracy import addresses
from tb.scoreboards.registers import CONSTANT, STORED
from tb.stimulus.closing import PATTERNS, ClosingMaker, reachable
from tb.stimulus.errors import ErrorMaker, without_extension
from tb.stimulus.hazards import MEETINGS, HazardMaker
from tb.stimulus.limits import guarded
from tb.stimulus.magnitude import COUNTS, LEVELS, MOST_STRIDE_BITS, STRIDED, LargeMaker
from tb.stimulus.programs import ARENA_BYTES, ARENAS, CODE, INDICES, ProgramMaker
from tb.stimulus.scenes import SCENES, SceneStage
from tb.stimulus.steps import (
    BadTail,
    CommandStep,
    Doorbells,
    Fault,
    HostHold,
    HostRead,
    HostWrite,
    Recover,
    RegisterRead,
    RegisterWrite,
    Reset,
    Step,
    StepProgram,
)
from tb.testbench import DEFAULT_TIMING, NpuTestbench, random_timing
from tb.uvm.agents import StepItem
from tb.uvm.env import NpuEnv
from tb.uvm.faults import PAGE, commands_of
from tb.uvm.patience import patience

HOST_AREAS = (0x0200_0000, 0x1200_0000)
"""Memory in each region for the host's accesses beside commands; no command touches it."""
HOST_AREA_BYTES = 8192
HELD = ("aw", "w", "b", "r")
"""Channels that the host may stall: addresses and data of writes, responses, read data."""
HOLD_AREA = 0x0210_0000
"""Zeros, which a stalled host overwrites with zeros."""

ZEROS = 0x0300_0000
"""Zeros that nothing overwrites."""

CLOSING_PROGRAMS = 55
PACKED_PROGRAMS = 8
"""Number of programs that reach every bin; each stall pattern gets equally many."""

STATES_PROGRAMS = 30
"""Number of programs that play every scene."""

OVERFLOW_RESULT = 0x1300_0000
"""Destination of the long command of an overflow."""

UNKNOWN_OPCODE = 0x99
"""Opcode of no command."""

TIMEOUT_CYCLES = 3_000_000
"""For a program of small commands; `patience` adds those of large ones."""


class PortSequence(uvm_sequence):  # type: ignore[misc]
    """Steps of one port, in order."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("port")
        self._steps = steps

    async def body(self) -> None:
        for step in self._steps:
            item = StepItem(step)
            await self.start_item(item)
            await self.finish_item(item)


class ProgramSequence(uvm_sequence):  # type: ignore[misc]
    """Virtual sequence that draws a program, plays it on all ports, and has everything checked.

    ConfigDB: TESTBENCH; ENV, the NpuEnv; SEED; TIMEOUT_CYCLES, to which large commands add theirs.
    """

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        """Draw a program. It must depend on nothing else, since it is drawn again for shrinking."""
        maker = ProgramMaker(rng, config)
        steps = self.steps(rng, maker, config)
        return StepProgram(tuple(steps), maker.images, any_timing(rng), rng.choice(("window", "ring")))

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        """Draw the steps of a program whose commands `maker` draws."""
        raise NotImplementedError

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        """Return the program that `body` plays."""
        return self.draw(random.Random(f"{type(self).__name__} {seed}"), config)

    async def body(self) -> None:
        tb: NpuTestbench = ConfigDB().get(None, "", "TESTBENCH")
        program = self.program(ConfigDB().get(None, "", "SEED"), tb.config)
        ConfigDB().set(None, "*", "VIA", program.via)
        await load_last(tb)
        tb.dram.configure(program.timing)
        for address, data in program.images.items():
            tb.memory.write(address, data)
        timeout = ConfigDB().get(None, "", "TIMEOUT_CYCLES") + patience(program, tb.config)
        ConfigDB().set(None, "*", "TIMEOUT_CYCLES", timeout)
        env: NpuEnv = ConfigDB().get(None, "", "ENV")
        env.scoreboard.restart()
        for group in groups(program.steps):
            await self._play(env, group)

    async def _play(self, env: NpuEnv, group: Group) -> None:
        """Play a group's steps, all ports concurrently, then check."""
        tb: NpuTestbench = ConfigDB().get(None, "", "TESTBENCH")
        faults = [step for step in group.steps if isinstance(step, Fault)]
        if isinstance(group.end, Reset):
            tb.scoreboard.keep_history()
        if isinstance(group.end, Recover):
            tb.held = any(isinstance(step, Fault | Doorbells | BadTail) for step in group.steps)
        for each in faults:
            tb.dram.add_fault(each.low, each.high, read=not each.write, write=each.write, decode=each.decode)
        held = {channel for step in group.steps if isinstance(step, HostHold) for channel in step.channels}
        if held:
            tb.memory.hold(held)
        ports: list[tuple[uvm_sequencer, tuple[type, ...]]] = [
            (env.commands.sequencer, (CommandStep, Doorbells, BadTail)),
            (env.host.sequencer, (HostWrite, HostRead)),
            (env.registers.sequencer, (RegisterRead, RegisterWrite)),
        ]
        commands, accesses, registers = (
            cocotb.start_soon(
                PortSequence([step for step in group.steps if isinstance(step, kinds)]).start(sequencer)
            )
            for sequencer, kinds in ports
        )

        async def host() -> None:
            if held:
                await tb.commands.settle(timeout)  # while the host stalls
                tb.memory.hold(())
            await accesses
            await env.host.driver.settle()

        timeout = ConfigDB().get(None, "", "TIMEOUT_CYCLES")
        await commands
        await registers
        if isinstance(group.end, Reset):
            window = any(isinstance(step, HostRead | HostWrite) for step in group.steps)
            await env.scoreboard.reset(group.end, host=window)
            await host()
        elif isinstance(group.end, Recover):
            await host()
            await env.scoreboard.recover(timeout, group.steps)
        else:
            await host()
            await env.scoreboard.check(timeout)
        if isinstance(group.end, Reset) or faults:
            await load_zeros(tb)  # a load may have been interrupted
            env.scoreboard.restart()


async def load_last(tb: NpuTestbench) -> None:
    """Load only the last word of program memory.

    Commands may start anywhere, and the device must never execute words that the program did not load.
    """
    last = tb.config.program_words - 1
    await tb.run(load_program_packets(ZEROS, 1, last))


async def load_zeros(tb: NpuTestbench) -> None:
    """Fill program memory, since the progress of an interrupted load is unknown."""
    await tb.run(load_program_packets(ZEROS, tb.config.program_words, 0))


class Group(NamedTuple):
    """Steps that are played together; later steps wait for their end. `end` ends them prematurely, if
    given."""

    steps: tuple[Step, ...]
    end: Recover | Reset | None = None


def groups(steps: Sequence[Step]) -> Iterator[Group]:
    """Split a program's steps into groups."""
    together: list[Step] = []
    for step in steps:
        alone = isinstance(step, HostWrite) and step.alone
        if alone and together:
            yield Group(tuple(together))
            together = []
        if isinstance(step, Recover | Reset):
            yield Group(tuple(together), step)
            together = []
        elif alone:
            yield Group((step,))
        else:
            together.append(step)
    if together:
        yield Group(tuple(together))


class ReplaySequence(ProgramSequence):
    """A saved program. ConfigDB: PROGRAM."""

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        saved: StepProgram = ConfigDB().get(None, "", "PROGRAM")
        return saved


def command_step(packets: Sequence[Packet]) -> CommandStep:
    """Return the step that submits these packets."""
    return CommandStep(tuple(packet_bytes(packet) for packet in packets))


def command_steps(
    maker: ProgramMaker, kinds: Sequence[str], length: int, *, irq: float = 0.0
) -> list[CommandStep]:
    """Draw `length` commands of `kinds`, names of methods of `maker`, preceded by the loads of the
    programs."""
    draws = [getattr(maker, kind) for kind in kinds]
    steps = [command_step(command) for command in maker.loads()]
    return steps + [command_step(maker.draw(draws, irq=irq)) for _ in range(length)]


def host_steps(rng: random.Random, count: int) -> list[Step]:
    """Draw host accesses of any size and alignment that may run beside commands."""
    values = np.random.default_rng(rng.getrandbits(64))
    steps: list[Step] = []
    for _ in range(count):
        length = rng.choice((1, 3, 8, 64, rng.randint(1, 300), rng.randint(1, 2000)))
        address = rng.choice(HOST_AREAS) + rng.randrange(HOST_AREA_BYTES - length)
        if rng.random() < 0.5:
            steps.append(HostWrite(address, values.bytes(length)))
        elif rng.random() < 0.7:
            steps.append(HostRead(address, length))
        else:  # the engines may read this at the same time
            steps.append(HostRead(rng.choice((INDICES, CODE)), min(length, 256)))
    return steps


def hold_step(rng: random.Random) -> HostHold:
    """Draw a stall of some of the host's channels."""
    return HostHold(tuple(rng.sample(HELD, rng.randint(1, len(HELD)))))


def register_steps(rng: random.Random, count: int) -> list[Step]:
    """Draw register reads of every kind, and harmless writes of interrupts and counters."""
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
    """Interleave the steps of several ports, keeping each port's order."""
    rest = [list(port) for port in ports]
    order = [number for number, port in enumerate(ports) for _ in port]
    rng.shuffle(order)
    return [rest[number].pop(0) for number in order]


def any_timing(rng: random.Random) -> dict[str, float]:
    """Draw memory timing: the default, stalling, or reordering."""
    steady = rng.random() < 0.4
    return dict(DEFAULT_TIMING) if steady else {**random_timing(rng), "reorder": rng.choice((0, 0, 1))}


ALL_KINDS = (
    *("copy", "strided_copy", "add", "matmul", "matmul", "matmul", "vector", "vector"),
    *("vector_case", "gather", "scatter", "load", "fence"),
)


class PacketSequence(ProgramSequence):
    """One command."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        return command_steps(maker, ALL_KINDS, 1, irq=0.5)


class NeighbourSequence(ProgramSequence):
    """A few commands of two kinds; each finds the state that the previous one left."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        return command_steps(maker, rng.sample(sorted(set(ALL_KINDS)), 2), rng.randint(2, 8))


class LongSequence(ProgramSequence):
    """Dozens of commands of all kinds, some with interrupts, beside host and register traffic.

    Occasionally everything drains, and the host changes the commands' operands.
    """

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
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
        return steps


class VectorSequence(ProgramSequence):
    """Generated vector programs."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        commands = command_steps(maker, ("vector_case", "vector_case", "matmul", "copy"), rng.randint(2, 12))
        return shuffled(rng, commands, register_steps(rng, 8))


class HostSequence(ProgramSequence):
    """Much host traffic beside a few commands."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        commands = command_steps(maker, ALL_KINDS, rng.randint(3, 12))
        steps = shuffled(rng, commands, host_steps(rng, 25))
        if rng.random() < 0.4:
            steps.append(hold_step(rng))
        return steps


def in_any_way(rng: random.Random, steps: Sequence[Step], switch: float) -> list[Step]:
    """Assign a way of submission to each command, changing it with probability `switch`."""
    via: Via = rng.choice(("window", "ring"))
    chosen: list[Step] = []
    for step in steps:
        if isinstance(step, CommandStep):
            if rng.random() < switch:
                via = "ring" if via == "window" else "window"
            step = dataclasses.replace(step, via=via)
        chosen.append(step)
    return chosen


class WaysSequence(ProgramSequence):
    """Commands alternating between window and ring."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = ProgramMaker(rng, config)
        commands = command_steps(maker, ALL_KINDS, rng.randint(5, 25), irq=0.1)
        steps = in_any_way(rng, shuffled(rng, commands, register_steps(rng, rng.randint(0, 8))), 0.25)
        return StepProgram(tuple(steps), maker.images, any_timing(rng))


def overflow(rng: random.Random, config: NpuConfig, maker: ProgramMaker) -> list[Step]:
    """Submit more packets than the queue holds, behind a long command."""
    size = config.block_m
    # The result does not matter; it keeps the engine busy while the queue fills.
    long = matmul_packets(ARENAS[0], ARENAS[0], OVERFLOW_RESULT, size, size, size, row_strides=(0, 0, 0))
    packets = [packet_bytes(packet) for packet in long]
    for _ in range(rng.randint(config.queue_depth + 2, config.queue_depth + 8)):
        packets += [packet_bytes(packet) for packet in maker.draw([maker.copy, maker.add, maker.fence])]
    return [Doorbells(tuple(packets))]


class ErrorsSequence(ProgramSequence):
    """Failing commands among others; later ones are dropped, and the device continues after the error is
    cleared.

    Occasionally the queue overflows, or the ring gets a bad tail.
    """

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        errors = ErrorMaker(rng, maker, config)
        protected = rng.random() < 0.5
        steps: list[Step] = guarded() if protected else []
        for _ in range(rng.randint(1, 5)):
            before = command_steps(maker, ALL_KINDS, rng.randint(0, 5), irq=0.2)
            kind = rng.random()
            if kind < 0.12:
                failing = overflow(rng, config, maker)
            elif kind < 0.24:
                failing = [BadTail(enabled=rng.random() < 0.5)]
            else:
                failing = [command_step(errors.failing(guarded=protected))]
            behind = [
                command_step(maker.draw([getattr(maker, k) for k in ALL_KINDS]))
                for _ in range(rng.randint(0, 4))
            ]
            commands = [*before, *failing, *behind]
            steps += shuffled(
                rng, commands, register_steps(rng, rng.randint(0, 6)), host_steps(rng, rng.randint(0, 2))
            )
            steps.append(Recover())
        steps += command_steps(maker, ALL_KINDS, rng.randint(1, 4))
        if rng.random() < 0.3:
            return in_any_way(rng, steps, 0.1)
        return steps


class FaultsSequence(ProgramSequence):
    """Bus errors in an operand of a command, beside refused host accesses."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        steps: list[Step] = []
        for _ in range(rng.randint(1, 4)):
            commands = command_steps(maker, ALL_KINDS, rng.randint(1, 6), irq=0.2)
            steps.append(self._fault(rng, config, commands))
            others = [*register_steps(rng, rng.randint(0, 4)), *refused_host_steps(rng, rng.randint(0, 3))]
            steps += shuffled(rng, commands, others)
            steps.append(Recover())
        steps += command_steps(maker, ALL_KINDS, rng.randint(1, 4))
        return steps

    def _fault(self, rng: random.Random, config: NpuConfig, steps: Sequence[CommandStep]) -> Fault:
        """Draw a fault in an operand of one of the commands."""
        packets = [packet for step in steps for packet in step.packets]
        while True:
            command = rng.choice(commands_of(packets, config))
            assert command is not None, "it was drawn as a legal one"
            write = command.dst is not None and rng.random() < 0.4
            operands = [command.dst] if write else list(command.sources)
            if not operands:
                continue
            operand = rng.choice(operands)
            assert operand is not None
            run = rng.choice(addresses(operand, command.batch).reshape(-1).tolist())
            low = run + rng.randrange(operand.row_bytes)
            high = min(low + rng.choice((1, 4, 64, 300)), (low // PAGE + 1) * PAGE)
            return Fault(low, high, write, decode=rng.random() < 0.5)


def refused_host_steps(rng: random.Random, count: int) -> list[Step]:
    """Draw host accesses to addresses without memory."""
    steps: list[Step] = []
    for _ in range(count):
        address = rng.choice((REGISTERS.base, RESERVED.base, RESERVED.end, 0xFFFF_FF00)) + 4 * rng.randrange(
            8
        )
        if rng.random() < 0.5:
            steps.append(HostWrite(address, bytes(rng.choice((1, 4, 64))), answer="DECERR"))
        else:
            steps.append(HostRead(address, rng.choice((1, 4, 64)), answer="DECERR"))
    return steps


class ResetsSequence(ProgramSequence):
    """Resets by pin and register while commands run; the device continues."""

    def steps(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> Sequence[Step]:
        errors = ErrorMaker(rng, maker, config)
        steps: list[Step] = []
        for _ in range(rng.randint(1, 6)):
            steps += command_steps(maker, ALL_KINDS, rng.randint(0, 6), irq=0.2)
            last = rng.random()
            if last < 0.2:
                steps.append(command_step(without_extension(maker.draw([maker.vector, maker.strided_copy]))))
            elif last < 0.4:
                steps.append(command_step(errors.failing()))
            elif last < 0.55:
                steps += overflow(rng, config, maker)
            reach = rng.choice((20, 100, 500, 3000))
            reset = Reset(hard=rng.random() < 0.5, after=rng.randrange(reach))
            if not reset.hard and rng.random() < 0.4:
                # It writes what is there already, since memory is compared before the write may continue.
                write = HostWrite(HOLD_AREA + rng.randrange(4096), bytes(rng.randint(1, 4096)))
                read = HostRead(rng.choice((INDICES, CODE)), rng.randint(1, 256), early=True)
                steps += [hold_step(rng), read, write]
            steps.append(reset)
            if rng.random() < 0.4:
                steps += command_steps(maker, ALL_KINDS, rng.randint(1, 3))
                steps.append(Recover())
        steps += command_steps(maker, ALL_KINDS, rng.randint(1, 4))
        return steps


class HazardsSequence(ProgramSequence):
    """Pairs of commands that overlap in an operand, the first one slow, beside register traffic.

    Between pairs an error may end what the device counts of its commands, while both engines rest.
    """

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = HazardMaker(rng, config)
        commands: list[Step] = [command_step(maker.loads())]
        for _ in range(rng.randint(1, 5)):
            commands.append(command_step(maker.pair(rng.choice(MEETINGS))))
            if rng.random() < 0.4:
                commands += [command_step([NpuCommandPacket(UNKNOWN_OPCODE)]), Recover()]
        steps = shuffled(rng, commands, register_steps(rng, rng.randint(0, 8)))
        return StepProgram(
            tuple(steps), maker.images, any_timing(rng), rng.choice(("ring", "ring", "window"))
        )


MAGNITUDE_BITS = 18
"""Counts of the sequence "magnitude" slightly exceed this many bits; batches go to their limit."""


class MagnitudeSequence(ProgramSequence):
    """A command with a count of any number of bits that can be simulated, and commands with such strides."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        maker = LargeMaker(rng, config)
        kind = rng.choice(list(COUNTS))
        count = rng.choice(COUNTS[kind])
        most = MAX_BATCH if count.startswith("batch") else (1 << MAGNITUDE_BITS) + 1
        bits = rng.randint(8, MAGNITUDE_BITS)
        commands = [maker.long(kind, count, min(most, (1 << bits) + rng.randint(-1, 1)))]
        for _ in range(rng.randint(0, 8)):
            kind = rng.choice(list(STRIDED))
            stride = 1 << rng.randint(6, MOST_STRIDE_BITS)
            commands.append(maker.far(kind, rng.choice(STRIDED[kind]), rng.choice(LEVELS), stride))
        steps = tuple(command_step(slots) for slots in commands)
        return StepProgram(steps, maker.images, DEFAULT_TIMING, rng.choice(("window", "ring")))


class ClosingSequence(ProgramSequence):
    """A few dozen commands for bins of the coverage plan, with one stall pattern.

    `CLOSING_PROGRAMS` programs with consecutive seeds reach all bins that commands alone can reach.
    """

    GROUPS: tuple[str, ...] = ()
    """Groups of the plan; none of them stands for all."""
    PROGRAMS = CLOSING_PROGRAMS

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        rng = random.Random(f"{type(self).__name__} {seed}")
        maker = ClosingMaker(rng, config)
        bins = reachable(config, *self.GROUPS)
        part = bins[seed % self.PROGRAMS :: self.PROGRAMS]
        rng.shuffle(part)
        commands = [slots for counter, labels in part for slots in maker.reach(counter, labels)]
        for kind in COMMANDS.axis("kind").labels:
            commands += maker.command(kind)
        pattern = sorted(PATTERNS)[seed % len(PATTERNS)]
        timing = {**DEFAULT_TIMING, **PATTERNS[pattern], "seed": rng.getrandbits(32)}
        steps = tuple(command_step(slots) for slots in commands)
        return StepProgram(steps, maker.images, timing, ("window", "ring")[seed % 2])


class PackedSequence(ClosingSequence):
    """Products with weights in blocks for bins of the coverage plan; other commands where there are none.

    `PACKED_PROGRAMS` programs with consecutive seeds reach all bins.
    """

    GROUPS = ("packed",)
    PROGRAMS = PACKED_PROGRAMS


class StatesSequence(ProgramSequence):
    """Scenes that bring the device into situations of the coverage plan.

    `STATES_PROGRAMS` programs with consecutive seeds play all scenes.
    """

    def program(self, seed: int, config: NpuConfig) -> StepProgram:
        rng = random.Random(f"{type(self).__name__} {seed}")
        stage = SceneStage(rng, config)
        part = SCENES[seed % STATES_PROGRAMS :: STATES_PROGRAMS]
        rng.shuffle(part)
        steps = [step for scene in part for step in scene(stage)]
        timing = {**DEFAULT_TIMING, **PATTERNS[rng.choice(("steady", "slow", "ar", "b"))]}
        return StepProgram(tuple(steps), stage.images, {**timing, "seed": rng.getrandbits(32)})


class MixedSequence(ProgramSequence):
    """A program of another sequence, which the seed chooses."""

    def draw(self, rng: random.Random, config: NpuConfig) -> StepProgram:
        kinds = (
            *(PacketSequence, NeighbourSequence, LongSequence, LongSequence, VectorSequence, HostSequence),
            *(WaysSequence, ErrorsSequence, ErrorsSequence, FaultsSequence, FaultsSequence, ResetsSequence),
            HazardsSequence,
        )
        return rng.choice(kinds)("drawn").draw(rng, config)


SEQUENCES: dict[str, type[ProgramSequence]] = {
    "mixed": MixedSequence,
    "packet": PacketSequence,
    "neighbour": NeighbourSequence,
    "long": LongSequence,
    "vector": VectorSequence,
    "host": HostSequence,
    "ways": WaysSequence,
    "errors": ErrorsSequence,
    "faults": FaultsSequence,
    "resets": ResetsSequence,
    "hazards": HazardsSequence,
    "magnitude": MagnitudeSequence,
    "closing": ClosingSequence,
    "packed": PackedSequence,
    "states": StatesSequence,
}
"""By the name that SEQUENCE= takes."""
