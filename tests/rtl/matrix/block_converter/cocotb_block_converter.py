"""block_converter: rows of blocks of any magnitude, with and without pauses, and aborts."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from echo_npu.reference.blocks import block_floating_point
from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, reset

CONFIGURATIONS = [
    {"DataWidth": 256, "Blocks": 2},
    {"DataWidth": 128, "Blocks": 2},
    {"DataWidth": 64, "Blocks": 1},
]
WORDS, BLOCKS = parameter("DataWidth") // 32, parameter("Blocks")
BEATS = 32 // WORDS
LATENCY = BEATS + 1
"""Clocks from an entry's last beat to the entry."""


class BlockConverterSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    ZERO = "a block of zeros"
    SPECIAL = "a block with an infinity or a NaN"
    SUBNORMAL = "a block of subnormal numbers alone"
    LIMITED = "an integer that is limited"
    LEAST = "the least integer"
    TIE = "a value between two integers"
    ALONE = "a row whose last block is alone"
    FULL = "a beat in every clock over several entries"
    ABORT = "an abort with a block inside"


@dataclass(frozen=True)
class Entry:
    """What becomes of one or two blocks, or of a row's last one: planes, and facts of each."""

    high: bytes
    low: bytes
    info: list[tuple[int, int, bool, bool]]  # sum, power, zero, special
    row_last: bool


def draw_block() -> NDArray[np.float32]:
    """32 values."""
    generator = np.random.default_rng(random.getrandbits(32))
    values = generator.normal(0, 1, 32)
    kind = random.randrange(8)
    if kind == 0:
        return np.where(generator.random(32) < 0.5, 0.0, -0.0).astype(np.float32)
    if kind == 1:  # integers and halves of the block's unit
        steps = generator.integers(-65535, 65536, 32)
        steps[random.randrange(32)] = random.choice((65535, -65535, 65534, 32768))
        return np.ldexp(steps, random.randint(-160, 100)).astype(np.float32)
    if kind == 2:
        return np.ldexp(values, random.randint(-150, -127)).astype(np.float32)
    if kind == 3:  # near to powers of two
        near = np.array([1 - 2.0**-24, 1, 1 + 2.0**-23, 0.5])
        return np.ldexp(generator.choice(near, 32) * generator.choice([-1, 1], 32), 5).astype(np.float32)
    values = np.ldexp(values, generator.integers(-20, 1, 32) + random.randint(-150, 120))
    block = values.astype(np.float32)
    if kind == 4:
        block[random.randrange(32)] = random.choice((np.inf, -np.inf, np.nan))
    return block


def entry_of(blocks: list[NDArray[np.float32]], row_last: bool, situations: Situations) -> Entry:
    """Return what the definition makes of an entry's blocks."""
    saw = situations.saw
    high, low, info = b"", b"", []
    for block in blocks:
        zero, special = not block.any(), not np.isfinite(block).all()
        saw(BlockConverterSituation.ZERO, zero)
        saw(BlockConverterSituation.SPECIAL, special)
        if zero or special:
            info.append((0, 0, zero, special))
            high, low = high + bytes(32), low + bytes(32)
            continue
        integers, e = block_floating_point(block)
        steps = np.ldexp(block.astype(np.float64), 15 - e)
        saw(BlockConverterSituation.SUBNORMAL, np.abs(block).max() < 2.0**-126)
        saw(BlockConverterSituation.LIMITED, np.rint(steps.max()) > 32767)
        saw(BlockConverterSituation.LEAST, integers.min() == -32768)
        saw(BlockConverterSituation.TIE, (np.abs(steps % 1) == 0.5).any())
        info.append((int(integers.sum()), e - 15, False, False))
        bits = integers.astype(np.int16).view(np.uint16)
        high += (bits >> 8).astype(np.uint8).tobytes()
        low += (bits & 255).astype(np.uint8).tobytes()
    alone = len(blocks) < BLOCKS
    if alone:
        info.append((0, 0, True, False))
    saw(BlockConverterSituation.ALONE, alone)
    return Entry(high, low, info, row_last)


def check(dut: Any, expected: Entry, first: int = 0) -> None:
    """Check the entry at the ports, in each block from value `first` on.

    The planes of zeros, and of a NaN, may be anything.
    """
    assert bool(dut.row_last_o.value) == expected.row_last
    word = int(dut.info_o.value)
    shown = [int(getattr(dut, name).value).to_bytes(32 * BLOCKS, "little") for name in ("high_o", "low_o")]
    for place, (total, power, zero, special) in enumerate(expected.info):
        bits = word >> 32 * place & 0xFFFF_FFFF
        assert (bool(bits >> 1 & 1), bool(bits & 1)) == (zero, special)
        if zero or special:
            continue
        signed = (bits >> 11) - (1 << 21 if bits >> 31 else 0), (bits >> 2 & 0x1FF) - (bits >> 1 & 0x200)
        assert signed == (total, power)
        for plane, wanted in zip(shown, (expected.high, expected.low), strict=True):
            assert plane[32 * place + first : 32 * place + 32] == wanted[32 * place + first : 32 * place + 32]


@cocotb.test()
async def random_rows(dut: Any) -> None:
    """Every entry comes in its clock, with the integers of the definition, and stays for another one."""
    situations = Situations(BlockConverterSituation)
    situations.saw(BlockConverterSituation.ALONE, BLOCKS == 1)
    await reset(dut)
    beats: deque[tuple[int, bool, Entry | None]] = (
        deque()
    )  # data, whether it ends a row, the entry that it ends
    coming: deque[tuple[int, Entry]] = deque()
    staying: Entry | None = None
    pace, streak = 1.0, 0
    taken = converting = 0  # beats of the block that arrives, clocks in which the one before is converted
    for clock in situations.rounds(12_000):
        if clock % 200 == 0:
            pace = random.choice(CHANCES)
        while len(beats) < BEATS:
            count = random.choice((1, 2, 3, 4, random.randint(1, 12)))
            blocks = [draw_block() for _ in range(count)]
            for first in range(0, count, BLOCKS):
                pair, end = blocks[first : first + BLOCKS], first + BLOCKS >= count
                entry = entry_of(pair, end, situations)
                data = np.concatenate(pair).tobytes()
                pieces = [data[at : at + 4 * WORDS] for at in range(0, len(data), 4 * WORDS)]
                for number, piece in enumerate(pieces, 1):
                    last = number == len(pieces)
                    beats.append((int.from_bytes(piece, "little"), last and end, entry if last else None))
        valid, abort = random.random() < pace, random.random() < 0.002
        data, row_last, ends = beats[0]
        dut.valid_i.value, dut.abort_i.value = int(valid), int(abort)
        dut.data_i.value, dut.row_last_i.value = data, int(row_last)
        await RisingEdge(dut.clk_i)
        due = bool(coming) and coming[0][0] == clock
        assert bool(dut.valid_o.value) == due
        # The clock of the module rests while nothing changes, so this has to be true to the clock.
        assert bool(dut.busy_o.value) == (converting > 0 or due)
        converting = max(converting - 1, 0)
        if staying is not None:
            check(dut, staying, WORDS)
        staying = None
        if due:
            staying = coming.popleft()[1]
            check(dut, staying)
        if valid:
            beats.popleft()
            taken = (taken + 1) % BEATS
            converting = converting if taken else BEATS
            if ends is not None:
                coming.append((clock + LATENCY, ends))
        streak = streak + 1 if valid else 0
        situations.saw(BlockConverterSituation.FULL, streak > 8 * BEATS)
        if abort:
            situations.saw(BlockConverterSituation.ABORT, dut.busy_o.value)
            beats.clear()
            coming.clear()
            staying = None
            taken = converting = 0
