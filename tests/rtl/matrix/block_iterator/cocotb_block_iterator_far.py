"""block_iterator: positions of M, K and N at and around each power of two of their width.

No product that can be simulated reaches them, so a test sets a position to one step before a power of two.
"""

from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from echo_npu.spec.contract import MAX_DIM
from tb.blocks import parameter
from tests.rtl.matrix.commands import MatrixCommand
from tests.rtl.stimulus import pulse, reset

CONFIGURATIONS = [
    {"Tile": 4, "BlockM": 32, "BlockKTiles": 4, "BlockNTiles": 8, "AccEntries": 128, "WholeK": 0},
    {"Tile": 4, "BlockM": 32, "BlockKTiles": 4, "BlockNTiles": 8, "AccEntries": 128, "WholeK": 1},
]
TILE, BLOCK_M, BLOCK_K_TILES, BLOCK_N_TILES, ACC_ENTRIES = (
    parameter(name) for name in ("Tile", "BlockM", "BlockKTiles", "BlockNTiles", "AccEntries")
)
WHOLE_K = bool(parameter("WholeK"))
STEPS = {
    "m": BLOCK_M,
    "k": min(BLOCK_K_TILES * TILE // 2, 2 * TILE),
    "n": TILE * min(ACC_ENTRIES // (BLOCK_M // 4), 2 * BLOCK_N_TILES),
}
"""How far a walk goes on in each dimension where the others are 1, and the first two blocks are done."""
MORE = 3
"""Elements behind the last whole step."""


async def begin(dut: Any, command: MatrixCommand) -> None:
    """Begin a walk."""
    dut.command_i.value = command.bits(len(dut.command_i))
    await pulse(dut, "start_i")


async def follow(dut: Any, size: str, length: int, position: int) -> None:
    """Walk M, K or N of a product from a position to the end."""
    step = STEPS[size]
    await begin(dut, MatrixCommand(**{size: length}))
    getattr(dut, f"{size}_q").value = position
    for first in range(position, length, step):
        await FallingEdge(dut.clk_i)
        shown = [int(getattr(dut, f"{size}{what}_o").value) for what in "0b"]
        assert dut.valid_o.value, f"{size} {length}: no block at {first}"
        assert shown == [first, min(step, length - first)], f"{size} {length}: {shown}"
        dut.next_i.value = 1
        await RisingEdge(dut.clk_i)
        assert bool(dut.end_o.value) == (first + step >= length), f"{size} {length}: the end at {first}"
        dut.next_i.value = 0
    await FallingEdge(dut.clk_i)
    assert not dut.valid_o.value


@cocotb.test()
async def far_positions(dut: Any) -> None:
    """Blocks go on beyond each power of two, and end where the product does."""
    await reset(dut, "command_i")
    for size in "mn" if WHOLE_K else "mkn":
        step = STEPS[size]
        for bit in range((4 * step).bit_length(), MAX_DIM.bit_length() - 1):
            for beyond in (MORE, step, step + MORE):
                await follow(dut, size, (1 << bit) + beyond, (1 << bit) - step)
        await follow(dut, size, MAX_DIM, MAX_DIM - 2 * step)


@cocotb.test()
async def whole_depths(dut: Any) -> None:
    """One step for all of K has any depth."""
    await reset(dut, "command_i")
    for bit in range(MAX_DIM.bit_length() if WHOLE_K else 0):
        for depth in (1 << bit, min(MAX_DIM, (1 << bit) + 1)):
            await begin(dut, MatrixCommand(k=depth))
            await FallingEdge(dut.clk_i)
            assert int(dut.kb_o.value) == depth
            await pulse(dut, "abort_i")
