"""Weights in blocks, unpacked once for products that come again.

A panel keeps a copy of the tiles that it was made from, and is compared with memory before each use. So it
does not matter who writes to memory, or how: commands, the host, a library that maps it, another process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import BLOCK, TILE_BLOCKS, BlockFormat, tile_heads, tile_quants
from echo_npu.spec.contract import TILE_COLUMNS

FloatArray = NDArray[np.float32]
Tiles: TypeAlias = NDArray[np.uint8]
"""Tiles in memory, uint8 [N tiles, K tiles, bytes of a tile], which may be a strided view."""

SECTION_BYTES: Final = 1 << 21
"""Bytes of a section's quants as float32, chosen so that they stay in the cache."""

MOST_BYTES: Final = 1 << 28
"""Bytes that the panels of a model take at most."""

IDLE: Final = 4096
"""A panel that so many products did not use may go for another one. If each product could push one out, none
would stay of a model whose weights have no room together."""


@dataclass(frozen=True, slots=True)
class WeightSection:
    """Some columns of a matrix, K padded to whole tiles.

    Attributes:
        tiles: what it was made from.
        quants: as stored, [blocks, bytes of a block's quants, columns]: uint8 with two values in a byte, the
            low half value i and the high half value i + 16, or int8.
        d: the scales, float32 [blocks, columns].
        m: the minima likewise, or None where the format has none.
    """

    tiles: Tiles
    quants: NDArray[np.uint8] | NDArray[np.int8]
    d: FloatArray
    m: FloatArray | None

    @classmethod
    def of(cls, tiles: Tiles, block_format: BlockFormat) -> WeightSection:
        """Unpack tiles."""
        own = np.array(tiles, order="C")
        stored = tile_quants(own, block_format).transpose(1, 3, 4, 0, 2)
        quants = np.ascontiguousarray(stored).reshape(-1, block_format.quant_bytes, _columns(own))
        d = _heads(own, 0)
        m = _heads(own, 1) if block_format.minimum else None
        return cls(own, quants if block_format.bits == 4 else quants.view(np.int8), d, m)

    @property
    def nbytes(self) -> int:
        m = 0 if self.m is None else self.m.nbytes
        return self.tiles.nbytes + self.quants.nbytes + self.d.nbytes + m

    @property
    def columns(self) -> int:
        return int(self.d.shape[1])

    def is_of(self, tiles: Tiles) -> bool:
        """Return whether memory still holds these tiles."""
        return bool((self.tiles.view(np.uint64) == tiles.view(np.uint64)).all())

    def widened(self) -> FloatArray:
        """Return the stored quants, without the format's offset, as a new float32 [blocks, 32, columns]."""
        blocks, _, columns = self.quants.shape
        made = np.empty((blocks, BLOCK, columns), np.float32)
        if self.quants.dtype == np.int8:
            made[...] = self.quants
        else:
            half = BLOCK // 2
            made[:, :half] = self.quants & np.uint8(15)
            made[:, half:] = self.quants >> np.uint8(4)
        return made


def sections(tiles: Tiles) -> Iterator[Tiles]:
    """Cut tiles into the parts that a section is made from, in the order of their columns."""
    along = tiles.shape[1] * TILE_BLOCKS
    step = SECTION_BYTES // (4 * BLOCK * along * TILE_COLUMNS) or 1
    for first in range(0, tiles.shape[0], step):
        yield tiles[first : first + step]


class WeightPanels:
    """The panels of a model's recent products.

    Args:
        most_bytes: what they take at most.
        idle: products after which an unused panel may go.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, idle: int = IDLE) -> None:
        self._most_bytes = most_bytes
        self._idle = idle
        self._panels: dict[_Place, _Panel] = {}  # the one that was used longest ago comes first
        self._products = 0
        self.nbytes = 0
        """Bytes of all panels."""

    def sections(self, tiles: Tiles, block_format: BlockFormat) -> Iterator[WeightSection]:
        """Yield the sections of a matrix as memory holds it now, in the order of their columns."""
        self._products += 1
        panel = self._panel(tiles, block_format)
        for index, part in enumerate(sections(tiles)):
            if panel is None:
                yield WeightSection.of(part, block_format)
                continue
            if index == len(panel.sections):
                panel.sections.append(WeightSection.of(part, block_format))
            elif not panel.sections[index].is_of(part):
                panel.sections[index] = WeightSection.of(part, block_format)
            yield panel.sections[index]

    def _panel(self, tiles: Tiles, block_format: BlockFormat) -> _Panel | None:
        """Return the panel at this place, which may lack sections; None if there is no room for one."""
        at = (tiles.__array_interface__["data"][0], tiles.shape, tiles.strides, block_format.name)
        panel = self._panels.pop(at, None)
        if panel is None:
            panel = _Panel(_bytes_of(tiles, block_format), [])
            if not self._make_room(panel.nbytes):
                return None
            self.nbytes += panel.nbytes
        panel.used = self._products
        self._panels[at] = panel
        return panel

    def _make_room(self, nbytes: int) -> bool:
        if nbytes > self._most_bytes:
            return False
        while self.nbytes + nbytes > self._most_bytes:
            at, oldest = next(iter(self._panels.items()))
            if self._products - oldest.used <= self._idle:
                return False
            self.nbytes -= oldest.nbytes
            del self._panels[at]
        return True


_Place: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], str]


@dataclass(slots=True)
class _Panel:
    nbytes: int
    sections: list[WeightSection]
    used: int = 0


def _columns(tiles: Tiles) -> int:
    return int(tiles.shape[0]) * TILE_COLUMNS


def _heads(tiles: Tiles, which: int) -> FloatArray:
    """Return the scales (0) or the minima (1), float32 [blocks, columns]."""
    found = np.ascontiguousarray(tile_heads(tiles, which).transpose(1, 2, 0, 3, 4)).view(np.float16)
    return found.reshape(-1, _columns(tiles)).astype(np.float32)


def _bytes_of(tiles: Tiles, block_format: BlockFormat) -> int:
    """Return the bytes of the panel of these tiles."""
    count = int(tiles.shape[0]) * int(tiles.shape[1])
    heads = (2 if block_format.minimum else 1) * 4 * TILE_COLUMNS * TILE_BLOCKS
    quants = TILE_COLUMNS * TILE_BLOCKS * block_format.quant_bytes
    return count * (block_format.tile_bytes + heads + quants)
