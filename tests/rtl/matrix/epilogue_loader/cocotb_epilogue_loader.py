"""epilogue_loader: blocks of random commands, a memory at any pace, aborts."""

import random
from dataclasses import replace
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import as_words
from tests.rtl.matrix.commands import MatrixCommand, drawn_block_start
from tests.rtl.matrix.epilogues import draw_epilogue
from tests.rtl.matrix.vectors import VectorChannel, Vectors
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"DataWidth": 64, "Tile": 4, "BlockM": 32, "BlockN": 64},
    {"DataWidth": 256, "Tile": 16, "BlockM": 128, "BlockN": 512},
]
TILE, BLOCK_M, BLOCK_N = (parameter(name) for name in ("Tile", "BlockM", "BlockN"))


class EpilogueLoaderSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    NOTHING = "a block that needs nothing"
    SCALES = "scales of columns alone"
    BIAS = "a bias alone"
    BOTH = "scales of columns and a bias behind them"
    ROWS = "scales of rows alone"
    ALL = "all three"
    WHOLE = "as many rows and columns as a block may have"
    INSIDE = "a block that begins inside the vectors"
    NEXT = "a block right behind another one"
    ABORT = "an abort with data on its way"


def draw() -> tuple[MatrixCommand, tuple[int, int, int, int]]:
    """Draw a command and one of its blocks: m0, mb, n0, nb."""
    mb = random.choice((1, BLOCK_M, random.randint(1, BLOCK_M)))
    nb = random.choice((1, BLOCK_N, random.randint(1, BLOCK_N)))
    m0, n0 = drawn_block_start(BLOCK_M, mb), drawn_block_start(BLOCK_N, nb)
    command = replace(
        draw_epilogue(MatrixCommand()),
        m=m0 + mb + random.choice((0, 7)),
        n=n0 + nb + random.choice((0, 9)),
        row_scales=random.randrange(0, 1 << 28, 4),
        columns=random.randrange(0, 1 << 28, 4),
    )
    return command, (m0, mb, n0, nb)


def count(situations: Situations, command: MatrixCommand, block: tuple[int, int, int, int]) -> None:
    """Count the situations of a block."""
    combinations = {
        (False, False, False): EpilogueLoaderSituation.NOTHING,
        (True, False, False): EpilogueLoaderSituation.SCALES,
        (False, True, False): EpilogueLoaderSituation.BIAS,
        (True, True, False): EpilogueLoaderSituation.BOTH,
        (False, False, True): EpilogueLoaderSituation.ROWS,
        (True, True, True): EpilogueLoaderSituation.ALL,
    }
    needs = combinations.get((command.col_scale, command.bias, command.row_scale))
    if needs:
        situations.saw(needs)
    if needs is EpilogueLoaderSituation.ALL:
        m0, mb, n0, nb = block
        situations.saw(EpilogueLoaderSituation.WHOLE, mb == BLOCK_M and nb == BLOCK_N)
        situations.saw(EpilogueLoaderSituation.INSIDE, m0 and n0)


def check_tile(shown: int, vector: Any, tile: int, block: tuple[int, int, int, int]) -> None:
    """Compare the values of one tile of columns of a block, as far as the block goes."""
    *_, n0, nb = block
    first = n0 + tile * TILE
    columns = slice(first, min(first + TILE, n0 + nb))
    assert np.array_equal(as_words(shown, TILE)[: columns.stop - first], vector[columns])


async def look(
    dut: Any, channel: VectorChannel, command: MatrixCommand, vectors: Vectors, block: Any
) -> None:
    """Compare all vectors that the block needs; the loader must request nothing meanwhile."""
    m0, mb, _, nb = block
    tiles = -(-nb // TILE)
    scale_tile = bias_tile = -1  # of what is shown
    for index in range(max(mb, 2 * tiles)):
        row, tile, other = index % mb, index % tiles, random.randrange(tiles)
        scale_read, bias_read = index < tiles or random.random() < 0.5, index < tiles or random.random() < 0.5
        dut.row_i.value, dut.column_tile_i.value, dut.bias_tile_i.value = row, tile, other
        dut.column_read_i.value, dut.bias_read_i.value = int(scale_read), int(bias_read)
        channel.drive()
        await RisingEdge(dut.clk_i)
        channel.follow()
        assert dut.ready_o.value
        assert bool(dut.awake_o.value) == (scale_read or bias_read), "the clock runs although nothing changes"
        if command.row_scale:
            assert int(dut.row_scale_o.value) == vectors.row_scales[m0 + row]
        if command.col_scale and scale_tile >= 0:
            check_tile(int(dut.column_scales_o.value), vectors.column_scales, scale_tile, block)
        if command.bias and bias_tile >= 0:
            check_tile(int(dut.bias_o.value), vectors.bias, bias_tile, block)
        scale_tile, bias_tile = tile if scale_read else scale_tile, other if bias_read else bias_tile
    dut.column_read_i.value = dut.bias_read_i.value = 0


@cocotb.test()
async def random_blocks(dut: Any) -> None:
    """The loader requests each vector of a block once, in order, and has it when it reports ready."""
    situations = Situations(EpilogueLoaderSituation)
    await reset(dut)
    channel = VectorChannel(dut, "")
    for _ in situations.rounds(250):
        command, block = draw()
        count(situations, command, block)
        vectors = Vectors(command)
        channel.expected.extend(vectors.transfers(*block))
        channel.accepting, channel.bringing = random.choice((1.0, 0.2)), random.choice((1.0, 0.4))
        dut.command_i.value = command.bits(len(dut.command_i))
        dut.m0_i.value, dut.mb_i.value, dut.n0_i.value, dut.nb_i.value = block
        gap = random.choice((0, 0, 3))
        aborting = random.randrange(40) if random.random() < 0.2 else -1
        for clock in range(2000):
            valid = clock >= gap
            abort = clock == aborting
            dut.block_valid_i.value, dut.abort_i.value = int(valid), int(abort)
            was_idle, waiting = channel.idle, channel.on_its_way
            channel.drive(abort=abort)
            await RisingEdge(dut.clk_i)
            # With all data here, the loader is ready at most one clock later, and at once if it needs none.
            if not valid or not was_idle:
                assert not dut.ready_o.value
            elif not (command.col_scale or command.bias or command.row_scale):
                assert dut.ready_o.value, "a block that needs nothing waits"
            if waiting and not dut.data_valid_i.value and not dut.desc_valid_o.value:
                assert not dut.awake_o.value, "the clock runs while no data comes"
            channel.follow()
            if abort:
                situations.saw(EpilogueLoaderSituation.ABORT, channel.on_its_way)
                channel.forget()
                break
            if dut.ready_o.value:
                break
            assert not was_idle or clock <= gap + 1 or not valid, "the loader is not ready"
        else:
            raise AssertionError(f"the loader never becomes ready: {command}")
        if not dut.abort_i.value:
            await look(dut, channel, command, vectors, block)
            dut.block_next_i.value = 1
            situations.saw(EpilogueLoaderSituation.NEXT, gap == 0)
            await RisingEdge(dut.clk_i)
            dut.block_next_i.value = 0
        # The next block comes at once, or after a gap in which the finished one is gone.
        dut.block_valid_i.value = dut.abort_i.value = 0
