"""Random programs: long chains of commands of all kinds on few, small, overlapping places.

Almost every command reads or overwrites what its neighbours touch, so a hazard that the device does not
respect shows as a difference in the whole-memory comparison. Each test prints nothing: the seed of the run
replays it.
"""

from collections.abc import Callable, Sequence

import numpy as np

from echo_npu.checks import PacketFault, check_command
from echo_npu.data_types import DataType, OutType
from echo_npu.packets import (
    DTYPE_SHIFT,
    OUT_SHIFT,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    gather_packets,
    load_program_packets,
    packet_bytes,
)
from echo_npu.status import State
from echo_npu.vector.command import Stream, VectorExtension, vector_command
from echo_npu.vector.memory import ProgramMemory
from echo_npu.vector.program import Builder, Program
from tb.bench import NpuBench, npu_test, random_timing
from tb.drivers.commands import Path

ARENAS = (0x0000_2000, 0x1000_2000)  # one in each region
ARENA_BYTES = 6144
TABLE_ROWS = 5
MATMUL_STEPS = (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU)

ENTRIES = (0, 100, 200)  # where vector programs are

Slots = list[Packet]


def mixed() -> Program:
    """o = s0 * p0 + s1."""
    b = Builder("mixed")
    x, y = b.stream(0), b.stream(1)
    with b.chunks(advance=[x, y]):
        b.fma(b.out, x, b.param(0), y)
    return b.build()


def lesser() -> Program:
    """o = min(s0, s1) through a chain of dependent instructions."""
    b = Builder("lesser")
    x, y, v = b.stream(0), b.stream(1), b.vector()
    with b.chunks(advance=[x, y]):
        b.min(v, x, y)
        for _ in range(4):
            b.add(v, v, b.param(0))
        b.mov(b.out, v)
    return b.build()


def centred() -> Program:
    """o = s0 - max(s0) + s1: two passes over s0."""
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


def accepted(command: Sequence[Packet], programs: ProgramMemory) -> bool:
    """Whether the device takes a command; it refuses operands that overlap."""
    raw = [packet_bytes(packet) for packet in command]
    packet = NpuCommandPacket.unpack(raw[0])
    extension = VectorExtension.unpack(raw[1:]) if packet.opcode == Opcode.VECTOR else None
    try:
        check_command(packet, extension or (ExtensionPacket.unpack(raw[1]) if raw[1:] else None), programs)
    except PacketFault:
        return False
    return True


class ProgramMaker:
    """Fills the arenas with fresh values and draws legal commands whose operands lie in them."""

    def __init__(self, bench: NpuBench) -> None:
        for arena in ARENAS:
            bench.memory.write(arena - 64, bench.floats(ARENA_BYTES // 2))
        self._random = bench.random
        self._limit = 2 * bench.config.array_rows + 3
        # Few places, so that commands meet.
        self._places = [
            self._random.choice(ARENAS) + 4 * self._random.randrange(ARENA_BYTES // 8) for _ in range(9)
        ]
        indices = bench.rng.integers(0, TABLE_ROWS, 64).astype(np.int32)
        self._indices = bench.place(indices, align=0x10000)
        # Each program at each place: programs follow one another there.
        self._code = {program: bench.place(program.words, "weight", align=0x10000) for program in PROGRAMS}
        self._loaded = dict.fromkeys(ENTRIES, PROGRAMS[0])
        self._programs = ProgramMemory(bench.config.program_words)
        self._programs.loaded = bench.config.program_words

    def _place(self, unit: int = 4) -> int:
        return self._random.choice(self._places) + unit * self._random.choice((0, 0, 0, 1, 2, 7, 64))

    def _size(self) -> int:
        return self._random.choice(
            (1, 2, 3, self._random.randint(1, self._limit), self._random.randint(1, self._limit))
        )

    def _stride(self, least: int, unit: int) -> int:
        return self._random.choice((0, least, least + unit * self._random.randint(0, 9)))

    def copy(self) -> Slots:
        """MEMCPY of up to a few hundred bytes, at any alignment."""
        nbytes = self._random.choice((1, 7, 64, self._random.randint(1, 600)))
        return [NpuCommandPacket(Opcode.MEMCPY, 0, self._place(1), 0, self._place(1), m=nbytes)]

    def strided_copy(self) -> Slots:
        """MEMCPY of rows and batches."""
        pick, nbytes = self._random, self._random.randint(1, 40)
        rows, batch = pick.randint(1, 5), pick.randint(1, 3)
        dst_stride = nbytes + pick.randint(0, 20)
        extension = ExtensionPacket(
            rows=rows,
            src1_row_stride=pick.choice((0, nbytes, nbytes + 3, 5)),
            dst_row_stride=dst_stride,
            batch0=batch,
            src1_batch0_stride=pick.choice((0, 17, 200)),
            dst_batch0_stride=rows * dst_stride,
        )
        return [
            NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, self._place(1), 0, self._place(1), m=nbytes),
            extension,
        ]

    def add(self) -> Slots:
        """ADD_TENSOR, often in place."""
        a, b = self._place(), self._place()
        dst = self._random.choice((a, b, self._place()))
        alpha = self._random.choice((1.0, -1.0, 0.25, 1e-3))
        return [
            NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, dst, m=self._random.randint(1, 150), alpha=alpha)
        ]

    def matmul(self) -> Slots:
        """MATMUL of any type in any layout, dense or strided, batched or not, with any steps."""
        pick = self._random
        m, k, n = self._size(), self._size(), self._size()
        dtype = pick.choice((DataType.FP32, *DataType))
        out = pick.choice((OutType.FLOAT32, OutType.OWN))
        steps = [flag for flag in MATMUL_STEPS if pick.random() < 0.25]
        if dtype == DataType.INT8 and not steps:
            out = pick.choice(list(OutType))
        flags = sum(steps) | dtype << DTYPE_SHIFT | out << OUT_SHIFT
        flags |= pick.choice((0, Flags.TRANS_A, Flags.TRANS_B, Flags.TRANS_A | Flags.TRANS_B))
        size, out_size = dtype.itemsize, out.itemsize(dtype)
        src1, src2, dst = self._place(size), self._place(size), self._place(out_size)
        fields: dict[str, int] = {}
        if flags & (Flags.COL_SCALE | Flags.BIAS):
            fields["column_vectors"] = self._place()
        if flags & Flags.ROW_SCALE:
            fields["row_scales"] = self._place()
        if pick.random() < 0.4:
            row_bytes = [
                size * (m if flags & Flags.TRANS_A else k),
                size * (k if flags & Flags.TRANS_B else n),
                out_size * n,
            ]
            dst_stride = self._stride(row_bytes[2], out_size)
            batch_steps = (0, 16 * size, 65 * size)
            fields |= {
                "src1_row_stride": self._stride(row_bytes[0], size),
                "src2_row_stride": self._stride(row_bytes[1], size),
                "dst_row_stride": dst_stride,
                "batch0": pick.choice((1, 1, 2, 3)),
                "src1_batch0_stride": pick.choice(batch_steps),
                "src2_batch0_stride": pick.choice(batch_steps),
                "dst_batch0_stride": m * (dst_stride or row_bytes[2]),
            }
        if fields:
            flags |= Flags.EXT
        packet = NpuCommandPacket(Opcode.MATMUL, flags, src1, src2, dst, m=m, k=k, n=n, alpha=0.5)
        return [packet, ExtensionPacket(**fields)] if fields else [packet]

    def load(self) -> Slots:
        """LOAD_PROGRAM over a program that commands before may still run."""
        entry, program = self._random.choice(ENTRIES), self._random.choice(PROGRAMS)
        self._loaded[entry] = program
        return self._load(entry)

    def _load(self, entry: int) -> Slots:
        program = self._loaded[entry]
        return list(load_program_packets(self._code[program], len(program), entry))

    def vector(self) -> Slots:
        """VECTOR over a few rows, dense or not, often in place."""
        pick = self._random
        entry, cols, rows = (
            pick.choice(ENTRIES),
            pick.choice((1, 16, pick.randint(1, 150))),
            pick.randint(1, 4),
        )
        program, row = self._loaded[entry], 4 * cols
        output = Stream(self._place(), row_stride=row + pick.choice((0, 0, 4, 60)))
        first = Stream(self._place(), row_stride=pick.choice((0, row, row + 12)))
        second = Stream(self._place(), row_stride=pick.choice((0, row)))
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
            passes=program.passes,
        )
        return command.packets()

    def gather(self) -> Slots:
        """GATHER of rows of a few bytes."""
        pick = self._random
        count, row_bytes = pick.randint(1, 60), pick.choice((4, 12, pick.randint(1, 90)))
        place = self._indices + 4 * pick.randint(0, 4)
        return list(gather_packets(self._place(1), place, self._place(1), count, row_bytes, TABLE_ROWS))

    def fence(self) -> Slots:
        """NOP or SYNC."""
        return [NpuCommandPacket(self._random.choice((Opcode.NOP, Opcode.SYNC)))]

    def program(self, length: int) -> Slots:
        """`length` commands that the device must accept, and before them those that load the programs."""
        kinds: list[Callable[[], Slots]] = [
            self.copy,
            self.strided_copy,
            self.add,
            self.matmul,
            self.matmul,
            self.matmul,
            self.vector,
            self.vector,
            self.gather,
            self.load,
            self.fence,
        ]
        slots = [packet for entry in ENTRIES for packet in self._load(entry)]
        while length:
            command = self._random.choice(kinds)()
            if accepted(command, self._programs):
                slots += command
                length -= 1
        return slots


@npu_test(index=list(range(8)))
async def test_programs(bench: NpuBench, index: int) -> None:
    """Programs of every length, by one way of submission each, on a memory whose timing changes between
    them."""
    for length in (1, 2, 5, 12, 30):
        if index % 2:
            bench.dram.configure(random_timing(bench.random))
        maker = ProgramMaker(bench)
        via: Path = bench.random.choice(("window", "ring"))
        assert await bench.run(maker.program(length), via) == State.DONE


@npu_test(index=list(range(4)))
async def test_reordering_memory(bench: NpuBench, index: int) -> None:
    """The same on a memory that lets bursts of different ids overtake each other, as AXI4 allows."""
    for length in (3, 15, 30):
        bench.dram.configure({**random_timing(bench.random), "reorder": 1})
        assert (
            await bench.run(ProgramMaker(bench).program(length), bench.random.choice(("window", "ring")))
            == State.DONE
        )
    bench.dram.set("reorder", 0)


@npu_test(index=list(range(3)))
async def test_both_ways_at_once(bench: NpuBench, index: int) -> None:
    """Window and ring filled in turns without waiting; the commands do not depend on one another."""
    bench.dram.configure(random_timing(bench.random))
    for _ in range(8):
        for via in bench.random.sample(("window", "ring"), 2):
            slots: Slots = []
            for _ in range(bench.random.randint(1, 6)):
                size = bench.random.randint(1, 90)
                source = bench.place(bench.floats(size))
                dst = bench.destination(4 * size)
                if bench.random.random() < 0.5:
                    slots.append(NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=4 * size))
                else:
                    packet = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, source, 0, dst, m=4)
                    slots += [packet, ExtensionPacket(rows=size)]
            await bench.commands.submit(slots, via)
    assert await bench.check() == State.DONE
