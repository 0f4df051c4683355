"""result_drain: result blocks of random commands out of a ring, with stalls everywhere, and aborts."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from echo_npu.spec.data_types import DataType
from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import Words, as_number, draw_words
from tests.rtl.matrix.commands import MatrixCommand, MatrixOperand, drawn_block_start
from tests.rtl.matrix.epilogues import draw_epilogue, stored
from tests.rtl.matrix.vectors import VectorChannel, Vectors
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, reset
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [
    {"DataWidth": 64, "Tile": 4, "BlockM": 32, "BlockN": 64, "RingBits": 6},
    {"DataWidth": 256, "Tile": 16, "BlockM": 128, "BlockN": 512, "RingBits": 10},
]
TILE, BLOCK_M, BLOCK_N, RING_BITS = (parameter(name) for name in ("Tile", "BlockM", "BlockN", "RingBits"))
BUS = parameter("DataWidth") // 8


class ResultDrainSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    PLAIN = "sums of float32 as they are"
    EPILOGUE = "sums that pass the epilogue, with scales and bias"
    TILES = "several tiles of columns, the last of them not whole"
    ONE_ROW = "a single row of several tiles as one transfer"
    ONE_ROW_BYTES = "a single row whose tiles are no whole beats, a transfer each"
    RING_FULL = "a ring full of sums"
    RING_EMPTY = "a block that waits for its sums"
    WRAPPED = "more sums than the counters of the ring can count"
    FIRST_SUMS = "sums of the next block before the last one has gone"
    BACK_PRESSURE = "sums that wait in the ring for the channel"
    ABORT = "an abort with a transfer under way"


@dataclass(frozen=True)
class ResultBlock:
    """A result block and its sums: uint32 [mb, nb rounded up to tiles]."""

    command: MatrixCommand
    base: int
    m0: int
    mb: int
    n0: int
    nb: int
    vectors: Vectors
    sums: Words

    def entries(self) -> Iterator[Words]:
        """Return the sums in the order of the ring: for each tile of columns all rows."""
        for n in range(0, self.nb, TILE):
            for m in range(self.mb):
                yield self.sums[m, n : n + TILE]

    @property
    def one_transfer(self) -> bool:
        return self.mb == 1 and TILE * self.command.size % BUS == 0

    def parts(self) -> Iterator[tuple[Transfer, list[bytes]]]:
        """Return the transfers, in order, with the rows that they write."""
        size, stride = self.command.size, self.command.dst.row_stride
        width = BLOCK_N if self.one_transfer else TILE
        for n in range(0, self.nb, width):
            columns = slice(n, min(n + width, self.nb))
            count = columns.stop - n
            addr = self.base + (self.m0 * stride) + (self.n0 + n) * size
            yield (
                Transfer(addr & 0xFFFF_FFFF, count * size, self.mb, stride),
                [
                    stored(
                        self.command,
                        np.ascontiguousarray(self.sums[m, columns]),
                        int(self.vectors.row_scales[self.m0 + m]),
                        self.vectors.column_scales[self.n0 + n : self.n0 + columns.stop],
                        self.vectors.bias[self.n0 + n : self.n0 + columns.stop],
                    )
                    for m in range(self.mb)
                ],
            )


def draw() -> ResultBlock:
    """Draw a block of a random command."""
    mb = random.choice((1, 1, 5, random.randint(1, BLOCK_M)))
    nb = random.choice((1, TILE, random.randint(1, BLOCK_N)))
    m0, n0 = drawn_block_start(BLOCK_M, mb), drawn_block_start(BLOCK_N, nb)
    command = MatrixCommand(
        dst=MatrixOperand(row_stride=random.getrandbits(random.randint(0, 32))),
        m=m0 + mb,
        n=n0 + nb,
        row_scales=random.randrange(0, 1 << 28, 4),
        columns=random.randrange(0, 1 << 28, 4),
    )
    if random.random() < 0.7:
        command = draw_epilogue(command)
    sums = draw_words(mb * -(-nb // TILE) * TILE).reshape(mb, -1)
    return ResultBlock(command, random.randrange(1 << 28), m0, mb, n0, nb, Vectors(command), sums)


class ResultDrainTestbench:
    """The ports, and a model of ring, vectors and written memory."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.channel = VectorChannel(dut, "e_")
        self.filling = self.accepting = self.taking = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.channel.forget()
        self.blocks: deque[ResultBlock] = deque()
        self.ring: list[Words] = []  # all sums since reset
        self.coming: deque[Words] = deque()  # sums that the array has yet to bring
        self.written = self.read = 0
        self.data: Words | None = None
        # Of the block at the ports, not yet requested.
        self.parts: deque[tuple[Transfer, list[bytes]]] = deque()
        self.row: deque[tuple[bytes, bool]] = deque()  # expected beats, and whether they end the block
        self.fresh = True

    def add(self) -> None:
        """Append a block."""
        block = draw()
        self.blocks.append(block)
        self.coming.extend(block.entries())

    def begin(self, block: ResultBlock) -> None:
        """Put a block on the ports."""
        dut = self.dut
        dut.command_i.value, dut.base_i.value = block.command.bits(len(dut.command_i)), block.base
        dut.m0_i.value, dut.mb_i.value = block.m0, block.mb
        dut.n0_i.value, dut.nb_i.value = block.n0, block.nb
        self.parts.extend(block.parts())
        self.channel.expected.extend(block.vectors.transfers(block.m0, block.mb, block.n0, block.nb))
        self.count(block)

    def count(self, block: ResultBlock) -> None:
        """Count the situations of a block."""
        command, saw = block.command, self.situations.saw
        plain = not any(command.steps.values())
        saw(ResultDrainSituation.PLAIN, plain and command.kind != DataType.INT8 and command.size == 4)
        saw(ResultDrainSituation.EPILOGUE, command.row_scale and command.col_scale and command.bias)
        saw(ResultDrainSituation.TILES, block.mb > 1 and block.nb > TILE and block.nb % TILE)
        saw(ResultDrainSituation.ONE_ROW, block.one_transfer and block.nb > TILE)
        saw(ResultDrainSituation.ONE_ROW_BYTES, block.mb == 1 and not block.one_transfer and block.nb > TILE)

    async def clock(self, *, abort: bool = False) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        while len(self.blocks) < 2:
            self.add()
        if self.fresh:
            self.begin(self.blocks[0])
            self.fresh = False
        accept, take = (random.random() < chance for chance in (self.accepting, self.taking))
        dut.block_valid_i.value, dut.abort_i.value = 1, int(abort)
        dut.desc_ready_i.value, dut.data_ready_i.value = int(accept), int(take)
        dut.written_i.value = self.written % (2 << RING_BITS)
        noise = draw_words(TILE) if self.data is None else self.data
        dut.read_data_i.value = as_number(noise)
        self.channel.drive(abort=abort)
        await RisingEdge(dut.clk_i)
        self.channel.follow()
        self.follow_ring()
        ends = self.follow_result(accept=accept, take=take)
        assert bool(dut.block_next_o.value) == ends
        if abort:
            self.situations.saw(ResultDrainSituation.ABORT, self.row)
            self.forget()
        elif ends:
            assert not self.parts
            assert self.channel.idle
            self.blocks.popleft()
            self.fresh = True

    def follow_ring(self) -> None:
        """Serve a read; the array writes."""
        dut, saw = self.dut, self.situations.saw
        assert int(dut.read_o.value) == self.read % (2 << RING_BITS)
        saw(ResultDrainSituation.RING_FULL, self.written - self.read == 1 << RING_BITS)
        saw(ResultDrainSituation.RING_EMPTY, self.written == self.read and self.channel.idle)
        waiting = self.written - self.read > 40 and self.row and not dut.read_valid_o.value
        saw(ResultDrainSituation.BACK_PRESSURE, waiting)
        saw(ResultDrainSituation.WRAPPED, self.read > 2 << RING_BITS)
        self.data = None
        if dut.read_valid_o.value:
            assert self.read < self.written, "a read of sums that have not come"
            self.data = self.ring[self.read]
            self.read += 1
        if self.coming and self.written - self.read < 1 << RING_BITS and random.random() < self.filling:
            self.ring.append(self.coming.popleft())
            self.written += 1
            behind = sum(1 for block in list(self.blocks)[1:] for _ in block.entries())
            saw(ResultDrainSituation.FIRST_SUMS, len(self.coming) < behind)

    def follow_result(self, *, accept: bool, take: bool) -> bool:
        """Judge transfers and their data; return whether the block ends."""
        dut = self.dut
        if dut.desc_valid_o.value:
            assert self.parts, "a transfer too many"
            assert not self.row, "a transfer before the data of the last one"
            assert Transfer.of(dut.desc_o) == self.parts[0][0], self.blocks[0]
        data = bool(dut.data_valid_o.value) and take
        ends = False
        if data:
            assert self.row, "data that belongs to no transfer"
            expected, ends = self.row.popleft()
            shown = int(dut.data_o.value).to_bytes(BUS, "little")
            assert shown[: len(expected)] == expected, self.blocks[0]
        if dut.desc_valid_o.value and accept:
            _, rows = self.parts.popleft()
            beats = [row[at : at + BUS] for row in rows for at in range(0, len(row), BUS)]
            last = len(beats) - 1
            self.row.extend((beat, i == last and not self.parts) for i, beat in enumerate(beats))
        return ends


@cocotb.test()
async def random_blocks(dut: Any) -> None:
    """Every result is written once, at its place, with the bits that its command defines."""
    situations = Situations(ResultDrainSituation)
    await reset(dut)
    testbench = ResultDrainTestbench(dut, situations)
    for _ in situations.rounds(60 if TILE == 4 else 30):  # a round of larger tiles checks more sums
        testbench.filling, testbench.accepting, testbench.taking = (random.choice(CHANCES) for _ in range(3))
        testbench.channel.accepting, testbench.channel.bringing = (
            random.choice(CHANCES),
            random.choice(CHANCES),
        )
        for _ in range(random.randint(100, 700)):
            await testbench.clock()
        if random.random() < 0.2:
            await testbench.clock(abort=True)
