"""LOAD_PROGRAM: words go into program memory, and programs that run there execute them."""

import numpy as np

from echo_npu.commands.builders import load_program_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import bus_error, failed, refused, spoil
from tests.commands.programs import encoded


def constant(number: int) -> np.ndarray:
    """Return a program of two words that writes `number`."""
    move = Instruction(Op.MOV, OPERAND_CODES["o"], OPERAND_CODES["imm"], imm=number)
    return encoded([move, Instruction(Op.END)])


def run(tb: NpuTestbench, entry: int) -> list[Packet]:
    """Return a command that runs the program at `entry` for one element."""
    return vector_command(entry, rows=1, cols=1, output=Stream(tb.destination(4))).packets()


@npu_test(via=["window", "ring"])
async def test_places(tb: NpuTestbench, via: Path) -> None:
    """One word, a few and all of program memory, from any aligned address to any word."""
    size = tb.config.program_words
    words = np.concatenate([constant(i) for i in range(size // 2)])
    packets: list[Packet] = list(load_program_packets(tb.place(words), size, 0))
    for entry in (0, 2, size // 2, size - 2):
        packets += run(tb, entry)
    for at, count in ((0, 1), (1, 1), (5, 2), (6, 3), (size - 2, 2), (size - 9, 9), (100, 700)):
        code = np.concatenate([constant(1_000_000 + at + i) for i in range(count)])[at % 2 :][:count]
        address = tb.place(code, align=64, offset=8 * tb.random.randrange(16))
        packets += load_program_packets(address, count, at)
        for entry in {at // 2 * 2, (at + count - 1) // 2 * 2, (at + count // 2) // 2 * 2}:
            packets += run(tb, entry)
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_order(tb: NpuTestbench) -> None:
    """A program is replaced between commands that run it; an earlier command may write its words."""
    packets: list[Packet] = []
    staging = tb.alloc(16)
    for number in range(12):
        code = tb.place(constant(number))
        packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, code, 0, staging, m=16))
        packets += load_program_packets(staging, 2, 40)
        packets += run(tb, 40)
    assert await tb.run(packets, "ring") == State.DONE


@npu_test(via=["window", "ring"])
async def test_not_loaded(tb: NpuTestbench, via: Path) -> None:
    """Words that were never loaded are never executed: those above the highest loaded one, which are no
    entry, and those below it. A soft reset changes nothing."""
    size = tb.config.program_words
    assert await tb.run(load_program_packets(tb.place(constant(1)), 1, 20), via) == State.DONE
    for entry, address in ((21, 21), (20, 21), (size, size), (0, 0), (19, 19)):
        for _ in range(2):
            await refused(tb, run(tb, entry), ErrorCode.BAD_PROGRAM, address, via=via)
        await tb.restart()
    assert await tb.run(load_program_packets(tb.place(constant(2)), 2, 20), via) == State.DONE
    assert await tb.run(run(tb, 20), via) == State.DONE
    await tb.restart()
    assert await tb.run(run(tb, 20), via) == State.DONE


async def runs(tb: NpuTestbench, entry: int, via: Path) -> bool:
    """Run the program at `entry`; return whether it works. If not, the error must name that word."""
    if await tb.run(run(tb, entry), via) == State.DONE:
        return True
    await failed(tb, ErrorCode.BAD_PROGRAM, entry)
    return False


@npu_test(via=["window", "ring"])
async def test_gaps(tb: NpuTestbench, via: Path) -> None:
    """After a reset of a device with full program memory, loads come anywhere, in any order. Loaded words
    work, and no others are executed."""
    size = tb.config.program_words
    words = np.concatenate([constant(i) for i in range(size // 2)])
    assert await tb.run(load_program_packets(tb.place(words), size, 0), via) == State.DONE
    await tb.hard_reset()
    tb.scoreboard.after_reset(tb.memory.shared, hard=True)
    tb.monitor.sync()
    loaded: set[int] = set()
    for turn in range(10):
        at = tb.random.randrange(0, tb.random.choice((100, size)), 2)
        assert await tb.run(load_program_packets(tb.place(constant(turn)), 2, at), via) == State.DONE
        loaded.add(at)
        near = {max(at - 2, 0), min(at + 2, size - 2)}
        for entry in sorted({at, *near, *tb.random.sample(range(0, size, 2), 3), *loaded}):
            assert await runs(tb, entry, via) == (entry in loaded), entry


@npu_test(via=["window", "ring"])
async def test_failed_load(tb: NpuTestbench, via: Path) -> None:
    """A bus error at the first, a middle or the last word of a load: the loaded part does not grow, and none
    of its words is executed, not even one that was loaded before."""
    assert await tb.run(load_program_packets(tb.place(constant(1)), 2, 0), via) == State.DONE
    code = tb.place(np.concatenate([constant(i) for i in range(101)]))
    for tries, word in enumerate((0, 99, 200, 201)):
        spoil(tb, code + 8 * word, 8)
        load = load_program_packets(code, 202, 2)
        await bus_error(tb, load, ErrorCode.READ_RESPONSE, via, 1 + 4 * tries)
        for entry in (2, 202):
            await refused(tb, run(tb, entry), ErrorCode.BAD_PROGRAM, via=via)
        assert await tb.run(run(tb, 0), via) == State.DONE
    assert await tb.run([*load_program_packets(code, 202, 2), *run(tb, 202)], via) == State.DONE
    for at, word in ((20, 0), (70, 30), (130, 39)):
        await tb.restart()
        spoil(tb, code + 8 * word, 8)
        await bus_error(tb, load_program_packets(code, 40, at), ErrorCode.READ_RESPONSE, via, 0)
        for entry in (at + 38, at, at - 2, at + 40, at + 18):
            assert await runs(tb, entry, via) == (not at <= entry < at + 40), entry


@npu_test(via=["window", "ring"])
async def test_load_after_a_sweep(tb: NpuTestbench, via: Path) -> None:
    """A load right after one that failed, whose words the memory still sweeps: nothing else is to be done."""
    size = tb.config.program_words
    code = tb.place(np.concatenate([constant(i) for i in range(size // 2)]))
    assert await tb.run(load_program_packets(code, size, 0), via) == State.DONE
    spoil(tb, code, 8)
    await bus_error(tb, load_program_packets(code, size, 0), ErrorCode.READ_RESPONSE, via, 1)
    assert await tb.run(load_program_packets(tb.place(constant(7)), 2, 40), via) == State.DONE
    for entry in (0, 38, 40, 42, size - 2):
        assert await runs(tb, entry, via) == (entry == 40), entry


@npu_test()
async def test_load_beside_a_failure(tb: NpuTestbench) -> None:
    """A load after a failing product has not begun: it loads nothing, and earlier loads keep working."""
    size = 40
    a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size))
    last = b + 4 * size * size - 4
    for tries in range(3):
        at = (0, 2, 2)[tries]
        await tb.restart()
        spoil(tb, last)
        product = matmul_packets(a, b, tb.destination(4 * size * size), size, size, size)
        load = load_program_packets(tb.place(constant(tries)), 2, at)
        await bus_error(tb, [*product, *load], ErrorCode.READ_RESPONSE, "window", 0)
        assert await runs(tb, at, "window") == (tries == 2)
        if tries == 1:
            assert await tb.run([*load, *run(tb, at)]) == State.DONE
