"""The watchdog: a command that takes too long ends with TIMEOUT, and the device recovers."""

import numpy as np
from cocotb.triggers import Timer

from echo_npu.commands.builders import gather_packets, load_program_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import WEIGHT
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.program import Builder, Program
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test, stalled
from tests.commands.cycles import busy_cycles
from tests.commands.outcomes import failed, refused

VIAS: tuple[Path, ...] = ("window", "ring")


def runaway() -> Program:
    """Return a program that adds an element `repeats` times and stores the sum."""
    builder = Builder("runaway")
    source = builder.stream(0)
    total = builder.accumulator()
    value = builder.scalar()
    builder.aset(total, 0.0)
    with builder.repeat():
        builder.add(total, source, one=True)
    builder.foldadd(value, total)
    builder.mov(builder.out, value, one=True)
    return builder.build()


def long_commands(tb: NpuTestbench) -> dict[str, list[Packet]]:
    """Return commands of every kind that take more than a thousand cycles on any memory."""
    beat = tb.config.data_width // 8
    nbytes = 1500 * beat
    data = tb.place(tb.rng.integers(0, 256, nbytes, dtype=np.uint8), "weight")
    words = min(tb.config.program_words, 1500 * beat // 8)
    indices = tb.place(np.zeros(1500, dtype=np.int32))
    size = 4 * tb.config.array_rows
    return {
        "memcpy": [NpuCommandPacket(Opcode.MEMCPY, 0, data, 0, tb.destination(nbytes), m=nbytes)],
        "add": [
            NpuCommandPacket(
                Opcode.ADD_TENSOR, 0, data, data, tb.destination(nbytes), m=nbytes // 4, alpha=1.0
            )
        ],
        "matmul": list(matmul_packets(data, data, tb.destination(4 * size * size), size, 32 * size, size)),
        "gather": list(gather_packets(data, indices, tb.destination(1500 * beat), 1500, beat, 1)),
        "load": list(load_program_packets(data, words, 0)),
    }


async def _watch(tb: NpuTestbench, cycles: int) -> None:
    await tb.registers.write(regs.WATCHDOG, cycles)


@npu_test(op=["memcpy", "add", "matmul", "gather", "load"], via=["window", "ring"])
async def test_a_long_command_ends(tb: NpuTestbench, op: str, via: Path) -> None:
    """TIMEOUT, at any time; afterwards the same command succeeds without a watchdog."""
    packets = long_commands(tb)[op]
    for limit in (1, 2, 30, 100, 800):
        await _watch(tb, limit)
        index = tb.scoreboard.taken
        tb.scoreboard.expect_fault(ErrorCode.TIMEOUT, 0, command=index)
        assert await tb.run(packets, via) == State.ERROR
        state = await tb.state()
        assert (state.error_code, state.error_index) == (ErrorCode.TIMEOUT, index)
        assert tb.dram.statistic("outstanding") == 0
        await _watch(tb, 0)
        await tb.recover()
        assert await tb.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_a_bad_index_behind_a_row_that_takes_too_long(tb: NpuTestbench, via: Path) -> None:
    """The index is read while the row is copied, so it is found in time."""
    row_bytes = 1 << 21
    indices = tb.place(np.array([0, -1], np.int32))
    packets = gather_packets(WEIGHT.base, indices, tb.destination(2 * row_bytes), 2, row_bytes, 1)
    await _watch(tb, 20_000)
    await refused(tb, packets, ErrorCode.BAD_INDEX, indices + 4, via=via)


@npu_test()
async def test_a_program_that_runs_away(tb: NpuTestbench) -> None:
    """2^24 repetitions take longer than 500 cycles: the model knows that, too."""
    source, dst = tb.place(tb.floats(16)), tb.destination(64)
    await tb.load_programs(runaway())
    fields = {"cols": 1, "inputs": [Stream(source)]}
    endless = tb.vector_packets(runaway(), rows=1, repeats=1 << 24, output=Stream(dst), **fields)
    await _watch(tb, 500)
    await refused(tb, endless, ErrorCode.TIMEOUT)
    await tb.probe()
    short = tb.vector_packets(runaway(), rows=1, repeats=3, output=Stream(dst), **fields)
    assert await tb.run(short) == State.DONE


@npu_test()
async def test_long_times_are_counted(tb: NpuTestbench) -> None:
    """Beyond 2^16 cycles, too: a copy that takes longer ends, and one that does not is done."""
    limit = (1 << 16) + 500
    nbytes = 2 * limit * tb.config.data_width // 8
    source = tb.alloc(nbytes, "weight")
    dst = tb.alloc(nbytes)
    await _watch(tb, limit)
    tb.scoreboard.expect_fault(ErrorCode.TIMEOUT, 0, command=tb.scoreboard.taken)
    await refused(tb, [NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=nbytes)], ErrorCode.TIMEOUT)
    await tb.probe()
    assert await tb.run([NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, dst, m=4096)]) == State.DONE
    await _watch(tb, 0)


@npu_test()
async def test_each_command_has_its_own_time(tb: NpuTestbench) -> None:
    """A command's time starts when it is the oldest: many together may take longer than the limit."""
    for op in ("memcpy", "matmul"):
        packets = long_commands(tb)[op]
        await _watch(tb, 0)
        await _watch(tb, 3 * await busy_cycles(tb, packets))
        assert await tb.run(packets * 6, "ring") == State.DONE


@npu_test(op=["memcpy", "matmul"])
async def test_a_limit_below_the_time_that_has_passed(tb: NpuTestbench, op: str) -> None:
    """A limit that is written while a command runs holds for the clocks before it, too."""
    packets = long_commands(tb)[op]
    for limit in (1, 100, 500):
        await _watch(tb, 1_000_000)
        tb.scoreboard.expect_fault(ErrorCode.TIMEOUT, 0, command=tb.scoreboard.taken)
        await tb.commands.submit(packets)
        await Timer(800 * CLOCK_NS, "ns")  # these commands take more than a thousand cycles
        await _watch(tb, limit)
        await failed(tb, ErrorCode.TIMEOUT)
    await _watch(tb, 0)


@npu_test()
async def test_the_time_beside_an_older_command_does_not_count(tb: NpuTestbench) -> None:
    """A copy takes longer than the limit, but not from the clock on in which the product before it ends."""
    if stalled():
        await tb.probe()
        return  # the copy may take any time
    m, k, n = 8 * tb.config.array_rows, 64, 8 * tb.config.array_cols  # 4096 clocks or more
    a, b = tb.place(tb.floats(m, k)), tb.place(tb.floats(k, n), "weight")
    product = list(matmul_packets(a, b, tb.destination(4 * m * n), m, k, n))
    alone = await busy_cycles(tb, product)
    nbytes = 4 * alone * tb.config.data_width // 8  # beside the copy, the product takes longer than alone
    source, target = tb.alloc(nbytes, "weight"), tb.alloc(nbytes)
    copy = [NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, target, m=nbytes)]
    limit = await busy_cycles(tb, copy) - alone // 8
    await _watch(tb, limit)
    for via in VIAS:
        assert await tb.run([*product, *copy], via) == State.DONE
    # A fence between them, or nothing before it: all of its time counts.
    for before in ([NpuCommandPacket(Opcode.SYNC)], []):
        await refused(tb, [*before, *copy], ErrorCode.TIMEOUT)
    await _watch(tb, 0)


@npu_test()
async def test_time_that_suffices(tb: NpuTestbench) -> None:
    """With a limit below the time that a command takes it ends with TIMEOUT, else it is done."""
    data = tb.place(tb.rng.integers(0, 256, 256, dtype=np.uint8))
    packets = [NpuCommandPacket(Opcode.MEMCPY, 0, data, 0, tb.destination(256), m=256)]
    outcomes = []
    # A memory that stalls may need more than any of the small ones.
    for limit in (*range(20, 400), 100_000):
        await _watch(tb, limit)
        await tb.commands.submit(packets)
        state = await tb.commands.settle(100_000)
        outcomes.append(state)
        if state == State.ERROR:
            tb.scoreboard.expect_fault(ErrorCode.TIMEOUT, 0, command=tb.scoreboard.taken)
            await failed(tb, ErrorCode.TIMEOUT)
            continue
        assert await tb.check() == State.DONE
        if outcomes[-20:] == [State.DONE] * 20:
            break
    assert outcomes[0] == State.ERROR
    assert outcomes[-1] == State.DONE
    if not stalled():
        assert outcomes == sorted(outcomes, reverse=True)


@npu_test()
async def test_a_soft_reset_keeps_it(tb: NpuTestbench) -> None:
    await _watch(tb, 50)
    await tb.restart()
    assert await tb.registers.read(regs.WATCHDOG) == 50
    packets = long_commands(tb)["memcpy"]
    assert await tb.run(packets) == State.ERROR
    assert (await tb.state()).error_code == ErrorCode.TIMEOUT
    await _watch(tb, 0)
