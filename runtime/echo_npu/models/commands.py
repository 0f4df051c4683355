"""The NPU commands of a layer: what each computes, as packets and as float64 truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from echo_npu.models.layer_types import F32, UNIT, Truth
from echo_npu.packets import ExtensionPacket, NpuCommandPacket, add_packets, matmul_packets, memcpy_packets

Packets: TypeAlias = list[NpuCommandPacket | ExtensionPacket]


@dataclass(frozen=True, slots=True)
class Buffer:
    """An allocation of float32 values in device memory.

    Attributes: name; region ("weight" or "activation"); address (physical, bytes); elements (float32 count).
    """

    name: str
    region: str
    address: int
    elements: int

    @property
    def nbytes(self) -> int:
        return 4 * self.elements


@dataclass(frozen=True, slots=True)
class View:
    """Matrices inside a buffer: `rows` x `cols` as stored, all distances in float32 elements.

    Attributes:
        offset: of the first matrix's first element.
        row_stride: from one row to the next; 0 is dense.
        batch_strides: (inner, outer), from one matrix to the next; 0 is the same matrix again.
    """

    buffer: Buffer
    rows: int
    cols: int
    offset: int = 0
    row_stride: int = 0
    batch_strides: tuple[int, int] = (0, 0)

    @property
    def address(self) -> int:
        """Physical byte address of the first element."""
        return self.buffer.address + 4 * self.offset

    def gather(self, content: F32, batch: tuple[int, int] = (1, 1)) -> F32:
        """The matrices, [outer, inner, rows, cols], read from the buffer's flat `content`.

        Raises:
            ValueError: the view leaves its buffer.
        """
        inner, outer = batch
        stride = self.row_stride or self.cols
        last = (
            self.offset
            + (outer - 1) * self.batch_strides[1]
            + (inner - 1) * self.batch_strides[0]
            + (self.rows - 1) * stride
            + self.cols
        )
        if last > content.size or content.size != self.buffer.elements:
            raise ValueError(f"a view of {self.buffer.name} needs {last} elements; there are {content.size}")
        window = np.lib.stride_tricks.as_strided(
            content[self.offset :],
            (outer, inner, self.rows, self.cols),
            (4 * self.batch_strides[1], 4 * self.batch_strides[0], 4 * stride, 4),
            writeable=False,
        )
        return np.array(window)


Reader: TypeAlias = Callable[[Buffer], F32]
"""Gives the flat float32 content of a buffer."""


class Command(Protocol):
    """One command of a layer."""

    @property
    def op(self) -> str:
        """The opcode's name."""

    @property
    def shape(self) -> str:
        """The work's size, for people."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the matrix engine."""

    def packets(self) -> Packets:
        """What is submitted."""

    def truth(self, read: Reader) -> Truth:
        """The float64 result, from the inputs that `read` gives."""

    def result(self, read: Reader) -> F32:
        """What the command wrote, in the shape of `truth().value`."""


def accumulation_bound(terms: int) -> float:
    """Bound of a float32 sum of `terms` rounded products, relative to the sum of their absolute values.

    The standard one (Higham, Accuracy and Stability, 3.1), n*u / (1 - n*u), with one rounding for each
    product or addition that a term can pass through, and one for alpha.
    """
    steps = (terms + 1) * UNIT
    return steps / (1.0 - steps)


@dataclass(frozen=True, slots=True)
class Matmul:
    """`dst[M, N] = alpha * (src1[M, K] @ op(src2))` for every batch; `trans_b`: src2 is [N, K]."""

    src1: View
    src2: View
    dst: View
    trans_b: bool = False
    alpha: float | None = None
    batch: tuple[int, int] = (1, 1)

    @property
    def dims(self) -> tuple[int, int, int]:
        """(M, K, N)."""
        return self.src1.rows, self.src1.cols, self.src2.rows if self.trans_b else self.src2.cols

    @property
    def op(self) -> str:
        return "MATMUL"

    @property
    def shape(self) -> str:
        m, k, n = self.dims
        count = self.batch[0] * self.batch[1]
        return f"{f'{count} x ' if count > 1 else ''}{m}x{k}x{n}"

    @property
    def macs(self) -> int:
        m, k, n = self.dims
        return m * k * n * self.batch[0] * self.batch[1]

    def packets(self) -> Packets:
        m, k, n = self.dims
        views = (self.src1, self.src2, self.dst)
        strides = [(4 * view.batch_strides[0], 4 * view.batch_strides[1]) for view in views]
        return matmul_packets(
            self.src1.address,
            self.src2.address,
            self.dst.address,
            m,
            k,
            n,
            trans_b=self.trans_b,
            alpha=self.alpha,
            row_strides=[4 * view.row_stride for view in views],
            batch=self.batch,
            src1_batch_strides=strides[0],
            src2_batch_strides=strides[1],
            dst_batch_strides=strides[2],
        )

    def truth(self, read: Reader) -> Truth:
        left = self.src1.gather(read(self.src1.buffer), self.batch).astype(np.float64)
        right = self.src2.gather(read(self.src2.buffer), self.batch).astype(np.float64)
        if self.trans_b:
            right = np.swapaxes(right, -1, -2)
        scale = 1.0 if self.alpha is None else float(np.float32(self.alpha))
        return Truth(
            scale * (left @ right),
            abs(scale) * (np.abs(left) @ np.abs(right)),
            accumulation_bound(self.dims[1]),
        )

    def result(self, read: Reader) -> F32:
        return self.dst.gather(read(self.dst.buffer), self.batch)


@dataclass(frozen=True, slots=True)
class Add:
    """`dst = src1 + src2` over whole buffers of one size; dst may be one of the sources."""

    src1: Buffer
    src2: Buffer
    dst: Buffer

    @property
    def op(self) -> str:
        return "ADD_TENSOR"

    @property
    def shape(self) -> str:
        return str(self.dst.elements)

    @property
    def macs(self) -> int:
        return 0

    def packets(self) -> Packets:
        return add_packets(self.src1.address, self.src2.address, self.dst.address, self.dst.elements)

    def truth(self, read: Reader) -> Truth:
        left, right = read(self.src1).astype(np.float64), read(self.src2).astype(np.float64)
        return Truth(left + right, np.abs(left) + np.abs(right), UNIT)

    def result(self, read: Reader) -> F32:
        return read(self.dst)


@dataclass(frozen=True, slots=True)
class Copy:
    """The rows of one view to the rows of another; 2-D where either is strided."""

    src: View
    dst: View

    @property
    def op(self) -> str:
        return "MEMCPY"

    @property
    def shape(self) -> str:
        return f"{self.src.rows}x{self.src.cols}" if self.strided else str(self.src.rows * self.src.cols)

    @property
    def macs(self) -> int:
        return 0

    @property
    def strided(self) -> bool:
        """Whether either side has gaps between its rows."""
        return any(view.row_stride not in (0, view.cols) for view in (self.src, self.dst))

    def packets(self) -> Packets:
        if not self.strided:
            return memcpy_packets(self.src.address, self.dst.address, 4 * self.src.rows * self.src.cols)
        return memcpy_packets(
            self.src.address,
            self.dst.address,
            4 * self.src.cols,
            rows=self.src.rows,
            row_strides=(4 * self.src.row_stride, 4 * self.dst.row_stride),
        )

    def truth(self, read: Reader) -> Truth:
        value = self.src.gather(read(self.src.buffer)).astype(np.float64)
        return Truth(value, np.abs(value), 0.0)

    def result(self, read: Reader) -> F32:
        return self.dst.gather(read(self.dst.buffer))
