"""Scenes: short step lists that bring the device into one situation of the coverage plan and finish it.

A scene is drawn from a `SceneStage`. Commands of a scene that should run concurrently are independent.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from echo_npu.commands.builders import gather_packets, load_program_packets, memcpy_packets, nop_packet
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet, packet_bytes
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import RESERVED
from echo_npu.spec.status import ALL_IRQS, ErrorCode
from echo_sim.config import NpuConfig
from tb.drivers.commands import Path as Via
from tb.stimulus.closing import ClosingMaker, sums
from tb.stimulus.errors import CHECKED, ErrorMaker
from tb.stimulus.limits import guarded, watched
from tb.stimulus.programs import ProgramMaker
from tb.stimulus.steps import (
    BadTail,
    CommandStep,
    Doorbells,
    Fault,
    HostRead,
    HostWrite,
    Recover,
    RegisterWrite,
    Reset,
    Step,
)
from tb.testbench import RING_BASE, RING_SLOTS

SPOILED = 0x0600_0000
"""Address of code and indices that are valid except for the end."""
REFUSED = RESERVED.base
"""Address without memory for the host."""
WORK = {"idle": "", "matrix": "M", "vector": "V", "both": "MV"}
"""Engines of the commands that keep the named engines busy."""
COPY_BEATS = 1500
CLEAR = RegisterWrite(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask | regs.CONTROL_RING_ENABLE.mask)


class SceneStage:
    """Draws the parts of scenes: long commands, refused ones, and host traffic."""

    def __init__(self, rng: random.Random, config: NpuConfig) -> None:
        self.random = rng
        self.config = config
        self.closing = ClosingMaker(rng, config)
        self.legal = ProgramMaker(rng, config)
        self.errors = ErrorMaker(rng, self.legal, config)
        self._program = sums((0,))
        code = np.frombuffer(self._program.code, dtype=np.uint64).copy()
        code[-1] = 2**64 - 1
        indices = np.zeros(600, dtype=np.int32)
        indices[-1] = 9
        self._spoiled = {SPOILED: code.tobytes(), SPOILED + 0x1000: indices.tobytes()}

    @property
    def images(self) -> dict[int, bytes]:
        """Return what memory must hold before the first scene."""
        return {**self.closing.images, **self.legal.images, **self._spoiled}

    def long(self, engine: str, times: int = 1) -> Sequence[Packet]:
        """Return a command that takes some thousand clocks on engine M or V, `times` as large."""
        if engine == "V":
            nbytes = times * COPY_BEATS * self.config.bus_bytes
            return memcpy_packets(self.closing.source(nbytes), self.closing.result(nbytes), nbytes)
        size = times * self.config.block_m
        nbytes = 4 * size * size
        a, b = self.closing.source(nbytes), self.closing.source(nbytes)
        return matmul_packets(a, b, self.closing.result(nbytes), size, size, size)

    def work(self, engines: str, via: Via | None = None) -> list[CommandStep]:
        """Return long commands for these engines, in order."""
        return [step(self.long(engine), via) for engine in engines]

    def small(self, count: int, via: Via | None = None) -> list[CommandStep]:
        """Return `count` small commands of one packet."""
        return [step(self.closing.move({"op": "copy"}), via) for _ in range(count)]

    def bad_program(self) -> list[Step]:
        """Return a VECTOR whose program fails at its end, preceded by its load."""
        cols = 64 * self.config.vector_lanes
        command = vector_command(
            0,
            rows=1,
            cols=cols,
            inputs=[Stream(self.closing.source(4 * cols))],
            output=Stream(self.closing.result(4 * cols)),
            passes=self._program.passes,
        )
        return [step(load_program_packets(SPOILED, len(self._program), 0)), step(command.packets())]

    def bad_index(self) -> list[Step]:
        """Return a GATHER whose last index is outside the table."""
        row = 2 * self.config.bus_bytes
        source, result = self.closing.source(row), self.closing.result(600 * row)
        return [step(gather_packets(source, SPOILED + 0x1000, result, 600, row, 1))]

    def host(self, count: int) -> list[Step]:
        """Return host traffic: reads, and writes to an address without memory."""
        steps: list[Step] = []
        for _ in range(count):
            early = self.random.random() < 0.5
            steps.append(HostRead(self.closing.source(512), 512, early=early))
            steps.append(HostWrite(REFUSED, bytes(256), answer="DECERR"))
        return steps


def step(packets: Sequence[Packet], via: Via | None = None) -> CommandStep:
    """Return a step for a command that is independent of others."""
    return CommandStep(tuple(packet_bytes(packet) for packet in packets), via, free=True)


Scene = Callable[[SceneStage], list[Step]]


def refusals(code: ErrorCode, engines: str, via: Via, stage: SceneStage) -> list[Step]:
    """Have a packet refused while these engines work; for "vector", more packets follow it."""
    steps = [*(guarded() if code == ErrorCode.PROTECTED else ()), *stage.work(WORK[engines], via)]
    behind: Sequence[Step] = ()
    if engines == "vector":
        # The packet is checked at once unless the one before it waits; then others arrive behind it.
        steps += stage.work("V", via)
        behind = stage.small(2, via)
    return [*steps, step(stage.errors.refused(code), via), *behind, Recover()]


def drops(window: int, ring: int, end: Step, stage: SceneStage) -> list[Step]:
    """Have a packet refused behind a long command, with packets waiting in window and ring."""
    steps = [*stage.work("M", "window"), step(stage.errors.refused(ErrorCode.BAD_FLAGS), "window")]
    in_ring = stage.small(ring, "ring")
    together = tuple(packet for each in in_ring for packet in each.packets)
    steps += stage.small(min(window, 3), "window")
    if together:
        steps.append(CommandStep(together, "ring", free=True))
    steps += stage.small(max(window - 3, 0), "window")
    return [*steps, end]


def unreadable(where: str, engines: str, stage: SceneStage) -> list[Step]:
    """Make a slot of the ring, with a command or its extension, unreadable while these engines work."""
    work = stage.work(WORK[engines], "ring")
    slots = sum(len(each.packets) for each in work)
    if where == "extension":
        last = stage.closing.move({"op": "rows"})
        slots += 1
    else:
        last = stage.closing.move({"op": "copy"})
    low = RING_BASE + 64 * slots
    # After a reset, the ring is at its first slot, and the count of commands is 0.
    reset = Reset(hard=False, after=1)
    return [reset, Fault(low, low + 64), *work, step(last, "ring"), Recover(), reset]


def submissions(code: ErrorCode, engines: str, stage: SceneStage) -> list[Step]:
    """Have a doorbell refused while these engines work."""
    work = stage.work(WORK[engines], "window")
    if code != ErrorCode.QUEUE_FULL:
        if engines == "vector":
            # The second copy waits at the head for the first one, and others behind it in the window.
            work += [*stage.work("V", "window"), *stage.small(2, "window")]
        return [*work, BadTail(enabled=code == ErrorCode.RING_INDEX), Recover()]
    held: list[Packet] = [packet for each in work for packet in each.packets]
    # The packet at the head waits, so the queue fills. What it waits for runs when the queue overflows.
    if engines == "both":
        held = [*stage.long("V", 2), *stage.long("M", 2), *stage.long("V")]
    elif engines == "idle":
        held += [*stage.long("M"), NpuCommandPacket(Opcode.SYNC)]
    else:
        held += [*stage.long(WORK[engines]), *stage.long(WORK[engines])]
    for each in stage.small(stage.config.queue_depth + 4):
        held += each.packets
    return [Doorbells(tuple(packet_bytes(packet) for packet in held)), Recover()]


def moved_back(engines: str, stage: SceneStage) -> list[Step]:
    """Move the tail back over packets that wait for these engines."""
    waiting = stage.random.randrange(4, 20)
    fence = NpuCommandPacket(Opcode.SYNC).pack()
    # The first packet is taken before the tail moves.
    held = CommandStep((fence,) * waiting, "ring", free=True)
    back = stage.random.randrange(1, waiting - 1)
    return [*stage.work(engines, "ring"), held, BadTail(enabled=True, back=back), Recover()]


def executions(code: ErrorCode, failing: str, younger: str, stage: SceneStage) -> list[Step]:
    """Let a command fail at its end while younger ones are in these engines."""
    if code == ErrorCode.BAD_PROGRAM:
        bad = stage.bad_program()
    elif code == ErrorCode.BAD_INDEX:
        bad = stage.bad_index()
    else:
        (long,) = stage.work(failing)
        packet = NpuCommandPacket.unpack(long.packets[0])
        write = code == ErrorCode.WRITE_RESPONSE
        nbytes = packet.m if failing == "V" else 4 * packet.m * packet.n
        last = (packet.dst_addr if write else packet.src1_addr) + nbytes - 64
        bad = [Fault(last, last + 8, write), long]
    return [*bad, *stage.work(younger), *stage.small(stage.random.choice((0, 2))), Recover()]


def overdue(failing: str, younger: str, stage: SceneStage) -> list[Step]:
    """Let a command exceed the watchdog while younger ones are in these engines."""
    steps = [*watched(stage.random.randrange(200, COPY_BEATS)), *stage.work(failing + younger)]
    return [*steps, *stage.small(stage.random.choice((0, 2))), Recover(), *watched(0)]


def resets(engines: str, hard: bool, stage: SceneStage, again: bool = False) -> list[Step]:
    """Reset the device while these engines work and the host reads and writes."""
    after = stage.random.choice((1, 50, 200, stage.random.randrange(400, 2500)))
    return [*stage.work(engines), *stage.host(6), Reset(hard, after, again)]


def checking(hard: bool, stage: SceneStage) -> list[Step]:
    """Reset the device while a VECTOR waits for the end of a load."""
    load = load_program_packets(stage.closing.source(8 * 4096), stage.config.program_words, 0)
    run = vector_command(0, rows=1, cols=8, output=Stream(stage.closing.result(64))).packets()
    clears: list[Step] = [CLEAR] * stage.random.randrange(40)
    return [step(list(load)), step(run), *clears, Reset(hard, stage.random.choice((60, 150, 300)))]


def failing(hard: bool, stage: SceneStage) -> list[Step]:
    """Reset, and act as the host, around the moment at which a bus error stops everything."""
    (long,) = stage.work("V")
    packet = NpuCommandPacket.unpack(long.packets[0])
    low = packet.dst_addr + stage.random.randrange(2048)
    clears: list[Step] = [CLEAR] * stage.random.randrange(40)
    after = stage.random.randrange(1, 150)
    return [Fault(low, low + 8, write=True), long, *clears, *stage.host(8), Reset(hard, after)]


def host_beside_failing(stage: SceneStage) -> list[Step]:
    """Read and write as the host while a command works, meets a bus error and is stopped."""
    (long,) = stage.work("V")
    low = NpuCommandPacket.unpack(long.packets[0]).dst_addr + stage.random.randrange(4096)
    return [Fault(low, low + 8, write=True), long, *stage.host(20), Recover()]


def draining(code: ErrorCode, engines: str, stage: SceneStage) -> list[Step]:
    """Clear errors and read memory while refused packets wait for long commands, if any.

    Some interrupts stay pending.
    """
    steps: list[Step] = [RegisterWrite(regs.IRQ_ENABLE, stage.random.choice((0, 1, 5)))]
    steps += [*stage.work(engines), *stage.host(8)]
    for _ in range(5):
        steps += [step(stage.errors.refused(code)), *[CLEAR] * 10]
    return [*steps, Reset(hard=True, after=stage.random.choice((1, 1000, 4000)))]


def idle_clears(stage: SceneStage) -> list[Step]:
    """Clear errors that do not exist, in every state of legal commands."""
    steps: list[Step] = []
    for _ in range(25):
        kinds = [stage.legal.strided_copy, stage.legal.copy, stage.legal.matmul, stage.legal.fence]
        # One packet per step, so that the host acts between a command and its extension.
        for packet in stage.legal.draw(kinds):
            steps += [CommandStep((packet_bytes(packet),), "window"), CLEAR, CLEAR]
    return [*steps, Recover()]


def interrupt_races(stage: SceneStage) -> list[Step]:
    """Raise the interrupt by many commands while the host keeps clearing it."""
    packets: list[Packet] = []
    for length in range(40):
        copy = memcpy_packets(stage.closing.source(64), stage.closing.result(64), length + 1, irq=True)
        packets += stage.random.choice((copy, [nop_packet(irq=True)]))
    together = step(packets, "ring")
    clear = RegisterWrite(regs.IRQ_STATUS, ALL_IRQS)
    levels: list[Step] = []
    for _ in range(60):
        levels += [RegisterWrite(regs.IRQ_ENABLE, stage.random.randrange(ALL_IRQS + 1)), clear, clear]
    return [together, *levels, Recover()]


def done_races(stage: SceneStage) -> list[Step]:
    """Let the device become done repeatedly while the host keeps clearing the interrupt."""
    steps: list[Step] = []
    for _ in range(8):
        clears = [RegisterWrite(regs.IRQ_STATUS, ALL_IRQS)] * stage.random.randint(15, 25)
        steps += [step([NpuCommandPacket(Opcode.NOP)], "ring"), *clears, Recover()]
    return steps


def interrupt_levels(done: bool, stage: SceneStage) -> list[Step]:
    """Cycle IRQ_ENABLE through all values, with a command that raises the interrupt before a refused one.

    `done`: the device becomes done in between.
    """
    nbytes = 300 * stage.config.bus_bytes
    copy = memcpy_packets(stage.closing.source(nbytes), stage.closing.result(nbytes), nbytes)
    # The window is slow, so the previous packet is done by then.
    via: Via = "window" if done else "ring"
    raising = step(copy * (not done) + [nop_packet(irq=True)], via)
    refused = step(stage.errors.refused(ErrorCode.BAD_OPCODE), via)
    levels = [RegisterWrite(regs.IRQ_ENABLE, value) for value in range(ALL_IRQS + 1)]
    clear = RegisterWrite(regs.IRQ_STATUS, ALL_IRQS)
    return [clear, raising, refused, *levels * 20, Recover()]


def heads(hard: bool, stage: SceneStage) -> list[Step]:
    """Reset the device while short commands pass the head of the queue."""
    steps: list[Step] = []
    for _ in range(8):
        together = step([NpuCommandPacket(Opcode.NOP)] * 60, "ring")
        steps += [together, Reset(hard, after=stage.random.randrange(20, 500))]
    return steps


def host_after_error(stage: SceneStage) -> list[Step]:
    """Read and write as the host when the device has stopped."""
    return [step(stage.errors.refused(ErrorCode.BAD_OPCODE)), *stage.host(10), Recover()]


def refused_host(engines: str, stage: SceneStage) -> list[Step]:
    """Have host accesses refused while these engines work, for lack of memory or by a fault."""
    place = stage.closing.result(4096) // 4096 * 4096 + 4096
    stage.closing.result(2 * 4096)
    steps: list[Step] = [Fault(place, place + 64), Fault(place, place + 64, write=True)]
    steps += stage.work(WORK[engines] * (1 if engines != "both" else 2))
    for _ in range(4):
        steps += [HostRead(place, 4, answer="SLVERR"), HostWrite(place, bytes(4), answer="SLVERR")]
        steps += [HostRead(REFUSED, 4, answer="DECERR"), HostWrite(REFUSED, bytes(4), answer="DECERR")]
    return [*steps, Recover()]


def _scenes() -> list[Scene]:
    ways: tuple[Via, ...] = ("window", "ring")
    both = (False, True)
    found: list[Scene] = [
        partial(refusals, code, engines, via)
        for code in (*CHECKED, ErrorCode.PROTECTED)
        for engines in WORK
        for via in ways
    ]
    rings = (0, 1, 5, 20, RING_SLOTS - 1)
    found += [partial(drops, window, ring, Recover()) for window in (0, 3, 20) for ring in rings]
    found += [partial(drops, 3, ring, Reset(hard, 1)) for ring in rings for hard in both]
    found += [partial(unreadable, where, engines) for where in ("packet", "extension") for engines in WORK]
    codes = (ErrorCode.QUEUE_FULL, ErrorCode.RING_CONFIG, ErrorCode.RING_INDEX)
    found += [partial(submissions, code, engines) for code in codes for engines in WORK]
    found += [partial(moved_back, engines) for engines in ("M", "V", "MV")]
    buses = (ErrorCode.READ_RESPONSE, ErrorCode.WRITE_RESPONSE)
    behind_product = ("", "M", "V", "MV", "VM")
    found += [partial(executions, code, "M", younger) for code in buses for younger in behind_product]
    vectors = (*buses, ErrorCode.BAD_PROGRAM, ErrorCode.BAD_INDEX)
    found += [partial(executions, code, "V", younger) for code in vectors for younger in ("", "M", "MM")]
    found += [partial(overdue, "M", younger) for younger in behind_product]
    found += [partial(overdue, "V", younger) for younger in ("", "M", "MM")]
    slots = ("", "M", "V", "MM", "MV", "VM", "MMV", "MVM", "VMM")
    found += [partial(resets, engines, hard) for engines in slots for hard in both for _ in range(3)]
    found += [partial(resets, "VM", hard, again=True) for hard in both for _ in range(2)]
    found += [partial(checking, hard) for hard in both for _ in range(2)]
    found += [partial(failing, hard) for hard in both for _ in range(8)]
    found += [partial(draining, code, engines) for code in CHECKED[:3] for engines in ("", "M")]
    found += [partial(refused_host, engines) for engines in WORK]
    found += [partial(heads, hard) for hard in both for _ in range(5)]
    found += [partial(interrupt_levels, done) for done in both for _ in range(2)]
    single = (idle_clears, interrupt_races, done_races, host_after_error, host_beside_failing)
    found += [scene for scene in single for _ in range(3)]
    return found


SCENES = _scenes()
"""All scenes: at least one for each situation that random programs seldom reach."""
