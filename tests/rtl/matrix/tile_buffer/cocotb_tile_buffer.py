"""tile_buffer: blocks of any height, read straight or transposed; writer and reader at any pace."""

import random
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"Tile": 4, "TagBits": 8, "Blocks": 2, "Early": 0},
    {"Tile": 4, "TagBits": 8, "Blocks": 4, "Early": 1},
]
TILE, TAG_BITS, BLOCKS = (parameter(name) for name in ("Tile", "TagBits", "Blocks"))
EARLY = bool(parameter("Early"))
TRANSPOSED = 1 << TAG_BITS - 1
"""The bit of the tag that the feeders use."""


class TileBufferSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FULL = "all blocks full"
    FULL_SOON = "the last free block completed in this clock"
    TURNED = "a block turned round"
    STRAIGHT = "a block as it is"
    SHORT = "a block with rows that were not written"
    PARTLY = "a block of which nothing can be read before it is complete, or with Early that is read"
    SAME_CLOCK = "a block completed while another one is released"
    ABORT = "an abort with blocks inside"


@dataclass
class BufferedBlock:
    """A block that is being written, or waits."""

    tag: int
    height: int
    rows: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.rows) == self.height

    @property
    def turned(self) -> bool:
        return bool(self.tag & TRANSPOSED)

    def line(self, index: int) -> tuple[int, int]:
        """Return row or column `index`, and a mask of its written parts."""
        if not self.turned:
            return self.rows[index], (1 << 32 * TILE) - 1
        words = [row >> 32 * index & 0xFFFF_FFFF for row in self.rows]
        return sum(word << 32 * lane for lane, word in enumerate(words)), (1 << 32 * len(words)) - 1


@cocotb.test()
async def random_traffic(dut: Any) -> None:
    """Blocks come out in order, complete and not too early; the buffer reports what it holds."""
    situations = Situations(TileBufferSituation)
    await reset(dut)
    blocks: deque[BufferedBlock] = deque()
    index, may_write, writing, reading = 0, True, 1.0, 1.0
    for turn in situations.rounds(15_000):
        if turn % 60 == 0:
            writing, reading = (random.choice((1.0, 0.5, 0.1)) for _ in range(2))
        write = may_write and random.random() < writing
        if write and (not blocks or blocks[-1].complete):
            blocks.append(
                BufferedBlock(random.getrandbits(TAG_BITS), random.choice((1, TILE, random.randint(1, TILE))))
            )
        front = blocks[0] if blocks else BufferedBlock(random.getrandbits(TAG_BITS), TILE)
        readable = front.complete or (EARLY and not front.turned and index < len(front.rows))
        lines = TILE if front.turned else front.height
        take = readable and random.random() < reading
        release = take and index == lines - 1
        row = random.getrandbits(32 * TILE)
        last = write and len(blocks[-1].rows) + 1 == blocks[-1].height
        abort = random.random() < 0.003
        dut.write_i.value, dut.last_i.value, dut.data_i.value = (
            int(write),
            int(last if write else random.getrandbits(1)),
            row,
        )
        dut.tag_i.value = blocks[-1].tag if write else random.getrandbits(TAG_BITS)
        dut.transpose_i.value = int(front.turned)
        dut.next_i.value, dut.release_i.value, dut.abort_i.value = int(take), int(release), int(abort)
        await RisingEdge(dut.clk_i)
        complete = sum(block.complete for block in blocks)
        assert bool(dut.valid_o.value) == readable
        may_write = complete + last < BLOCKS
        assert bool(dut.ready_o.value) == may_write
        if readable:
            assert int(dut.tag_o.value) == front.tag
            assert int(dut.index_o.value) == index
            expected, written = front.line(index)
            assert int(dut.data_o.value) & written == expected
        else:
            assert int(dut.data_o.value) == 0, "what is behind an empty buffer toggles"
        situations.saw(TileBufferSituation.FULL, complete == BLOCKS)
        situations.saw(TileBufferSituation.FULL_SOON, last and not may_write)
        situations.saw(TileBufferSituation.PARTLY, not front.complete and front.rows and readable == EARLY)
        situations.saw(TileBufferSituation.SAME_CLOCK, release and last)
        situations.saw(TileBufferSituation.TURNED, take and front.turned and index == TILE - 1)
        situations.saw(TileBufferSituation.STRAIGHT, take and not front.turned and index == TILE - 1)
        situations.saw(TileBufferSituation.SHORT, take and front.height < TILE)
        if write:
            blocks[-1].rows.append(row)
        if take:
            index = 0 if release else index + 1
        if release:
            blocks.popleft()
        if abort:
            situations.saw(TileBufferSituation.ABORT, blocks)
            blocks.clear()
            index = 0
            # The writer is aborted too.
            may_write = False
            dut.write_i.value = dut.next_i.value = 0
            await RisingEdge(dut.clk_i)
            may_write = True
