"""LOAD_PROGRAM: words into program memory, seen by the programs that run from there."""

import numpy as np

from echo_npu.packets import NpuCommandPacket, Opcode, Packet, load_program_packets, matmul_packets
from echo_npu.status import ErrorCode, State
from echo_npu.vector.command import Stream, vector_command
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path


def constant(number: int) -> np.ndarray:
    """A program of two words that writes `number`."""
    body = (Instruction(Op.MOV, OPERAND_CODES["o"], OPERAND_CODES["imm"], imm=number), Instruction(Op.END))
    return np.array([each.encode() for each in body], dtype=np.uint64)


def run(bench: NpuBench, entry: int) -> list[Packet]:
    """A command that runs the program at `entry` for one element."""
    return vector_command(entry, rows=1, cols=1, output=Stream(bench.destination(4))).packets()


@npu_test(via=["window", "ring"])
async def test_places(bench: NpuBench, via: Path) -> None:
    """One word, a few and all of program memory, from any aligned address to any word."""
    size = bench.config.program_words
    words = np.concatenate([constant(i) for i in range(size // 2)])
    packets: list[Packet] = list(load_program_packets(bench.place(words), size, 0))
    for entry in (0, 2, size // 2, size - 2):
        packets += run(bench, entry)
    for at, count in ((0, 1), (1, 1), (5, 2), (6, 3), (size - 2, 2), (size - 9, 9), (100, 700)):
        code = np.concatenate([constant(1_000_000 + at + i) for i in range(count)])[at % 2 :][:count]
        address = bench.place(code, align=64, offset=8 * bench.random.randrange(16))
        packets += load_program_packets(address, count, at)
        for entry in {at // 2 * 2, (at + count - 1) // 2 * 2, (at + count // 2) // 2 * 2}:
            packets += run(bench, entry)
    assert await bench.run(packets, via) == State.DONE


@npu_test()
async def test_order(bench: NpuBench) -> None:
    """A program is replaced between the commands that run it; its words may come from a command before."""
    packets: list[Packet] = []
    staging = bench.alloc(16)
    for number in range(12):
        code = bench.place(constant(number))
        packets.append(NpuCommandPacket(Opcode.MEMCPY, 0, code, 0, staging, m=16))
        packets += load_program_packets(staging, 2, 40)
        packets += run(bench, 40)
    assert await bench.run(packets, "ring") == State.DONE


@npu_test(via=["window", "ring"])
async def test_not_loaded(bench: NpuBench, via: Path) -> None:
    """Words above the highest one ever loaded are no entry, and end a program. A soft reset keeps it so."""
    assert await bench.run(load_program_packets(bench.place(constant(1)), 1, 20), via) == State.DONE
    for entry, address in ((21, 21), (20, 21), (bench.config.program_words, bench.config.program_words)):
        for _ in range(2):
            assert await bench.run(run(bench, entry), via) == State.ERROR
            state = await bench.state()
            assert (state.error_code, state.error_address) == (ErrorCode.BAD_PROGRAM, address)
            await bench.commands.clear_error()
        await bench.restart()
    assert await bench.run(load_program_packets(bench.place(constant(2)), 2, 20), via) == State.DONE
    assert await bench.run(run(bench, 20), via) == State.DONE
    await bench.restart()
    assert await bench.run(run(bench, 20), via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_failed_load(bench: NpuBench, via: Path) -> None:
    """A bus error at the first, a middle or the last word of a load: nothing more is loaded than before."""
    assert await bench.run(load_program_packets(bench.place(constant(1)), 2, 0), via) == State.DONE
    code = bench.place(np.concatenate([constant(i) for i in range(101)]))
    for tries, word in enumerate((0, 99, 200, 201)):
        bench.dram.clear_statistics()
        bench.dram.add_fault(code + 8 * word, code + 8 * word + 8, read=True)
        await bench.commands.submit(load_program_packets(code, 202, 2), via)
        assert await bench.commands.wait(100_000) == State.ERROR
        await bench.check_bus_error(ErrorCode.READ_RESPONSE, 1 + 4 * tries)
        bench.dram.clear_faults()
        await bench.commands.clear_error()
        for entry in (2, 202):
            assert await bench.run(run(bench, entry), via) == State.ERROR
            assert (await bench.state()).error_code == ErrorCode.BAD_PROGRAM
            await bench.commands.clear_error()
        assert await bench.run(run(bench, 0), via) == State.DONE
    assert await bench.run([*load_program_packets(code, 202, 2), *run(bench, 202)], via) == State.DONE


@npu_test()
async def test_load_beside_a_failure(bench: NpuBench) -> None:
    """A load that is over when a product ahead of it fails has not been executed: nothing is loaded."""
    size = 40
    a, b = bench.place(bench.floats(size, size)), bench.place(bench.floats(size, size))
    last = b + 4 * size * size - 4
    for tries, index in enumerate((0, 2)):
        bench.dram.clear_statistics()
        bench.dram.add_fault(last, last + 4, read=True)
        product = matmul_packets(a, b, bench.destination(4 * size * size), size, size, size)
        load = load_program_packets(bench.place(constant(tries)), 2, 2 * tries)
        await bench.commands.submit([*product, *load])
        assert await bench.commands.wait(100_000) == State.ERROR
        await bench.check_bus_error(ErrorCode.READ_RESPONSE, index)
        bench.dram.clear_faults()
        await bench.commands.clear_error()
        assert await bench.run(run(bench, 2 * tries)) == State.ERROR
        assert (await bench.state()).error_code == ErrorCode.BAD_PROGRAM
        await bench.commands.clear_error()
    assert await bench.run([*load, *run(bench, 2)]) == State.DONE
