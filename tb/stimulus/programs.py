"""Random programs: long chains of all kinds of commands on a few small, overlapping places.

Almost every command reads or overwrites what its neighbours touch, so an ignored hazard shows in the
comparison of all memory.
"""

import dataclasses
import random
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from echo_npu.commands.builders import add_packets, gather_packets, load_program_packets, memcpy_packets
from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import (
    BLOCK_ROWS,
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    OUT_SHIFT,
    TILE_ALIGNMENT,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    packed_rows,
    stride_fields,
)
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.vector.program import Builder, Program
from echo_sim.config import NpuConfig
from tb.checking import accepted, loaded_programs
from tb.scoreboards.accuracy import addresses
from tb.stimulus.operands import packed_tiles
from tb.stimulus.vector_programs import generate

ARENAS = (0x0000_2000, 0x1000_2000)  # one in each region
ARENA_BYTES = 6144
INDICES = 0x1010_0000
WIDE_INDICES = INDICES + 0x1000  # the same, as int64
CODE = 0x0010_0000
CODE_STEP = 0x1_0000
CASES = 0x1020_0000  # operands of generated vector programs
CASES_ENTRY = 300
PACKED = tuple(each for each in Blocks if each)
WEIGHTS = {blocks: 0x0080_0000 + 0x4000 * blocks for blocks in PACKED}  # packed; no command writes there
WEIGHTS_SHAPE = (48, 192)  # N and K, at least those of any product
TABLE_ROWS = 5
MATMUL_STEPS = (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU)

ENTRIES = (0, 100, 200)  # entries of vector programs

Slots = Sequence[Packet]


def mixed() -> Program:
    """Build o = s0 * p0 + s1."""
    b = Builder("mixed")
    x, y = b.stream(0), b.stream(1)
    with b.chunks(advance=[x, y]):
        b.fma(b.out, x, b.param(0), y)
    return b.build()


def lesser() -> Program:
    """Build o = min(s0, s1) + 4 * p0 through a chain of dependent instructions."""
    b = Builder("lesser")
    x, y, v = b.stream(0), b.stream(1), b.vector()
    with b.chunks(advance=[x, y]):
        b.min(v, x, y)
        for _ in range(4):
            b.add(v, v, b.param(0))
        b.mov(b.out, v)
    return b.build()


def centred() -> Program:
    """Build o = s0 - max(s0) + s1, in two passes over s0."""
    b = Builder("centred")
    x, y, greatest, r, v = b.stream(0), b.stream(1), b.accumulator(), b.scalar(), b.vector()
    b.aset(greatest, float("-inf"))
    with b.chunks(advance=[x]):
        b.max(greatest, x)
    b.foldmax(r, greatest)
    with b.chunks(advance=[x, y]):
        b.sub(v, x, r)
        b.add(b.out, v, y)
    return b.build()


PROGRAMS = (mixed(), lesser(), centred())


class ProgramMaker:
    """Draws legal commands with operands in the arenas.

    `images` is what device memory must hold before the first command, by address; it grows with each.
    """

    def __init__(self, rng: random.Random, config: NpuConfig) -> None:
        self._random = rng
        self._config = config
        self._limit = 2 * config.array_rows + 3
        values = np.random.default_rng(rng.getrandbits(64))
        self.images: dict[int, bytes] = {
            arena - 64: values.standard_normal(ARENA_BYTES // 2, dtype=np.float32).tobytes()
            for arena in ARENAS
        }
        # Few places, so that commands share operands.
        self._places = [rng.choice(ARENAS) + 4 * rng.randrange(ARENA_BYTES // 8) for _ in range(9)]
        self._ends: deque[int] = deque(maxlen=3)
        indices = values.integers(0, TABLE_ROWS, 64)
        self.images[INDICES] = indices.astype(np.int32).tobytes()
        self.images[WIDE_INDICES] = indices.astype(np.int64).tobytes()
        # Any program can be loaded at any entry, one after the other.
        self._code = {program: CODE + i * CODE_STEP for i, program in enumerate(PROGRAMS)}
        self.images |= {self._code[program]: program.code for program in PROGRAMS}
        self._loaded = dict.fromkeys(ENTRIES, PROGRAMS[0])
        self._next_case, self._next_entry = CASES, CASES_ENTRY
        self._next_code = CODE + len(PROGRAMS) * CODE_STEP
        self._weights: deque[tuple[Blocks, int]] = deque(maxlen=4)
        if config.has_blocks:
            self.images |= {
                address: packed_tiles(values, blocks, *WEIGHTS_SHAPE).tobytes()
                for blocks, address in WEIGHTS.items()
            }
        self._programs = loaded_programs(config.program_words)

    def _place(self, unit: int = 4) -> int:
        if self._ends and self._random.random() < 0.1:  # directly after a recent destination
            return -(-self._random.choice(self._ends) // unit) * unit
        return self._random.choice(self._places) + unit * self._random.choice((0, 0, 0, 1, 2, 7, 64))

    def _size(self) -> int:
        return self._random.choice(
            (1, 2, 3, self._random.randint(1, self._limit), self._random.randint(1, self._limit))
        )

    def _stride(self, least: int, unit: int) -> int:
        return self._random.choice((0, least, least + unit * self._random.randint(0, 9)))

    def _apart(self, nbytes: int, unit: int) -> int:
        """Draw the distance between rows or batches of a destination of `nbytes`, which sometimes overlap."""
        pick, most = self._random, nbytes // unit
        if pick.random() < 0.8:
            return nbytes
        return unit * pick.choice((1, max(1, most - 1), pick.randint(1, most)))

    def copy(self) -> Slots:
        """Draw a MEMCPY of up to a few hundred bytes, at any alignment, or of packed weights."""
        if self._config.has_blocks and self._random.random() < 0.25:
            return self._copy_of_weights()
        nbytes = self._random.choice((1, 7, 64, self._random.randint(1, 600)))
        return memcpy_packets(self._place(1), self._place(1), nbytes)

    def _copy_of_weights(self) -> Slots:
        """Draw a MEMCPY of whole packed tiles to a place from which a later product may take them."""
        blocks = self._random.choice(PACKED)
        dst = self._place(TILE_ALIGNMENT) & -TILE_ALIGNMENT
        self._weights.append((blocks, dst))
        return memcpy_packets(WEIGHTS[blocks], dst, blocks.tile_bytes * self._random.choice((1, 2, 4)))

    def strided_copy(self) -> Slots:
        """Draw a MEMCPY of rows and batches."""
        pick, nbytes = self._random, self._random.randint(1, 40)
        rows, batch = pick.randint(1, 5), pick.randint(1, 3)
        dst_stride = nbytes + pick.randint(0, 20)
        dst_batch = self._apart(rows * dst_stride, 1)
        extension = ExtensionPacket(
            rows=rows,
            batch0=batch,
            batch1=pick.choice((1, 1, 2)),
            **stride_fields(
                "src1",
                pick.choice((0, nbytes, nbytes + 3, 5)),
                (pick.choice((0, 17, 200)), pick.choice((0, 31))),
            ),
            **stride_fields("dst", dst_stride, (dst_batch, self._apart(batch * dst_batch, 1))),
        )
        packet = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, self._place(1), 0, self._place(1), m=nbytes)
        return [packet, extension]

    def add(self) -> Slots:
        """Draw an ADD_TENSOR, often in place."""
        a, b = self._place(), self._place()
        dst = self._random.choice((a, b, self._place()))
        alpha = self._random.choice((1.0, -1.0, 0.25, 1e-3))
        return add_packets(a, b, dst, self._random.randint(1, 150), alpha=alpha)

    def matmul(self) -> Slots:
        """Draw a MATMUL of any type, layout, strides, batches and steps."""
        pick = self._random
        if self._config.has_blocks and pick.random() < 0.2:
            return self._blocks()
        m, k, n = self._size(), self._size(), self._size()
        dtype = pick.choice((DataType.FP32, *DataType))
        out = pick.choice((OutType.FLOAT32, OutType.OWN))
        steps = [flag for flag in MATMUL_STEPS if pick.random() < 0.25]
        if dtype == DataType.INT8 and not steps:
            out = pick.choice(list(OutType))
        half_b = dtype == DataType.FP32 and pick.random() < 0.4
        right = DataType.FP16 if half_b else dtype
        flags = sum(steps) | dtype << DTYPE_SHIFT | out << OUT_SHIFT | (Flags.HALF_B if half_b else 0)
        flags |= pick.choice((0, Flags.TRANS_A, Flags.TRANS_B, Flags.TRANS_A | Flags.TRANS_B))
        size1, size2, out_size = dtype.itemsize, right.itemsize, out.itemsize(dtype)
        src1, src2, dst = self._place(size1), self._place(size2), self._place(out_size)
        fields: dict[str, int] = {}
        if flags & (Flags.COL_SCALE | Flags.BIAS):
            fields["column_vectors"] = self._place()
        if flags & Flags.ROW_SCALE:
            fields["row_scales"] = self._place()
        if pick.random() < 0.4:
            row_bytes = [
                size1 * (m if flags & Flags.TRANS_A else k),
                size2 * (k if flags & Flags.TRANS_B else n),
                out_size * n,
            ]
            dst_stride = self._stride(row_bytes[2], out_size)
            steps1, steps2 = ((0, 16 * size, 65 * size) for size in (size1, size2))
            batch = pick.choice((1, 1, 2, 3))
            dst_batch = self._apart(m * (dst_stride or row_bytes[2]), out_size)
            fields |= {
                "batch0": batch,
                "batch1": pick.choice((1, 1, 1, 2)),
                **stride_fields("src1", self._stride(row_bytes[0], size1), pick.choices(steps1, k=2)),
                **stride_fields("src2", self._stride(row_bytes[1], size2), pick.choices(steps2, k=2)),
                **stride_fields("dst", dst_stride, (dst_batch, self._apart(batch * dst_batch, out_size))),
            }
        if fields:
            flags |= Flags.EXT
        packet = NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=0.5)
        return [packet, ExtensionPacket(**fields)] if fields else [packet]

    def _blocks(self) -> Slots:
        """Draw a MATMUL with weights in blocks: packed ones that no command writes, those of a copy, or what
        other commands left."""
        pick = self._random
        m, n, k = self._size(), self._size(), 32 * pick.choice((1, 2, 3, 5))
        blocks = pick.choice(PACKED)
        src2 = pick.choice((WEIGHTS[blocks], WEIGHTS[blocks], self._place() & -TILE_ALIGNMENT))
        if self._weights and pick.random() < 0.5:
            blocks, src2 = pick.choice(self._weights)
        flags = blocks << BLOCKS_SHIFT | sum(flag for flag in MATMUL_STEPS if pick.random() < 0.2)
        rows = pick.choice(BLOCK_ROWS)
        flags |= rows << DTYPE_SHIFT
        src1, dst = self._place(), self._place()
        fields: dict[str, int] = {}
        if flags & (Flags.COL_SCALE | Flags.BIAS):
            fields["column_vectors"] = self._place()
        if flags & Flags.ROW_SCALE:
            fields["row_scales"] = self._place()
        if pick.random() < 0.4:
            row_stride = pick.choice((0, packed_rows(blocks, k, n)[1] + TILE_ALIGNMENT * pick.randint(0, 3)))
            batch, apart = pick.choice((1, 2, 3)), self._apart(4 * m * n, 4)
            fields |= {
                "batch0": batch,
                **stride_fields(
                    "src1", self._stride(rows.itemsize * k, rows.itemsize), (pick.choice((0, 64, 260)), 0)
                ),
                **stride_fields("src2", row_stride, (pick.choice((0, blocks.tile_bytes)), 0)),
                **stride_fields("dst", 0, (apart, 0)),
            }
        if fields:
            flags |= Flags.EXT
        packet = NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=0.5)
        return [packet, ExtensionPacket(**fields)] if fields else [packet]

    def load(self) -> Slots:
        """Draw a LOAD_PROGRAM over a program that earlier commands may still run."""
        entry, program = self._random.choice(ENTRIES), self._random.choice(PROGRAMS)
        self._loaded[entry] = program
        return self._load(entry)

    def _load(self, entry: int) -> Slots:
        program = self._loaded[entry]
        return load_program_packets(self._code[program], len(program), entry)

    def vector(self) -> Slots:
        """Draw a VECTOR over a few rows and batches: dense, strided or overlapping, often in place."""
        pick = self._random
        entry, rows, cols = (
            pick.choice(ENTRIES),
            pick.randint(1, 4),
            pick.choice((1, 16, pick.randint(1, 150))),
        )
        program, row = self._loaded[entry], 4 * cols
        batch = pick.choice(((1, 1), (1, 1), (1, 1), (2, 1), (1, 2), (2, 3)))
        out_row = self._apart(row + pick.choice((0, 0, 4, 60)), 4)
        out_batch = self._apart(rows * out_row, 4)
        outs, ins = (out_batch, self._apart(batch[0] * out_batch, 4)), (pick.choice((0, row)), 4)
        output = Stream(self._place(), row_stride=out_row, batch_strides=outs)
        first = Stream(self._place(), row_stride=pick.choice((0, row, row + 12)), batch_strides=ins)
        second = Stream(self._place(), row_stride=pick.choice((0, row)), batch_strides=(12, row))
        if pick.random() < 0.3:
            second = Stream(self._place(), row_stride=4, bcast=True)
        if pick.random() < 0.3:
            first = output
        command = vector_command(
            entry,
            rows=rows,
            cols=cols,
            inputs=[first, second],
            output=output,
            params=[pick.choice((1.0, -0.5))],
            batch=batch,
            passes=program.passes,
        )
        return command.packets()

    def gather(self) -> Slots:
        """Draw a GATHER of rows of a few bytes."""
        pick = self._random
        count, row_bytes = pick.randint(1, 60), pick.choice((4, 12, pick.randint(1, 90)))
        place = INDICES + 4 * pick.randint(0, 4)
        return gather_packets(self._place(1), place, self._place(1), count, row_bytes, TABLE_ROWS)

    def scatter(self) -> Slots:
        """Draw a VECTOR that scatters its rows into a small table, whose batches often overlap."""
        pick = self._random
        entry, rows = pick.choice(ENTRIES), pick.randint(1, 12)
        cols = pick.choice((1, 16, pick.randint(1, 60)))
        program, row = self._loaded[entry], 4 * cols
        batch = pick.choice(((1, 1), (1, 1), (2, 1), (1, 2), (2, 2)))
        size = pick.choice((4, 4, 2, 1))
        apart = size * cols + size * pick.choice((0, 0, 1, 15))
        out_batch = self._apart(TABLE_ROWS * apart, size)
        outs = (out_batch, self._apart(batch[0] * out_batch, size))
        wide, first = pick.random() < 0.5, pick.randint(0, 4)
        step = 8 if wide else 4
        command = vector_command(
            entry,
            rows=rows,
            cols=cols,
            inputs=[
                Stream(self._place(), row_stride=pick.choice((0, row, row + 12)), batch_strides=(row, 4)),
                Stream(self._place(), row_stride=pick.choice((0, row)), batch_strides=(12, row)),
            ],
            output=Stream(self._place(size), row_stride=apart, batch_strides=outs, size=size),
            params=[pick.choice((1.0, -0.5))],
            batch=batch,
            passes=program.passes,
            indices=RowIndices(
                (WIDE_INDICES if wide else INDICES) + step * first,
                pick.choice((TABLE_ROWS, TABLE_ROWS, TABLE_ROWS + 3)),
                wide,
                row_stride=pick.choice((0, step, step, 2 * step)),
                batch_strides=(pick.choice((0, step * rows)), pick.choice((0, step))),
            ),
        )
        return command.packets()

    def fence(self) -> Slots:
        """Draw a NOP or SYNC."""
        return [NpuCommandPacket(self._random.choice((Opcode.NOP, Opcode.SYNC)))]

    def vector_case(self) -> Slots:
        """Draw a generated vector program on its own operands: its load, and the command that runs it."""
        case = generate(
            self._random.getrandbits(32),
            vector_length=self._config.vector_length,
            row_elements=self._config.row_elements,
            base=self._next_case,
            entry=self._next_entry,
            work=4000,
        )
        words = case.words
        code, entry = self._next_code, self._next_entry
        if entry + words.size > self._config.program_words:
            self._next_entry = CASES_ENTRY
            return self.vector_case()
        self._next_case = case.end + self._random.randrange(64)
        self._next_code += words.nbytes
        self._next_entry += words.size
        self.images |= case.data | {code: words.tobytes()}
        return [*load_program_packets(code, words.size, entry), *case.command.packets()]

    @property
    def kinds(self) -> list[Callable[[], Slots]]:
        """Methods to draw a program from; a repeated one is more frequent."""
        return [
            self.copy,
            self.strided_copy,
            self.add,
            self.matmul,
            self.matmul,
            self.matmul,
            self.vector,
            self.vector,
            self.gather,
            self.scatter,
            self.load,
            self.fence,
        ]

    def loads(self) -> list[Slots]:
        """Return the commands that load the vector programs; they must precede the first `vector`."""
        return [self._load(entry) for entry in ENTRIES]

    def draw(self, kinds: Sequence[Callable[[], Slots]], *, irq: float = 0.0) -> Slots:
        """Draw a command that the device must accept from `kinds`; with probability `irq` it raises the
        interrupt."""
        while True:
            command = self._random.choice(kinds)()
            legal = accepted(as_commands(command)[0], self._programs, blocks=self._config.has_blocks)
            if legal is None:
                continue
            if legal.dst is not None:
                self._ends.append(int(addresses(legal.dst, legal.batch).max()) + legal.dst.row_bytes)
            if self._random.random() < irq:
                return [dataclasses.replace(legal.packet, flags=legal.packet.flags | Flags.IRQ), *command[1:]]
            return command

    def program(self, length: int) -> Slots:
        """Draw `length` commands that the device must accept, preceded by the loads of the programs."""
        slots = [packet for command in self.loads() for packet in command]
        for _ in range(length):
            slots += self.draw(self.kinds)
        return slots
