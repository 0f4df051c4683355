"""Performance counters: each against an independent count, and exact cycle numbers (see `cycles`)."""

from cocotb.triggers import Timer

from echo_npu import registers as regs
from echo_npu.data_types import DataType
from echo_npu.packets import NpuCommandPacket, Opcode, Packet, matmul_packets
from echo_npu.status import State
from tb.bench import DEFAULT_TIMING, NpuBench, npu_test, stalled
from tb.drivers.registers import CLOCK_NS
from tests.ops.cycles import busy_cycles, compare_cycles
from tests.ops.products import Product, run_all


def workloads(bench: NpuBench) -> dict[str, list[Packet]]:
    """What the exact cycle numbers are for; each runs alone, through the window."""

    def source(count: int, region: str = "activation") -> int:
        return bench.place(bench.floats(count), region)

    found: dict[str, list[Packet]] = {"nop": [NpuCommandPacket(Opcode.NOP)]}
    for nbytes in (64, 16384):
        src = bench.place(bench.rng.integers(0, 256, nbytes).astype("uint8"))
        found[f"memcpy {nbytes}"] = [
            NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, bench.alloc(nbytes), m=nbytes)
        ]
    for count in (16, 4096):
        a, b, dst = source(count), source(count), bench.alloc(4 * count)
        found[f"add {count}"] = [NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, dst, m=count, alpha=1.0)]
    size = 4 * bench.config.array_rows
    for m, k, n in (
        (1, 1, 1),
        (1, size, size),
        (size, size, size),
        (size + 1, size + 1, size + 1),
        (2 * size, size, 2 * size),
    ):
        for layout in ("nn", "tt"):
            a, b, dst = source(m * k), source(k * n, "weight"), bench.alloc(4 * m * n)
            packets = matmul_packets(a, b, dst, m, k, n, trans_a=layout[0] == "t", trans_b=layout[1] == "t")
            found[f"matmul {m}x{k}x{n} {layout}"] = list(packets)
    return found


@npu_test()
async def test_exact_cycles(bench: NpuBench) -> None:
    """BUSY_CYCLES of each workload with a steady memory is the committed number."""
    compare_cycles(
        bench.config.name,
        {name: await busy_cycles(bench, packets) for name, packets in workloads(bench).items()},
    )


@npu_test()
async def test_work_is_counted(bench: NpuBench) -> None:
    """MACs, commands and beats are what the commands say and the memory saw."""
    m, k, n = 5, 7, 9
    a, b, dst = (
        bench.place(bench.floats(m * k)),
        bench.place(bench.floats(k * n)),
        bench.destination(4 * m * n),
    )
    await bench.registers.write(
        regs.CONTROL, regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask
    )
    bench.dram.clear_statistics()
    packets = [
        *matmul_packets(a, b, dst, m, k, n),
        NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, a, m=m * k, alpha=2.0),
    ]
    assert await bench.run([*packets, NpuCommandPacket(Opcode.SYNC)], "ring") == State.DONE
    counters, seen = await bench.counters(), bench.dram.statistics()
    assert counters["MACS"] == m * k * n
    assert counters["COMMANDS"] == 3
    assert counters["READ_BEATS"] == seen["read_beats"]
    assert counters["WRITE_BEATS"] == seen["write_beats"]
    assert counters["HOST_BEATS"] == 0
    assert 0 < counters["MATRIX_BUSY"] < counters["BUSY_CYCLES"] <= counters["CYCLES"]
    assert 0 < counters["VECTOR_BUSY"] < counters["BUSY_CYCLES"]
    if bench.dram.statistic("stall_cycles"):
        assert counters["STALL_BUS"] > 0


@npu_test(dtype=list(DataType))
async def test_macs_of_every_type(bench: NpuBench, dtype: DataType) -> None:
    """One for each product, however many of them the array takes at once and whatever it pads."""
    for m, k, n in ((1, 1, 1), (5, 7, 9), (3, 2 * bench.config.array_rows + 5, 2), (1, 66, 30)):
        before = (await bench.counters())["MACS"]
        await run_all(bench, [Product(bench, m, k, n, dtype=dtype, bias=bench.floats(n))], "window")
        assert (await bench.counters())["MACS"] - before == m * k * n


def streams_of_each_engine(bench: NpuBench) -> dict[str, list[Packet]]:
    """Commands that are as long as their operands, or results, take to pass."""
    # The array runs ahead of memory by what its accumulators hold.
    size, count = bench.config.array_rows, 2 * bench.config.acc_entries * bench.config.array_cols
    a, b = bench.place(bench.floats(count)), bench.place(bench.floats(count), "weight")
    # Little to read and much to write: K is 1. What is to wait for operands has it the other way round.
    wide = matmul_packets(a, b, bench.destination(4 * count), size, 1, count // size)
    deep = matmul_packets(a, b, bench.destination(4 * 4), 2, count // 2, 2)
    return {
        "matmul, much to write": list(wide),
        "matmul, much to read": list(deep),
        "add": [
            NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, bench.destination(4 * count), m=count, alpha=1.0)
        ],
        "memcpy": [NpuCommandPacket(Opcode.MEMCPY, 0, a, 0, bench.destination(4 * count), m=4 * count)],
    }


@npu_test(direction=["read", "write"])
async def test_stalls_are_those_of_the_slow_side(bench: NpuBench, direction: str) -> None:
    """Where memory takes, or gives, a beat in sixteen clocks, that is what an engine waits for."""
    slow, fast = f"STALL_{direction.upper()}", f"STALL_{'WRITE' if direction == 'read' else 'READ'}"
    for name, packets in streams_of_each_engine(bench).items():
        if name.endswith("to write" if direction == "read" else "to read"):
            continue
        before = await bench.counters()
        # Nothing else holds back, or the engine waits for that as well.
        bench.dram.configure({**DEFAULT_TIMING, f"{direction}_bandwidth": bench.config.bus_bytes / 16})
        assert await bench.run(packets) == State.DONE
        after = await bench.counters()
        spent = {key: after[key] - before[key] for key in after}
        assert spent[slow] > spent["BUSY_CYCLES"] / 4, f"{name}: {spent}"
        assert spent[fast] < spent[slow] / 4, f"{name}: {spent}"


@npu_test()
async def test_cycles_run_free(bench: NpuBench) -> None:
    """CYCLES counts every clock, BUSY_CYCLES none of an idle device, and a 64-bit read is atomic."""
    first = await bench.counters()
    await Timer(1000 * CLOCK_NS, "ns")
    second = await bench.counters()
    assert second["CYCLES"] - first["CYCLES"] >= 1000
    assert second["BUSY_CYCLES"] == first["BUSY_CYCLES"] == 0
    await bench.probe()


@npu_test()
async def test_clear(bench: NpuBench) -> None:
    """clear_counters sets all to zero and touches nothing else."""
    await bench.probe()
    before = await bench.state()
    await bench.registers.write(
        regs.CONTROL, regs.CONTROL_RING_ENABLE.mask | regs.CONTROL_CLEAR_COUNTERS.mask
    )
    counters = await bench.counters()
    assert counters.pop("CYCLES") < 500
    assert not any(counters.values()), counters
    assert await bench.state() == before


@npu_test()
async def test_utilisation(bench: NpuBench) -> None:
    """A product of many blocks keeps the array busy: at least 60 % of its peak on a steady memory."""
    size = 128 if bench.config.array_rows == 16 else 8 * bench.config.array_rows
    a, b = bench.place(bench.floats(size, size)), bench.place(bench.floats(size, size), "weight")
    before = await bench.counters()
    packets = matmul_packets(a, b, bench.alloc(4 * size * size), size, size, size)
    assert await bench.run(packets) == State.DONE
    after = await bench.counters()
    spent = {name: after[name] - before[name] for name in after}
    peak = spent["BUSY_CYCLES"] * bench.config.array_rows * bench.config.array_cols
    assert spent["MACS"] == size**3
    if not stalled() and bench.config.array_rows == 16:
        assert spent["MACS"] / peak >= 0.60, f"utilisation {spent['MACS'] / peak:.2f}: {spent}"
