"""Random matrix products with their operands in memory and their results, for testbenches."""

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def draw_product(command: MatrixCommand, places: Places) -> DrawnProduct:
    """Draw addresses and strides for the command; its operands may be anywhere in memory."""
    size, batches = command.kind.itemsize, (command.batch0, command.batch1)
    special = random.random() < 0.3

    def operand(
        rows: int, columns: int, *, transposed: bool
    ) -> tuple[SourceOperand, MatrixOperand, NDArray[Any]]:
        stored_rows, length = (columns, rows) if transposed else (rows, columns)
        layout = draw_layout(stored_rows, length * size, size, batches, result=False)
        source = SourceOperand(places.draw(layout.extent, size), layout)
        flat = source.rows.shape
        # Where batches overlap, the later one wins.
        for index in np.ndindex(flat[:2]):
            elements = draw_elements(command.kind, stored_rows * length, special=special)
            source.rows[index] = elements.reshape(flat[2:])
        matrices = np.ascontiguousarray(source.rows).view(command.kind.storage)
        return source, layout.at(source.addr), matrices.swapaxes(-1, -2) if transposed else matrices

    left, src1, a = operand(command.m, command.k, transposed=command.trans_a)
    right, src2, b = operand(command.k, command.n, transposed=command.trans_b)
    out = draw_layout(command.m, command.n * command.size, command.size, batches, result=True)
    dst = out.at(places.draw(out.extent, command.size))
    command = replace(command, src1=src1, src2=src2, dst=dst)
    command, vectors, sources = _with_vectors(command, places)
    results = [
        _result(command, a[index], b[index], vectors) for index in np.ndindex(command.batch1, command.batch0)
    ]
    return DrawnProduct(command, places, left, right, sources, Destination(dst.addr, out, results), special)


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
    if command.kind == DataType.INT8:
        sums = matmul_int8(a, b).view(np.uint32)
    else:
        sums = matmul_fp32(widen(a, command.kind), widen(b, command.kind)).view(np.uint32)
    rows = [
        stored(command, row, int(vectors.row_scales[m]), vectors.column_scales, vectors.bias)
        for m, row in enumerate(sums)
    ]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(command.m, -1)
