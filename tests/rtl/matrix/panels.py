"""A model of the panel memory and its loader, for the testbenches of the feeders."""

import random
from collections import deque
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from echo_npu.formats import BLOCK
from tb.blocks import parameter
from tests.rtl.stimulus import CHANCES


def _block() -> int:
    """Return the most rows or columns of a panel that is not wide; each feeder has one of the parameters."""
    try:
        return parameter("BlockN")
    except KeyError:
        return parameter("BlockM")


TILE, BLOCK_X, ADDRESS_BITS = parameter("Tile"), _block(), parameter("AddrBits")
K_TILES = (1 << ADDRESS_BITS - 1) // BLOCK_X
COUNTED = 256
"""Panels that a feeder's counter can count."""


@dataclass(frozen=True)
class Panel:
    """A panel of `kb` words by `xb`, as panel_loader lays it out; `words` [k][x] has whole tiles.

    Words beyond the ends are noise, which the reader must mask.
    """

    k_rows: bool
    wide: bool
    kb: int
    xb: int
    words: list[list[int]]

    def address(self, k: int, x: int) -> int:
        """Return the entry, within the panel, of the word [k][x]."""
        tiles = k // TILE * (BLOCK_X // TILE * (2 if self.wide else 1)) + x // TILE
        return tiles * TILE + (k if self.k_rows else x) % TILE

    def entry(self, k: int, x: int) -> int:
        """Return the words of that entry."""
        if self.k_rows:
            words = self.words[k][x - x % TILE :][:TILE]
        else:
            words = [row[x] for row in self.words[k - k % TILE :][:TILE]]
        return sum(word << 32 * lane for lane, word in enumerate(words))

    def find(self, place: int) -> tuple[int, int, int]:
        """Return first k, first x and words of an entry. AssertionError: it is not in the panel."""
        tile, row = divmod(place, TILE)
        k_tile, x_tile = divmod(tile, BLOCK_X // TILE * (2 if self.wide else 1))
        k, x = k_tile * TILE + (row if self.k_rows else 0), x_tile * TILE + (0 if self.k_rows else row)
        self.check_inside(place, k, x)
        assert self.address(k, x) == place
        return k, x, self.entry(k, x)

    def check_inside(self, place: int, k: int, x: int) -> None:
        """Require that the panel has words at k and x."""
        assert k < self.kb, f"entry {place} is past the end of K"
        assert x < self.xb, f"entry {place} is past the end of X"

    @property
    def rows(self) -> int:
        """Return how many rows come from memory."""
        return self.kb if self.k_rows else self.xb


def tiles(k_length: int, n_length: int, *, n_outer: bool) -> list[tuple[int, int]]:
    """Return first k and n of each tile of a product's block, in the order of the feeders."""
    k_starts, n_starts = range(0, k_length, TILE), range(0, n_length, TILE)
    if n_outer:
        return [(k, n) for n in n_starts for k in k_starts]
    return [(k, n) for k in k_starts for n in n_starts]


def draw_words(kb: int, xb: int) -> list[list[int]]:
    """Draw words of whole tiles."""
    return [
        [random.getrandbits(32) for _ in range(-(-xb // TILE) * TILE)] for _ in range(-(-kb // TILE) * TILE)
    ]


def draw_size(most: int) -> int:
    """Draw the length of a panel in one direction."""
    return random.choice((1, TILE, TILE + 1, most, random.randint(1, most)))


P = TypeVar("P", bound=Panel)


class PanelMemory(Generic[P]):
    """The loader's progress and the memory's read port. Reading words that have not come fails.

    Attributes: panels (the first is the one that the feeder asks for), pace (of the loader), early (how many
    reads were of a panel that was not complete).
    """

    def __init__(self, dut: Any) -> None:
        self.panels: deque[P] = deque()
        self.pace = 1.0
        self.early = 0
        self._dut = dut
        self.forget()

    def forget(self) -> None:
        """Begin as after a reset."""
        self.panels.clear()
        self._done = self._loaded = self._rows = 0
        self._data: int | None = None

    def vary(self) -> None:
        """Change the loader's pace."""
        self.pace = random.choice((*CHANCES, 0.02))

    def drive(self) -> None:
        """Choose the inputs of the coming clock edge."""
        dut = self._dut
        dut.loaded_i.value, dut.rows_i.value = self._loaded % 256, self._rows
        dut.read_data_i.value = random.getrandbits(32 * TILE) if self._data is None else self._data

    def follow(self) -> P | None:
        """Serve a read; return the panel that the feeder has released, if any."""
        dut = self._dut
        self._data = None
        freed = None
        if dut.read_o.value:
            self._data = self._read(int(dut.read_addr_o.value))
        assert bool(dut.free_o.value) == bool(dut.panel_next_o.value)
        if dut.panel_next_o.value:
            freed = self.panels.popleft()
            self._done += 1
        self._load()
        return freed

    def _read(self, address: int) -> int:
        panel = self.panels[0]
        assert address >> ADDRESS_BITS - 1 == self._done % 2, "a read of the other panel"
        place = address & (1 << ADDRESS_BITS - 1) - 1
        k, x, words = panel.find(place)
        # A block of 32 values takes two tiles of an array of four rows, else a part of one.
        assert bool(self._dut.read_ends_o.value) == (4 * TILE >= BLOCK or bool(k // TILE % 2))
        if self._loaded == self._done:
            assert (k if panel.k_rows else x) < self._rows, f"entry {place} has not come yet"
            self.early += 1
        return words

    def _load(self) -> None:
        ahead = self._loaded - self._done
        if ahead >= min(2, len(self.panels)) or random.random() > self.pace:
            return
        self._rows += 1
        if self._rows >= self.panels[ahead].rows:
            self._loaded, self._rows = self._loaded + 1, 0
