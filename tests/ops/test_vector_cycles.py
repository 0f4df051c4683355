"""How long vector commands take: against memory bandwidth and lanes, beside products, and in exact cycles."""

from echo_npu.packets import NpuCommandPacket, Opcode, Packet, matmul_packets
from echo_npu.vector.command import Stream, VectorCommand, vector_command
from echo_npu.vector.control import Sequencer
from echo_npu.vector.isa import CHUNK_MULTIPLE, Form
from echo_npu.vector.kernels.cast import cast
from echo_npu.vector.kernels.elementwise import elementwise
from echo_npu.vector.kernels.norm import rms_norm
from echo_npu.vector.kernels.softmax import softmax
from echo_npu.vector.memory import ProgramMemory
from echo_npu.vector.program import Builder, Program
from tb.bench import NpuBench, npu_test, stalled
from tests.ops.cycles import busy_cycles, compare_cycles


def lane_cycles(bench: NpuBench, program: Program, command: VectorCommand) -> int:
    """The fewest cycles in which the lanes execute a command: a word of each instruction a cycle, a fold one
    for each partial result."""
    config = bench.config
    memory = ProgramMemory(config.program_words)
    memory.load(command.entry, program.words)
    total = 0
    for decoded, elements in Sequencer(memory, command, config.vector_length, config.row_elements):
        total += CHUNK_MULTIPLE if decoded.form == Form.FOLD else -(-elements // config.vector_lanes)
    return total * command.rows * command.batch[0] * command.batch[1]


async def measure(bench: NpuBench, program: Program, **fields: object) -> tuple[int, int, int]:
    """(cycles, bound by memory, bound by the lanes) of one command alone."""
    await bench.load_programs(program)
    packets = bench.vector_packets(program, **fields)
    bench.dram.clear_statistics()
    cycles = await busy_cycles(bench, packets)
    moved = bench.dram.statistics()
    assert moved["read_bytes"] % bench.config.bus_bytes == 0
    command = vector_command(0, passes=program.passes, **fields)  # type: ignore[arg-type]
    return cycles, max(moved["read_beats"], moved["write_beats"]), lane_cycles(bench, program, command)


@npu_test(operation=["add", "mul by a number", "from int8", "to float16", "copy"])
async def test_elementwise_bandwidth(bench: NpuBench, operation: str) -> None:
    """Long elementwise operations reach 90 % of the memory's bandwidth, in the busier direction."""
    count = 16_384 if bench.config.vector_lanes < 16 else 65_536
    size = {"from int8": 1}.get(operation, 4)
    out_size = {"to float16": 2}.get(operation, 4)
    program = {
        "add": elementwise("add", "ss"),
        "mul by a number": elementwise("mul", "sp"),
        "from int8": cast("int8", "float32"),
        "to float16": cast("float32", "float16"),
        "copy": elementwise("mov", "s"),
    }[operation]
    inputs = [
        Stream(bench.place(bench.floats(count)), size=size) for _ in range(2 if operation == "add" else 1)
    ]
    output = Stream(bench.alloc(out_size * count), size=out_size)
    cycles, memory, lanes = await measure(
        bench, program, rows=1, cols=count, inputs=inputs, output=output, params=[0.5]
    )
    assert lanes <= memory, "not a matter of bandwidth"
    if not stalled():
        assert memory / cycles >= 0.9, f"{operation}: {memory} beats in {cycles} cycles"
    compare_cycles(bench.config.name, {f"vector {operation} {count}": cycles})


@npu_test(kernel=["softmax", "rms_norm"])
async def test_rows(bench: NpuBench, kernel: str) -> None:
    """Softmax and RMSNorm of [128, 2048]: at most half as long again as memory or lanes alone would take."""
    rows, cols = (32, 512) if bench.config.vector_lanes < 16 else (128, 2048)
    program = softmax() if kernel == "softmax" else rms_norm()
    inputs = [Stream(bench.place(bench.floats(rows, cols)), row_stride=4 * cols)]
    if kernel == "rms_norm":
        inputs.append(Stream(bench.place(bench.floats(cols))))
    output = Stream(bench.alloc(4 * rows * cols), row_stride=4 * cols)
    cycles, memory, lanes = await measure(
        bench, program, rows=rows, cols=cols, inputs=inputs, output=output, params=[1e-6, 1 / cols]
    )
    if not stalled():
        assert cycles <= 1.5 * max(memory, lanes), f"{cycles} cycles, memory {memory}, lanes {lanes}"
    compare_cycles(bench.config.name, {f"vector {program.name} {rows}x{cols}": cycles})


def workloads(bench: NpuBench) -> dict[str, tuple[Program, dict[str, object]]]:
    """What the exact cycle numbers are for."""

    def dense(rows: int, cols: int) -> Stream:
        return Stream(bench.place(bench.floats(rows, cols)), row_stride=4 * cols)

    found: dict[str, tuple[Program, dict[str, object]]] = {}
    for rows, cols in ((1, 1), (1, 300), (100, 3), (8, bench.config.row_elements)):
        for program, inputs in (
            (elementwise("add", "ss"), [dense(rows, cols), dense(rows, cols)]),
            (elementwise("exp", "s"), [dense(rows, cols)]),
            (softmax(causal=True), [dense(rows, cols)]),
            (rms_norm(), [dense(rows, cols), Stream(bench.place(bench.floats(cols)))]),
        ):
            output = Stream(bench.alloc(4 * rows * cols), row_stride=4 * cols)
            shape = {"rows": rows, "cols": cols, "inputs": inputs, "output": output}
            found[f"vector {program.name} {rows}x{cols}"] = program, shape
    return found


@npu_test()
async def test_exact_cycles(bench: NpuBench) -> None:
    """BUSY_CYCLES of each workload with a steady memory is the committed number."""
    measured = {}
    for name, (program, fields) in workloads(bench).items():
        await bench.load_programs(program)
        measured[name] = await busy_cycles(bench, bench.vector_packets(program, **fields))
    compare_cycles(bench.config.name, measured)


def chain(b: Builder) -> None:
    """Many instructions an element: the lanes work, memory rests."""
    x, v = b.stream(0), b.vector()
    with b.chunks(advance=[x]):
        b.mov(v, x)
        for _ in range(60):
            b.fma(v, v, v, b.iota)
        b.mov(b.out, v)


class Pair:
    """A product and a vector command that take about the same time, on operands of their own."""

    def __init__(self, bench: NpuBench) -> None:
        builder = Builder("chain")
        chain(builder)
        self.program = builder.build()
        self.size = size = 8 * bench.config.array_rows
        self.count = count = size * size
        self.a, self.b = bench.place(bench.floats(count)), bench.place(bench.floats(count), "weight")
        self.product, self.source = bench.destination(8 * count), bench.place(bench.floats(count))
        self.result = bench.destination(4 * count)
        self._bench = bench

    def matmul(self, *, a: int | None = None, dst: int | None = None) -> list[Packet]:
        n = self.size
        return list(matmul_packets(a or self.a, self.b, dst or self.product, n, n, n))

    def vector(self, *, source: int | None = None, dst: int | None = None) -> list[Packet]:
        # Rows as long as it takes for the time of the product.
        cols = self.count // 4
        return self._bench.vector_packets(
            self.program,
            rows=1,
            cols=cols,
            inputs=[Stream(source or self.source)],
            output=Stream(dst or self.result),
        )


@npu_test()
async def test_side_by_side(bench: NpuBench) -> None:
    """A product and a vector command work at the same time, in either order, unless one needs the other."""
    pair = Pair(bench)
    await bench.load_programs(pair.program)
    alone = [await busy_cycles(bench, pair.matmul()), await busy_cycles(bench, pair.vector())]

    async def together(*commands: list[Packet]) -> float:
        """Cycles, the two after one another being 1."""
        return await busy_cycles(bench, [packet for packets in commands for packet in packets]) / sum(alone)

    apart: dict[str, list[list[Packet]]] = {
        "product first": [pair.matmul(), pair.vector()],
        "vector first": [pair.vector(), pair.matmul()],
        "a source for both": [pair.matmul(), pair.vector(source=pair.a)],
        "neighbours": [pair.matmul(), pair.vector(dst=pair.product + 4 * pair.count)],
    }
    dependent: dict[str, list[list[Packet]]] = {
        "the product is read": [pair.matmul(), pair.vector(source=pair.product)],
        "its last element is read": [
            pair.matmul(),
            pair.vector(source=pair.product + 4 * (pair.count - 1)),
        ],
        "its operand is written": [pair.matmul(), pair.vector(dst=pair.a)],
        "it is overwritten": [pair.matmul(), pair.vector(dst=pair.product)],
        "the result is multiplied": [pair.vector(), pair.matmul(a=pair.result)],
        "the source is overwritten": [pair.vector(), pair.matmul(dst=pair.source)],
        "the result is overwritten": [pair.vector(), pair.matmul(dst=pair.result)],
        "a fence between": [pair.matmul(), [NpuCommandPacket(Opcode.SYNC)], pair.vector()],
    }
    if stalled():
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
