"""Weights in blocks of 32 values, as ggml stores them, and packed into the tiles that the device multiplies.

    packed = formats.pack(weights, "q4_1")      float32, the blocks of a file, or a tensor of a GGUF reader
    blocks = formats.unpack(packed)             the bytes of the file again

Packing moves bytes and changes none: the tiles are as large as the file's blocks, up to padding to whole
tiles.
"""

from echo_npu.formats.block_format import BLOCK, FORMATS, TILE_BLOCKS, BlockFormat, named_format
from echo_npu.formats.packed import (
    BlockParts,
    PackedMatrix,
    block_parts,
    pack,
    tile_heads,
    tile_parts,
    tile_quants,
    unpack,
)
from echo_npu.formats.quantize import dequantize, quantize
from echo_npu.spec.contract import TILE_COLUMNS, TILE_DEPTH

__all__ = [
    "BLOCK",
    "FORMATS",
    "TILE_BLOCKS",
    "TILE_COLUMNS",
    "TILE_DEPTH",
    "BlockFormat",
    "BlockParts",
    "PackedMatrix",
    "block_parts",
    "dequantize",
    "named_format",
    "pack",
    "quantize",
    "tile_heads",
    "tile_parts",
    "tile_quants",
    "unpack",
]
