"""Random programs on the device: long chains of commands on few, small, overlapping places.

Each test prints nothing: the seed of the run replays it.
"""

from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.stimulus.programs import ProgramMaker
from tb.testbench import NpuTestbench, npu_test, random_timing


def random_program(tb: NpuTestbench, length: int) -> list[Packet]:
    """A program of `length` commands; its operands are in memory."""
    maker = ProgramMaker(tb.random, tb.config)
    program = maker.program(length)
    for address, data in maker.images.items():
        tb.memory.write(address, data)
    return program


@npu_test(index=list(range(8)))
async def test_programs(tb: NpuTestbench, index: int) -> None:
    """Programs of every length pass, by window or ring, on a memory whose timing changes between them."""
    for length in (1, 2, 5, 12, 30):
        if index % 2:
            tb.dram.configure(random_timing(tb.random))
        program = random_program(tb, length)
        via: Path = tb.random.choice(("window", "ring"))
        assert await tb.run(program, via) == State.DONE


@npu_test(index=list(range(4)))
async def test_reordering_memory(tb: NpuTestbench, index: int) -> None:
    """Programs pass on a memory that lets bursts of different IDs overtake each other, as AXI4 allows."""
    for length in (3, 15, 30):
        tb.dram.configure({**random_timing(tb.random), "reorder": 1})
        program = random_program(tb, length)
        assert await tb.run(program, tb.random.choice(("window", "ring"))) == State.DONE
    tb.dram.set("reorder", 0)


@npu_test(index=list(range(3)))
async def test_both_ways_at_once(tb: NpuTestbench, index: int) -> None:
    """Window and ring may be filled in turns without waiting, by commands that are independent."""
    tb.dram.configure(random_timing(tb.random))
    for _ in range(8):
        for via in tb.random.sample(("window", "ring"), 2):
            slots: list[Packet] = []
            for _ in range(tb.random.randint(1, 6)):
                size = tb.random.randint(1, 90)
                source = tb.place(tb.floats(size))
                dst = tb.destination(4 * size)
                if tb.random.random() < 0.5:
                    slots.append(NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=4 * size))
                else:
                    packet = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, source, 0, dst, m=4)
                    slots += [packet, ExtensionPacket(rows=size)]
            await tb.commands.submit(slots, via)
    assert await tb.check() == State.DONE
