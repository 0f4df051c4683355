"""program_memory: random loads and reads against a list, what counts as loaded, the built-in program."""

import random
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from echo_npu.vector.assembler import assemble
from tests.rtl.stimulus import pulse, reset

WORDS = 64
BUILT_IN = 0x8000_0000
INPUTS = ("write_i", "write_address_i", "write_data_i", "complete_i", "read_i", "read_address_i")


async def load(dut: Any, memory: list[int], at: int, count: int) -> None:
    """Write random words from `at` on, with gaps; whether they are completed is up to the caller."""
    for address in range(at, at + count):
        memory[address] = random.getrandbits(64)
        dut.write_address_i.value, dut.write_data_i.value = address, memory[address]
        await pulse(dut, "write_i")
        for _ in range(random.choice((0, 0, 2))):
            await RisingEdge(dut.clk_i)
    dut.write_address_i.value = at + count


async def read(dut: Any, address: int) -> tuple[int, bool]:
    """The word at `address`, and whether it may be executed; both stay while nothing is read."""
    dut.read_address_i.value = address
    await pulse(dut, "read_i")
    dut.read_address_i.value = random.getrandbits(32)
    for _ in range(random.randint(1, 3)):
        await RisingEdge(dut.clk_i)
    return int(dut.instruction_o.value), bool(dut.executable_o.value)


@cocotb.test()
async def random_loads(dut: Any) -> None:
    """Words come back as they were written; what lies below the end of a complete load may be executed, and
    a load that is not completed adds nothing to it."""
    await reset(dut, *INPUTS)
    memory, loaded = [0] * WORDS, 0
    await load(dut, memory, 0, WORDS)
    for turn in range(60):
        at = random.randrange(WORDS - turn % 8 * 8)
        count = min(random.randint(1, 8), WORDS - at)
        await load(dut, memory, at, count)
        if random.random() < 0.5:
            await pulse(dut, "complete_i")
            loaded = max(loaded, at + count)
        for address in {at, at + count - 1, at + count, loaded, *random.sample(range(WORDS), 6)}:
            word, executable = await read(dut, address)
            assert executable == (address < loaded), address
            if executable:
                assert word == memory[address], address
            assert int(dut.loaded_o.value) == loaded
    await reset_again(dut)
    assert int(dut.loaded_o.value) == 0
    assert not (await read(dut, 0))[1]


async def reset_again(dut: Any) -> None:
    """A reset in the midst of use."""
    dut.rst_ni.value = 0
    await RisingEdge(dut.clk_i)
    dut.rst_ni.value = 1
    await RisingEdge(dut.clk_i)


@cocotb.test()
async def addresses_beyond(dut: Any) -> None:
    """An address outside the memory is not executable, even when its low bits are those of a loaded word."""
    await reset(dut, *INPUTS)
    await load(dut, [0] * WORDS, 0, WORDS)
    await pulse(dut, "complete_i")
    for address in (WORDS, WORDS + 1, 2 * WORDS, 1 << 30, BUILT_IN - 1):
        assert not (await read(dut, address))[1], address


@cocotb.test()
async def reads_while_loading(dut: Any) -> None:
    """A word a clock is read while others are written."""
    await reset(dut, *INPUTS)
    memory = [0] * WORDS
    await load(dut, memory, 0, WORDS // 2)
    await pulse(dut, "complete_i")
    loading = cocotb.start_soon(load(dut, memory, WORDS // 2, WORDS // 2))
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
    await reset(dut, *INPUTS)
    program = assemble("chunks\nmul v0, s1, p0\nadd o, s0, v0\nnext s0 s1\nend\n")
    for number, first in enumerate(range(0, len(program.code), 8)):
        word, executable = await read(dut, BUILT_IN + number)
        assert executable
        assert word == int.from_bytes(program.code[first : first + 8], "little"), number
