"""The block formats: their bytes in a file, and in a packed tile."""

from dataclasses import dataclass
from typing import Final

from echo_npu.spec.contract import BLOCK_VALUES, TILE_COLUMNS, TILE_DEPTH

BLOCK: Final = BLOCK_VALUES
"""Values of a block, neighbours along K."""

TILE_BLOCKS: Final = TILE_DEPTH // BLOCK
_SCALES: Final = TILE_COLUMNS * TILE_BLOCKS * 2


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """A block format: a value is `d * q`, or `d * q + m` where blocks have a minimum.

    A block in a file is the float16 d, the float16 m if there is one, then the quants. Quants of four bits
    lie two in a byte: the low half of byte i is value i, the high half is value i + 16.

    A tile begins with d of block b and column c at byte 32 * b + 2 * c, then m likewise if there is one. The
    quants follow: for each column those of block 0, then of block 1, as in the file.

    Attributes:
        name: as ggml's, in lower case.
        bits: of a stored quant, 4 or 8. Those of 8 bits are signed.
        offset: is subtracted from a stored quant.
        minimum: whether blocks have a minimum.
    """

    name: str
    bits: int
    offset: int
    minimum: bool

    @property
    def quant_bytes(self) -> int:
        """Bytes of a block's quants."""
        return BLOCK * self.bits // 8

    @property
    def head_bytes(self) -> int:
        """Bytes of a block before its quants: d, and m if there is one."""
        return 4 if self.minimum else 2

    @property
    def block_bytes(self) -> int:
        """Bytes of a block in a file."""
        return self.head_bytes + self.quant_bytes

    @property
    def quants_at(self) -> int:
        """Bytes of a tile before its quants."""
        return _SCALES * (2 if self.minimum else 1)

    @property
    def tile_bytes(self) -> int:
        """Bytes of a tile, a multiple of 64."""
        return self.quants_at + TILE_COLUMNS * TILE_BLOCKS * self.quant_bytes

    def row_bytes(self, depth: int) -> int:
        """Return the bytes of a stored row of `depth` values, a multiple of 32."""
        return depth // BLOCK * self.block_bytes

    def tiles(self, columns: int, depth: int) -> tuple[int, int]:
        """Return how many tiles a matrix has: along N, along K."""
        return -(-columns // TILE_COLUMNS), -(-depth // TILE_DEPTH)

    def packed_bytes(self, columns: int, depth: int) -> int:
        """Return the bytes of a packed matrix of `columns` (N) by `depth` (K)."""
        down, along = self.tiles(columns, depth)
        return down * along * self.tile_bytes


FORMATS: Final = {
    each.name: each
    for each in (
        BlockFormat("q8_0", bits=8, offset=0, minimum=False),
        BlockFormat("q4_0", bits=4, offset=8, minimum=False),
        BlockFormat("q4_1", bits=4, offset=0, minimum=True),
    )
}
"""The formats by name."""


def named_format(name: str) -> BlockFormat:
    """Return the format of that name, in upper or lower case; ValueError if there is none."""
    found = FORMATS.get(name.lower())
    if found is None:
        raise ValueError(f"block format {name!r}: it must be one of {', '.join(FORMATS)}")
    return found
