"""program_memory: random loads and reads compared with the model, executable words, the built-in program."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from echo_npu.model.program_memory import ILLEGAL, ProgramMemory
from echo_npu.vector.assembler import assemble
from tb.blocks import parameter
from tests.rtl.stimulus import pulse, reset, until

CONFIGURATIONS = [{"Words": 64}]
WORDS = parameter("Words")
BUILT_IN = 0x8000_0000


async def begin(dut: Any, at: int, count: int) -> None:
    """Begin a load of `count` words from `at` on as soon as the module is ready."""
    await with_timeout(until(dut, "ready_o"), 10, "us")
    dut.begin_first_i.value, dut.begin_end_i.value = at, at + count
    await pulse(dut, "begin_i")


async def write(dut: Any, at: int, words: list[int], gaps: tuple[int, ...] = (0, 0, 2)) -> None:
    """Write words from `at` on, with gaps between them."""
    for address, word in enumerate(words, at):
        dut.write_address_i.value, dut.write_data_i.value = address, word
        await pulse(dut, "write_i")
        await ClockCycles(dut.clk_i, random.choice(gaps))


async def load(dut: Any, model: ProgramMemory, at: int, count: int) -> None:
    """Do a whole load of random words."""
    words = [random.getrandbits(63) for _ in range(count)]
    await begin(dut, at, count)
    await with_timeout(until(dut, "writable_o"), 10, "us")
    await write(dut, at, words)
    await pulse(dut, "complete_i")
    model.load(at, np.array(words, dtype=np.uint64))


async def fail(dut: Any, model: ProgramMemory, at: int, count: int) -> None:
    """Do a load that is ended before or after any of its words."""
    await begin(dut, at, count)
    if random.random() < 0.3:
        await ClockCycles(dut.clk_i, random.randrange(20))
    else:
        await with_timeout(until(dut, "writable_o"), 10, "us")
        await write(dut, at, [random.getrandbits(63) for _ in range(random.randint(0, count))])
    await pulse(dut, "abort_i")
    model.give_up(at, count)


async def read(dut: Any, address: int) -> tuple[int, bool]:
    """Read the word at `address` and whether it may be executed; both stay while nothing is read."""
    dut.read_address_i.value = address
    await pulse(dut, "read_i")
    dut.read_address_i.value = random.getrandbits(32)
    await ClockCycles(dut.clk_i, random.randint(1, 3))
    return int(dut.instruction_o.value), bool(dut.executable_o.value)


async def executed(dut: Any, address: int) -> int | None:
    """Read the word at `address` as a program sees it: None where it ends the program."""
    word, executable = await read(dut, address)
    return word if executable and word != int(ILLEGAL) else None


def defined(model: ProgramMemory, address: int) -> int | None:
    """Return the same of the model."""
    if address >= model.loaded or model.words[address] == ILLEGAL:
        return None
    return int(model.words[address])


@cocotb.test()
async def random_loads(dut: Any) -> None:
    """Only words of completed loads may ever be executed: none between them, none that a failed load wrote or
    would have written."""
    await reset(dut)
    for _ in range(8):
        model = ProgramMemory(WORDS)
        for _ in range(10):
            at = random.randrange(WORDS)
            count = random.randint(1, min(random.choice((1, 8, WORDS)), WORDS - at))
            await (load if random.random() < 0.6 else fail)(dut, model, at, count)
            near = (at - 1, at, at + count - 1, at + count, model.loaded - 1, model.loaded)
            for address in (*random.sample(near, len(near)), *random.sample(range(WORDS), 4)):
                if 0 <= address < WORDS:
                    assert await executed(dut, address) == defined(model, address), address
            assert int(dut.loaded_o.value) == model.loaded
        for address in range(WORDS):
            assert await executed(dut, address) == defined(model, address), address
        await reset_again(dut)
        assert int(dut.loaded_o.value) == 0
        assert not (await read(dut, 0))[1]


async def reset_again(dut: Any) -> None:
    """A reset comes in the middle of use."""
    dut.rst_ni.value = 0
    await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)


@cocotb.test()
async def addresses_beyond(dut: Any) -> None:
    """An address outside the memory is not executable, even when its low bits are those of a loaded word."""
    await reset(dut)
    await load(dut, ProgramMemory(WORDS), 0, WORDS)
    for address in (WORDS, WORDS + 1, 2 * WORDS, 1 << 30, BUILT_IN - 1):
        assert not (await read(dut, address))[1], address


@cocotb.test()
async def reads_while_loading(dut: Any) -> None:
    """A word a clock is read while others are written."""
    await reset(dut)
    model = ProgramMemory(WORDS)
    await load(dut, model, 0, WORDS // 2)
    memory = model.words.tolist()
    loading = cocotb.start_soon(load(dut, model, WORDS // 2, WORDS // 2))
    dut.read_i.value = 1
    for address in range(WORDS // 2):
        dut.read_address_i.value = address
        await RisingEdge(dut.clk_i)
        if address > 0:
            assert int(dut.instruction_o.value) == memory[address - 1]
            assert dut.executable_o.value
    dut.read_i.value = 0
    await loading


@cocotb.test()
async def built_in_program(dut: Any) -> None:
    """The program of ADD_TENSOR is there without a load."""
    await reset(dut)
    program = assemble("chunks\nmul v0, s1, p0\nadd o, s0, v0\nnext s0 s1\nend\n")
    for number, first in enumerate(range(0, len(program.code), 8)):
        word, executable = await read(dut, BUILT_IN + number)
        assert executable
        assert word == int.from_bytes(program.code[first : first + 8], "little"), number
