"""Bad packets of every class. The device reports the error, memory stays unchanged, and the device
recovers."""

import dataclasses
import enum
import struct
from collections.abc import Callable

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.checked import PacketFault
from echo_npu.commands.checks import check_command
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import (
    DTYPE_SHIFT,
    EPILOGUE_FLAGS,
    LEGAL_FLAGS,
    OUT_SHIFT,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    extension_count,
)
from echo_npu.register_ops import ReadReg, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.contract import MAX_EXTENSION_WAIT
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import DEFAULT_TIMING, RING_BASE, RING_SLOTS, NpuTestbench, npu_test
from tests.commands.outcomes import bus_error, fail, failed, give_up, refused, spoil
from tests.commands.packets import REGISTER_WINDOW, RESERVED, UNMAPPED, A, W, add, copy, matmul

Slots = list[Packet]


def typed(
    dtype: DataType, out: int = 0, flags: int = 0, a: int = W, b: int = W + 4096, dst: int = A
) -> NpuCommandPacket:
    """Return a MATMUL of 4 x 4 x 4; `out` may be the reserved type of results."""
    return matmul(a, b, dst, flags=flags | dtype << DTYPE_SHIFT | out << OUT_SHIFT)


def full(flags: int = 0, a: int = W, b: int = W + 4096, dst: int = A, **fields: int) -> Slots:
    """Return an int8 MATMUL with every step."""
    packet = typed(DataType.INT8, OutType.OWN, flags | EPILOGUE_FLAGS, a, b, dst)
    return extended(packet, **({"column_vectors": W + 8192, "row_scales": W + 12288} | fields))


def extended(packet: NpuCommandPacket, **fields: object) -> Slots:
    """Return the packet with an extension after it."""
    with_flag = NpuCommandPacket(
        packet.opcode,
        packet.flags | Flags.EXT,
        packet.src1_addr,
        packet.src2_addr,
        packet.dst_addr,
        packet.param,
    )
    return [with_flag, ExtensionPacket(**fields)]  # type: ignore[arg-type]


def word7(packet: NpuCommandPacket) -> NpuCommandPacket:
    """Return the packet with its reserved parameter word set."""
    words = [*packet.param[:7], 1]
    return NpuCommandPacket(
        packet.opcode, packet.flags, packet.src1_addr, packet.src2_addr, packet.dst_addr, words
    )


HUGE = 1 << 62
CASES: dict[ErrorCode, dict[str, Slots]] = {
    ErrorCode.BAD_OPCODE: {
        "7": [NpuCommandPacket(7)],
        "0xFE": [NpuCommandPacket(0xFE)],
        "upper bytes": [NpuCommandPacket(0x0100_0001)],
        "all ones": [NpuCommandPacket(0xFFFF_FFFF)],
        "all ones everywhere": [b"\xff" * 64],
        "extended": [NpuCommandPacket(0x55, Flags.EXT)],
    },
    ErrorCode.BAD_FLAGS: {
        **{
            f"{opcode.name} bit {bit}": [NpuCommandPacket(opcode, 1 << bit, W, W + 4096, A, m=4, k=4, n=4)]
            for opcode in Opcode
            for bit in (0, 2, 3, 4, 6, 7, 8, 10, 12, 13, 14, 15, 29, 31)
            if not LEGAL_FLAGS[opcode] & (1 << bit)
        },
        **{
            f"{opcode.name} word 7": [word7(NpuCommandPacket(opcode, 0, W, W + 4096, A, m=4, k=4, n=4))]
            for opcode in Opcode
        },
        **{f"reserved result of {dtype.label}": [typed(dtype, 3)] for dtype in DataType},
        **{f"int32 of {dtype.label}": [typed(dtype, 2)] for dtype in DataType if dtype != DataType.INT8},
        **{
            f"int32 with {step.name}": extended(typed(DataType.INT8, 2, step))
            for step in (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU)
        },
    },
    ErrorCode.BAD_DIMENSION: {
        "copy of nothing": [copy(m=0)],
        "copy of -1": [copy(m=-1)],
        "copy with k -1": [copy(k=-1)],
        "copy of 2**62": [copy(m=HUGE)],
        "copy that wraps 64 bits": [copy(m=1 << 32, k=1 << 32)],
        "copy that wraps 32 bits": [copy(m=1 << 31, k=2)],
        "add of nothing": [add(m=0)],
        "add of -5": [add(m=-5)],
        "add that wraps": [add(m=1 << 31, k=1 << 31, n=4)],
        "matmul m 0": [matmul(m=0)],
        "matmul k 0": [matmul(k=0)],
        "matmul n 0": [matmul(n=0)],
        "matmul m -1": [matmul(m=-1)],
        "matmul k -2**63": [matmul(k=-(1 << 63))],
        "matmul n 2**24+1": [matmul(n=(1 << 24) + 1)],
        "matmul m 2**32": [matmul(m=1 << 32)],
        "matmul k 2**32+4": [matmul(k=(1 << 32) + 4)],
    },
    ErrorCode.MISALIGNED: {
        "add src1": [add(a=W + 1)],
        "add src2": [add(b=W + 2)],
        "add dst": [add(dst=A + 3)],
        "matmul src1": [matmul(a=W + 2)],
        "matmul src2": [matmul(b=W + 1)],
        "matmul dst": [matmul(dst=A + 2)],
        **{
            f"{dtype.label} {name}": [typed(dtype, OutType.OWN, **{name: address + 1})]
            for dtype in (DataType.BF16, DataType.FP16)
            for name, address in (("a", W), ("b", W + 4096), ("dst", A))
        },
        "float32 of int8": [typed(DataType.INT8, dst=A + 2)],
        "int32 of int8": [typed(DataType.INT8, 2, dst=A + 1)],
        "column vectors": full(column_vectors=W + 8194),
        "row scales": full(row_scales=W + 12289),
    },
    ErrorCode.OUT_OF_RANGE: {
        "reserved source": [copy(src=RESERVED)],
        "reserved destination": [copy(dst=RESERVED)],
        "unmapped": [copy(src=UNMAPPED)],
        "above 4 GiB": [copy(src=(1 << 32) + W)],
        "top of 64 bits": [copy(dst=(1 << 64) - 64)],
        "wraps 64 bits": [copy(dst=(1 << 64) - 32)],
        "leaves weight memory": [copy(src=0x1000_0000 - 63)],
        "leaves activation memory": [copy(dst=0x2000_0000 - 63)],
        "larger than a region": [copy(src=0, dst=A, m=0x1000_0001)],
        "add src1": [add(a=0x1000_0000 - 60)],
        "add src2": [add(b=UNMAPPED)],
        "add dst": [add(dst=0x2000_0000 - 60)],
        "matmul src1": [matmul(a=0x1000_0000 - 60)],
        "matmul src2": [matmul(b=RESERVED)],
        "matmul dst": [matmul(dst=0x2000_0000 - 60)],
        "matmul too large": [matmul(a=0, b=0x100, m=1 << 24, k=1 << 24, n=1)],
        "matmul dst too large": [matmul(m=1 << 24, k=1, n=1 << 24)],
        "column scales": full(column_vectors=0x1000_0000 - 28),
        "row scales": full(row_scales=UNMAPPED),
        "row stride leaves": extended(copy(), rows=0x1000, src1_row_stride=0x10_0000),
        "batch stride leaves": extended(
            matmul(), batch0=2, src2_batch0_stride=0x1000_0000, dst_batch0_stride=64
        ),
        "outer batch leaves": extended(
            copy(), batch1=65535, src1_batch1_stride=0xFFFF_FFFF, dst_batch1_stride=64
        ),
    },
    ErrorCode.REGISTER_WINDOW: {
        "source": [copy(src=REGISTER_WINDOW)],
        "destination": [copy(dst=REGISTER_WINDOW)],
        "first byte": [copy(dst=0x2000_0000)],
        "last byte": [copy(src=0x2000_FFFF, m=1)],
        "add src2": [add(b=REGISTER_WINDOW)],
        "matmul dst": [matmul(dst=REGISTER_WINDOW)],
        "column vectors": full(column_vectors=REGISTER_WINDOW),
        "row scales": full(row_scales=0x2000_FFFC),
    },
    ErrorCode.OVERLAP: {
        "copy onto itself": [copy(src=A, dst=A)],
        "copy one byte behind": [copy(src=A, dst=A + 63)],
        "copy one byte before": [copy(src=A + 63, dst=A)],
        "add shifted": [add(a=A, dst=A + 4)],
        "add shifted src2": [add(b=A + 60, dst=A)],
        "matmul src1": [matmul(a=A)],
        "matmul src2": [matmul(b=A + 60)],
        "int8 next to its operand": [typed(DataType.INT8, OutType.OWN, a=A, dst=A + 15)],
        "bf16 next to its operand": [typed(DataType.BF16, a=A + 62, dst=A)],
        "biases": full(column_vectors=A - 28),
        "row scales": full(row_scales=A + 12),
        "strided rows": extended(copy(src=A, dst=A + 64, m=16), rows=4, src1_row_stride=32),
        "batches": extended(matmul(a=A, dst=A + 64), batch0=2, src1_batch0_stride=64, dst_batch0_stride=64),
    },
    ErrorCode.BAD_EXTENSION: {
        "magic": extended(copy(), magic=0x31545844),
        "no extension at all": extended(copy(), magic=0),
        "column vectors without a flag": extended(matmul(), column_vectors=64),
        "row scales without a flag": extended(matmul(), row_scales=64),
        "column vectors of a copy": extended(copy(), column_vectors=64),
        "w15": extended(copy(), row_scales_high=1 << 31),
        "row scales without an extension": [typed(DataType.FP32, flags=Flags.ROW_SCALE)],
        "column scales without an extension": [typed(DataType.INT8, flags=Flags.COL_SCALE)],
        "bias without an extension": [typed(DataType.BF16, flags=Flags.BIAS)],
        "column vectors beside row scales": extended(
            typed(DataType.INT8, flags=Flags.ROW_SCALE), row_scales=W, column_vectors=W
        ),
        "row scales beside biases": extended(
            typed(DataType.INT8, flags=Flags.BIAS), row_scales=W, column_vectors=W
        ),
        "w15 of a full product": full(row_scales_high=1),
        "row of 3": full(src1_row_stride=3),
        "odd row of fp16": extended(typed(DataType.FP16), src1_row_stride=9),
        "odd batch stride of bf16": extended(typed(DataType.BF16), src2_batch0_stride=9),
        "dst row of int8 in float32": extended(typed(DataType.INT8), dst_row_stride=18),
        "rows of a matmul": extended(matmul(), rows=1),
        "src2 of a copy": extended(copy(), src2_row_stride=64),
        "src2 batch of a copy": extended(copy(), src2_batch0_stride=64),
        "rows": extended(copy(m=1), rows=(1 << 24) + 1),
        "batch0": extended(copy(m=1), batch0=65536, dst_batch0_stride=1),
        "batch1": extended(matmul(), batch1=1 << 20, dst_batch1_stride=64),
        "short row": extended(matmul(), src1_row_stride=12),
        "odd row": extended(matmul(), src2_row_stride=18),
        "short dst row": extended(matmul(), dst_row_stride=8),
        "odd batch stride": extended(matmul(), batch0=2, src1_batch0_stride=66, dst_batch0_stride=64),
        "dst rows overlap": extended(copy(), rows=2, dst_row_stride=63),
        "dst batches in one place": extended(matmul(), batch0=2),
        "outer dst batches in one place": extended(copy(), batch1=2),
    },
}


@npu_test(code=list(CASES), via=["window", "ring"])
async def test_bad_packets(tb: NpuTestbench, code: ErrorCode, via: Path) -> None:
    """Every case gives the right code. Commands before it are done, those after it are not, and the device
    recovers."""
    for name, slots in CASES[code].items():
        before = copy(tb.place(tb.rng.integers(0, 256, 64, dtype=np.uint8)), tb.destination(64))
        behind = copy(before.src1_addr, tb.destination(64))
        await refused(tb, [before, *slots, behind], code, via=via, name=name)
        await tb.probe()


@npu_test()
async def test_errors_and_soft_reset(tb: NpuTestbench) -> None:
    """A soft reset ends the ERROR state too, and the counts of commands restart."""
    assert await tb.run([copy(), NpuCommandPacket(0x99)]) == State.ERROR
    await tb.restart()
    assert (await tb.state()).retired == 0
    await tb.probe()


def _random_words(tb: NpuTestbench) -> bytes:
    return tb.rng.integers(0, 256, 64, dtype=np.uint8).tobytes()


def _nearly_right(tb: NpuTestbench) -> Slots:
    """Return a legal command with one word of packet or extension changed."""
    pick = tb.random
    legal: list[Callable[[], Slots]] = [
        lambda: [copy(m=pick.randint(1, 100))],
        lambda: [add(m=pick.randint(1, 30))],
        lambda: [matmul(m=pick.randint(1, 9), k=pick.randint(1, 9), n=pick.randint(1, 9))],
        lambda: extended(copy(m=8), rows=3, src1_row_stride=8, dst_row_stride=20),
        lambda: extended(matmul(), batch0=2, dst_batch0_stride=64, src1_batch0_stride=64),
        lambda: [typed(pick.choice(list(DataType)), pick.choice((0, 1)))],
        lambda: [typed(DataType.INT8, 2)],
        lambda: full(),
        lambda: [NpuCommandPacket(Opcode.SYNC)],
    ]
    slots = pick.choice(legal)()
    at = pick.randrange(len(slots))
    slot = slots[at]
    assert not isinstance(slot, bytes)
    words = list(struct.unpack("<16I", slot.pack()))
    word = pick.randrange(16)
    words[word] = pick.choice(
        (0, 1, words[word] ^ (1 << pick.randrange(32)), 0xFFFF_FFFF, 0x8000_0000, pick.getrandbits(32))
    )
    slots[at] = struct.pack("<16I", *words)
    return slots


def _is_long(slots: Slots) -> bool:
    """Return whether the device would accept the command and take long."""
    raw = [slot if isinstance(slot, bytes) else slot.pack() for slot in slots]
    packet = NpuCommandPacket.unpack(raw[0])
    extension = ExtensionPacket.unpack(raw[1]) if len(raw) > 1 else None
    try:
        command = check_command(packet, extension)
    except PacketFault:
        return False
    moved = sum(o.rows * o.row_bytes for o in (*command.sources, command.dst) if o is not None)
    return moved * command.batch[0] * command.batch[1] > 100_000 or command.macs > 100_000


@npu_test()
async def test_no_packet_hangs(tb: NpuTestbench) -> None:
    """Random bytes, and legal commands with one wrong word: each ends as the functional model says."""
    for number in range(400):
        slots: Slots = [_random_words(tb)] if number % 4 == 0 else _nearly_right(tb)
        if _is_long(slots):
            continue
        raw = slots[0] if isinstance(slots[0], bytes) else slots[0].pack()
        opcode, flags = struct.unpack_from("<II", raw)
        while len(slots) <= extension_count(opcode, flags):
            slots.append(_random_words(tb))  # it announces an extension, so another packet follows
        if await tb.run(slots, tb.random.choice(("window", "ring"))) == State.ERROR:
            await tb.commands.clear_error()
    await tb.probe()


@npu_test()
async def test_extension_never_comes(tb: NpuTestbench) -> None:
    """An announced extension that is not submitted becomes an error: a packet must not hang the device."""
    await tb.commands.submit(extended(copy())[:1])
    assert await tb.commands.wait(MAX_EXTENSION_WAIT + 2_000) == State.ERROR
    state = await tb.state()
    assert (state.error_code, state.error_index) == (ErrorCode.BAD_EXTENSION, 0)
    tb.monitor.sync()
    tb.scoreboard.expect_no_extension()
    tb.scoreboard.check(tb.memory.shared, state)
    await tb.commands.clear_error()
    await tb.probe()


@npu_test(via=["window", "ring"])
async def test_a_doorbell_that_is_refused_ends_the_wait_for_an_extension(tb: NpuTestbench, via: Path) -> None:
    """The command that waits is dropped, and the error is the doorbell's."""
    await tb.commands.submit([NpuCommandPacket(Opcode.NOP)], "ring")
    assert await tb.check() == State.DONE
    await tb.commands.submit(extended(copy())[:1], via)
    await Timer(3000 * CLOCK_NS, "ns")
    await tb.registers.write(regs.RING_TAIL, 0xFFFF)
    assert await tb.commands.wait(1000) == State.ERROR
    await failed(tb, ErrorCode.RING_INDEX)
    assert await tb.run([NpuCommandPacket(Opcode.NOP)], via) == State.DONE
    await tb.probe()


SIZE = 40
OPERAND_BYTES = 4 * SIZE * SIZE


def _operation(tb: NpuTestbench, op: str) -> tuple[int, int, Slots]:
    """Return a command over SIZE x SIZE operands: addresses of its last source and destination, packets."""
    a, b = tb.place(tb.floats(SIZE, SIZE)), tb.place(tb.floats(SIZE, SIZE), "weight")
    dst = tb.destination(OPERAND_BYTES)
    packets: Slots = {
        "memcpy": [copy(b, dst, m=OPERAND_BYTES)],
        "add": [add(a, b, dst, m=SIZE * SIZE)],
        "matmul": list(matmul_packets(a, b, dst, SIZE, SIZE, SIZE)),
        # b holds the products' scales and biases.
        "biased": list(
            matmul_packets(
                a,
                tb.place(tb.floats(SIZE * SIZE // 8)),
                dst,
                8,
                1,
                SIZE * SIZE // 2,
                dtype="int8",
                out=OutType.OWN,
                column_vectors=b,
                column_scale=True,
                bias=True,
            )
        ),
        "scaled": list(
            matmul_packets(a, tb.place(tb.floats(SIZE)), dst, SIZE * SIZE, 1, 1, dtype="bf16", row_scales=b)
        ),
    }[op]
    return b, dst, packets


@npu_test(via=["window", "ring"], op=["memcpy", "add", "matmul", "biased", "scaled"])
async def test_read_error(tb: NpuTestbench, via: Path, op: str) -> None:
    """SLVERR or DECERR on an operand: READ_RESPONSE with the burst's address; a later run of the same
    works."""
    source, _, packets = _operation(tb, op)
    nop = NpuCommandPacket(Opcode.NOP)
    for hit in (0, OPERAND_BYTES // 2, OPERAND_BYTES - 4):
        spoil(tb, source + hit, decode=tb.random.random() < 0.5)
        await fail(tb, [nop, *packets, nop], ErrorCode.READ_RESPONSE, via, 1)
    assert await tb.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"], op=["memcpy", "add", "matmul"])
async def test_write_error(tb: NpuTestbench, via: Path, op: str) -> None:
    """An error response to a result: WRITE_RESPONSE, even when it comes with the last burst."""
    _, dst, packets = _operation(tb, op)
    nop = NpuCommandPacket(Opcode.NOP)
    for hit in (0, OPERAND_BYTES // 2, OPERAND_BYTES - 4):
        spoil(tb, dst + hit, write=True)
        await fail(tb, [nop, *packets, nop], ErrorCode.WRITE_RESPONSE, via, 1)
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_ring_fetch_error(tb: NpuTestbench) -> None:
    """A slot cannot be read: earlier commands are done, then READ_RESPONSE gives an address in the ring."""
    good = copy(tb.place(tb.rng.integers(0, 256, 64, dtype=np.uint8)), tb.destination(64))
    spoil(tb, await tb.registers.read(regs.RING_BASE), 64)
    assert await tb.run([good]) == State.DONE
    await bus_error(tb, [good], ErrorCode.READ_RESPONSE, "ring", None)
    await tb.probe()


@dataclasses.dataclass(frozen=True)
class RingSetup:
    """Register values for a ring doorbell, and what is wrong with them."""

    base: int = RING_BASE
    size: int = RING_SLOTS
    tail: int = 1
    enable: bool = True
    code: ErrorCode = ErrorCode.RING_CONFIG


class RingCase(enum.Enum):
    """Doorbells that the device must refuse."""

    MISALIGNED = RingSetup(base=0x1FFF_0020)
    IN_THE_REGISTERS = RingSetup(base=0x2000_0000)
    RESERVED = RingSetup(base=0x3000_0000)
    UNMAPPED = RingSetup(base=0xFFFF_FFC0)
    LEAVES_WEIGHT_MEMORY = RingSetup(base=0x0FFF_FFC0, size=2)
    LEAVES_ACTIVATION_MEMORY = RingSetup(base=0x1FFF_FFC0, size=2)
    NO_SLOTS = RingSetup(size=0)
    ONE_SLOT = RingSetup(size=1)
    NOT_ENABLED = RingSetup(enable=False)
    TAIL_IS_SIZE = RingSetup(tail=RING_SLOTS, code=ErrorCode.RING_INDEX)
    TAIL_FAR_OUT = RingSetup(tail=0xFFFF, code=ErrorCode.RING_INDEX)


@npu_test(case=list(RingCase))
async def test_ring_doorbell(tb: NpuTestbench, case: RingCase) -> None:
    """The doorbell rings with a tail out of range, or with a wrong ring."""
    setup = case.value
    await tb.registers.run(
        [
            WriteReg(regs.RING_BASE, setup.base),
            WriteReg(regs.RING_SIZE, setup.size),
            WriteReg(regs.CONTROL, regs.CONTROL_RING_ENABLE.put(int(setup.enable))),
            WriteReg(regs.RING_TAIL, setup.tail),
        ]
    )
    await failed(tb, setup.code)
    await tb.restart()
    await tb.probe()


async def _overflow(tb: NpuTestbench) -> tuple[list[tuple[int, int]], int]:
    """Ring the doorbell at a full queue behind a long copy; return the places of all copies, (address,
    bytes), and STATUS."""
    # A packet through the window takes some 50 clocks, and the copy one for each beat.
    nbytes = max(200_000, 100 * (tb.config.queue_depth + 8) * tb.config.data_width // 8)
    src = tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8), "weight")
    copies = [copy(src, tb.destination(nbytes), m=nbytes)]
    copies += [copy(src, tb.destination(64)) for _ in range(tb.config.queue_depth + 4)]
    batch = [write for packet in copies for write in tb.commands.window_writes(packet.pack())]
    status = (await tb.registers.run([*batch, ReadReg(regs.STATUS)]))[-1]
    return [(packet.dst_addr, packet.m) for packet in copies], status


@npu_test()
async def test_ring_that_is_changed_while_it_is_used(tb: NpuTestbench) -> None:
    """The device keeps to the ring that the doorbell found. A smaller one must have the head in it."""
    await tb.commands.submit([NpuCommandPacket(Opcode.NOP)] * 10, "ring")
    await tb.registers.write(regs.RING_SIZE, 4)
    await tb.registers.write(regs.RING_BASE, RING_BASE + 64)
    assert await tb.check() == State.DONE
    await tb.registers.write(regs.RING_TAIL, 3)
    await failed(tb, ErrorCode.RING_CONFIG)
    await tb.restart()
    await tb.probe()


@npu_test()
async def test_queue_full(tb: NpuTestbench) -> None:
    """A doorbell on a full queue: the packet is dropped, the device stops with QUEUE_FULL, and nothing else
    changes."""
    places, status = await _overflow(tb)
    assert regs.STATUS_QUEUE_LEVEL.get(status) == tb.config.queue_depth
    assert regs.STATUS_QUEUE_FULL.get(status) == 1
    assert await tb.commands.wait(1_000_000) == State.ERROR
    state = await tb.state()
    assert state.error_code == ErrorCode.QUEUE_FULL
    assert state.error_index == state.retired
    # How many of the copies were done is the device's business.
    await give_up(tb, *places)
    await tb.probe()


@npu_test()
async def test_reset_forgets_a_full_queue(tb: NpuTestbench) -> None:
    """A soft reset drops the error of a doorbell at a full queue that is not reported yet."""
    places, status = await _overflow(tb)
    assert regs.STATUS_STATE.get(status) == State.BUSY
    assert regs.STATUS_QUEUE_FULL.get(status) == 1
    # How many of the copies were done is the device's business.
    await give_up(tb, *places)
    await tb.probe()
    assert (await tb.state()).error_code == ErrorCode.NONE


@npu_test()
async def test_doorbells_in_error(tb: NpuTestbench) -> None:
    """In the ERROR state, doorbells of both kinds do nothing, and their packets are not executed after the
    clear."""
    assert await tb.run([NpuCommandPacket(0x42)]) == State.ERROR
    data = tb.place(tb.rng.integers(0, 256, 64, dtype=np.uint8))
    await tb.registers.run(tb.commands.window_writes(copy(data, tb.destination(64)).pack()))
    await tb.registers.write(regs.RING_TAIL, 3)
    await Timer(500 * CLOCK_NS, "ns")
    assert await tb.check() == State.ERROR
    await tb.commands.clear_error()
    assert await tb.check() == State.IDLE
    await tb.probe()


@npu_test()
async def test_soft_reset_in_the_middle(tb: NpuTestbench) -> None:
    """A soft reset while engines work ends cleanly: no bus traffic remains, and the device works."""
    size = 64
    for wait in (20, 150, 700, 2500):
        a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size), "weight")
        dst = tb.destination(4 * size * size)
        await tb.commands.submit(list(matmul_packets(a, b, dst, size, size, size)))
        await Timer(wait * CLOCK_NS, "ns")
        await give_up(tb, (dst, 4 * size * size))
        await tb.probe()


@npu_test()
async def test_writes_while_a_soft_reset_completes(tb: NpuTestbench) -> None:
    """Until the device is idle, doorbells, tails and ring_enable have no effect; the command window may be
    filled."""
    source, dst = tb.place(tb.rng.integers(0, 256, 4096, dtype=np.uint8), "weight"), tb.destination(4096)
    tb.dram.configure({**DEFAULT_TIMING, "read_latency": 3000})
    await tb.commands.submit([copy(source, dst, m=4096)])
    await Timer(300 * CLOCK_NS, "ns")
    await tb.registers.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
    target = tb.destination(64)
    before = tb.memory.shared.bytes[target : target + 64].tobytes()
    packet = copy(source, target, m=64).pack()
    await tb.registers.run(
        [
            WriteReg(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
            WriteReg(regs.RING_TAIL, 1),
            *tb.commands.window_writes(packet),
            WriteReg(regs.RING_TAIL, 2),
        ]
    )
    assert regs.STATUS_STATE.get(await tb.registers.read(regs.STATUS)) == State.BUSY
    while regs.STATUS_STATE.get(await tb.registers.read(regs.STATUS)) == State.BUSY:
        await Timer(50 * CLOCK_NS, "ns")
    await Timer(500 * CLOCK_NS, "ns")
    assert await tb.state() == (State.IDLE, ErrorCode.NONE, 0, 0, 0)
    for offset in (regs.CONTROL, regs.RING_HEAD, regs.RING_TAIL):
        assert await tb.registers.read(offset) == 0
    words = [
        await tb.registers.read(regs.CMD_WINDOW + 4 * index)
        for index in range(regs.REGISTERS["CMD_WINDOW"].count)
    ]
    assert words == list(struct.unpack("<16I", packet))
    assert tb.memory.shared.bytes[target : target + 64].tobytes() == before
    tb.dram.configure(DEFAULT_TIMING)
    await give_up(tb, (dst, 4096), (target, 64))  # the model, whose reset is over at once, has run it
    await tb.probe()


@npu_test(when=["idle", "busy", "done", "error"])
async def test_hard_reset(tb: NpuTestbench, when: str) -> None:
    """The reset pin resets everything but memory: the device is idle, without error, retired commands or
    interrupt, and works."""
    if when == "busy":
        tb.scoreboard.keep_history()
        size = 64
        a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size), "weight")
        product = matmul_packets(a, b, tb.destination(4 * size * size), size, size, size)
        await tb.commands.submit(list(product))
        await Timer(tb.random.randint(1, 1500) * CLOCK_NS, "ns")
    elif when == "done":
        await tb.probe()
    elif when == "error":
        assert await tb.run([NpuCommandPacket(0x42)]) == State.ERROR
    tb.monitor.sync()
    await tb.hard_reset()
    tb.scoreboard.after_reset(tb.memory.shared, hard=True)
    tb.monitor.sync()
    assert await tb.check() == State.IDLE
    state = await tb.state()
    assert (state.error_code, state.retired) == (ErrorCode.NONE, 0)
    assert await tb.registers.read(regs.IRQ_STATUS) == 0
    await tb.probe()
