"""vector_engine: LOAD_PROGRAM on a bus of any width, with stalls and aborts; the end of a copy."""

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.stimulus import CHANCES, pulse, reset, until
from tests.rtl.transfers import Transfer

BEAT_BITS = parameter("DataWidth")
BEAT_WORDS = BEAT_BITS // 64
PROGRAM_WORDS = 64
ILLEGAL = (1 << 64) - 1


async def take_transfer(dut: Any) -> tuple[int, int]:
    """Accept the command's transfer after a while; return its address and bytes."""
    while True:
        dut.desc_ready_i.value = int(random.random() < 0.5)
        await RisingEdge(dut.clk_i)
        if dut.desc_valid_o.value and dut.desc_ready_i.value:
            asked = Transfer.of(dut.desc_o)
            dut.desc_ready_i.value = 0
            return asked.addr, asked.row_bytes


async def bring(dut: Any, words: list[int], chance: float) -> None:
    """Bring the words in beats, with noise outside of the program's words and of the beats."""
    for first in range(0, len(words), BEAT_WORDS):
        part = words[first : first + BEAT_WORDS]
        noise = [random.getrandbits(64) for _ in range(BEAT_WORDS - len(part))]
        beat = sum(word << 64 * place for place, word in enumerate((*part, *noise)))
        while True:
            valid = random.random() < chance
            dut.beat_valid_i.value = int(valid)
            dut.beat_i.value = beat if valid else random.getrandbits(BEAT_BITS)
            await RisingEdge(dut.clk_i)
            if valid:
                while not dut.beat_ready_o.value:
                    await RisingEdge(dut.clk_i)
                break
    dut.beat_valid_i.value = 0
    dut.beat_i.value = random.getrandbits(BEAT_BITS)


async def look(dut: Any) -> list[int]:
    """Return all of program memory."""
    words = []
    for address in range(PROGRAM_WORDS):
        dut.look_i.value = address
        await RisingEdge(dut.clk_i)
        words.append(int(dut.word_o.value))
    return words


@cocotb.test()
async def random_loads(dut: Any) -> None:
    """Words go to their places, others stay, those in between become illegal; the loaded part grows when the
    command retires."""
    await reset(dut)
    memory, loaded = await look(dut), 0
    for turn in range(60):
        count = random.choice((1, BEAT_WORDS, BEAT_WORDS + 1, random.randint(1, PROGRAM_WORDS)))
        entry = random.randrange(PROGRAM_WORDS - count + 1)
        words = [random.getrandbits(64) for _ in range(count)]
        place = 8 * random.getrandbits(26)
        dut.address_i.value, dut.bytes_i.value, dut.entry_i.value = place, 8 * count, entry
        await pulse(dut, "start_i")
        end = cocotb.start_soon(until(dut, "done_o"))
        assert await with_timeout(take_transfer(dut), 100, "us") == (place, 8 * count)
        await with_timeout(bring(dut, words, CHANCES[turn % len(CHANCES)]), 100, "us")
        await with_timeout(end, 100, "us")
        await RisingEdge(dut.clk_i)
        assert not dut.busy_o.value
        assert int(dut.program_words_o.value) == loaded
        await pulse(dut, "retire_i")
        await RisingEdge(dut.clk_i)
        memory[loaded:entry] = [ILLEGAL] * (entry - loaded)
        memory[entry : entry + count] = words
        loaded = max(loaded, entry + count)
        assert int(dut.program_words_o.value) == loaded
        assert await look(dut) == memory
        assert not dut.fault_o.value


@cocotb.test()
async def aborted_loads(dut: Any) -> None:
    """After an abort, words of the load in the loaded part become illegal, the loaded part does not grow, and
    the next load works."""
    await reset(dut)
    for _ in range(20):
        words = [random.getrandbits(64) for _ in range(PROGRAM_WORDS)]
        dut.address_i.value, dut.bytes_i.value, dut.entry_i.value = 0, 8 * PROGRAM_WORDS, 0
        await pulse(dut, "start_i")
        await with_timeout(take_transfer(dut), 100, "us")
        bringing = cocotb.start_soon(bring(dut, words, 1.0))
        await ClockCycles(dut.clk_i, random.randrange(PROGRAM_WORDS))
        bringing.cancel()
        before = int(dut.program_words_o.value)
        await pulse(dut, "abort_i")
        dut.beat_valid_i.value = 0
        await ClockCycles(dut.clk_i, PROGRAM_WORDS)
        assert await look(dut) == [ILLEGAL] * before + (await look(dut))[before:]
        assert not dut.busy_o.value
        assert int(dut.program_words_o.value) == before
        await pulse(dut, "start_i")
        await with_timeout(take_transfer(dut), 100, "us")
        end = cocotb.start_soon(until(dut, "done_o"))
        await with_timeout(bring(dut, words, 1.0), 100, "us")
        await with_timeout(end, 100, "us")
        await pulse(dut, "retire_i")
        assert await look(dut) == words


async def take_results(dut: Any, beats: int, chance: float) -> list[int]:
    """Act as a write DMA: take the transfer after a while, then its data, and become idle when all of it is
    in memory."""
    await ClockCycles(dut.clk_i, random.randrange(60))
    dut.dst_desc_ready_i.value = 1
    await RisingEdge(dut.clk_i)
    while not dut.dst_desc_valid_o.value:
        await RisingEdge(dut.clk_i)
    dut.dst_desc_ready_i.value = 0
    dut.dst_idle_i.value = 0
    asked = Transfer.of(dut.dst_desc_o)
    assert asked.addr == int(dut.address_i.value) ^ 0xFFFF_FFFF
    assert asked.row_bytes == int(dut.bytes_i.value)
    taken: list[int] = []
    while len(taken) < beats:
        dut.dst_ready_i.value = int(random.random() < chance)
        await RisingEdge(dut.clk_i)
        if dut.dst_valid_o.value and dut.dst_ready_i.value:
            taken.append(int(dut.dst_data_o.value))
    dut.dst_ready_i.value = 0
    await ClockCycles(dut.clk_i, random.randrange(20))
    return taken


@cocotb.test()
async def a_copy_ends_with_its_last_write(dut: Any) -> None:
    """However late the write DMA takes the transfer or its data, the copy does not end before the DMA is
    idle again."""
    await reset(dut)
    dut.copy_i.value = 1
    dut.dst_idle_i.value = 1
    for turn in range(60):
        chance = CHANCES[turn % len(CHANCES)]
        words = [random.getrandbits(64) for _ in range(BEAT_WORDS * random.randint(1, 9))]
        beats = len(words) // BEAT_WORDS
        dut.address_i.value, dut.bytes_i.value = 8 * random.getrandbits(26), 8 * len(words)
        await pulse(dut, "start_i")
        results = cocotb.start_soon(take_results(dut, beats, chance))
        end = cocotb.start_soon(until(dut, "done_o"))
        transfer = cocotb.start_soon(take_transfer(dut))
        bringing = cocotb.start_soon(bring(dut, words, chance))
        taken = await with_timeout(results, 100, "us")
        assert not end.done(), "the copy ended before its result was in memory"
        dut.dst_idle_i.value = 1
        await with_timeout(end, 100, "us")
        await with_timeout(transfer, 100, "us")
        await with_timeout(bringing, 100, "us")
        expected = [
            sum(word << 64 * place for place, word in enumerate(words[first : first + BEAT_WORDS]))
            for first in range(0, len(words), BEAT_WORDS)
        ]
        assert taken == expected
        await RisingEdge(dut.clk_i)
        assert not dut.busy_o.value
