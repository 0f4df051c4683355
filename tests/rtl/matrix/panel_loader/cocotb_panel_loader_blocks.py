"""panel_loader with weights in blocks: planes of the left operand, tiles of the right one, their facts."""

import itertools
import random
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from echo_npu import formats
from echo_npu.formats import BLOCK, FORMATS, TILE_BLOCKS, TILE_COLUMNS, TILE_DEPTH
from echo_npu.reference.blocks import block_floating_point
from echo_npu.spec.data_types import Blocks, DataType
from tb.blocks import parameter
from tests.rtl.matrix.commands import drawn_start
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [
    {"DataWidth": 256, "Tile": 16, "BlockX": 32, "AddrBits": 8, "Blocks": 1, "Left": 1},
    {"DataWidth": 128, "Tile": 16, "BlockX": 32, "AddrBits": 8, "Blocks": 1, "Left": 1},
    {"DataWidth": 256, "Tile": 16, "BlockX": 32, "AddrBits": 8, "Blocks": 1, "Left": 0},
    {"DataWidth": 128, "Tile": 16, "BlockX": 32, "AddrBits": 8, "Blocks": 1, "Left": 0},
    {"DataWidth": 64, "Tile": 4, "BlockX": 32, "AddrBits": 10, "Blocks": 1, "Left": 1},
    {"DataWidth": 64, "Tile": 4, "BlockX": 32, "AddrBits": 10, "Blocks": 1, "Left": 0},
]
BUS, LEFT = parameter("DataWidth") // 8, bool(parameter("Left"))
TILE, BLOCK_X = parameter("Tile"), 32
BLOCK_BYTES = 4 * BLOCK  # of float32
BLOCK_WORDS = BLOCK // 4
PIECE = min(BLOCK, 4 * TILE)
"""Values of a block in a tile of the array."""
PIECES = 4 * TILE // PIECE
"""Blocks of a tile."""
PARTS = BLOCK // PIECE
"""Tiles of a block."""
PACKED_WORDS = TILE_DEPTH // 4
HALF = 1 << parameter("AddrBits") - 1
"""Entries of a panel."""
LEAST_NORMAL = 2.0**-14
"""Of float16."""
MOST_BLOCKS = HALF // (2 * BLOCK_X) * TILE // BLOCK_WORDS
"""Blocks of K in a panel of planes, and in a wide one."""


class BlockPanelSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    Q8_0 = "a panel of q8_0"
    Q4_0 = "a panel of q4_0"
    Q4_1 = "a panel of q4_1"
    WIDE = "a wide panel with more columns than another may have"
    HALF_TILE = "a K that ends with one block of a packed tile"
    SECOND = "a panel that begins with the second block of a packed tile"
    FULL = "a panel as deep as the memory that begins with the second block of a packed tile"
    AHEAD = "two panels held, and none asked for"
    PARTLY = "rows of a panel that are complete before the panel"
    HALF = "a panel beside activations of float16"
    OTHER = "a panel of another type than the one before"
    SUBNORMAL = "a block of subnormal float16 alone"
    ABORT = "an abort with a panel on its way"
    ABORT_BETWEEN = "an abort between the halves of a beat of float16"


@dataclass
class BlockPanel:
    """A panel, and what it must be on chip.

    Attributes:
        kind: of the left operand.
        entries: bytes by address in the panel and piece of the entry.
        heads: of the right operand, scales [0] and minima [1] by tile; of the left one, facts by entry.
        rows: of memory.
        row_of: the row of words that an entry is of, likewise.
        subnormal: whether a block has nothing but subnormal float16.
    """

    blocks: Blocks
    kind: DataType
    wide: bool
    base: int
    stride: int
    k0: int
    kb: int
    x0: int
    xb: int
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)
    heads: dict[tuple[int, int], bytes] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)
    row_of: dict[tuple[int, int], int] = field(default_factory=dict)
    subnormal: bool = False

    def transfer(self) -> Transfer:
        """The rows of memory that hold it."""
        if LEFT:
            place = self.x0 * self.stride + 4 * self.kind.itemsize * self.k0
        else:
            place = self.x0 // TILE_COLUMNS * self.stride + self.k0 // PACKED_WORDS * self.blocks.tile_bytes
        return Transfer(self.base + place & 0xFFFF_FFFF, len(self.rows[0]), len(self.rows), self.stride)

    def put(self, block: int, values: bytes, at: int, tile_step: int, row: int) -> None:
        """Expect a block's 32 bytes, of row `row`, in the entries `at` of its tiles.

        A block that takes two tiles has half of its values in each: with weights in nibbles, every other 8.
        """
        parts = [values]
        if PARTS == 2:
            eights = [values[first : first + 8] for first in range(0, BLOCK, 8)]
            order = (0, 1, 2, 3) if self.blocks == Blocks.Q8_0 else (0, 2, 1, 3)
            parts = [eights[order[0]] + eights[order[1]], eights[order[2]] + eights[order[3]]]
        for number, part in enumerate(parts):
            tile, piece = divmod(block * PARTS + number, PIECES)
            self.entries[at + tile * tile_step, piece] = part
            self.row_of[at + tile * tile_step, piece] = row


def ending(block: int) -> int:
    """Return the tile of the array with which a block of the panel ends."""
    return ((block + 1) * PARTS - 1) // PIECES


def draw(kind: DataType) -> BlockPanel:
    """A random panel that fits."""
    blocks, wide = random.choice([each for each in Blocks if each]), not LEFT and random.random() < 0.4
    kb = BLOCK_WORDS * random.choice((random.randint(1, MOST_BLOCKS), MOST_BLOCKS))
    xb = random.choice((1, 16, 17, 32, random.randint(1, 32)))
    if wide:
        xb = random.choice((33, random.randint(33, 64)))
    base, stride = (random.randrange(1 << 22) * 64 for _ in range(2))
    unit = max(TILE, BLOCK_WORDS)
    k0 = drawn_start(4 * kb) // 4 // unit * unit
    x0 = drawn_start(xb) // TILE_COLUMNS * TILE_COLUMNS
    panel = BlockPanel(blocks, kind, wide, base, stride, k0, kb, x0, xb)
    (_left if LEFT else _right)(panel)
    return panel


def _left(panel: BlockPanel) -> None:
    generator = np.random.default_rng(random.getrandbits(32))
    values = generator.normal(0, 1, (panel.xb, 4 * panel.kb))
    if panel.kind == DataType.FP16:
        halves = np.ldexp(values, random.randint(-24, 12)).astype(np.float16)
        halves[generator.random(panel.xb) < 0.2, :32] = 0
        panel.rows = [row.tobytes() for row in halves]
        x = halves.astype(np.float32)
        greatest = np.abs(x).reshape(panel.xb, -1, BLOCK).max(axis=2)
        panel.subnormal = bool(((greatest > 0) & (greatest < LEAST_NORMAL)).any())
    else:
        x = np.ldexp(values, random.randint(-140, 100)).astype(np.float32)
        x[generator.random(panel.xb) < 0.2, :32] = 0
        panel.rows = [row.tobytes() for row in x]
    blocks = panel.kb // BLOCK_WORDS
    for row in range(panel.xb):
        at = row // TILE * 2 * TILE + row % TILE
        for block in range(-(-blocks // PIECES) * PIECES):
            head = at + ending(block) * 2 * BLOCK_X, block % PIECES
            part = x[row, BLOCK * block : BLOCK * (block + 1)]
            if not part.any():  # or missing; the planes of zeros may be anything
                panel.heads[head] = b"zero"
                continue
            integers, e = block_floating_point(part)
            bits = integers.astype(np.int16).view(np.uint16)
            panel.put(block, (bits >> 8).astype(np.uint8).tobytes(), at, 2 * BLOCK_X, row)
            panel.put(block, (bits & 255).astype(np.uint8).tobytes(), at + TILE, 2 * BLOCK_X, row)
            word = (int(integers.sum()) & 0x1F_FFFF) << 11 | (e - 15 & 0x1FF) << 2
            panel.heads[head] = word.to_bytes(4, "little")


def _right(panel: BlockPanel) -> None:
    f = FORMATS[panel.blocks.label]
    generator = np.random.default_rng(random.getrandbits(32))
    # The packed tile with which the panel begins may have a block before it.
    skipped, blocks = panel.k0 % PACKED_WORDS // BLOCK_WORDS, panel.kb // BLOCK_WORDS
    down, along = f.tiles(panel.xb, BLOCK * (skipped + blocks))
    tiles = generator.integers(0, 256, (down, along, f.tile_bytes), np.uint8)
    panel.rows = [row.tobytes() for row in tiles]
    parts = formats.tile_parts(tiles, f, TILE_COLUMNS * down, TILE_DEPTH * along)
    tile_step = BLOCK_X * (2 if panel.wide else 1)
    for n in range(TILE_COLUMNS * down):
        for block in range(blocks):
            first = BLOCK * (skipped + block)
            panel.put(block, parts.q[n, first : first + BLOCK].tobytes(), n, tile_step, n)
    for which, n, first in itertools.product(
        range(2 if f.minimum else 1), range(0, TILE_COLUMNS * down, TILE), range(0, blocks, PIECES)
    ):
        # float16 of the tile's columns, for each block that ends with it.
        places = [divmod(skipped + first + piece, TILE_BLOCKS) for piece in range(PIECES)]
        ats = [2 * (TILE_COLUMNS * (TILE_BLOCKS * which + half) + n % TILE_COLUMNS) for _, half in places]
        panel.heads[(ending(first) * tile_step + n) // TILE, which] = b"".join(
            tiles[n // TILE_COLUMNS, tile, at : at + 2 * TILE].tobytes()
            for (tile, _), at in zip(places, ats, strict=True)
        )


class BlockLoader:
    """The ports, and a model of the on-chip memories."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.saw = dut, situations.saw
        self.accepting = self.bringing = self.freeing = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.kind = DataType.FP32  # of the panels that are drawn; one is loaded at a time
        self.taken = 0  # bytes of the rows as float32
        self.lower = False  # the lower half of the beat at hand has been taken
        self.converts = 0
        """Clocks in which a block of float32 that was taken still moves."""
        self.memory: dict[tuple[int, int], bytes] = {}
        self.heads: dict[tuple[int, int], bytes] = {}
        self.panel: BlockPanel | None = None  # offered
        self.coming: deque[BlockPanel] = deque()  # asked for, not complete
        self.beats: deque[tuple[int, bool]] = deque()
        self.held = 0  # complete and not freed
        self.loaded = 0

    async def clock(self, *, abort: bool = False) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        if self.panel is None and random.random() < 0.8:
            if not self.coming:
                kind = random.choice((DataType.FP32, DataType.FP16))
                self.saw(BlockPanelSituation.OTHER, kind != self.kind)
                self.kind = kind
            self.panel = draw(self.kind)
            self.offer(self.panel)
        dut.panel_valid_i.value, dut.abort_i.value = int(self.panel is not None), int(abort)
        accept = random.random() < self.accepting and not abort
        bring = bool(self.beats) and (self.lower or random.random() < self.bringing)
        free = self.held > 0 and random.random() < self.freeing and not abort
        dut.desc_ready_i.value, dut.free_i.value, dut.data_valid_i.value = int(accept), int(free), int(bring)
        data, last = self.beats[0] if bring else (random.getrandbits(8 * BUS), False)
        dut.data_i.value, dut.data_row_last_i.value = data, int(last)
        await RisingEdge(dut.clk_i)
        changes = dut.panel_next_o.value or bring or free or self.converts
        assert dut.awake_o.value or not changes, "the next edge changes something"
        room = len(self.coming) + self.held < 2
        self.saw(BlockPanelSituation.AHEAD, not room)
        if int(dut.loaded_o.value) != self.loaded % 256:
            self.complete()
        assert bool(dut.idle_o.value) == (not self.coming)
        self.check_rows()
        if self.panel is not None and dut.desc_valid_o.value:
            assert Transfer.of(dut.desc_o) == self.panel.transfer(), self.panel
        self.follow_writes()
        self.saw(BlockPanelSituation.ABORT_BETWEEN, abort and self.lower)
        halves = LEFT and self.kind == DataType.FP16
        self.lower = bring and halves and not self.lower
        if bring:
            # A beat of float16 is taken in two clocks.
            assert bool(dut.data_ready_o.value) != self.lower
            self.taken += BUS
            if not self.lower:
                self.beats.popleft()
        self.converts = max(self.converts - 1, 0)
        if LEFT and bring and self.taken % BLOCK_BYTES == 0:
            # A clock for each beat, and for each of its two tiles where every block makes entries.
            self.converts = BLOCK_BYTES // BUS + 2 * (PARTS - 1)
        if dut.panel_next_o.value:
            assert self.panel is not None
            self.coming.append(self.panel)
            for row in self.panel.rows:
                pieces = [row[at : at + BUS] for at in range(0, len(row), BUS)]
                for number, piece in enumerate(pieces, 1):
                    self.beats.append((int.from_bytes(piece, "little"), number == len(pieces)))
            self.panel = None
        self.held -= free
        if abort:
            self.saw(BlockPanelSituation.ABORT, self.beats)
            self.forget()

    def offer(self, panel: BlockPanel) -> None:
        """Show a panel at the ports."""
        dut = self.dut
        dut.kind_i.value, dut.blocks_i.value = panel.kind, panel.blocks
        dut.k_rows_i.value, dut.wide_i.value = 0, panel.wide
        dut.base_i.value, dut.stride_i.value = panel.base, panel.stride
        dut.depth_i.value = 4 * (panel.k0 + panel.kb)
        dut.k0_i.value, dut.kb_i.value, dut.x0_i.value, dut.xb_i.value = (
            panel.k0,
            panel.kb,
            panel.x0,
            panel.xb,
        )

    def follow_writes(self) -> None:
        """Do to the model of the memories what the ports say."""
        dut = self.dut
        address, which = int(dut.write_addr_o.value), int(dut.write_o.value)
        for place in range(2):
            if which >> place & 1:
                entry = int(dut.write_data_o[place].value).to_bytes(4 * TILE, "little")
                for piece in range(PIECES):
                    part = entry[PIECE * piece : PIECE * (piece + 1)]
                    self.memory[address + place * TILE, piece] = part
        scales = int(dut.scales_o.value)
        for place in range(2):
            if scales >> place & 1:
                head = int(dut.write_data_o[0].value).to_bytes(4 * TILE, "little")
                self.heads[address // TILE, place] = head[: 2 * TILE * PIECES]
        if dut.info_write_o.value:
            word = int(dut.info_o.value)
            for block in range(PIECES):
                bits = word >> 32 * block & 0xFFFF_FFFF
                self.heads[address, block] = b"zero" if bits >> 1 & 1 else bits.to_bytes(4, "little")

    def check_rows(self) -> None:
        """Rows that are said to be complete are in memory."""
        said = int(self.dut.rows_o.value)
        if self.coming and said:
            self.saw(BlockPanelSituation.PARTLY)
            if random.random() < 0.05:
                self.compare(self.coming[0], said)

    def compare(self, panel: BlockPanel, rows: int) -> None:
        """Look for the entries of the panel's first rows."""
        half = HALF * (self.loaded % 2)
        for (address, piece), wanted in panel.entries.items():
            if panel.row_of[address, piece] < rows:
                assert self.memory.get((half + address, piece)) == wanted, f"entry {address} of {panel}"

    def complete(self) -> None:
        """The oldest panel is all there."""
        panel = self.coming.popleft()
        self.compare(panel, 1 << 20)
        first = HALF * (self.loaded % 2) // (1 if LEFT else TILE)
        for (place, which), wanted in panel.heads.items():
            assert self.heads.get((first + place, which)) == wanted, f"facts {place}, {which} of {panel}"
        self.held += 1
        self.loaded += 1
        self.saw(BlockPanelSituation[panel.blocks.name])
        self.saw(BlockPanelSituation.SUBNORMAL, panel.subnormal)
        self.saw(BlockPanelSituation.HALF, panel.kind == DataType.FP16)
        self.saw(BlockPanelSituation.WIDE, panel.wide)
        self.saw(BlockPanelSituation.HALF_TILE, (panel.k0 + panel.kb) % PACKED_WORDS)
        self.saw(BlockPanelSituation.SECOND, panel.k0 % PACKED_WORDS)
        full = (LEFT or panel.wide) and panel.kb == BLOCK_WORDS * MOST_BLOCKS
        self.saw(BlockPanelSituation.FULL, full and panel.k0 % PACKED_WORDS)


@cocotb.test()
async def random_panels(dut: Any) -> None:
    """Every plane, row of a tile and scale is where the engine looks for it."""
    situations = Situations(BlockPanelSituation)
    situations.saw(BlockPanelSituation.WIDE, LEFT)
    for each in (BlockPanelSituation.SECOND, BlockPanelSituation.FULL):
        situations.saw(each, PARTS == 1)
    for each in (BlockPanelSituation.SUBNORMAL, BlockPanelSituation.ABORT_BETWEEN):
        situations.saw(each, not LEFT)
    await reset(dut, "blocks_i")
    loader = BlockLoader(dut, situations)
    for _ in situations.rounds(25):
        loader.accepting = random.choice((1.0, 0.3))
        loader.bringing = random.choice((1.0, 1.0, 0.5))
        loader.freeing = random.choice((1.0, 0.1, 0.01))
        # The largest panels take long.
        for _ in range(random.choice((1, 1, 1, 4)) * random.randint(50, 600)):
            await loader.clock()
        if random.random() < 0.5:
            await loader.clock(abort=True)
