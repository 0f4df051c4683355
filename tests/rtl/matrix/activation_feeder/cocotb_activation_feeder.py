"""activation_feeder: random panels, a loader and an array at any pace, aborts."""

import itertools
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from echo_npu.formats import BLOCK
from echo_npu.spec.data_types import DataType
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
from tests.rtl.stimulus import CHANCES, reset

CONFIGURATIONS = [
    {"Tile": 4, "BlockM": 32, "AddrBits": 8, "AccAddrBits": 7, "ManyRows": 12},
    {"Tile": 16, "BlockM": 128, "AddrBits": 10, "AccAddrBits": 10, "ManyRows": 24},
]
MANY_ROWS, ACC_ENTRIES, BLOCK_M = parameter("ManyRows"), 1 << parameter("AccAddrBits"), BLOCK_X
N_TILES = 8 if TILE == 4 else 16
"""Tiles of columns of a panel of the right operand that is not wide."""
BLOCK_WORDS = BLOCK // 4
SPLIT = TILE < BLOCK_WORDS
"""Whether a block takes two tiles of K."""
ROUNDS, CALM = 25_000, 6000
"""Clocks, and those of them that have small panels and no abort, enough for the counter of panels to wrap."""


class ActivationFeederSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    K_OUTER = "several K tiles of several N tiles, K outside"
    N_OUTER = "several K tiles of several N tiles, N outside"
    TURNED = "a panel whose rows run along M"
    STRAIGHT = "a panel whose rows run along K"
    HALF = "tiles of columns that take half of the accumulators' rows"
    QUARTER = "tiles of columns that take a quarter of them"
    SHORT_K = "lanes past the end of K"
    SHORT_M = "a group of rows that is not whole"
    PARTS = "a last word of int8 that is not whole"
    PLANES = "a panel of planes for weights in blocks"
    PLANES_K_OUTER = "planes of several N tiles, K outside"
    PLANES_N_OUTER = "planes of several N tiles, N outside"
    EARLY = "a read of a panel that is not complete"
    WAITING = "rows that wait for the array"
    WRAPPED = "more panels than the counter of panels can count"
    ABORT = "an abort in the middle"


@dataclass(frozen=True)
class RowPanel(Panel):
    """A panel of rows, and what the feeder must know of the rest of the product."""

    kind: DataType
    depth: int
    k0: int
    nb: int
    first_k: bool
    last_k: bool
    flat: int
    low: list[list[int]] | None = None
    """Of a panel of planes the low ones, as `words`, which are then the high ones."""

    @property
    def planes(self) -> bool:
        return self.low is not None

    def find(self, place: int) -> tuple[int, int, int]:
        """Return first k, first x and words of an entry; the planes of a tile of rows are side by side."""
        if self.low is None:
            return super().find(place)
        tile, row = divmod(place, TILE)
        k_tile, x_tile = divmod(tile, 2 * BLOCK_X // TILE)
        k, x = k_tile * TILE, x_tile // 2 * TILE + row
        self.check_inside(place, k, x)
        plane = self.low if x_tile % 2 else self.words
        return k, x, sum(plane[k + lane][x] << 32 * lane for lane in range(TILE))

    @property
    def many(self) -> bool:
        return self.xb >= MANY_ROWS

    @property
    def n_outer(self) -> bool:
        return self.last_k and self.many


@dataclass(frozen=True)
class ArrayRow:
    """A row with everything that the array gets with it."""

    words: list[int]
    acc_addr: int
    integer: bool
    blocks: bool
    low: bool
    ends: bool
    first: bool
    last: bool
    tile_first: bool
    tile_last: bool
    k: int
    n: int
    many: bool
    n_tiles: int


def rows_of(panel: RowPanel) -> Iterator[ArrayRow]:
    """Return all rows in their order."""
    for k, n in tiles(panel.kb, panel.nb, n_outer=panel.n_outer):
        words = min(TILE, panel.kb - k)
        fours = panel.kind == DataType.INT8 or panel.planes
        elements = min(4 * TILE, panel.depth - 4 * (panel.k0 + k)) if fours else words
        stored = [panel.words] if panel.low is None else [panel.words, panel.low]
        for m, (low, plane) in itertools.product(range(panel.xb), enumerate(stored)):
            yield ArrayRow(
                [plane[k + lane][m] if lane < words else 0 for lane in range(TILE)],
                n // TILE * (BLOCK_M >> panel.flat) + m,
                fours,
                panel.planes,
                bool(low),
                panel.planes and (not SPLIT or bool(k // TILE % 2)),
                panel.first_k and (k == 0 or (panel.planes and SPLIT and k == TILE)),
                panel.last_k and k + TILE >= panel.kb,
                m == 0 and not low,
                m == panel.xb - 1 and plane is stored[-1],
                elements,
                min(TILE, panel.nb - n),
                panel.many,
                -(-panel.nb // TILE),
            )


def draw(*, small: bool) -> RowPanel:
    """Draw a panel that fits, or a `small` one of a few rows."""
    flat = random.randrange(3)
    kb, mb = draw_size(TILE * K_TILES // (2 if flat == 2 else 1)), draw_size(BLOCK_M >> flat)
    nb = draw_size(TILE * min(ACC_ENTRIES // (BLOCK_M >> flat), N_TILES * (2 if flat == 2 else 1)))
    if small:
        kb, mb, nb = random.randint(1, TILE), random.randint(1, 3), random.randint(1, TILE)
    k0, kind = random.randrange(1000), random.choice(list(DataType))
    last_k = random.random() < 0.5
    depth = (k0 + kb) * (4 if kind == DataType.INT8 else 1)
    if not last_k:
        depth += random.randint(1, 100)
    elif kind == DataType.INT8:
        depth -= random.randrange(4)
    first_k = random.random() < 0.5
    if not small and random.random() < 0.3:
        # Planes take two entries, so a panel of them has half as many words: a block.
        kb, k0 = TILE * K_TILES // 2, BLOCK_WORDS * random.randrange(100)
        depth = 4 * (k0 + kb) + (0 if last_k else BLOCK * random.randint(1, 3))
        high, low = draw_words(kb, mb), draw_words(kb, mb)
        kind = random.choice((DataType.FP32, DataType.FP16))
        return RowPanel(False, False, kb, mb, high, kind, depth, k0, nb, first_k, last_k, flat, low)
    words = draw_words(kb, mb)
    return RowPanel(random.random() < 0.5, False, kb, mb, words, kind, depth, k0, nb, first_k, last_k, flat)


def shown(dut: Any) -> ArrayRow:
    """Return the row at the ports."""
    bits = int(dut.row_o.value)
    flags = (
        "row_integer_o", "row_blocks_o", "row_low_o", "row_ends_o",
        "row_first_o", "row_last_o", "row_tile_first_o", "row_tile_last_o",
    )  # fmt: skip
    return ArrayRow(
        [bits >> 32 * lane & 0xFFFF_FFFF for lane in range(TILE)],
        int(dut.row_acc_addr_o.value),
        *(bool(getattr(dut, name).value) for name in flags),
        int(dut.row_k_o.value),
        int(dut.row_n_o.value),
        bool(dut.row_many_o.value),
        int(dut.row_n_tiles_o.value),
    )


@cocotb.test()
async def random_panels(dut: Any) -> None:
    """Every row reaches the array in order, with everything that belongs to it."""
    situations = Situations(ActivationFeederSituation)
    await reset(dut)
    memory: PanelMemory[RowPanel] = PanelMemory(dut)
    expected: deque[ArrayRow] = deque()
    pace = 1.0
    quiet = waiting = 0
    panels = unbroken = 0  # panels in all, and since the last abort
    inside = 0  # rows of completely read panels that were not taken
    begun = False  # a panel is read in part
    valid = flight = False  # flight: words of a read come
    for turn in situations.rounds(ROUNDS):
        calm = turn % ROUNDS < CALM
        if turn % 300 == 0:
            memory.vary()
            pace = random.choice((*CHANCES, 0.02))
            if calm:
                memory.pace = pace = 1.0
        while len(memory.panels) < 3:
            panel = draw(small=calm)
            memory.panels.append(panel)
            expected.extend(rows_of(panel))
        panel = memory.panels[0]
        valid = valid or random.random() < 0.5
        abort = not calm and random.random() < 0.001
        memory.drive()
        dut.panel_valid_i.value, dut.abort_i.value = int(valid), int(abort)
        dut.kind_i.value, dut.k_rows_i.value, dut.flat_i.value = panel.kind, panel.k_rows, panel.flat
        dut.blocks_i.value = int(panel.planes)
        dut.depth_i.value, dut.k0_i.value, dut.kb_i.value = panel.depth, panel.k0, panel.kb
        dut.mb_i.value, dut.nb_i.value = panel.xb, panel.nb
        dut.first_k_i.value, dut.last_k_i.value = panel.first_k, panel.last_k
        # A row is taken only if one is offered; the offer does not depend on the taking.
        dut.row_next_i.value = 0
        await FallingEdge(dut.clk_i)
        offered = bool(dut.row_valid_o.value)
        take = offered and random.random() < pace
        dut.row_next_i.value = int(take)
        await RisingEdge(dut.clk_i)
        assert valid or not dut.read_o.value
        changes = dut.read_o.value or flight or take
        assert bool(dut.awake_o.value) == bool(changes), "the clock runs if the next edge changes something"
        flight = bool(dut.read_o.value) and not abort
        if offered:
            assert shown(dut) == expected[0]
        if not begun:
            assert bool(dut.rows_left_o.value) == (valid or inside > 0)
        if take:
            expected.popleft()
            inside -= 1
        begun = begun or bool(dut.read_o.value)
        quiet = 0 if offered else quiet + 1
        waiting = 0 if take or not offered else waiting + 1
        assert quiet < 3000, "no rows come"
        situations.saw(ActivationFeederSituation.WAITING, waiting > 20)
        if (done := memory.follow()) is not None:
            valid = False
            panels += 1
            unbroken += 1
            situations.saw(ActivationFeederSituation.WRAPPED, unbroken > COUNTED)
            inside += len(list(rows_of(done)))
            begun = False
            situations.saw(ActivationFeederSituation.EARLY, memory.early)
            many = done.kb > TILE and done.nb > TILE
            situations.saw(ActivationFeederSituation.N_OUTER, many and done.n_outer)
            situations.saw(ActivationFeederSituation.K_OUTER, many and not done.n_outer)
            situations.saw(ActivationFeederSituation.TURNED, done.k_rows)
            situations.saw(ActivationFeederSituation.STRAIGHT, not done.k_rows)
            situations.saw(ActivationFeederSituation.HALF, done.flat == 1 and done.nb > TILE)
            situations.saw(ActivationFeederSituation.QUARTER, done.flat == 2 and done.nb > TILE)
            situations.saw(ActivationFeederSituation.SHORT_K, done.kb % TILE)
            situations.saw(ActivationFeederSituation.SHORT_M, done.xb % TILE)
            parts = done.kind == DataType.INT8 and done.depth < 4 * (done.k0 + done.kb)
            situations.saw(ActivationFeederSituation.PARTS, parts)
            situations.saw(ActivationFeederSituation.PLANES, done.planes)
            beside = done.planes and done.nb > TILE
            situations.saw(ActivationFeederSituation.PLANES_N_OUTER, beside and done.n_outer)
            situations.saw(ActivationFeederSituation.PLANES_K_OUTER, beside and not done.n_outer)
        if abort:
            valid = False
            situations.saw(ActivationFeederSituation.ABORT, expected)
            memory.forget()
            expected.clear()
            quiet = inside = unbroken = 0
            begun = False
    assert panels > 400 // TILE
