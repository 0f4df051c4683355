"""row_gatherer: the transfers of random row numbers, bad numbers, aborts."""

import random
from dataclasses import replace
from enum import Enum
from typing import Any

import cocotb
from cocotb.task import Task
from cocotb.triggers import RisingEdge, with_timeout

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, offer, pulse, reset, take
from tests.rtl.transfers import Transfer, bytes_as_beats

CONFIGURATIONS = [{"DataWidth": 64}, {"DataWidth": 256}]
BUS = parameter("DataWidth") // 8
PER_BEAT = BUS // 4


class RowGathererAbort(Enum):
    """What an abort meets."""

    WAITING = "a transfer that waits"
    TAKEN = "a transfer that is taken in the clock of the abort"
    NUMBER = "a row number in the clock of the abort"
    FAULT = "a bad row number in the clock of the abort"
    IDLE = "no gather"
    START = "a start in the clock of the abort"


def as_beats(numbers: list[int]) -> list[int]:
    """Return row numbers as beats; the padding of the last one is no row number."""
    filled = numbers + [0xFFFF_FFFF] * (-len(numbers) % PER_BEAT)
    return bytes_as_beats(b"".join(number.to_bytes(4, "little") for number in filled), BUS)


async def begin(dut: Any, count: int) -> dict[str, int]:
    """Start on `count` rows of a random table."""
    fields = {
        "table_address": random.randrange(1 << 28),
        "table_rows": random.randint(1, 5000),
        "row_bytes": random.randint(1, 5000),
        "index_address": random.randrange(1 << 28),
    }
    for name, value in fields.items():
        getattr(dut, f"{name}_i").value = value
    dut.count_i.value = count
    await pulse(dut, "start_i")
    return fields


def transfer(table: dict[str, int], number: int) -> Transfer:
    """Return the transfer of a row of the table."""
    return Transfer(table["table_address"] + number * table["row_bytes"], table["row_bytes"], 1, 0)


async def take_transfers(dut: Any, count: int) -> list[Transfer]:
    """Take `count` transfers; a single row has no stride."""
    taking = take(dut, "desc_valid_o", "desc_ready_i", ["desc_o"], count, random.choice(CHANCES))
    taken = await with_timeout(cocotb.start_soon(taking), 1, "ms")
    return [replace(Transfer.from_bits(bits), stride=0) for (bits,) in taken]


def send(dut: Any, numbers: list[int]) -> Task[None]:
    """Begin to offer row numbers."""
    chance = random.choice(CHANCES)
    return cocotb.start_soon(offer(dut, "beat_valid_i", "beat_ready_o", "beat_i", as_beats(numbers), chance))


async def watch(dut: Any, faults: list[int]) -> None:
    """Collect the addresses of bad row numbers."""
    while True:
        await RisingEdge(dut.clk_i)
        if dut.fault_o.value:
            faults.append(int(dut.fault_address_o.value))


async def gather(dut: Any, count: int) -> None:
    """Gather rows by legal numbers: a transfer for each, in order, and then no more."""
    table = await begin(dut, count)
    last = table["table_rows"] - 1
    numbers = [random.choice((0, last, random.randint(0, last))) for _ in range(count)]
    sending = send(dut, numbers)
    taken = await take_transfers(dut, count)
    await with_timeout(sending, 1, "ms")
    assert taken == [transfer(table, number) for number in numbers]
    await RisingEdge(dut.clk_i)
    assert not dut.busy_o.value
    assert not dut.desc_valid_o.value


@cocotb.test()
async def random_rows(dut: Any) -> None:
    """Any count, in whole beats or not; what follows the last number is ignored."""
    await reset(dut)
    faults: list[int] = []
    cocotb.start_soon(watch(dut, faults))
    for _ in range(80):
        await gather(dut, random.choice((1, PER_BEAT, random.randint(1, 5 * PER_BEAT))))
    assert not faults


@cocotb.test()
async def bad_numbers(dut: Any) -> None:
    """The rows before a bad number are transferred; its place is reported once; then the module is idle."""
    await reset(dut)
    faults: list[int] = []
    cocotb.start_soon(watch(dut, faults))
    for _ in range(60):
        count = random.randint(1, 4 * PER_BEAT)
        table = await begin(dut, count)
        numbers = [random.randrange(table["table_rows"]) for _ in range(count)]
        place = random.randrange(count)
        numbers[place] = random.choice((table["table_rows"], 0xFFFF_FFFF, 0x8000_0000))
        sending = send(dut, numbers)
        taken = await take_transfers(dut, place)
        assert taken == [transfer(table, number) for number in numbers[:place]]
        dut.desc_ready_i.value = 1
        for _ in range(200):  # the beat with the bad number may come late
            await RisingEdge(dut.clk_i)
            assert not dut.desc_valid_o.value
        assert faults == [table["index_address"] + 4 * place]
        assert not dut.busy_o.value
        faults.clear()
        sending.cancel()
        dut.beat_valid_i.value = dut.desc_ready_i.value = 0
        await RisingEdge(dut.clk_i)


@cocotb.test()
async def abort(dut: Any) -> None:
    """An abort in any clock, whatever else that clock brings, ends a gather at once; the next one works."""
    await reset(dut)
    situations = Situations(RowGathererAbort)
    saw = situations.saw
    for number in situations.rounds(120):
        table = await begin(dut, random.choice((1, PER_BEAT, 20)))
        dut.beat_i.value, dut.beat_valid_i.value = 0, int(random.random() < 0.9)
        for _ in range(random.randrange(6)):
            dut.desc_ready_i.value = random.getrandbits(1)
            await RisingEdge(dut.clk_i)
        bad = random.random() < 0.2
        dut.beat_i.value = as_beats([table["table_rows"] if bad else 0] * PER_BEAT)[0]
        dut.desc_ready_i.value, dut.start_i.value = random.getrandbits(1), int(random.random() < 0.1)
        dut.abort_i.value = 1
        await RisingEdge(dut.clk_i)
        offered, taken = bool(dut.desc_valid_o.value), bool(dut.desc_ready_i.value)
        saw(RowGathererAbort.WAITING, offered and not taken)
        saw(RowGathererAbort.TAKEN, offered and taken)
        saw(RowGathererAbort.NUMBER, not offered and dut.beat_valid_i.value and dut.busy_o.value)
        saw(RowGathererAbort.FAULT, dut.fault_o.value)
        saw(RowGathererAbort.IDLE, not dut.busy_o.value)
        saw(RowGathererAbort.START, dut.start_i.value)
        dut.abort_i.value = dut.start_i.value = 0
        # Row numbers may still be there.
        await RisingEdge(dut.clk_i)
        assert not dut.busy_o.value, f"round {number}: busy after an abort"
        assert not dut.desc_valid_o.value, f"round {number}: a transfer outlives the abort"
        assert not dut.beat_ready_o.value
        assert not dut.fault_o.value
        dut.beat_valid_i.value = dut.desc_ready_i.value = dut.beat_i.value = 0
        await gather(dut, random.randint(1, 3 * PER_BEAT))
