"""Random vector programs on the device: every opcode, operand, loop and stream shape in combination.

Each case has its own seed, drawn from the run's and printed, so that the case can be repeated alone.
"""

from collections.abc import Sequence

import numpy as np

from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.packets import Packet
from echo_npu.spec.status import ErrorCode, State
from tb.stimulus.vector_programs import VectorCase, generate
from tb.testbench import NpuTestbench, npu_test, random_timing

BASE = 0x1000_8000
ROOM = 200
"""Limit of the instructions of two programs."""
MOST_MOVED = 1 << 18
"""Limit of the elements that a program's streams move; a strided stream moves at most one a cycle."""
MOST_DONE = 1 << 22
"""Limit of a program's instructions times its elements."""


def first_entry(tb: NpuTestbench) -> int:
    """A word of program memory with room for two programs."""
    return tb.random.randrange(min(1000, tb.config.program_words - ROOM))


def is_short(case: VectorCase) -> bool:
    """Whether the program ends long before the time-out of a run, however slow memory is."""
    command = case.command
    rows = command.rows * command.batch[0] * command.batch[1]
    streams = [each for each in (*command.inputs, command.output) if each is not None]
    moved = rows * sum(each.segs * each.seg_len * max(1, each.passes) for each in streams)
    done = rows * len(case.instructions) * command.cols * command.repeats
    return moved <= MOST_MOVED and done <= MOST_DONE


def draw(tb: NpuTestbench, base: int, entry: int, *, broken: bool = False) -> VectorCase:
    """Draw a short case of a fresh seed and put its operands into memory."""
    config = tb.config
    while True:
        case = generate(
            tb.random.getrandbits(32),
            vector_length=config.vector_length,
            row_elements=config.row_elements,
            base=base,
            entry=entry,
            broken=broken,
        )
        if is_short(case):
            break
    print(case)
    for address, data in case.data.items():
        tb.memory.write(address, np.frombuffer(data, dtype=np.uint8))
    return case


def load(tb: NpuTestbench, cases: Sequence[VectorCase]) -> list[Packet]:
    """The command that loads the programs of the cases as one block."""
    words = np.concatenate([case.words for case in cases])
    return list(load_program_packets(tb.place(words, "weight"), words.size, cases[0].command.entry))


@npu_test(index=list(range(10)))
async def test_programs(tb: NpuTestbench, index: int) -> None:
    """Queued programs pass on a memory whose timing changes; their operands do not overlap."""
    for count in (1, 4, 12, 12, 12):
        if index % 2:
            tb.dram.configure(random_timing(tb.random))
        cases: list[VectorCase] = []
        base, entry = BASE, first_entry(tb)
        for _ in range(count):
            if entry + ROOM > tb.config.program_words and cases:
                break
            cases.append(draw(tb, base, entry))
            base = cases[-1].end + tb.random.randrange(64)
            entry += len(cases[-1].instructions)
        slots = load(tb, cases)
        for case in cases:
            slots += case.command.packets()
        assert await tb.run(slots, tb.random.choice(("window", "ring"))) == State.DONE


@npu_test(index=list(range(4)))
async def test_broken_programs(tb: NpuTestbench, index: int) -> None:
    """A program that breaks a rule reports BAD_PROGRAM at its instruction; the next program works."""
    for _ in range(25):
        if index % 2:
            tb.dram.configure(random_timing(tb.random))
        entry = first_entry(tb)
        broken = draw(tb, BASE, entry, broken=True)
        good = draw(tb, broken.end + 64, entry + len(broken.instructions))
        slots = [*load(tb, [broken, good]), *broken.command.packets(), *good.command.packets()]
        assert await tb.run(slots, tb.random.choice(("window", "ring"))) == State.ERROR, str(broken)
        state = await tb.state()
        assert (state.error_code, state.error_address) == (ErrorCode.BAD_PROGRAM, broken.fault), str(broken)
        await tb.commands.clear_error()
        assert await tb.run(good.command.packets()) == State.DONE
