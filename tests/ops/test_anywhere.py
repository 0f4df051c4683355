"""Rings and bus errors anywhere in device memory: every bit of an address, of a ring's size and of its
positions takes part."""

from itertools import pairwise

from cocotb.triggers import Timer

from echo_npu import registers as regs
from echo_npu.memory_map import ACTIVATION, WEIGHT
from echo_npu.packets import (
    PACKET_BYTES,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    gather_packets,
    matmul_packets,
)
from echo_npu.status import ErrorCode, State
from tb.bench import RING_BASE, NpuBench, npu_test
from tb.drivers.registers import CLOCK_NS

# Behind what the bench places for itself, and before its ring.
FIRST, LAST = 0x0080_0000, 0x0FFE_0000
REGIONS = (WEIGHT, ACTIVATION)
NOP = NpuCommandPacket(Opcode.NOP)
EXTENDED = NpuCommandPacket(Opcode.MEMCPY, Flags.EXT, WEIGHT.base, 0, ACTIVATION.base, m=4)


def anywhere(bench: NpuBench, nbytes: int, multiple: int = 1) -> int:
    """An address for so many bytes in either region."""
    offset = bench.random.randrange(FIRST, LAST - nbytes) // multiple * multiple
    return bench.random.choice(REGIONS).base + offset


def apart(bench: NpuBench, nbytes: int, multiple: int = 4) -> list[int]:
    """Places for the operands of one command, which do not meet."""
    while True:
        found = sorted(anywhere(bench, nbytes, multiple) for _ in range(4))
        if all(high - low >= nbytes for low, high in pairwise(found)):
            return bench.random.sample(found, 4)


@npu_test()
async def test_rings(bench: NpuBench) -> None:
    """Rings of any size at any place, gone on with at any slot: clearing an error empties a ring at its
    tail."""
    for _ in range(16):
        slots = max(2, bench.random.getrandbits(bench.random.randint(2, 16)))
        base = anywhere(bench, slots * PACKET_BYTES, 64)
        await bench.commands.soft_reset()
        await bench.commands.setup_ring(base, slots)
        bench.memory.write(base, bench.rng.integers(0xC0, 0xF0, PACKET_BYTES).astype("u1"))  # no opcode
        tail = bench.random.choice((slots - 1, bench.random.randrange(1, slots)))
        await bench.registers.write(regs.RING_TAIL, tail)
        assert await bench.check() == State.ERROR
        await bench.commands.clear_error()
        assert await bench.registers.read(regs.RING_HEAD) == tail
        await bench.probe()


@npu_test(op=["memcpy", "add", "matmul", "scaled", "gather"])
async def test_bus_errors(bench: NpuBench, op: str) -> None:
    """An operand or the destination that memory refuses, anywhere: its address is reported to the byte."""
    m, k, n = 6, 5, 7
    nbytes = 4 * m * k * n
    for turn in range(10):
        src1, src2, dst, vectors = apart(bench, 2 * nbytes)
        for place in (src1, src2, vectors):
            bench.memory.write(
                place, bench.floats(m, k, n) if op != "gather" else bench.rng.integers(0, m, 64)
            )
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
        hit = dst if write else bench.random.choice(sources)
        bench.dram.clear_statistics()
        bench.dram.add_fault(hit, hit + 4, read=not write, write=write, decode=turn % 2 == 1)
        index = (await bench.state()).retired
        await bench.commands.submit(packets, bench.random.choice(("window", "ring")))
        assert await bench.commands.wait(100_000) == State.ERROR
        code = ErrorCode.WRITE_RESPONSE if write else ErrorCode.READ_RESPONSE
        await bench.check_bus_error(code, index)
        bench.dram.clear_faults()
        await bench.recover()
        await bench.restart()


@npu_test()
async def test_fetch_errors(bench: NpuBench) -> None:
    """A slot that memory refuses, of rings anywhere: the first one, one behind some commands, or the
    extension of a command that has come."""
    for turn in range(12):
        base = anywhere(bench, 64 * PACKET_BYTES, 64)
        await bench.commands.soft_reset()
        await bench.commands.setup_ring(base, 64)
        behind = bench.random.randrange(4)
        bench.dram.clear_statistics()
        at = base + behind * PACKET_BYTES
        bench.dram.add_fault(at, at + PACKET_BYTES, read=True)
        for slot in range(behind):
            extended = turn % 2 == 1 and slot == behind - 1
            await bench.commands.submit([EXTENDED if extended else NOP], "ring")
            await Timer(200 * CLOCK_NS, "ns")  # so that the slot behind it is fetched by itself
            bench.monitor.sync()
        await bench.commands.submit([ExtensionPacket()], "ring")
        assert await bench.commands.wait(100_000) == State.ERROR
        await bench.check_bus_error(ErrorCode.READ_RESPONSE, None)
        bench.dram.clear_faults()
        await bench.recover()
    await bench.commands.soft_reset()
    await bench.commands.setup_ring(RING_BASE, 64)


@npu_test()
async def test_addresses_beyond(bench: NpuBench) -> None:
    """Addresses of any 64 bits outside of device memory: each is reported as it was sent."""
    for _ in range(16):
        bits = bench.random.randint(30, 64)
        address = bench.random.getrandbits(bits) & ~63 | 1 << (bits - 1)
        packet = NpuCommandPacket(Opcode.MEMCPY, 0, address, 0, ACTIVATION.base, m=4)
        assert await bench.run([packet], bench.random.choice(("window", "ring"))) == State.ERROR
        assert (await bench.state()).error_address == address
        await bench.commands.clear_error()
    await bench.probe()
