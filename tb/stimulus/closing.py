"""Directed stimulus for each bin of the coverage plan that commands can reach."""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from echo_npu.commands.builders import add_packets, gather_packets, load_program_packets, memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import (
    BLOCK_ROWS,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    packet_bytes,
    stride_fields,
)
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.formats import BLOCK, FORMATS, TILE_COLUMNS, TILE_DEPTH
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.vector.program import Builder, Program
from echo_sim.config import NpuConfig
from tb.functional.model import Counter
from tb.functional.plan import HALF_B, PACKED, PACKED_FORMATS, PLAN, PRODUCT_TYPES
from tb.functional.samples import PAGE, product_tiles, taken
from tb.stimulus.operands import packed_tiles

SOURCES = 0x0400_0000
SOURCE_BYTES = 1 << 20
INDICES = 0x0500_0000
WIDE_INDICES = INDICES + 0x1000  # the same, as int64
ONE_ROW = INDICES + 0x2000  # zeros
CODE = 0x0510_0000
WEIGHTS = 0x0600_0000
RESULTS = 0x1400_0000
ENTRY = 400  # of the only program in program memory

Labels = Mapping[str, str]
Slots = Sequence[Packet]


def sums(inputs: tuple[int, ...]) -> Program:
    """Build o = p0 + the sum of these input streams."""
    b = Builder("sums")
    streams = [b.stream(index) for index in inputs]
    total = b.vector()
    with b.chunks(advance=streams):
        b.mov(total, b.param(0))
        for stream in streams:
            b.add(total, total, stream)
        b.mov(b.out, total)
    return b.build()


def twice(index: int) -> Program:
    """Build o = s + max(s), in two passes."""
    b = Builder("twice")
    stream, greatest, scalar = b.stream(index), b.accumulator(), b.scalar()
    b.aset(greatest, float("-inf"))
    with b.chunks(advance=[stream]):
        b.max(greatest, stream)
    b.foldmax(scalar, greatest)
    with b.chunks(advance=[stream]):
        b.add(b.out, stream, scalar)
    return b.build()


def segments(index: int) -> Program:
    """Build o = s + p0, segment by segment."""
    b = Builder("segments")
    stream = b.stream(index)
    with b.repeat(), b.chunks(advance=[stream]):
        b.add(b.out, stream, b.param(0))
    return b.build()


COPY = sums((0,))
"""With p0 = 0, a copy."""


def _operand_types(label: str) -> tuple[DataType, bool]:
    """Return the type of a product's left operand, and whether its right one is fp16 beside that."""
    return (DataType.FP32, True) if label == HALF_B else (DataType.of(label), False)


def _unknown(kind: str) -> NotImplementedError:
    return NotImplementedError(f"tb/stimulus/closing.py makes no command of the kind {kind!r}")


class ClosingMaker:
    """Draws commands that reach given bins; what a bin leaves open is random.

    `images` is what memory must hold before, by address.
    """

    def __init__(self, rng: random.Random, config: NpuConfig) -> None:
        self._random = rng
        self._config = config
        values = np.random.default_rng(rng.getrandbits(64))
        indices = values.integers(0, 3, 64)
        self.images: dict[int, bytes] = {
            SOURCES: values.standard_normal(SOURCE_BYTES // 4, dtype=np.float32).tobytes(),
            INDICES: indices.astype(np.int32).tobytes(),
            WIDE_INDICES: indices.astype(np.int64).tobytes(),
            ONE_ROW: bytes(512),
        }
        self._values = values
        self._packed_weights: dict[Blocks, tuple[int, ...]] = {}  # address, tiles along N and K
        self._next_weights = WEIGHTS
        self._next_result = RESULTS
        self._codes: dict[bytes, int] = {}
        self._groups: dict[str, Callable[[Labels], list[Slots]]] = {
            "commands": self._any,
            "matmul": lambda labels: [self.product(labels)],
            "packed": self.packed,
            "moves": lambda labels: [self.move(labels)],
            "vector": lambda labels: self.vector(labels),
            "streams": lambda labels: self.stream(labels),
            "scatters": lambda labels: self.scatter(labels),
            "neighbours": self.neighbours,
        }

    def reach(self, counter: Counter, labels: tuple[str, ...]) -> list[Slots]:
        """Return consecutive commands that reach this bin."""
        wanted = dict(zip((axis.name for axis in counter.axes), labels, strict=True))
        return self._groups[counter.group](wanted)

    # ---- places --------------------------------------------------------------------------------------

    def source(self, nbytes: int, offset: int = 0) -> int:
        """Return the address of `nbytes` of the sources, `offset` after a beat."""
        bus = self._config.bus_bytes
        return SOURCES + self._random.randrange((SOURCE_BYTES - nbytes) // bus - 1) * bus + offset

    def result(self, nbytes: int, offset: int = 0) -> int:
        """Return the address of fresh memory, `offset` after a beat."""
        address = self._next_result + offset
        self._next_result += -(-(nbytes + offset) // 64) * 64 + 64
        return address

    def _offset(self, alignment: str | None) -> int:
        return {"beat": 0, "word": 4, "odd": self._random.choice((1, 2, 3, 5))}[alignment or "beat"]

    # ---- commands ------------------------------------------------------------------------------------

    def _any(self, labels: Labels) -> list[Slots]:
        """Return a command of a kind, with or without the IRQ flag."""
        commands = self.command(labels["kind"])
        if labels.get("irq") == "irq":
            *before, (raw, *extensions) = commands
            packet = NpuCommandPacket.unpack(packet_bytes(raw))
            again = dataclasses.replace(packet, flags=packet.flags | Flags.IRQ)
            return [*before, [again, *extensions]]
        return commands

    def command(self, kind: str) -> list[Slots]:
        """Return a command of this kind of the plan, preceded by what it needs."""
        if kind in ("nop", "sync"):
            return [[NpuCommandPacket(Opcode[kind.upper()])]]
        if kind == "matmul":
            return [self.product({})]
        if kind in ("copy", "rows", "add", "gather"):
            return [self.move({"op": kind})]
        if kind == "load":
            return [self.load(COPY)]
        if kind == "vector":
            return self.vector({"inputs": "2"})
        raise _unknown(kind)

    def load(self, program: Program, entry: int = ENTRY) -> Slots:
        """Return the command that loads a program."""
        address = self._codes.setdefault(program.code, CODE + 0x1000 * len(self._codes))
        self.images[address] = program.code
        return load_program_packets(address, len(program), entry)

    def product(self, labels: Labels) -> Slots:
        """Return a MATMUL."""
        pick, config = self._random, self._config
        dtype, half_b = _operand_types(labels.get("dtype") or pick.choice(PRODUCT_TYPES))
        right = DataType.FP16 if half_b else dtype
        out = OutType[labels.get("out", "float32").upper()]
        layout, steps = labels.get("layout", "nn"), labels.get("steps", "none").split("+")
        tiles = product_tiles(dtype, config)
        m, k, n = (self._size(labels.get(name, "part"), *tiles[name]) for name in "mkn")
        size1, size2, out_size = dtype.itemsize, right.itemsize, out.itemsize(dtype)
        offsets = {
            name: size if labels.get(f"align_{name}") == "element" else 0
            for name, size in (("a", size1), ("b", size2), ("c", out_size))
        }
        places = labels.get("places", "dense")
        gap = 2 if places != "dense" else 0
        rows_a, width_a = (m, k) if layout[0] == "n" else (k, m)
        rows_b, width_b = (k, n) if layout[1] == "n" else (n, k)
        strides = tuple(
            (width + gap) * bytes_ if gap else 0
            for width, bytes_ in ((width_a, size1), (width_b, size2), (n, out_size))
        )
        batch = (2 if places in ("inner", "both") else 1, 2 if places in ("outer", "both") else 1)
        block = m * (n + gap) * out_size
        return matmul_packets(
            self.source(4 * rows_a * (width_a + gap) * size1, offsets["a"]),
            self.source(4 * rows_b * (width_b + gap) * size2, offsets["b"]),
            self.result(4 * block, offsets["c"]),
            m,
            k,
            n,
            dtype=dtype,
            half_b=half_b,
            out=out,
            trans_a=layout[0] == "t",
            trans_b=layout[1] == "t",
            alpha=0.5 if "alpha" in steps else None,
            row_scales=self.source(4 * m) if "row_scale" in steps else None,
            column_vectors=self.source(8 * n) if {"col_scale", "bias"} & {*steps} else None,
            column_scale="col_scale" in steps,
            bias="bias" in steps,
            relu="relu" in steps,
            row_strides=strides,
            batch=batch,
            src1_batch_strides=(16 * size1, 32 * size1),
            src2_batch_strides=(16 * size2, 48 * size2),
            dst_batch_strides=(block, 2 * block),
        )

    def _size(self, label: str, tile: int, block: int) -> int:
        pick = self._random
        if label == "ragged":
            return tile * pick.randrange(1, block // tile) + pick.randrange(1, tile)
        ranges = {
            "one": (1, 1),
            "part": (2, tile - 1),
            "whole": (1, block // tile),
            "blocks": (block + 1, block + tile + 1),
        }
        number = pick.randint(*ranges[label])
        return tile * number if label == "whole" else number

    def packed(self, labels: Labels) -> list[Slots]:
        """Return a product with weights in blocks, with the neighbour that the labels ask for."""
        pick = self._random
        blocks = Blocks.of(labels.get("format") or pick.choice(PACKED_FORMATS))
        meets, beside = labels.get("meets"), labels.get("beside")
        if beside == "same":
            return [self._packed(blocks, {}), self._packed(blocks, {})]
        if beside == "other":
            other = pick.choice([each for each in Blocks if each and each != blocks])
            return [self._packed(other, {}), self._packed(blocks, {})]
        if beside is not None:
            return [self.product({"dtype": beside}), self._packed(blocks, {})]
        if meets is None:
            return [self._packed(blocks, labels)]
        source, free = self._weights(blocks, 16, 128), self.result(4 * 16 * 128)
        product = {"k": "whole", "n": "part"}
        if meets == "rows_written":
            return [memcpy_packets(self.source(64), free, 64), self._packed(blocks, product, rows=free)]
        copy = memcpy_packets(source, free, 2 * blocks.tile_bytes)
        used = self._packed(blocks, product, weights=free)
        return [copy, used] if meets == "weights_written" else [copy, used, copy]

    def _weights(self, blocks: Blocks, columns: int, depth: int) -> int:
        """Return the address of packed weights of at least this size."""
        held = self._packed_weights.get(blocks)
        tiles = FORMATS[blocks.label].tiles(columns, depth)
        if held is None or held[1] < tiles[0] or held[2] < tiles[1]:
            most = tuple(max(pair) for pair in zip(tiles, held[1:] if held else (0, 0), strict=True))
            drawn = packed_tiles(self._values, blocks, TILE_COLUMNS * most[0], TILE_DEPTH * most[1])
            held = (self._next_weights, *most)
            self.images[self._next_weights] = drawn.tobytes()
            self._next_weights += -(-drawn.nbytes // 4096) * 4096
            self._packed_weights[blocks] = held
        return held[0]

    def _packed(
        self, blocks: Blocks, labels: Labels, *, rows: int | None = None, weights: int | None = None
    ) -> Slots:
        """Return a product with weights in blocks, with its operands at these addresses if given."""
        pick, config = self._random, self._config
        tiles, steps = product_tiles(DataType.FP32, config), labels.get("steps", "none").split("+")
        m, n = (self._size(labels.get(name, "part"), *tiles[name]) for name in "mn")
        most = config.block_k_tiles
        k = {
            "block": BLOCK,
            "whole": TILE_DEPTH * pick.randint(1, min(2, most)),
            "odd": TILE_DEPTH * pick.randint(1, most - 1) + BLOCK,
            "panels": TILE_DEPTH * most + BLOCK * pick.randint(1, 3),
        }[labels.get("k", "block")]
        places = labels.get("places", "dense")
        gap = 2 if places != "dense" else 0
        batch = (2 if places in ("inner", "both") else 1, 2 if places in ("outer", "both") else 1)
        dtype = DataType.of(labels.get("type") or pick.choice(BLOCK_ROWS))
        size = dtype.itemsize
        src1 = self.source(size * m * (k + gap) + 96, size if labels.get("align_a") == "element" else 0)
        block = 4 * m * (n + gap)
        return matmul_packets(
            src1 if rows is None else rows,
            self._weights(blocks, n, k) if weights is None else weights,
            self.result(4 * block, 4 if labels.get("align_c") == "element" else 0),
            m,
            k,
            n,
            dtype=dtype,
            blocks=blocks,
            alpha=0.5 if "alpha" in steps else None,
            row_scales=self.source(4 * m) if "row_scale" in steps else None,
            column_vectors=self.source(8 * n) if {"col_scale", "bias"} & {*steps} else None,
            column_scale="col_scale" in steps,
            bias="bias" in steps,
            relu="relu" in steps,
            row_strides=(size * (k + gap), 0, 4 * (n + gap)) if gap else (0, 0, 0),
            batch=batch,
            src1_batch_strides=(32, 64),
            dst_batch_strides=(block, 2 * block),
        )

    def move(self, labels: Labels) -> Slots:
        """Return a MEMCPY, ADD_TENSOR or GATHER."""
        pick, bus = self._random, self._config.bus_bytes
        op = labels.get("op", "rows")
        unit = 4 if op == "add" else 1
        length = {
            "part": pick.randrange(unit, bus, unit),
            "beat": bus,
            "beats": bus * pick.randint(2, 5),
            "ragged": bus * pick.randint(1, 4) + pick.randrange(unit, bus, unit),
            "page": bus * 5,
        }[labels.get("size", "part")]
        src = self.source(8 * length, self._offset(labels.get("src")))
        dst = self.result(2 * PAGE, self._offset(labels.get("dst")))
        if labels.get("size") == "page":
            dst = -(-dst // PAGE) * PAGE - 2 * bus + self._offset(labels.get("dst"))
        else:
            while dst // PAGE != (dst + length - 1) // PAGE:
                dst = self.result(2 * PAGE, self._offset(labels.get("dst")))
        if op == "copy":
            return memcpy_packets(src, dst, length)
        if op == "add":
            return add_packets(src, self.source(length), dst, length // 4, alpha=0.5)
        if op == "gather":
            return gather_packets(src, INDICES, dst, 3, length, 3)
        return self._rows(labels, src, dst, length)

    def _rows(self, labels: Labels, src: int, dst: int, length: int) -> Slots:
        length = max(length, 2) if labels.get("src_rows") == "again" else length
        src_stride = {"again": length - 1, "dense": 0, "gaps": length + 3}[labels.get("src_rows", "dense")]
        dst_stride = {"dense": 0, "gaps": length + 5}[labels.get("dst_rows", "dense")]
        rows = 1 if labels.get("rows") == "one" else 3
        block = rows * (dst_stride or length)
        batch = labels.get("batch", "none")
        extension = ExtensionPacket(
            rows=rows,
            batch0=2 if batch in ("inner", "both") else 1,
            batch1=2 if batch in ("outer", "both") else 1,
            **stride_fields("src1", src_stride, (7, 11)),
            **stride_fields("dst", dst_stride, (block, 2 * block)),
        )
        return [NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, src, 0, dst, m=length), extension]

    # ---- vector programs -----------------------------------------------------------------------------

    def vector(self, labels: Labels) -> list[Slots]:
        """Return a VECTOR, preceded by the load of its program."""
        pick, config = self._random, self._config
        inputs = tuple(range(int(labels.get("inputs", "1"))))
        low, high = {
            "lanes": (1, config.vector_lanes),
            "chunk": (config.vector_lanes + 1, config.vector_length),
            "row": (config.vector_length + 1, config.row_elements),
            "long": (config.row_elements + 1, config.row_elements + 40),
        }[labels.get("cols", "chunk")]
        cols = pick.randint(low, min(high, low + 60))
        rows = 1 if labels.get("rows") == "one" else 2
        batch = labels.get("batch", "none")
        counts = (2 if batch in ("inner", "both") else 1, 2 if batch in ("outer", "both") else 1)
        size = int(labels.get("out_size", "4"))
        block = rows * cols * size
        output = Stream(
            self.result(4 * block + 64, size if labels.get("align") == "element" else 0),
            row_stride=cols * size,
            batch_strides=(block, 2 * block),
            size=size,
        )
        program = sums(inputs)
        command = vector_command(
            ENTRY,
            rows=rows,
            cols=cols,
            inputs=[Stream(self.source(4 * cols + 64), row_stride=8, batch_strides=(16, 32)) for _ in inputs],
            output=output,
            params=[0.5],
            batch=counts,
            passes=program.passes,
        )
        return [self.load(program), command.packets()]

    def stream(self, labels: Labels) -> list[Slots]:
        """Return a VECTOR that reads one stream in the given form, preceded by the load of its program."""
        number, size = int(labels["number"][1]), int(labels["size"])
        form, cols, segs = labels.get("form", "plain"), 20, 2
        address = self.source(4096, size if labels.get("align") == "element" else 0)
        shapes: dict[str, tuple[Program, Stream]] = {
            "plain": (sums((number,)), Stream(address, size=size)),
            "bcast": (sums((number,)), Stream(address, size=size, bcast=True)),
            "packed": (
                sums((number,)),
                Stream(address, cols // segs, segs, seg_stride=64, size=size, pack=True),
            ),
            "passes": (twice(number), Stream(address, size=size)),
            "segments": (segments(number), Stream(address, cols, segs, seg_stride=128, size=size, passes=1)),
        }
        program, stream = shapes[form]
        walked = segs if form == "segments" else 1
        output = Stream(self.result(4 * walked * cols), cols, walked, seg_stride=4 * cols)
        command = vector_command(
            ENTRY,
            rows=1,
            cols=cols,
            repeats=walked,
            inputs=[*[None] * number, stream],
            output=output,
            params=[0.5],
            passes=program.passes,
        )
        return [self.load(program), command.packets()]

    def scatter(self, labels: Labels) -> list[Slots]:
        """Return a VECTOR that scatters rows into a table of its own, preceded by the load of its program."""
        pick = self._random
        cols, size, wide = pick.randint(1, 40), int(labels.get("size", "4")), labels["index"] == "int64"
        table_rows = 1 if labels.get("table") == "one" else 3
        apart = size * cols + size * (pick.randint(1, 9) if labels.get("table") == "gaps" else 0)
        rows = 1 if labels.get("rows") == "one" else pick.randint(2, 9)
        batch, block = labels.get("batch", "none"), table_rows * apart
        step = 8 if wide else 4
        step *= {"again": 0, "dense": 1, "gaps": 2}[labels.get("list", "dense")]
        indices = ONE_ROW if table_rows == 1 else WIDE_INDICES if wide else INDICES
        command = vector_command(
            ENTRY,
            rows=rows,
            cols=cols,
            inputs=[Stream(self.source(8 * cols + 64), row_stride=8, batch_strides=(16, 32))],
            output=Stream(
                self.result(4 * block), size=size, row_stride=apart, batch_strides=(block, 2 * block)
            ),
            params=[0.5],
            batch=(2 if batch in ("inner", "both") else 1, 2 if batch in ("outer", "both") else 1),
            passes=COPY.passes,
            indices=RowIndices(indices, table_rows, wide, row_stride=step, batch_strides=(8, 16)),
        )
        return [self.load(COPY), command.packets()]

    # ---- neighbours ----------------------------------------------------------------------------------

    def neighbours(self, labels: Labels) -> list[Slots]:
        """Return two commands with a hazard between them, preceded by what they need."""
        if "before_type" in labels:
            labels = {**labels, "before": "matmul", "after": "matmul"}
        return Pair(self, labels).commands()


class Pair:
    """Two consecutive commands whose operands have the given hazard.

    Each command reads 64 bytes at one place and writes 64 bytes at another.
    """

    BYTES = 64

    def __init__(self, maker: ClosingMaker, labels: Labels) -> None:
        self._maker = maker
        self._before, self._after = labels["before"], labels["after"]
        self._types = labels.get("before_type", "fp32"), labels.get("after_type", "fp32")
        self._hazard = labels["hazard"]

    def commands(self) -> list[Slots]:
        """Return the two commands, preceded by what they need."""
        result, source = self._maker.result, self._maker.source
        src1, dst1 = source(self.BYTES), result(4 * self.BYTES)
        src2, dst2 = source(self.BYTES), result(4 * self.BYTES)
        entry1, entry2 = ENTRY, ENTRY + 100
        loads = {"load", "vector"}
        by_program = self._before in loads and self._after in loads and "load" in (self._before, self._after)
        if self._hazard == "raw":
            if by_program and self._before == "load":
                entry2 = entry1
            else:
                src2 = dst1
        elif self._hazard == "war":
            if by_program and self._after == "load":
                entry2 = entry1
            else:
                src1 = dst2 = result(4 * self.BYTES)
        elif self._hazard == "waw":
            if by_program:
                entry2 = entry1
            else:
                dst2 = dst1
        elif self._hazard == "adjacent":
            if self._before == self._after == "load":
                entry2 = entry1 + len(COPY)
            elif self._before == "load":
                src1 = dst2 + self.BYTES
            elif self._after == "load":
                src2 = dst1 + self.BYTES
            else:
                dst2 = dst1 + self.BYTES
        return [
            *self._needs(self._before, src1, entry1),
            *self._needs(self._after, src2, entry2),
            self._one(self._before, self._types[0], src1, dst1, entry1),
            self._one(self._after, self._types[1], src2, dst2, entry2),
        ]

    def _needs(self, kind: str, src: int, entry: int) -> list[Slots]:
        """Return the load of a VECTOR's program, or the copy of a LOAD_PROGRAM's code."""
        if kind == "vector":
            return [self._maker.load(COPY, entry)]
        if kind == "load":
            image = self._maker.images
            code = COPY.code
            address = CODE + 0x8000
            image[address] = code
            if src >= RESULTS:
                return [memcpy_packets(address, src, len(code))]
        return []

    def _one(self, kind: str, dtype: str, src: int, dst: int, entry: int) -> Slots:
        nbytes = self.BYTES
        if kind in ("nop", "sync"):
            return [NpuCommandPacket(Opcode[kind.upper()])]
        if kind == "matmul":
            return self._product(dtype, src, dst)
        if kind == "copy":
            return memcpy_packets(src, dst, nbytes)
        if kind == "add":
            return add_packets(src, self._maker.source(nbytes), dst, nbytes // 4, alpha=0.0)
        if kind == "gather":
            return gather_packets(src, INDICES, dst, 1, nbytes, 3)
        if kind == "load":
            address = src if src >= RESULTS else CODE + 0x8000
            return load_program_packets(address, len(COPY), entry)
        if kind != "vector":
            raise _unknown(kind)
        inputs, output, passes = [Stream(src)], Stream(dst), COPY.passes
        return vector_command(
            entry, rows=1, cols=nbytes // 4, inputs=inputs, output=output, params=[0.0], passes=passes
        ).packets()

    def _product(self, types: str, src: int, dst: int) -> Slots:
        dtype, half_b = _operand_types(types)
        k = self.BYTES // 4 // dtype.itemsize
        right = self._maker.source(k * 4 * dtype.itemsize)
        return matmul_packets(src, right, dst, 4, k, 4, dtype=dtype, half_b=half_b)


COUNTERS = tuple(
    counter
    for group in PLAN
    if group.name in ("commands", "matmul", "packed", "moves", "vector", "streams", "scatters", "neighbours")
    for counter in group.counters()
    if len(counter.axes) > 1 and counter.item not in ("kind_memory", "contents")
)
"""Crosses whose bins commands can reach on their own, whatever memory holds; their axes are covered with
them."""


def reachable(config: NpuConfig, *groups: str) -> list[tuple[Counter, tuple[str, ...]]]:
    """Return all bins of COUNTERS that are not excluded and that commands can reach on this configuration.

    Args:
        groups: the groups of the plan; none of them stands for all.
    """
    here = taken(config)
    return [
        (counter, labels)
        for counter in COUNTERS
        if counter.group in groups or not groups
        if counter.group != PACKED.name or config.has_blocks
        for labels in counter.bins()
        if not counter.reason(labels)
        if dict(zip((axis.name for axis in counter.axes), labels, strict=True)).get("takes", here) == here
    ]


PATTERNS: Mapping[str, Mapping[str, float]] = {
    "steady": {},
    **{channel: {f"stall_{channel}": 0.7} for channel in ("aw", "w", "b", "ar", "r")},
    "reorder": {"reorder": 1, "stall_r": 0.2},
    "one_read": {"max_reads": 1},
    "one_write": {"max_writes": 1},
    "quick": {"read_latency": 1, "write_latency": 1},
    "slow": {"read_latency": 90, "write_latency": 90},
}
"""Knobs of the memory model for each stall pattern of the plan."""
