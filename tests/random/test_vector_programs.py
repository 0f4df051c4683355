"""Random vector programs on the device: every opcode, operand, loop and stream shape in combination.

Each case has a seed of its own, drawn from the run's, and is printed, so that it can be made again by itself.
"""

from collections.abc import Sequence

import numpy as np

from echo_npu.packets import Packet, load_program_packets
from echo_npu.status import ErrorCode, State
from tb.bench import NpuBench, npu_test, random_timing
from tb.stimulus.vector_programs import VectorCase, generate

BASE = 0x1000_8000


def draw(bench: NpuBench, base: int, entry: int, *, broken: bool = False) -> VectorCase:
    """A case of a fresh seed, whose operands are in memory."""
    config = bench.config
    case = generate(
        bench.random.getrandbits(32),
        vector_length=config.vector_length,
        row_elements=config.row_elements,
        base=base,
        entry=entry,
        broken=broken,
    )
    print(case)
    for address, data in case.data.items():
        bench.memory.write(address, np.frombuffer(data, dtype=np.uint8))
    return case


def load(bench: NpuBench, cases: Sequence[VectorCase]) -> list[Packet]:
    """The command that loads their programs, which lie one behind the other."""
    words = np.concatenate([case.words for case in cases])
    return list(load_program_packets(bench.place(words, "weight"), words.size, cases[0].command.entry))


@npu_test(index=list(range(10)))
async def test_programs(bench: NpuBench, index: int) -> None:
    """Dozens of programs in a queue, on a memory whose timing changes; their operands do not meet."""
    for count in (1, 4, 12, 12, 12):
        if index % 2:
            bench.dram.configure(random_timing(bench.random))
        cases: list[VectorCase] = []
        base, entry = BASE, bench.random.randrange(1000)
        for _ in range(count):
            cases.append(draw(bench, base, entry))
            base = cases[-1].end + bench.random.randrange(64)
            entry += len(cases[-1].instructions)
        slots = load(bench, cases)
        for case in cases:
            slots += case.command.packets()
        assert await bench.run(slots, bench.random.choice(("window", "ring"))) == State.DONE


@npu_test(index=list(range(4)))
async def test_broken_programs(bench: NpuBench, index: int) -> None:
    """Programs that break one rule each: BAD_PROGRAM with the instruction's number; the next one works."""
    for _ in range(25):
        if index % 2:
            bench.dram.configure(random_timing(bench.random))
        entry = bench.random.randrange(1000)
        broken = draw(bench, BASE, entry, broken=True)
        good = draw(bench, broken.end + 64, entry + len(broken.instructions))
        slots = [*load(bench, [broken, good]), *broken.command.packets(), *good.command.packets()]
        assert await bench.run(slots, bench.random.choice(("window", "ring"))) == State.ERROR, str(broken)
        state = await bench.state()
        assert (state.error_code, state.error_address) == (ErrorCode.BAD_PROGRAM, broken.fault), str(broken)
        await bench.commands.clear_error()
        assert await bench.run(good.command.packets()) == State.DONE
