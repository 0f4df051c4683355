"""Rings and bus errors anywhere in device memory: every bit of an address, of a ring's size and of its
positions takes part."""

from itertools import pairwise

from cocotb.triggers import Timer

from echo_npu.commands.builders import gather_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import PACKET_BYTES, ExtensionPacket, Flags, NpuCommandPacket, Opcode
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.registers import CLOCK_NS
from tb.testbench import RING_BASE, NpuTestbench, npu_test
from tests.commands.outcomes import bus_error, fail, spoil

# After what the testbench places for itself, and before its ring.
FIRST, LAST = 0x0080_0000, 0x0FFE_0000
REGIONS = (WEIGHT, ACTIVATION)
NOP = NpuCommandPacket(Opcode.NOP)
EXTENDED = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, WEIGHT.base, 0, ACTIVATION.base, m=4)


def anywhere(tb: NpuTestbench, nbytes: int, multiple: int = 1) -> int:
    """Draw an address for `nbytes` bytes in either region."""
    offset = tb.random.randrange(FIRST, LAST - nbytes) // multiple * multiple
    return tb.random.choice(REGIONS).base + offset


def apart(tb: NpuTestbench, nbytes: int, multiple: int = 4) -> list[int]:
    """Draw places for the operands of one command that do not overlap."""
    while True:
        found = sorted(anywhere(tb, nbytes, multiple) for _ in range(4))
        if all(high - low >= nbytes for low, high in pairwise(found)):
            return tb.random.sample(found, 4)


@npu_test()
async def test_rings(tb: NpuTestbench) -> None:
    """Rings of any size at any place continue at any slot: clearing an error empties a ring at its tail."""
    for _ in range(16):
        slots = max(2, tb.random.getrandbits(tb.random.randint(2, 16)))
        base = anywhere(tb, slots * PACKET_BYTES, 64)
        await tb.commands.soft_reset()
        await tb.commands.setup_ring(base, slots)
        tb.memory.write(base, tb.rng.integers(0xC0, 0xF0, PACKET_BYTES).astype("u1"))  # no opcode
        tail = tb.random.choice((slots - 1, tb.random.randrange(1, slots)))
        await tb.registers.write(regs.RING_TAIL, tail)
        assert await tb.check() == State.ERROR
        await tb.commands.clear_error()
        assert await tb.registers.read(regs.RING_HEAD) == tail
        await tb.probe()


@npu_test(op=["memcpy", "add", "matmul", "scaled", "gather"])
async def test_bus_errors(tb: NpuTestbench, op: str) -> None:
    """An operand or the destination that memory refuses, anywhere: its address is reported to the byte."""
    m, k, n = 6, 5, 7
    nbytes = 4 * m * k * n
    for turn in range(10):
        src1, src2, dst, vectors = apart(tb, 2 * nbytes)
        for place in (src1, src2, vectors):
            tb.memory.write(place, tb.floats(m, k, n) if op != "gather" else tb.rng.integers(0, m, 64))
        packets = {
            "memcpy": [NpuCommandPacket(Opcode.MEMCPY, 0, src1, 0, dst, m=nbytes)],
            "add": [NpuCommandPacket(Opcode.ADD_TENSOR, 0, src1, src2, dst, m=m * k, alpha=0.5)],
            "matmul": matmul_packets(src1, src2, dst, m, k, n),
            "scaled": matmul_packets(
                src1, src2, dst, m, k, n, column_vectors=vectors, column_scale=True, bias=True
            ),
            "gather": gather_packets(src1, src2, dst, m, 4 * n, m),
        }[op]
        sources = {"memcpy": [src1], "scaled": [src1, src2, vectors]}.get(op, [src1, src2])
        write = turn % 3 == 2
        hit = dst if write else tb.random.choice(sources)
        spoil(tb, hit, write=write, decode=turn % 2 == 1)
        code = ErrorCode.WRITE_RESPONSE if write else ErrorCode.READ_RESPONSE
        await fail(tb, packets, code, tb.random.choice(("window", "ring")), 0)


@npu_test()
async def test_fetch_errors(tb: NpuTestbench) -> None:
    """Memory refuses a slot of a ring anywhere: the first one, one after some commands, or the extension of a
    command that was fetched."""
    for turn in range(12):
        base = anywhere(tb, 64 * PACKET_BYTES, 64)
        await tb.commands.soft_reset()
        await tb.commands.setup_ring(base, 64)
        behind = tb.random.randrange(4)
        spoil(tb, base + behind * PACKET_BYTES, PACKET_BYTES)
        for slot in range(behind):
            extended = turn % 2 == 1 and slot == behind - 1
            await tb.commands.submit([EXTENDED if extended else NOP], "ring")
            await Timer(200 * CLOCK_NS, "ns")  # so that the slot behind it is fetched by itself
            tb.monitor.sync()
        await bus_error(tb, [ExtensionPacket()], ErrorCode.READ_RESPONSE, "ring", None)
        await tb.probe()
    await tb.commands.soft_reset()
    await tb.commands.setup_ring(RING_BASE, 64)


@npu_test()
async def test_errors_among_many_fetches(tb: NpuTestbench) -> None:
    """Memory refuses one of the bursts by which many slots are fetched: its address is reported, although it
    may come right behind the last beat of another one."""
    slots = 16
    in_burst = 16 * tb.config.bus_bytes // PACKET_BYTES  # of 16 beats
    for behind in [*range(0, slots, in_burst)] * 2:
        base = anywhere(tb, 64 * PACKET_BYTES, 4096)
        await tb.commands.soft_reset()
        await tb.commands.setup_ring(base, 64)
        refused = base + behind * PACKET_BYTES
        spoil(tb, refused, PACKET_BYTES)
        await tb.commands.submit([NOP] * slots, "ring")
        assert await tb.commands.wait(1_000_000) == State.ERROR
        tb.scoreboard.expect_fault(ErrorCode.READ_RESPONSE, refused, command=behind, before=True)
        tb.monitor.sync()
        tb.scoreboard.check(tb.memory.shared, await tb.state())
        tb.dram.clear_faults()
        await tb.commands.clear_error()
        await tb.probe()
    await tb.commands.soft_reset()
    await tb.commands.setup_ring(RING_BASE, 64)


@npu_test()
async def test_addresses_beyond(tb: NpuTestbench) -> None:
    """Addresses of any 64 bits outside of device memory: each is reported as it was sent."""
    for _ in range(16):
        bits = tb.random.randint(30, 64)
        address = tb.random.getrandbits(bits) & ~63 | 1 << (bits - 1)
        packet = NpuCommandPacket(Opcode.MEMCPY, 0, address, 0, ACTIVATION.base, m=4)
        assert await tb.run([packet], tb.random.choice(("window", "ring"))) == State.ERROR
        assert (await tb.state()).error_address == address
        await tb.commands.clear_error()
    await tb.probe()
