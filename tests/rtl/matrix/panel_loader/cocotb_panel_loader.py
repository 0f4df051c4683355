"""panel_loader: random panels of every type and direction, memory and consumer at any pace, aborts."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from echo_npu.spec.data_types import DataType
from tb.blocks import parameter
from tests.rtl.matrix.commands import drawn_start
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.transfers import Transfer

CONFIGURATIONS = [
    {"DataWidth": 64, "Tile": 4, "BlockX": 32, "AddrBits": 8},
    {"DataWidth": 64, "Tile": 8, "BlockX": 32, "AddrBits": 8},
    {"DataWidth": 64, "Tile": 4, "BlockX": 4, "AddrBits": 6},
    {"DataWidth": 64, "Tile": 4, "BlockX": 512, "AddrBits": 11},  # more rows than eight bits count
]
BUS = parameter("DataWidth") // 8
TILE, BLOCK_X, ADDRESS_BITS = (parameter(name) for name in ("Tile", "BlockX", "AddrBits"))
K_TILES = (1 << ADDRESS_BITS - 1) // BLOCK_X


class PanelLoaderSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FP32_K = "float32 along K"
    FP32_X = "float32 along X"
    BF16_K = "bfloat16 along K"
    BF16_X = "bfloat16 along X"
    FP16_K = "float16 along K"
    FP16_X = "float16 along X"
    INT8_K = "int8 along K"
    INT8_X = "int8 along X"
    WIDE = "a wide panel with more columns than another may have"
    PARTS = "a word of int8 whose last bytes are past the end of K"
    SHORT = "rows that end inside an entry"
    TWO = "two entries written in a clock"
    AHEAD = "two panels held, and none asked for"
    PARTLY = "rows of a panel that are complete before the panel"
    SUBNORMAL = "a subnormal float16"
    ABORT = "an abort with a panel on its way"


@dataclass(frozen=True)
class LoadedPanel:
    """A panel: its ports, and its expected content on chip.

    Attributes: words (uint32 [k, x]).
    """

    kind: DataType
    k_rows: bool
    wide: bool
    base: int
    stride: int
    depth: int
    k0: int
    x0: int
    words: NDArray[np.uint32]
    rows: tuple[bytes, ...]  # of memory

    @property
    def kb(self) -> int:
        return self.words.shape[0]

    @property
    def xb(self) -> int:
        return self.words.shape[1]

    def transfer(self) -> Transfer:
        """Return the rows of memory that hold it."""
        size, per_word = self.kind.itemsize, 4 if self.kind == DataType.INT8 else 1
        k, x = self.k0 * per_word, self.x0
        place = k * self.stride + x * size if self.k_rows else x * self.stride + k * size
        return Transfer(self.base + place & 0xFFFF_FFFF, len(self.rows[0]), len(self.rows), self.stride)

    def entries(self, complete: int) -> dict[int, list[int]]:
        """Return on-chip address in the panel and words of each complete row of words, along k or x."""
        entries: dict[int, list[int]] = {}
        x_tiles = BLOCK_X // TILE * (2 if self.wide else 1)
        along, across = (self.words, self.xb) if self.k_rows else (self.words.T, self.kb)
        for row in range(min(complete, len(along))):
            for tile in range(-(-across // TILE)):
                block = row // TILE * x_tiles + tile if self.k_rows else tile * x_tiles + row // TILE
                part = [int(word) for word in along[row, tile * TILE : (tile + 1) * TILE]]
                entries[block * TILE + row % TILE] = part + [0] * (TILE - len(part))
        return entries


def draw() -> LoadedPanel:
    """Draw a panel that fits."""
    kind, k_rows, wide = random.choice(list(DataType)), random.random() < 0.5, random.random() < 0.4
    most_k, most_x = TILE * K_TILES // (2 if wide else 1), BLOCK_X * (2 if wide else 1)
    kb = random.choice((1, TILE, min(TILE + 1, most_k), most_k, random.randint(1, most_k)))
    xb = random.choice((1, TILE, min(TILE + 1, most_x), most_x, random.randint(1, most_x)))
    size, per_word = kind.itemsize, 4 if kind == DataType.INT8 else 1
    k0 = drawn_start(kb) // per_word
    # Elements [k, x]; K may end inside the last word, or continue beyond the panel.
    count = kb * per_word - random.choice((0, random.randrange(per_word)))
    depth = k0 * per_word + count
    if count == kb * per_word:
        depth += random.choice((0, 1, 1000))
    raw = np.random.default_rng(random.getrandbits(32)).integers(0, 1 << 8 * size, (count, xb), np.uint32)
    if kind == DataType.FP16:
        special = np.array([0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00], np.uint32)
        raw = np.where(raw % 8 == 0, special[raw // 8 % 8], raw)
        # No NaN: its bits are free.
        raw = np.where((raw & 0x7C00 == 0x7C00) & (raw & 0x3FF != 0), 0x3C00, raw)
        words = raw.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    elif kind == DataType.BF16:
        words = raw << 16
    elif kind == DataType.INT8:
        padded = np.zeros((kb * 4, xb), np.uint32)
        padded[:count] = raw
        words = sum(padded[i::4] << np.uint32(8 * i) for i in range(4))
    else:
        words = raw
    stored = raw.astype({1: np.uint8, 2: np.uint16, 4: np.uint32}[size])
    rows = tuple(row.tobytes() for row in (stored if k_rows else np.ascontiguousarray(stored.T)))
    stride = random.getrandbits(random.randint(0, 32))
    base = random.randrange(1 << 28)
    return LoadedPanel(kind, k_rows, wide, base, stride, depth, k0, drawn_start(xb), words, rows)


class PanelLoaderTestbench:
    """The ports, and a model of the on-chip memory."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.accepting = self.bringing = self.freeing = 1.0
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.memory: dict[int, list[int]] = {}
        self.panel: LoadedPanel | None = None  # offered
        self.coming: deque[LoadedPanel] = deque()  # requested, not complete
        self.beats: deque[tuple[int, bool]] = deque()  # expected data, and whether it ends a row
        self.held: deque[LoadedPanel] = deque()  # complete and not freed
        self.loaded = 0
        self.rows = 0  # of memory, complete

    async def clock(self, *, abort: bool = False, offering: float = 1.0) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        if self.panel is None and random.random() < offering:
            self.panel = draw()
            self.offer(self.panel)
        dut.panel_valid_i.value = int(self.panel is not None)
        dut.abort_i.value = int(abort)
        accept = random.random() < self.accepting and not abort
        bring = bool(self.beats) and random.random() < self.bringing and not abort
        free = bool(self.held) and random.random() < self.freeing and not abort
        dut.desc_ready_i.value, dut.free_i.value, dut.data_valid_i.value = int(accept), int(free), int(bring)
        data, last = self.beats[0] if bring else (random.getrandbits(8 * BUS), random.getrandbits(1))
        dut.data_i.value, dut.data_row_last_i.value = data, int(last)
        await RisingEdge(dut.clk_i)
        assert int(dut.loaded_o.value) == self.loaded % 256
        assert bool(dut.idle_o.value) == (not self.coming)
        room = len(self.coming) + len(self.held) < 2
        assert bool(dut.desc_valid_o.value) == (self.panel is not None and room)
        assert bool(dut.panel_next_o.value) == (self.panel is not None and room and accept)
        changes = dut.panel_next_o.value or bring or free
        assert bool(dut.awake_o.value) == bool(changes), "the clock runs if the next edge changes something"
        self.situations.saw(PanelLoaderSituation.AHEAD, not room)
        self.check_rows()
        if self.panel is not None and room:
            assert Transfer.of(dut.desc_o) == self.panel.transfer(), self.panel
        self.follow_writes()
        if bring:
            assert dut.data_ready_o.value
            self.beats.popleft()
            self.rows += last
            if self.rows == len(self.coming[0].rows):
                self.complete()
        if self.panel is not None and room and accept:
            self.accepted(self.panel)
            self.panel = None
        if free:
            self.held.popleft()
        if abort:
            self.situations.saw(PanelLoaderSituation.ABORT, self.beats)
            self.forget()

    def offer(self, panel: LoadedPanel) -> None:
        """Show a panel at the ports."""
        dut = self.dut
        dut.kind_i.value, dut.k_rows_i.value, dut.wide_i.value = panel.kind, panel.k_rows, panel.wide
        dut.base_i.value, dut.stride_i.value, dut.depth_i.value = panel.base, panel.stride, panel.depth
        dut.k0_i.value, dut.kb_i.value = panel.k0, panel.kb
        dut.x0_i.value, dut.xb_i.value = panel.x0, panel.xb

    def accepted(self, panel: LoadedPanel) -> None:
        """Bring the panel's rows from memory, each from its first byte, with zeros after its last."""
        self.coming.append(panel)
        for row in panel.rows:
            padded = row + bytes(-len(row) % BUS)
            starts = range(0, len(padded), BUS)
            for at in starts:
                self.beats.append((int.from_bytes(padded[at : at + BUS], "little"), at == starts[-1]))

    def follow_writes(self) -> None:
        """Apply the writes at the ports to the model of the memory."""
        dut = self.dut
        which, enabled = int(dut.write_o.value), int(dut.write_bytes_o.value)
        if not which:
            return
        address = int(dut.write_addr_o.value)
        mask = sum(0xFF << 8 * i for i in range(4) if enabled >> i & 1)
        if which & 2:
            assert address // TILE % 2 == 0, "two entries are in one bank"
            self.situations.saw(PanelLoaderSituation.TWO)
        for place in range(2):
            if which >> place & 1:
                entry = int(dut.write_data_o[place].value)
                old = self.memory.get(address + place * TILE, [0xDEAD_BEEF] * TILE)
                new = [entry >> 32 * lane & 0xFFFF_FFFF for lane in range(TILE)]
                merged = [was & ~mask | word & mask for was, word in zip(old, new, strict=True)]
                self.memory[address + place * TILE] = merged

    def check_rows(self) -> None:
        """Check that rows reported as complete are in memory."""
        if not self.coming:
            return
        panel, said = self.coming[0], int(self.dut.rows_o.value)
        per_word = 4 if panel.kind == DataType.INT8 and panel.k_rows else 1
        assert said == self.rows // per_word
        self.situations.saw(PanelLoaderSituation.PARTLY, said)
        if random.random() < 0.05:
            self.compare(panel, said)

    def compare(self, panel: LoadedPanel, rows: int) -> None:
        """Compare the first rows of the panel that is being loaded, or has just been."""
        half = self.loaded % 2 << ADDRESS_BITS - 1
        for address, words in panel.entries(rows).items():
            assert self.memory.get(half + address) == words, f"entry {address} of {panel}"

    def complete(self) -> None:
        """Check that the oldest panel is complete."""
        panel = self.coming.popleft()
        self.compare(panel, max(panel.words.shape))
        self.held.append(panel)
        self.loaded += 1
        self.rows = 0
        self.situations.saw(PanelLoaderSituation[f"{panel.kind.name}_{'X' if panel.k_rows else 'K'}"])
        self.situations.saw(PanelLoaderSituation.WIDE, panel.wide and panel.xb > BLOCK_X)
        parts = panel.kind == DataType.INT8 and 0 < panel.depth - 4 * panel.k0 < 4 * panel.kb
        self.situations.saw(PanelLoaderSituation.PARTS, parts)
        self.situations.saw(PanelLoaderSituation.SHORT, (panel.xb if panel.k_rows else panel.kb) % TILE)
        tiny = (panel.words > 0) & (panel.words < 0x3880_0000)  # below 2**-14
        self.situations.saw(PanelLoaderSituation.SUBNORMAL, panel.kind == DataType.FP16 and tiny.any())


@cocotb.test()
async def random_panels(dut: Any) -> None:
    """Every word is at its place before it is reported as complete."""
    situations = Situations(PanelLoaderSituation)
    # A beat gives at most four beats of words.
    situations.saw(PanelLoaderSituation.TWO, 4 * TILE > 2 * BUS)
    await reset(dut)
    testbench = PanelLoaderTestbench(dut, situations)
    for _ in situations.rounds(60):
        testbench.accepting = random.choice((1.0, 0.3))
        testbench.bringing = random.choice((1.0, 1.0, 0.5))
        testbench.freeing = random.choice((1.0, 0.1, 0.01))
        for _ in range(random.randint(50, 400)):
            await testbench.clock(offering=0.8)
        if random.random() < 0.3:
            await testbench.clock(abort=True, offering=0.0)
