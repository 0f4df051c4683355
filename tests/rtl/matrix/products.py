"""Random matrix products with their operands in memory and their results, for testbenches."""

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.formats import FORMATS
from echo_npu.model.blocks import matmul_blocks
from echo_npu.model.epilogue import widen
from echo_npu.model.numerics import matmul_fp32, matmul_int8
from echo_npu.spec.data_types import DataType
from tests.rtl.matrix.arithmetic import CORNERS, Words
from tests.rtl.matrix.commands import MatrixCommand, MatrixOperand
from tests.rtl.matrix.epilogues import stored
from tests.rtl.matrix.regions import Destination, Layout, Places, SourceOperand, draw_layout
from tests.rtl.matrix.vectors import Vectors


@dataclass(frozen=True)
class DrawnProduct:
    """A command with everything that it reads and writes.

    Attributes: places (of all operands), special (operands with values at the edges of their type).
    """

    command: MatrixCommand
    places: Places
    left: SourceOperand
    right: SourceOperand
    vectors: tuple[SourceOperand, ...]
    result: Destination
    special: bool

    @property
    def macs(self) -> int:
        """Return the useful multiply-adds."""
        command = self.command
        return command.m * command.k * command.n * command.batch0 * command.batch1


def draw_elements(kind: DataType, count: int, *, special: bool) -> NDArray[np.uint8]:
    """Draw operands as stored; with `special`, some are at the edges of their type."""
    generator = np.random.default_rng(random.getrandbits(32))
    if kind == DataType.INT8:
        low, high = (-128, 128) if special else (-20, 20)
        return generator.integers(low, high, count).astype(np.int8).view(np.uint8)
    values = generator.normal(0, 2, count).astype(np.float32)
    if special:
        edges = generator.choice(np.array(CORNERS, np.uint32), count).view(np.float32)
        values = np.where(generator.random(count) < 0.05, edges, values)
    if kind == DataType.BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind == DataType.FP16:
        with np.errstate(all="ignore"):
            return values.astype(np.float16).view(np.uint8)
    return values.view(np.uint8)


def draw_blocks(kind: DataType, rows: int, depth: int, *, special: bool) -> NDArray[np.uint8]:
    """float32 or float16 [rows, depth] that meet weights in blocks: blocks of any magnitude, of zeros, with a
    NaN."""
    generator = np.random.default_rng(random.getrandbits(32))
    blocks = generator.normal(0, 2, (rows, depth // 32, 32)).astype(np.float32)
    if special:
        least, most = (-26, 16) if kind == DataType.FP16 else (-150, 120)
        reach = generator.integers(least, most, (rows, depth // 32, 1))
        blocks = np.ldexp(blocks, reach + generator.integers(-20, 1, blocks.shape)).astype(np.float32)
        blocks[generator.random((rows, depth // 32)) < 0.2] = 0
        edges = generator.choice(np.array(CORNERS, np.uint32), blocks.shape).view(np.float32)
        blocks = np.where(generator.random(blocks.shape) < 0.002, edges, blocks)
    with np.errstate(all="ignore"):
        values = blocks.astype(np.float16 if kind == DataType.FP16 else np.float32)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def draw_tiles(tiles: int, head_bytes: int, tile_bytes: int, *, special: bool) -> NDArray[np.uint8]:
    """Packed tiles of any quants [tiles, bytes], also past the ends of the matrix; with `special` of any
    scales."""
    generator = np.random.default_rng(random.getrandbits(32))
    packed = generator.integers(0, 256, (tiles, tile_bytes), np.uint8)
    if not special:
        heads = generator.normal(0, 1, (tiles, head_bytes // 2)).astype(np.float16)
        packed[:, :head_bytes] = heads.view(np.uint8)
    return packed


def draw_product(command: MatrixCommand, places: Places) -> DrawnProduct:
    """Draw addresses and strides for the command; its operands may be anywhere in memory."""
    batches = command.batch0, command.batch1
    special = random.random() < 0.3

    def operand(
        kind: DataType, rows: int, columns: int, *, transposed: bool
    ) -> tuple[SourceOperand, MatrixOperand, NDArray[Any]]:
        size, (stored_rows, length) = kind.itemsize, (columns, rows) if transposed else (rows, columns)
        layout = draw_layout(stored_rows, length * size, size, batches, result=False)
        source = SourceOperand(places.draw(layout.extent, size), layout)
        flat = source.rows.shape
        # Where batches overlap, the later one wins.
        for index in np.ndindex(flat[:2]):
            if command.blocks:
                elements = draw_blocks(kind, stored_rows, length, special=special)
            else:
                elements = draw_elements(kind, stored_rows * length, special=special)
            source.rows[index] = elements.reshape(flat[2:])
        matrices = np.ascontiguousarray(source.rows).view(kind.storage)
        return source, layout.at(source.addr), matrices.swapaxes(-1, -2) if transposed else matrices

    left, src1, a = operand(command.left_type, command.m, command.k, transposed=command.trans_a)
    if command.blocks:
        right, src2, b = _packed(command, places, special=special)
    else:
        right, src2, b = operand(command.right_type, command.k, command.n, transposed=command.trans_b)
    out = draw_layout(command.m, command.n * command.size, command.size, batches, result=True)
    dst = out.at(places.draw(out.extent, command.size))
    command = replace(command, src1=src1, src2=src2, dst=dst)
    command, vectors, sources = _with_vectors(command, places)
    results = [
        _result(command, a[index], b[index], vectors) for index in np.ndindex(command.batch1, command.batch0)
    ]
    return DrawnProduct(command, places, left, right, sources, Destination(dst.addr, out, results), special)


def _packed(
    command: MatrixCommand, places: Places, *, special: bool
) -> tuple[SourceOperand, MatrixOperand, NDArray[Any]]:
    """The right operand in packed tiles [outer, inner, row of tiles, tile, byte]."""
    f = FORMATS[command.blocks.label]
    down, along = f.tiles(command.n, command.k)
    batches = command.batch0, command.batch1
    layout = draw_layout(down, along * f.tile_bytes, 64, batches, result=False)
    source = SourceOperand(places.draw(layout.extent, 64), layout)
    for index in np.ndindex(source.rows.shape[:2]):
        tiles = draw_tiles(down * along, f.quants_at, f.tile_bytes, special=special)
        source.rows[index] = tiles.reshape(down, -1)
    tiles = np.ascontiguousarray(source.rows).reshape(*source.rows.shape[:3], along, f.tile_bytes)
    return source, layout.at(source.addr), tiles


def _with_vectors(
    command: MatrixCommand, places: Places
) -> tuple[MatrixCommand, Vectors, tuple[SourceOperand, ...]]:
    """Return the command with the addresses of its scales and bias; unused addresses are noise."""
    vectors = Vectors(command)
    sources: list[SourceOperand] = []

    def place(*parts: Words) -> int:
        if not parts:
            return random.getrandbits(32)
        words = np.concatenate(parts)
        layout = Layout(1, words.nbytes, 0, (1, 1), (0, 0))
        sources.append(SourceOperand(places.draw(layout.extent, 4), layout))
        sources[-1].rows[...] = words.view(np.uint8)
        return sources[-1].addr

    row_scales = place(*[vectors.row_scales] * command.row_scale)
    columns = place(*[vectors.column_scales] * command.col_scale, *[vectors.bias] * command.bias)
    return replace(command, row_scales=row_scales, columns=columns), vectors, tuple(sources)


def _result(command: MatrixCommand, a: NDArray[Any], b: NDArray[Any], vectors: Vectors) -> NDArray[np.uint8]:
    """Return the rows of one batch's result as stored, uint8 [row, byte]."""
    if command.blocks:
        activations = widen(a, command.left_type)
        sums = matmul_blocks(activations, b, FORMATS[command.blocks.label], command.n).view(np.uint32)
    elif command.kind == DataType.INT8:
        sums = matmul_int8(a, b).view(np.uint32)
    else:
        sums = matmul_fp32(widen(a, command.left_type), widen(b, command.right_type)).view(np.uint32)
    rows = [
        stored(command, row, int(vectors.row_scales[m]), vectors.column_scales, vectors.bias)
        for m, row in enumerate(sums)
    ]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(command.m, -1)
