"""weight_feeder: random panels, a loader and an array at any pace, aborts."""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.matrix.panels import (
    BLOCK_X,
    COUNTED,
    K_TILES,
    TILE,
    Panel,
    PanelMemory,
    draw_size,
    draw_words,
    tiles,
)
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [
    {"Tile": 4, "BlockN": 32, "AddrBits": 8, "ManyRows": 12},
    {"Tile": 16, "BlockN": 256, "AddrBits": 11, "ManyRows": 24},
]
MANY_ROWS = parameter("ManyRows")
PATIENCE = 500 * TILE
"""Clocks within which a block is there, at the slowest pace of the loader."""
ROUNDS = 20_000
CALM = 2000 + 300 * TILE
"""Of these, the clocks of small panels without an abort, enough of them for the counter to wrap."""


class WeightFeederSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    K_OUTER = "several K tiles of several N tiles, K outside"
    N_OUTER = "several K tiles of several N tiles, N outside"
    TURNED = "a panel whose rows run along K"
    STRAIGHT = "a panel whose rows run along N"
    WIDE = "a wide panel with more columns than another may have"
    SHORT_K = "rows past the end of K, which weigh nothing"
    EARLY = "a read of a panel that is not complete"
    WAITING = "a block that waits for the array"
    NEXT = "blocks of two panels one behind the other"
    WRAPPED = "more panels than the counter of panels can count"
    ABORT = "an abort in the middle"


@dataclass(frozen=True)
class WeightPanel(Panel):
    """A panel of weights, and the direction in which its blocks are walked."""

    mb: int
    last_k: bool

    @property
    def n_outer(self) -> bool:
        return self.last_k and self.mb >= MANY_ROWS


@dataclass(frozen=True)
class WeightRow:
    """What the array gets in a clock: the row of the block, and its words in the used columns."""

    row: int
    words: list[int]


def rows_of(panel: WeightPanel) -> Iterator[WeightRow]:
    """Return all rows of all blocks."""
    for k, n in tiles(panel.kb, panel.xb, n_outer=panel.n_outer):
        count = min(TILE, panel.xb - n)
        for row in range(TILE):
            words = panel.words[k + row][n : n + count] if k + row < panel.kb else [0] * count
            yield WeightRow(row, words)


def draw(*, small: bool) -> WeightPanel:
    """Draw a panel that fits, or a `small` one of a single block."""
    wide = random.random() < 0.4
    kb, nb = draw_size(TILE * K_TILES // (2 if wide else 1)), draw_size(BLOCK_X * (2 if wide else 1))
    if small:
        kb, nb = random.randint(1, TILE), random.randint(1, TILE)
    mb = random.choice((1, MANY_ROWS - 1, MANY_ROWS, 32))
    return WeightPanel(random.random() < 0.5, wide, kb, nb, draw_words(kb, nb), mb, random.random() < 0.5)


@cocotb.test()
async def random_panels(dut: Any) -> None:
    """Every block reaches the array in order, each row once, when the array has room for it."""
    situations = Situations(WeightFeederSituation)
    await reset(dut)
    memory: PanelMemory[WeightPanel] = PanelMemory(dut)
    expected: deque[WeightRow] = deque()
    room = 1.0
    quiet = 0
    panels = unbroken = 0  # panels in all, and since the last abort
    valid = flight = False  # flight: words of a read come
    for turn in situations.rounds(ROUNDS):
        calm = turn % ROUNDS < CALM
        if turn % 300 == 0:
            memory.vary()
            room = random.choice((1.0, 0.3, 0.02))
            if calm:
                memory.pace = room = 1.0
        while len(memory.panels) < 3:
            panel = draw(small=calm)
            memory.panels.append(panel)
            expected.extend(rows_of(panel))
        panel = memory.panels[0]
        valid = valid or random.random() < 0.5
        free = random.random() < room
        abort = not calm and random.random() < 0.001
        memory.drive()
        dut.panel_valid_i.value, dut.shadow_free_i.value, dut.abort_i.value = valid, free, abort
        dut.k_rows_i.value, dut.wide_i.value, dut.last_k_i.value = panel.k_rows, panel.wide, panel.last_k
        dut.mb_i.value, dut.kb_i.value, dut.nb_i.value = panel.mb, panel.kb, panel.xb
        await RisingEdge(dut.clk_i)
        assert valid or not dut.read_o.value
        begins = bool(dut.weight_write_o.value) and not int(dut.weight_row_o.value)
        assert bool(dut.shadow_start_o.value) == begins
        assert free or not begins, "a block began while the last one waits"
        changes = dut.read_o.value or flight or dut.weight_write_o.value
        assert bool(dut.awake_o.value) == bool(changes), "the clock runs if the next edge changes something"
        flight = bool(dut.read_o.value) and not abort
        quiet += 1
        if dut.weight_write_o.value:
            row = expected.popleft()
            bits = int(dut.weight_o.value)
            words = [bits >> 32 * lane & 0xFFFF_FFFF for lane in range(len(row.words))]
            assert WeightRow(int(dut.weight_row_o.value), words) == row
            quiet = 0
        assert quiet < PATIENCE, "no weights come"
        situations.saw(WeightFeederSituation.WAITING, quiet > 20 and memory.pace == 1.0 and not free)
        if (done := memory.follow()) is not None:
            valid = False
            panels += 1
            unbroken += 1
            situations.saw(WeightFeederSituation.WRAPPED, unbroken > COUNTED)
            situations.saw(WeightFeederSituation.EARLY, memory.early)
            many = done.kb > TILE and done.xb > TILE
            situations.saw(WeightFeederSituation.N_OUTER, many and done.n_outer)
            situations.saw(WeightFeederSituation.K_OUTER, many and not done.n_outer)
            situations.saw(WeightFeederSituation.TURNED, not done.k_rows)
            situations.saw(WeightFeederSituation.STRAIGHT, done.k_rows)
            situations.saw(WeightFeederSituation.WIDE, done.xb > BLOCK_X)
            situations.saw(WeightFeederSituation.SHORT_K, done.kb % TILE)
            behind = sum(1 for rest in memory.panels for _ in rows_of(rest))
            situations.saw(WeightFeederSituation.NEXT, len(expected) > behind)
        if abort:
            valid = False
            situations.saw(WeightFeederSituation.ABORT, expected)
            memory.forget()
            expected.clear()
            quiet = unbroken = 0
    assert panels > 400 // TILE
