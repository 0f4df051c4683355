"""Random programs on the device: long chains of commands on few, small, overlapping places.

Each test prints nothing: the seed of the run replays it.
"""

from echo_npu.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.status import State
from tb.bench import NpuBench, npu_test, random_timing
from tb.drivers.commands import Path
from tb.stimulus.programs import ProgramMaker


def random_program(bench: NpuBench, length: int) -> list[Packet]:
    """A program of so many commands, whose operands are in memory."""
    maker = ProgramMaker(bench.random, bench.config)
    program = maker.program(length)
    for address, data in maker.images.items():
        bench.memory.write(address, data)
    return program


@npu_test(index=list(range(8)))
async def test_programs(bench: NpuBench, index: int) -> None:
    """Programs of every length, by one way of submission each, on a memory whose timing changes between
    them."""
    for length in (1, 2, 5, 12, 30):
        if index % 2:
            bench.dram.configure(random_timing(bench.random))
        program = random_program(bench, length)
        via: Path = bench.random.choice(("window", "ring"))
        assert await bench.run(program, via) == State.DONE


@npu_test(index=list(range(4)))
async def test_reordering_memory(bench: NpuBench, index: int) -> None:
    """The same on a memory that lets bursts of different ids overtake each other, as AXI4 allows."""
    for length in (3, 15, 30):
        bench.dram.configure({**random_timing(bench.random), "reorder": 1})
        program = random_program(bench, length)
        assert await bench.run(program, bench.random.choice(("window", "ring"))) == State.DONE
    bench.dram.set("reorder", 0)


@npu_test(index=list(range(3)))
async def test_both_ways_at_once(bench: NpuBench, index: int) -> None:
    """Window and ring filled in turns without waiting; the commands do not depend on one another."""
    bench.dram.configure(random_timing(bench.random))
    for _ in range(8):
        for via in bench.random.sample(("window", "ring"), 2):
            slots: list[Packet] = []
            for _ in range(bench.random.randint(1, 6)):
                size = bench.random.randint(1, 90)
                source = bench.place(bench.floats(size))
                dst = bench.destination(4 * size)
                if bench.random.random() < 0.5:
                    slots.append(NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=4 * size))
                else:
                    packet = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, source, 0, dst, m=4)
                    slots += [packet, ExtensionPacket(rows=size)]
            await bench.commands.submit(slots, via)
    assert await bench.check() == State.DONE
