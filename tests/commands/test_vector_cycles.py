"""Durations of vector commands: against memory bandwidth and lanes, beside products, and in exact cycles."""

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.commands.vector_command import Stream, VectorCommand, vector_command
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_control import Sequencer
from echo_npu.vector.isa import CHUNK_MULTIPLE, Form
from echo_npu.vector.kernels.cast import cast
from echo_npu.vector.kernels.elementwise import elementwise
from echo_npu.vector.kernels.norm import rms_norm
from echo_npu.vector.kernels.softmax import softmax
from echo_npu.vector.program import Builder, Program
from tb.testbench import NpuTestbench, npu_test
from tests.commands.cycles import busy_cycles, compare_cycles, timed


def lane_cycles(tb: NpuTestbench, program: Program, command: VectorCommand) -> int:
    """Return the fewest cycles in which the lanes execute a command: one for each word of an instruction, one
    for each partial result of a fold."""
    config = tb.config
    memory = ProgramMemory(config.program_words)
    memory.load(command.entry, program.words)
    total = 0
    for decoded, elements in Sequencer(memory, command, config.vector_length, config.row_elements):
        total += CHUNK_MULTIPLE if decoded.form == Form.FOLD else -(-elements // config.vector_lanes)
    return total * command.rows * command.batch[0] * command.batch[1]


async def measure(tb: NpuTestbench, program: Program, **fields: object) -> tuple[int, int, int]:
    """Return (cycles, bound by memory, bound by the lanes) of one command alone."""
    await tb.load_programs(program)
    packets = tb.vector_packets(program, **fields)
    tb.dram.clear_statistics()
    cycles = await busy_cycles(tb, packets)
    moved = tb.dram.statistics()
    assert moved["read_bytes"] % tb.config.bus_bytes == 0
    command = vector_command(0, passes=program.passes, **fields)  # type: ignore[arg-type]
    return cycles, max(moved["read_beats"], moved["write_beats"]), lane_cycles(tb, program, command)


@npu_test(operation=["add", "mul by a number", "from int8", "to float16", "copy"])
async def test_elementwise_bandwidth(tb: NpuTestbench, operation: str) -> None:
    """Long elementwise operations reach 90 % of the memory's bandwidth, in the busier direction."""
    count = 16_384 if tb.config.vector_lanes < 16 else 65_536
    size = {"from int8": 1}.get(operation, 4)
    out_size = {"to float16": 2}.get(operation, 4)
    program = {
        "add": elementwise("add", "ss"),
        "mul by a number": elementwise("mul", "sp"),
        "from int8": cast("int8", "float32"),
        "to float16": cast("float32", "float16"),
        "copy": elementwise("mov", "s"),
    }[operation]
    inputs = [Stream(tb.place(tb.floats(count)), size=size) for _ in range(2 if operation == "add" else 1)]
    output = Stream(tb.alloc(out_size * count), size=out_size)
    cycles, memory, lanes = await measure(
        tb, program, rows=1, cols=count, inputs=inputs, output=output, params=[0.5]
    )
    if timed(tb.config.name):
        assert lanes <= memory, "not a matter of bandwidth"
        assert memory / cycles >= 0.9, f"{operation}: {memory} beats in {cycles} cycles"
    compare_cycles(tb.config.name, {f"vector {operation} {count}": cycles})


@npu_test(kernel=["softmax", "rms_norm"])
async def test_rows(tb: NpuTestbench, kernel: str) -> None:
    """Softmax and RMSNorm of [128, 2048] take at most 1.5 times as long as memory or lanes alone."""
    rows, cols = (32, 512) if tb.config.vector_lanes < 16 else (128, 2048)
    cols = min(cols, tb.config.row_elements)  # programs that keep a row
    program = softmax() if kernel == "softmax" else rms_norm()
    inputs = [Stream(tb.place(tb.floats(rows, cols)), row_stride=4 * cols)]
    if kernel == "rms_norm":
        inputs.append(Stream(tb.place(tb.floats(cols))))
    output = Stream(tb.alloc(4 * rows * cols), row_stride=4 * cols)
    cycles, memory, lanes = await measure(
        tb, program, rows=rows, cols=cols, inputs=inputs, output=output, params=[1e-6, 1 / cols]
    )
    if timed(tb.config.name):
        assert cycles <= 1.5 * max(memory, lanes), f"{cycles} cycles, memory {memory}, lanes {lanes}"
    compare_cycles(tb.config.name, {f"vector {program.name} {rows}x{cols}": cycles})


def workloads(tb: NpuTestbench) -> dict[str, tuple[Program, dict[str, object]]]:
    """Return the commands with exact cycle numbers."""

    def dense(rows: int, cols: int) -> Stream:
        return Stream(tb.place(tb.floats(rows, cols)), row_stride=4 * cols)

    found: dict[str, tuple[Program, dict[str, object]]] = {}
    row = tb.config.row_elements
    longest = (8 if row <= 8192 else 1, row)  # a stalled memory takes long for more
    for rows, cols in ((1, 1), (1, min(300, row)), (100, 3), longest):
        for program, inputs in (
            (elementwise("add", "ss"), [dense(rows, cols), dense(rows, cols)]),
            (elementwise("exp", "s"), [dense(rows, cols)]),
            (softmax(causal=True), [dense(rows, cols)]),
            (rms_norm(), [dense(rows, cols), Stream(tb.place(tb.floats(cols)))]),
        ):
            output = Stream(tb.alloc(4 * rows * cols), row_stride=4 * cols)
            shape = {"rows": rows, "cols": cols, "inputs": inputs, "output": output}
            found[f"vector {program.name} {rows}x{cols}"] = program, shape
    return found


@npu_test()
async def test_exact_cycles(tb: NpuTestbench) -> None:
    """BUSY_CYCLES of each workload with a steady memory is the committed number."""
    measured = {}
    for name, (program, fields) in workloads(tb).items():
        await tb.load_programs(program)
        measured[name] = await busy_cycles(tb, tb.vector_packets(program, **fields))
    compare_cycles(tb.config.name, measured)


def chain(b: Builder) -> None:
    """Return a program of many instructions an element: the lanes work, memory rests."""
    x, v = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.mov(v, x)
        for _ in range(60):
            b.fma(v, v, v, b.iota)
        b.mov(b.out, v)


class EnginePair:
    """A product and a vector command that take about the same time, on operands of their own."""

    def __init__(self, tb: NpuTestbench) -> None:
        builder = Builder("chain")
        chain(builder)
        self.program = builder.build()
        self.size = size = 8 * tb.config.array_rows
        self.count = count = size * size
        self.a, self.b = tb.place(tb.floats(count)), tb.place(tb.floats(count), "weight")
        self.product, self.source = tb.destination(8 * count), tb.place(tb.floats(count))
        self.result = tb.destination(4 * count)
        self._tb = tb

    def matmul(self, *, a: int | None = None, dst: int | None = None) -> list[Packet]:
        n = self.size
        return list(matmul_packets(a or self.a, self.b, dst or self.product, n, n, n))

    def vector(self, *, source: int | None = None, dst: int | None = None) -> list[Packet]:
        # Rows long enough to take the product's time.
        cols = self.count // 4
        return self._tb.vector_packets(
            self.program,
            rows=1,
            cols=cols,
            inputs=[Stream(source or self.source)],
            output=Stream(dst or self.result),
        )


@npu_test()
async def test_side_by_side(tb: NpuTestbench) -> None:
    """A product and a vector command work at the same time, in either order, unless one needs the other."""
    pair = EnginePair(tb)
    await tb.load_programs(pair.program)
    alone = [await busy_cycles(tb, pair.matmul()), await busy_cycles(tb, pair.vector())]

    async def together(*commands: list[Packet]) -> float:
        """Return the cycles, relative to both commands one after the other."""
        return await busy_cycles(tb, [packet for packets in commands for packet in packets]) / sum(alone)

    apart: dict[str, list[list[Packet]]] = {
        "product first": [pair.matmul(), pair.vector()],
        "vector first": [pair.vector(), pair.matmul()],
        "a source for both": [pair.matmul(), pair.vector(source=pair.a)],
        "neighbours": [pair.matmul(), pair.vector(dst=pair.product + 4 * pair.count)],
    }
    dependent: dict[str, list[list[Packet]]] = {
        "the product is read": [pair.matmul(), pair.vector(source=pair.product)],
        "its last element is read": [pair.matmul(), pair.vector(source=pair.product + 4 * (pair.count - 1))],
        "its operand is written": [pair.matmul(), pair.vector(dst=pair.a)],
        "it is overwritten": [pair.matmul(), pair.vector(dst=pair.product)],
        "the result is multiplied": [pair.vector(), pair.matmul(a=pair.result)],
        "the source is overwritten": [pair.vector(), pair.matmul(dst=pair.source)],
        "the result is overwritten": [pair.vector(), pair.matmul(dst=pair.result)],
        "a fence between": [pair.matmul(), [NpuCommandPacket(Opcode.SYNC)], pair.vector()],
    }
    if not timed(tb.config.name):
        for commands in (*apart.values(), *dependent.values()):
            await together(*commands)
        return
    assert max(alone) < 2 * min(alone), f"the two are too unequal to tell: {alone}"
    for name, commands in apart.items():
        share = await together(*commands)
        assert share < 0.75, f"{name}: {share:.2f} of one after the other, {alone}"
    for name, commands in dependent.items():
        share = await together(*commands)
        assert share > 0.9, f"{name}: {share:.2f} of one after the other, {alone}"
