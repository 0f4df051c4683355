"""Performance counters: each against an independent count, and exact cycle numbers (see `cycles`)."""

import random
from collections.abc import Iterator

import cocotb
from cocotb.triggers import Timer

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType
from echo_npu.spec.status import State
from tb.drivers.registers import CLOCK_NS
from tb.testbench import DEFAULT_TIMING, NpuTestbench, npu_test
from tests.commands.cycles import busy_cycles, compare_cycles, spent, timed
from tests.commands.products import MatmulTrial

WRITE_BUFFER_BEATS = 64
"""Beats of results that wait for the bus."""


def workloads(tb: NpuTestbench) -> dict[str, list[Packet]]:
    """Return the commands with exact cycle numbers; each runs alone, through the window."""

    def source(count: int, region: str = "activation") -> int:
        return tb.place(tb.floats(count), region)

    found: dict[str, list[Packet]] = {"nop": [NpuCommandPacket(Opcode.NOP)]}
    for nbytes in (64, 16384):
        src = tb.place(tb.rng.integers(0, 256, nbytes).astype("uint8"))
        found[f"memcpy {nbytes}"] = [NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, tb.alloc(nbytes), m=nbytes)]
    for count in (16, 4096):
        a, b, dst = source(count), source(count), tb.alloc(4 * count)
        found[f"add {count}"] = [NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, dst, m=count, alpha=1.0)]
    size = 4 * tb.config.array_rows
    for m, k, n in (
        (1, 1, 1),
        (1, size, size),
        (size, size, size),
        (size + 1, size + 1, size + 1),
        (2 * size, size, 2 * size),
    ):
        for layout in ("nn", "tt"):
            a, b, dst = source(m * k), source(k * n, "weight"), tb.alloc(4 * m * n)
            packets = matmul_packets(a, b, dst, m, k, n, trans_a=layout[0] == "t", trans_b=layout[1] == "t")
            found[f"matmul {m}x{k}x{n} {layout}"] = list(packets)
    return found


@npu_test()
async def test_exact_cycles(tb: NpuTestbench) -> None:
    """BUSY_CYCLES of each workload with a steady memory is the committed number."""
    compare_cycles(
        tb.config.name, {name: await busy_cycles(tb, packets) for name, packets in workloads(tb).items()}
    )


@npu_test()
async def test_work_is_counted(tb: NpuTestbench) -> None:
    """MACs and commands are those of the packets; beats are those that the memory counted."""
    m, k, n = 5, 7, 9
    a, b, dst = (tb.place(tb.floats(m * k)), tb.place(tb.floats(k * n)), tb.destination(4 * m * n))
    await tb.registers.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask)
    tb.dram.clear_statistics()
    packets = [
        *matmul_packets(a, b, dst, m, k, n),
        NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, a, m=m * k, alpha=2.0),
    ]
    assert await tb.run([*packets, NpuCommandPacket(Opcode.SYNC)], "ring") == State.DONE
    counters, seen = await tb.counters(), tb.dram.statistics()
    assert counters["MACS"] == m * k * n
    assert counters["COMMANDS"] == 3
    assert counters["READ_BEATS"] == seen["read_beats"]
    assert counters["WRITE_BEATS"] == seen["write_beats"]
    assert counters["HOST_BEATS"] == 0
    assert 0 < counters["MATRIX_BUSY"] < counters["BUSY_CYCLES"] <= counters["CYCLES"]
    assert 0 < counters["VECTOR_BUSY"] < counters["BUSY_CYCLES"]
    if tb.dram.statistic("stall_cycles"):
        assert counters["STALL_BUS"] > 0


@npu_test(dtype=list(DataType))
async def test_macs_of_every_type(tb: NpuTestbench, dtype: DataType) -> None:
    """Each multiply-accumulate counts once, however many the array does in a clock, without padding."""
    for m, k, n in ((1, 1, 1), (5, 7, 9), (3, 2 * tb.config.array_rows + 5, 2), (1, 66, 30)):
        trial = MatmulTrial(tb, m, k, n, dtype=dtype, bias=tb.floats(n))
        assert (await spent(tb, trial.packets))["MACS"] == m * k * n


def streams_of_each_engine(tb: NpuTestbench) -> dict[str, list[Packet]]:
    """Return commands whose time is that of their operands, or of their results, on the bus."""
    # The array runs ahead of memory by what its accumulators and the write buffer hold, the lanes by eight
    # vectors.
    size, held = tb.config.array_rows, WRITE_BUFFER_BEATS * tb.config.data_width // 32
    count = 4 * max(tb.config.acc_entries * tb.config.array_cols + held, 8 * tb.config.vector_length)
    a, b = tb.place(tb.floats(count)), tb.place(tb.floats(count), "weight")
    # K is 1: little to read and much to write. A command that is to wait for operands has it the other way.
    wide = matmul_packets(a, b, tb.destination(4 * count), size, 1, count // size)
    deep = matmul_packets(a, b, tb.destination(4 * 4), 2, count // 2, 2)
    return {
        "matmul, much to write": list(wide),
        "matmul, much to read": list(deep),
        "add": [NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, tb.destination(4 * count), m=count, alpha=1.0)],
        "memcpy": [NpuCommandPacket(Opcode.MEMCPY, 0, a, 0, tb.destination(4 * count), m=4 * count)],
    }


@npu_test(direction=["read", "write"])
async def test_stalls_are_those_of_the_slow_side(tb: NpuTestbench, direction: str) -> None:
    """If memory takes, or gives, a beat in sixteen clocks, the engine's stalls are counted on that side."""
    slow, fast = f"STALL_{direction.upper()}", f"STALL_{'WRITE' if direction == 'read' else 'READ'}"
    for name, packets in streams_of_each_engine(tb).items():
        if name.endswith("to write" if direction == "read" else "to read"):
            continue
        # Nothing else stalls, or the engine would wait for that as well.
        tb.dram.configure({**DEFAULT_TIMING, f"{direction}_bandwidth": tb.config.bus_bytes / 16})
        counted = await spent(tb, packets)
        assert counted[slow] > counted["BUSY_CYCLES"] / 4, f"{name}: {counted}"
        assert counted[fast] < counted[slow] / 4, f"{name}: {counted}"


@npu_test()
async def test_cycles_run_free(tb: NpuTestbench) -> None:
    """CYCLES counts every clock, BUSY_CYCLES none of an idle device, and a 64-bit read is atomic."""
    first = await tb.counters()
    await Timer(1000 * CLOCK_NS, "ns")
    second = await tb.counters()
    assert second["CYCLES"] - first["CYCLES"] >= 1000
    assert second["BUSY_CYCLES"] == first["BUSY_CYCLES"] == 0
    await tb.probe()


@npu_test()
async def test_clear(tb: NpuTestbench) -> None:
    """clear_counters sets all counters to zero and changes nothing else."""
    await tb.probe()
    before = await tb.state()
    await tb.registers.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask)
    counters = await tb.counters()
    assert counters.pop("CYCLES") < 500
    assert not any(counters.values()), counters
    assert await tb.state() == before


@npu_test()
async def test_utilisation(tb: NpuTestbench) -> None:
    """A product of many blocks keeps the array busy: at least 60 % of its peak on a steady memory."""
    size = 128 if tb.config.array_rows == 16 else 8 * tb.config.array_rows
    a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size), "weight")
    counted = await spent(tb, matmul_packets(a, b, tb.alloc(4 * size * size), size, size, size))
    peak = counted["BUSY_CYCLES"] * tb.config.array_rows * tb.config.array_cols
    assert counted["MACS"] == size**3
    if timed(tb.config.name) and tb.config.array_rows == 16:
        assert counted["MACS"] / peak >= 0.60, f"utilisation {counted['MACS'] / peak:.2f}: {counted}"


def often(rng: random.Random, chance: float) -> Iterator[bool]:
    """Yield whether a side stalls, clock by clock."""
    while True:
        yield rng.random() < chance


def beats_of(tb: NpuTestbench, address: int, length: int) -> int:
    """Return the data beats of an access of whole words."""
    bus = tb.config.bus_bytes
    return (address % bus + length + bus - 1) // bus


@npu_test()
async def test_host_beats_are_handshakes(tb: NpuTestbench) -> None:
    """A beat of the host window counts once in both directions, however long either side stalls."""
    await tb.registers.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask)
    expected = 0
    async with tb.memory.front_door() as master:
        master.read_if.r_channel.set_pause_generator(often(tb.random, 0.6))
        master.write_if.w_channel.set_pause_generator(often(tb.random, 0.4))
        for _ in range(6):
            accesses = [(tb.alloc(700, offset=tb.random.randrange(9)), 600) for _ in range(2)]
            (to, length), (source, _) = accesses
            write = cocotb.start_soon(tb.memory.front_write(to, tb.rng.bytes(length)))
            read = cocotb.start_soon(tb.memory.front_read(source, length))
            await write
            await read
            expected += sum(beats_of(tb, *access) for access in accesses)
        assert (await tb.counters())["HOST_BEATS"] == expected
    await tb.probe()


@npu_test()
async def test_counts_under_mixed_traffic(tb: NpuTestbench) -> None:
    """Counters are read and cleared while both engines and a stalling host move data. The board must have
    counted the same (runtime/echo_sim/checkers/counter_checker.sv) in any clock."""
    size = 3 * tb.config.array_rows
    a, b = tb.place(tb.floats(size, size)), tb.place(tb.floats(size, size), "weight")
    data = tb.place(tb.rng.integers(0, 256, 5000, dtype="uint8"))
    clear = regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask
    async with tb.memory.front_door() as master:
        master.read_if.r_channel.set_pause_generator(often(tb.random, 0.5))
        master.write_if.w_channel.set_pause_generator(often(tb.random, 0.3))
        for cleared in (False, True, False):
            packets = [
                *matmul_packets(a, b, tb.destination(4 * size * size), size, size, size),
                NpuCommandPacket(Opcode.MEMCPY, 0, data, 0, tb.destination(5000), m=5000),
                NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, tb.destination(4 * size), m=size, alpha=1.0),
            ]
            await tb.commands.submit([*packets, *packets[:2]], "window")
            host = [
                cocotb.start_soon(tb.memory.front_write(tb.alloc(900), tb.rng.bytes(900))),
                cocotb.start_soon(tb.memory.front_read(tb.alloc(900), 900)),
            ]
            for _ in range(4):
                await tb.counters()
                await Timer(tb.random.randint(1, 150) * CLOCK_NS, "ns")
                if cleared:
                    await tb.registers.write(regs.CONTROL, clear)
            for access in host:
                await access
            assert await tb.check() == State.DONE
