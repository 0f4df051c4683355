"""block_iterator: random products, block by block, compared with nested loops."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from echo_npu.formats import BLOCK
from echo_npu.spec.data_types import Blocks, DataType
from tb.blocks import parameter
from tests.rtl.matrix.commands import MatrixCommand, MatrixOperand
from tests.rtl.situations import Situations
from tests.rtl.stimulus import pulse, reset

CONFIGURATIONS = [
    {"Tile": 4, "BlockM": 32, "BlockKTiles": 4, "BlockNTiles": 8, "AccEntries": 128, "WholeK": 0},
    {"Tile": 4, "BlockM": 32, "BlockKTiles": 4, "BlockNTiles": 8, "AccEntries": 128, "WholeK": 1},
    # A K block of more words than eight bits count.
    {"Tile": 16, "BlockM": 32, "BlockKTiles": 16, "BlockNTiles": 8, "AccEntries": 128, "WholeK": 0},
]
TILE, BLOCK_M, BLOCK_K_TILES, BLOCK_N_TILES, ACC_ENTRIES = (
    parameter(name) for name in ("Tile", "BlockM", "BlockKTiles", "BlockNTiles", "AccEntries")
)
BLOCK_K = TILE * BLOCK_K_TILES
WHOLE_K = bool(parameter("WholeK"))
MEMORY = 1 << 29


class BlockIteratorSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    NOT_FLAT = "several blocks of a product that is not flat"
    HALF = "several blocks of a product of half as many rows"
    QUARTER = "several blocks of a product of a quarter of the rows"
    MANY_M = "several M blocks"
    INTEGER = "a depth of int8 that is no whole number of words"
    BLOCKS = "several K blocks of weights in blocks"
    OUTER = "several outer batches of several inner ones"
    LAST_PART = "blocks at the end of every dimension that are not whole"
    ANY_STRIDE = "a stride that no batch uses, and that leads out of memory"
    ABORT = "an abort in the middle"


@dataclass(frozen=True)
class WalkStep:
    """One step of a walk."""

    src1: int
    src2: int
    dst: int
    m0: int
    k0: int
    n0: int
    mb: int
    kb: int
    nb: int
    first_k: bool
    last_k: bool
    flat: int


def cuts(length: int, step: int) -> Iterator[tuple[int, int]]:
    """Return start and length of each part of a dimension."""
    for start in range(0, length, step):
        yield start, min(step, length - start)


def depths(length: int, most: int, *, opening: bool, whole: bool) -> Iterator[tuple[int, int]]:
    """Return the parts of K: the first result block begins with one tile, then another, then two at a
    time. Where a block takes two tiles, `whole` ones begin with two."""
    start = 0
    while start < length:
        step = most
        if opening:
            step = min(most, TILE if start < 2 * TILE and not whole else 2 * TILE)
        if WHOLE_K:
            step = length
        yield start, min(step, length - start)
        start += step


def walk(command: MatrixCommand) -> Iterator[WalkStep]:
    """Return all blocks in their order."""
    flat = 2 if command.m <= BLOCK_M // 4 else 1 if command.m <= BLOCK_M // 2 else 0
    wide = 2 if flat == 2 else 1
    columns = TILE * min(ACC_ENTRIES // (BLOCK_M >> flat), wide * BLOCK_N_TILES)
    depth = -(-command.k // 4) if command.kind == DataType.INT8 or command.blocks else command.k
    most = BLOCK_K // (2 if command.blocks else wide)
    split = bool(command.blocks) and 4 * TILE < BLOCK
    opening = True
    for outer in range(command.batch1):
        for inner in range(command.batch0):
            operands = command.src1, command.src2, command.dst
            addresses = [o.addr + outer * o.batch1_stride + inner * o.batch0_stride for o in operands]
            for n0, nb in cuts(command.n, columns):
                for m0, mb in cuts(command.m, BLOCK_M):
                    for k0, kb in depths(depth, most, opening=opening, whole=split):
                        yield WalkStep(*addresses, m0, k0, n0, mb, kb, nb, k0 == 0, k0 + kb == depth, flat)
                    opening = False


def draw() -> MatrixCommand:
    """Draw a product of up to a few blocks in every direction."""
    batch0, batch1 = random.choice(((1, 1), (1, 3), (3, 1), (random.randint(1, 3), random.randint(1, 3))))
    quarter = BLOCK_M // 4
    m = random.choice((1, quarter, quarter + 1, BLOCK_M // 2, BLOCK_M, random.randint(1, 3 * BLOCK_M)))

    def operand() -> MatrixOperand:
        most = (20 if count > 1 else 32 for count in (batch0, batch1))
        strides = [random.getrandbits(bits) for bits in most]
        return MatrixOperand(random.randrange(MEMORY - (1 << 24)), random.getrandbits(32), *strides)

    k = random.choice((1, 7, 4 * BLOCK_K, random.randint(1, 120), random.randint(1, 8 * BLOCK_K)))
    n = random.choice((1, 16 * TILE, 16 * TILE + 1, random.randint(1, 40 * TILE)))
    kind, blocks = random.choice(list(DataType)), Blocks.NONE
    if random.random() < 0.3:
        kind, blocks, k = DataType.FP32, random.choice([each for each in Blocks if each]), k + 31 & -BLOCK
    return MatrixCommand(operand(), operand(), operand(), batch0, batch1, m, k, n, kind=kind, blocks=blocks)


def shown(dut: Any) -> WalkStep:
    """Return the block at the ports."""
    numbers = ("src1_addr_o", "src2_addr_o", "dst_addr_o", "m0_o", "k0_o", "n0_o", "mb_o", "kb_o", "nb_o")
    values = [int(getattr(dut, name).value) for name in numbers]
    return WalkStep(*values, bool(dut.first_k_o.value), bool(dut.last_k_o.value), int(dut.flat_o.value))


async def start(dut: Any, command: MatrixCommand) -> None:
    """Begin a walk."""
    dut.command_i.value = command.bits(len(dut.command_i))
    await pulse(dut, "start_i")


async def follow(dut: Any, blocks: list[WalkStep], *, whole: bool, chance: float) -> None:
    """Take these blocks; with `whole`, the last one must end the walk."""
    for place, block in enumerate(blocks):
        waiting = True
        while waiting:
            waiting = random.random() > chance
            dut.next_i.value = int(not waiting)
            await RisingEdge(dut.clk_i)
            assert dut.valid_o.value, f"no block {place}"
            assert shown(dut) == block, f"block {place}"
            assert bool(dut.end_o.value) == (not waiting and whole and place == len(blocks) - 1)
    dut.next_i.value = 0


@cocotb.test()
async def random_walks(dut: Any) -> None:
    """Every block of every product comes, then none; aborts end a walk."""
    situations = Situations(BlockIteratorSituation)
    await reset(dut)
    for _ in situations.rounds(250):
        command = draw()
        blocks = list(walk(command))
        chance = random.choice((1.0, 0.3))
        await start(dut, command)
        aborted = random.random() < 0.2
        if aborted:
            await follow(dut, blocks[: random.randrange(len(blocks))], whole=False, chance=chance)
            await pulse(dut, "abort_i")
            situations.saw(BlockIteratorSituation.ABORT)
        else:
            await follow(dut, blocks, whole=True, chance=chance)
        for _ in range(random.choice((1, 3))):
            await FallingEdge(dut.clk_i)
            assert not dut.valid_o.value
            assert not dut.end_o.value
        if aborted:
            continue
        flats = (BlockIteratorSituation.NOT_FLAT, BlockIteratorSituation.HALF, BlockIteratorSituation.QUARTER)
        situations.saw(flats[blocks[0].flat], len({block.n0 for block in blocks}) > 1)
        situations.saw(BlockIteratorSituation.MANY_M, command.m > BLOCK_M)
        situations.saw(BlockIteratorSituation.INTEGER, command.kind == DataType.INT8 and command.k % 4)
        several_k = len({block.k0 for block in blocks}) > 1
        situations.saw(BlockIteratorSituation.BLOCKS, command.blocks and (several_k or WHOLE_K))
        situations.saw(BlockIteratorSituation.OUTER, command.batch0 > 1 and command.batch1 > 1)
        parts = command.m > BLOCK_M and command.m % BLOCK_M and blocks[-1].nb % TILE
        situations.saw(BlockIteratorSituation.LAST_PART, parts)
        strides = command.src1.batch0_stride, command.src2.batch0_stride, command.dst.batch0_stride
        situations.saw(BlockIteratorSituation.ANY_STRIDE, command.batch0 == 1 and max(strides) > MEMORY)
