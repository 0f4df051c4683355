"""Commands as large as device memory, with strides as wide, ended by a soft reset; and larger ones, which are
refused.

None of the former could be simulated to its end. Wherever one was stopped, nothing outside of its destination
may be written, no bus traffic may remain, and the device must work.
"""

import random
from collections.abc import Callable, Sequence

from cocotb.triggers import Timer

from echo_npu.commands.builders import gather_packets
from echo_npu.commands.checked import CheckedCommand, PacketFault
from echo_npu.commands.checks import check_command
from echo_npu.commands.packets import (
    MAX_BATCH,
    MAX_MATMUL_DIM,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    packet_bytes,
)
from echo_npu.commands.vector_command import Descriptor, VectorCommand, VectorExtension
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT, Region
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.drivers.registers import CLOCK_NS
from tb.testbench import RING_BASE, RING_SLOTS, NpuTestbench, npu_test
from tests.commands.programs import encoded, load

WORD = (1 << 32) - 1
INPUTS = 4

_MOVE = Instruction(Op.MOV, OPERAND_CODES["o"], OPERAND_CODES["s0"])
COPY = encoded([Instruction(Op.CHUNKS), _MOVE, Instruction(Op.NEXT, imm=1), Instruction(Op.END)])


def wide(rng: random.Random, most: int) -> int:
    """Draw a number from 1 to `most` of any number of bits."""
    return min(most, 1 + rng.getrandbits(rng.randint(0, most.bit_length())))


def steps(rng: random.Random, room: int, counts: Sequence[int], multiple: int = 1) -> list[int]:
    """Draw strides for dimensions of these counts that together reach no further than `room`. A stride that
    is never stepped may be anything."""
    found = []
    for count in counts:
        if count == 1:
            found.append(rng.getrandbits(32) // multiple * multiple)
            continue
        found.append(max(multiple, wide(rng, max(1, room // (count - 1))) // multiple * multiple))
        room -= (count - 1) * found[-1]
    return found


class Maker:
    """Draws legal commands; operands are in one region, the destination is in the other."""

    def __init__(self, rng: random.Random, programs: ProgramMemory) -> None:
        self.rng = rng
        self.programs = programs
        self.sources: Region = WEIGHT
        self.results: Region = ACTIVATION

    def draw(self, kind: Callable[["Maker"], list[Packet]]) -> tuple[list[Packet], CheckedCommand]:
        """Draw a legal command: its packets and its meaning."""
        while True:
            self.sources, self.results = self.rng.sample((WEIGHT, ACTIVATION), 2)
            packets = kind(self)
            raw = [packet_bytes(packet) for packet in packets]
            head = NpuCommandPacket.unpack(raw[0])
            extension = None
            if len(raw) > 1:
                vector = head.opcode == Opcode.VECTOR
                extension = VectorExtension.unpack(raw[1:]) if vector else ExtensionPacket.unpack(raw[1])
            try:
                command = check_command(head, extension, self.programs)
            except PacketFault:
                continue
            if command.dst is not None and self._keeps_off_the_ring(command):
                return packets, command

    def _keeps_off_the_ring(self, command: CheckedCommand) -> bool:
        assert command.dst is not None
        end = command.dst.address + command.dst.extent(command.batch)
        return end <= RING_BASE or command.dst.address >= ACTIVATION.end

    def place(self, region: Region, extent: int, multiple: int = 1) -> int:
        """Draw where an operand of `extent` bytes may begin; anywhere if it fits nowhere."""
        spare = max(0, region.size - extent)
        return region.base + wide(self.rng, spare + 1) // multiple * multiple


def product(maker: Maker) -> list[Packet]:
    """A MATMUL of any type and layout, with all vectors, one long dimension and many batches."""
    rng = maker.rng
    dims = [wide(rng, MAX_MATMUL_DIM)]
    dims += [wide(rng, max(1, min(MAX_MATMUL_DIM, (1 << 25) // dims[0]))) for _ in range(2)]
    m, k, n = rng.sample(dims, 3)
    flags = Flags.EXT | rng.choice((0, 1)) * Flags.TRANS_A | rng.choice((0, 1)) * Flags.TRANS_B
    kind = rng.randrange(4)
    size, own = (4, 2, 2, 1)[kind], rng.randrange(2)
    flags |= Flags(kind << 4 | own << 8)
    flags |= rng.choice((Flags.NONE, Flags.ROW_SCALE | Flags.COL_SCALE | Flags.BIAS | Flags.USE_ALPHA))
    out = size if own else 4
    batch = (wide(rng, MAX_BATCH), wide(rng, MAX_BATCH))
    addresses, strides = [], []
    for rows, elements, each, region in (
        ((k, m) if flags & Flags.TRANS_A else (m, k)) + (size, maker.sources),
        ((n, k) if flags & Flags.TRANS_B else (k, n)) + (size, maker.sources),
        (m, n, out, maker.results),
    ):
        dense = elements * each
        room = max(0, region.size - rows * dense)
        row, first, second = steps(rng, room, (rows, *batch), each)
        row = row + dense if rows > 1 else max(row, dense)
        row = row if row <= WORD else 0
        extent = (rows - 1) * row + dense + (batch[0] - 1) * first + (batch[1] - 1) * second
        addresses.append(maker.place(region, extent, each))
        strides.append((row, first, second))
    vectors = bool(flags & Flags.BIAS)
    extension = ExtensionPacket(
        batch0=batch[0],
        batch1=batch[1],
        **dict(zip(("src1_row_stride", "src1_batch0_stride", "src1_batch1_stride"), strides[0], strict=True)),
        **dict(zip(("src2_row_stride", "src2_batch0_stride", "src2_batch1_stride"), strides[1], strict=True)),
        **dict(zip(("dst_row_stride", "dst_batch0_stride", "dst_batch1_stride"), strides[2], strict=True)),
        column_vectors=maker.place(maker.sources, 8 * n, 4) if vectors else 0,
        row_scales=maker.place(maker.sources, 4 * m, 4) if vectors else 0,
    )
    return [NpuCommandPacket(Opcode.MATMUL, flags, *addresses, m=m, k=k, n=n, alpha=rng.random()), extension]


def copy(maker: Maker) -> list[Packet]:
    """A MEMCPY of rows and batches."""
    rng = maker.rng
    rows = wide(rng, 1 << 24)
    nbytes = wide(rng, max(1, (1 << 28) // rows))
    batch = (wide(rng, MAX_BATCH), wide(rng, MAX_BATCH))
    addresses, strides = [], []
    for region in (maker.sources, maker.results):
        row, first, second = steps(rng, max(0, region.size - rows * nbytes), (rows, *batch))
        row = row + nbytes if rows > 1 and row + nbytes <= WORD else 0
        extent = (rows - 1) * (row or nbytes) + nbytes + (batch[0] - 1) * first + (batch[1] - 1) * second
        addresses.append(maker.place(region, extent))
        strides.append((row, first, second))
    extension = ExtensionPacket(
        rows=rows,
        batch0=batch[0],
        batch1=batch[1],
        **dict(zip(("src1_row_stride", "src1_batch0_stride", "src1_batch1_stride"), strides[0], strict=True)),
        **dict(zip(("dst_row_stride", "dst_batch0_stride", "dst_batch1_stride"), strides[1], strict=True)),
    )
    return [NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, addresses[0], 0, addresses[1], m=nbytes), extension]


def total(maker: Maker) -> list[Packet]:
    """An ADD_TENSOR of up to all of a region."""
    rng = maker.rng
    m = wide(rng, 1 << 26)
    k = wide(rng, max(1, (1 << 26) // m))
    places = [maker.place(region, 4 * m * k, 4) for region in (maker.sources, maker.sources, maker.results)]
    return [NpuCommandPacket(Opcode.ADD_TENSOR, 0, *places, m=m, k=k, alpha=rng.random())]


def gather(maker: Maker) -> list[Packet]:
    """A GATHER of long rows, or of many; memory is zero, so that every index is in the table."""
    rng = maker.rng
    row_bytes = wide(rng, 1 << 28)
    rows = wide(rng, max(1, min(1 << 24, (1 << 28) // row_bytes)))
    table = wide(rng, max(1, (1 << 28) // row_bytes))
    return gather_packets(
        maker.place(maker.sources, table * row_bytes),
        maker.place(maker.sources, 4 * rows, 4),
        maker.place(maker.results, rows * row_bytes),
        rows,
        row_bytes,
        table,
    )


def vector(maker: Maker) -> list[Packet]:
    """A VECTOR command of many rows, long rows, many segments or many batches."""
    rng = maker.rng
    rows, batch = wide(rng, 1 << 24), (wide(rng, MAX_BATCH), wide(rng, MAX_BATCH))
    segs = wide(rng, max(1, min((1 << 20) - 1, (1 << 26) // rows)))
    seg_len = wide(rng, max(1, (1 << 26) // (rows * segs)))

    def stream(region: Region, passes: int) -> Descriptor:
        size, bcast = rng.choice((4, 2, 1)), bool(passes) and rng.random() < 0.1
        length, pieces = (1, 1) if bcast else (seg_len, segs)
        counts = (rows, *batch, pieces)
        row, first, second, piece = steps(rng, max(0, region.size - length * size), counts, size)
        if not passes:  # destinations do not overlap themselves
            piece = max(piece, length * size) if pieces > 1 else piece
        extent = length * size
        for count, stride in zip(counts, (row, first, second, piece), strict=True):
            extent += (count - 1) * stride
        address = maker.place(region, extent, size)
        pack = rng.random() < 0.3 and not bcast
        return Descriptor(address, length, pieces, row, (first, second), piece, size, pack, bcast, passes)

    given = [stream(maker.sources, rng.randint(1, 15)) for _ in range(rng.randint(1, INPUTS))]
    inputs = (*given, *([None] * (INPUTS - len(given))))
    output = stream(maker.results, 0)
    params = tuple(rng.getrandbits(32) for _ in range(8))
    command = VectorCommand(
        rng.randrange(maker.programs.loaded), rows, seg_len, inputs, output, params, wide(rng, 1 << 24), batch
    )
    return command.packets()


KINDS = {"matmul": product, "memcpy": copy, "add_tensor": total, "gather": gather, "vector": vector}


def undefined(tb: NpuTestbench, command: CheckedCommand) -> list[tuple[int, int]]:
    """Return where the command may have written: its destination, where memory is not empty."""
    assert command.dst is not None
    start = command.dst.address
    end = start + command.dst.extent(command.batch)
    held = tb.memory.shared.extents()
    return [(max(start, low), min(end, high)) for low, high in held if low < end and high > start]


@npu_test(name=list(KINDS))
async def test_huge_commands(tb: NpuTestbench, name: str) -> None:
    """Two dozen commands of a kind, each stopped near its start."""
    programs = ProgramMemory(tb.config.program_words)
    programs.load(0, COPY)
    await load(tb, COPY)
    maker = Maker(tb.random, programs)
    # A command may meet words of the program among its indices, or a program whose passes are not its own.
    allowed = {"gather": ErrorCode.BAD_INDEX, "vector": ErrorCode.BAD_PROGRAM}.get(name, ErrorCode.NONE)
    for _ in range(24):
        packets, command = maker.draw(KINDS[name])
        await tb.commands.submit(packets)
        await Timer(tb.random.randint(60, 500) * CLOCK_NS, "ns")
        assert (await tb.state()).error_code in (ErrorCode.NONE, allowed), packets
        tb.monitor.drop()  # the model would execute it to its end
        await tb.commands.soft_reset()
        assert tb.dram.statistic("outstanding") == 0
        tb.monitor.sync()
        tb.scoreboard.resynchronise(tb.memory.shared, undefined(tb, command))
    await tb.commands.setup_ring(RING_BASE, RING_SLOTS)
    await tb.probe()


@npu_test()
async def test_too_huge_commands(tb: NpuTestbench) -> None:
    """VECTOR commands whose operands reach anywhere in 64 bits are refused with the model's code and
    address."""
    programs = ProgramMemory(tb.config.program_words)
    programs.load(0, COPY)
    await load(tb, COPY)
    rng = tb.random

    def anything(passes: int) -> Descriptor:
        shift = rng.choice((0, 1, 2))
        strides = [rng.getrandbits(rng.randint(4, 32)) >> shift << shift for _ in range(4)]
        pieces, length = wide(rng, (1 << 20) - 1), wide(rng, WORD)
        address = wide(rng, WEIGHT.size) >> shift << shift
        pack = rng.random() < 0.5
        return Descriptor(
            address,
            length,
            pieces,
            strides[0],
            (strides[1], strides[2]),
            strides[3],
            1 << shift,
            pack,
            False,
            passes,
        )

    for _ in range(24):
        streams = (anything(1), anything(1), anything(1), anything(1))
        counts = (wide(rng, 1 << 24), wide(rng, WORD))
        batch = (wide(rng, MAX_BATCH), wide(rng, MAX_BATCH))
        packets = VectorCommand(
            0, *counts, streams, anything(0), repeats=wide(rng, 1 << 24), batch=batch
        ).packets()
        raw = [packet_bytes(packet) for packet in packets]
        try:
            check_command(NpuCommandPacket.unpack(raw[0]), VectorExtension.unpack(raw[1:]), programs)
        except PacketFault:
            assert await tb.run(packets) == State.ERROR
            await tb.commands.clear_error()
    await tb.probe()
