"""Commands with one large count or stride and small other sizes.

They take counters, indices and addresses further than the shapes of networks, in few clock cycles.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from echo_npu.commands.builders import add_packets, memcpy_packets
from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.command import as_commands
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import BLOCK_ROWS, TILE_ALIGNMENT, Packet, packed_rows
from echo_npu.formats import BLOCK
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT, Region
from echo_sim.config import NpuConfig
from tb.checking import check
from tb.scoreboards.accuracy import addresses
from tb.stimulus.operands import elements, packed_bytes, stride_options

COUNTS: Final[Mapping[str, tuple[str, ...]]] = {
    "matmul": ("m", "k", "n", "batch0", "batch1"),
    "memcpy": ("bytes", "rows", "batch0", "batch1"),
    "add": ("elements",),
}
"""Counts that can be large, by kind of command."""
LEVELS: Final = ("row", "batch0", "batch1")
STRIDED: Final[Mapping[str, tuple[str, ...]]] = {
    "matmul": ("src1", "src2", "dst"),
    "memcpy": ("src1", "dst"),
}
"""Operands with strides, by kind of command."""
MOST_STRIDE_BITS: Final = 27
"""Two rows this far apart still fit into one region."""

FIRST: Final = 0x0040_0000
"""Offset of operands in each region, above other stimulus."""
_DENSE_BYTES: Final = 1 << 23
"""Operands up to this size are filled completely, including gaps."""

Slots = Sequence[Packet]
Strides = tuple[int, int, int]
Kind = DataType | Blocks
"""What a source holds: elements, or packed weights."""


class LargeMaker:
    """Draws legal commands on fresh operands.

    `images` is what device memory must hold before the first command, by address; it grows with each.
    """

    def __init__(self, rng: random.Random, config: NpuConfig) -> None:
        self._random = rng
        self._has_blocks = config.has_blocks
        self._values = np.random.default_rng(rng.getrandbits(64))
        self._next = {region: region.base + FIRST for region in (WEIGHT, ACTIVATION)}
        self.images: dict[int, bytes] = {}

    def forget(self) -> None:
        """Free the memory of earlier commands, which have been executed."""
        self._next = {region: region.base + FIRST for region in (WEIGHT, ACTIVATION)}
        self.images.clear()

    def long(self, kind: str, count: str, size: int, **fields: Any) -> Slots:
        """Draw a command whose `count`, one of COUNTS[kind], is `size`; `fields` as for the method of that
        kind."""
        if kind == "add":
            return self.add(size)
        pick = self._random
        inner = size if count == "batch0" else 1
        outer = size if count == "batch1" else 1
        if kind == "memcpy":
            nbytes = size if count == "bytes" else pick.randint(1, 3)
            return self.copy(nbytes, rows=size if count == "rows" else 1, batch=(inner, outer))
        m, k, n = (size if name == count else pick.randint(1, 2) for name in "mkn")
        return self.product(m, k, n, batch=(inner, outer), **fields)

    def far(self, kind: str, operand: str, level: str, stride: int) -> Slots:
        """Draw a command with two rows or batches `stride` bytes apart in one operand."""
        strides = {name: [0, 0, 0] for name in ("src1", "src2", "dst")}
        at = LEVELS.index(level)
        strides[operand][at] = stride
        batch = tuple(2 if level == name else 1 for name in LEVELS[1:])
        if kind == "memcpy":
            nbytes = self._random.randint(1, min(stride, 40))
            if level != "row" and operand != "dst":
                strides["dst"][at] = nbytes
            return self.copy(nbytes, rows=2 if level == "row" else 1, batch=batch, strides=strides)
        m, k, n = (self._random.randint(2, 2 if stride >> (MOST_STRIDE_BITS - 1) else 3) for _ in range(3))
        if level != "row" and operand != "dst":
            strides["dst"][at] = 4 * m * n
        return self.product(m, k, n, dtype=DataType.FP32, out=OutType.FLOAT32, batch=batch, strides=strides)

    def product(
        self,
        m: int,
        k: int,
        n: int,
        *,
        dtype: DataType | None = None,
        out: OutType | None = None,
        trans_a: bool | None = None,
        trans_b: bool | None = None,
        vectors: bool | None = None,
        batch: Sequence[int] = (1, 1),
        strides: Mapping[str, Sequence[int]] | None = None,
    ) -> Slots:
        """Draw a MATMUL; arguments that are None are drawn.

        Args:
            vectors: with row scales, column scales and bias.
            strides: row, batch0 and batch1 of each operand; adjacent batches by default.
        """
        pick = self._random
        free = dtype is None and out is None and strides is None and not trans_a and not trans_b
        if free and self._has_blocks and pick.random() < 0.2:
            return self._packed(m, k, n, vectors=vectors, batch=batch)
        dtype = pick.choice(list(DataType)) if dtype is None else dtype
        trans_a = pick.random() < 0.5 if trans_a is None else trans_a
        trans_b = pick.random() < 0.5 if trans_b is None else trans_b
        vectors = pick.random() < 0.5 if vectors is None else vectors
        if out is None:
            outs = (
                tuple(OutType) if dtype == DataType.INT8 and not vectors else (OutType.FLOAT32, OutType.OWN)
            )
            out = pick.choice(outs)
        half_b = free and dtype == DataType.FP32 and pick.random() < 0.3
        right, out_size = DataType.FP16 if half_b else dtype, out.itemsize(dtype)
        if strides is None:
            sizes = (dtype.itemsize * m * k, right.itemsize * k * n, out_size * m * n)
            strides = {
                name: self._side_by_side(nbytes, batch)
                for name, nbytes in zip(("src1", "src2", "dst"), sizes, strict=True)
            }

        def packets(src1: int, src2: int, dst: int, rows: int, columns: int) -> Slots:
            return matmul_packets(
                src1,
                src2,
                dst,
                m,
                k,
                n,
                dtype=dtype,
                half_b=half_b,
                out=out,
                trans_a=trans_a,
                trans_b=trans_b,
                row_scales=rows if vectors else None,
                column_vectors=columns if vectors else None,
                column_scale=vectors,
                bias=vectors,
                batch=batch,
                **stride_options(strides["src1"], strides["src2"], strides["dst"]),
            )

        return self._placed(packets, (dtype, right, DataType.FP32, DataType.FP32), out_size)

    def _packed(self, m: int, k: int, n: int, *, vectors: bool | None, batch: Sequence[int]) -> Slots:
        """Draw a MATMUL with weights in blocks; K is rounded to whole blocks."""
        pick = self._random
        k = max(BLOCK, k // BLOCK * BLOCK)
        blocks, dtype = pick.choice([each for each in Blocks if each]), pick.choice(BLOCK_ROWS)
        vectors = pick.random() < 0.5 if vectors is None else vectors
        rows, row_bytes = packed_rows(blocks, k, n)
        left, right, result = (
            self._side_by_side(nbytes, batch)
            for nbytes in (dtype.itemsize * m * k, rows * row_bytes, 4 * m * n)
        )

        def packets(src1: int, src2: int, dst: int, row_scales: int, columns: int) -> Slots:
            return matmul_packets(
                src1,
                src2,
                dst,
                m,
                k,
                n,
                dtype=dtype,
                blocks=blocks,
                row_scales=row_scales if vectors else None,
                column_vectors=columns if vectors else None,
                column_scale=vectors,
                bias=vectors,
                batch=batch,
                **stride_options(left, right, result),
            )

        fp32 = DataType.FP32
        return self._placed(packets, (dtype, blocks, fp32, fp32), 4)

    def copy(
        self,
        nbytes: int,
        *,
        rows: int = 1,
        batch: Sequence[int] = (1, 1),
        strides: Mapping[str, Sequence[int]] | None = None,
    ) -> Slots:
        """Draw a MEMCPY; batches are adjacent unless `strides` is given."""
        if strides is None:
            strides = {name: self._side_by_side(rows * nbytes, batch) for name in ("src1", "dst")}

        def packets(src: int, _: int, dst: int, *__: int) -> Slots:
            return memcpy_packets(
                src,
                dst,
                nbytes,
                rows=rows,
                batch=batch,
                **stride_options(strides["src1"], strides["dst"]),
            )

        return self._placed(packets, (DataType.INT8,), 1)

    def add(self, count: int) -> Slots:
        """Draw an ADD_TENSOR."""

        def packets(src1: int, src2: int, dst: int, *_: int) -> Slots:
            return add_packets(src1, src2, dst, count, alpha=self._random.choice((1.0, -0.37)))

        return self._placed(packets, (DataType.FP32, DataType.FP32), 4)

    def _side_by_side(self, nbytes: int, batch: Sequence[int]) -> Strides:
        """Return the strides of dense batches of `nbytes`."""
        return 0, nbytes, nbytes * batch[0]

    def _placed(self, packets: Callable[..., Slots], types: Sequence[Kind], unit: int) -> Slots:
        """Place the operands of a command and fill its sources.

        Args:
            packets: makes the packets from the addresses of src1, src2, dst, row scales and column vectors.
            types: element types of the sources, or the format of packed weights.
            unit: bytes of a result.
        """
        sources, results = self._random.sample((WEIGHT, ACTIVATION), 2)
        first, last = sources.base + FIRST, results.base + FIRST
        shape = self._checked(packets(first, first, last, first, first))
        assert shape.dst is not None
        at = [
            self._place(sources, operand.extent(shape.batch), _unit(kind))
            for operand, kind in zip(shape.sources, types, strict=False)
        ]
        src1, src2, columns, rows = (*at, *[0] * (4 - len(at)))
        dst = self._place(results, shape.dst.extent(shape.batch), unit)
        made = packets(src1, src2, dst, rows, columns)
        command = self._checked(made)
        for operand, kind in zip(command.sources, types, strict=False):
            self._fill(operand, kind, command.batch)
        return made

    def _checked(self, packets: Slots) -> CheckedCommand:
        return check(as_commands(packets)[0], blocks=self._has_blocks)

    def _place(self, region: Region, extent: int, unit: int) -> int:
        """Draw an address at a multiple of `unit` bytes; sparse operands may be anywhere."""
        offset = unit * self._random.randrange(64 // unit)
        room = region.size - FIRST - 0x2_0000 - extent - 64
        assert room >= 0, "an operand is larger than memory"
        if extent > _DENSE_BYTES:
            return region.base + FIRST + self._random.randrange(room + 1) // 64 * 64 + offset
        address = self._next[region]
        self._next[region] = address + -(-(extent + 128) // 64) * 64
        assert self._next[region] < region.end - 0x2_0000, "the operands are larger than memory"
        return address + offset

    def _fill(self, operand: MemoryOperand, kind: Kind, batch: tuple[int, int]) -> None:
        extent = operand.extent(batch)
        if extent <= _DENSE_BYTES:
            self.images[operand.address] = self._contents(kind, extent)
            return
        for start in np.unique(addresses(operand, batch)).tolist():
            self.images[start] = self._contents(kind, operand.row_bytes)

    def _contents(self, kind: Kind, nbytes: int) -> bytes:
        if isinstance(kind, Blocks):
            return packed_bytes(self._values, kind, nbytes)
        return elements(self._values, kind, nbytes)


def _unit(kind: Kind) -> int:
    """Return the bytes that the address of a source is a multiple of."""
    return TILE_ALIGNMENT if isinstance(kind, Blocks) else kind.itemsize
