"""Products one after another: the matrix engine takes the second while it works on the first."""

import math

import numpy as np

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.cycles import busy_cycles, compare_cycles, timed
from tests.commands.outcomes import bus_error, fail, refused, spoil
from tests.commands.products import MatmulTrial, run_all

SIZE = 40


def products(tb: NpuTestbench, count: int) -> list[MatmulTrial]:
    return [MatmulTrial(tb, SIZE, SIZE, SIZE) for _ in range(count)]


@npu_test()
async def test_independent_products_overlap(tb: NpuTestbench) -> None:
    """Three products are quicker than three runs of one, unless each reads the result of the one before."""
    source = tb.place(tb.floats(SIZE, SIZE))
    weights = tb.place(tb.floats(SIZE, SIZE), "weight")
    independent: list[Packet] = []
    dependent: list[Packet] = []
    previous = source
    for _ in range(3):
        dst = tb.alloc(4 * SIZE * SIZE)
        independent += matmul_packets(source, weights, dst, SIZE, SIZE, SIZE)
        dst = tb.alloc(4 * SIZE * SIZE)
        dependent += matmul_packets(previous, weights, dst, SIZE, SIZE, SIZE)
        previous = dst
    alone, overlapped, chained = [
        await busy_cycles(tb, packets, "ring") for packets in (independent[:1], independent, dependent)
    ]
    if timed(tb.config.name):
        assert overlapped < chained <= 3 * alone
    compare_cycles(
        tb.config.name, {"three products": overlapped, "three products, each on the one before": chained}
    )


@npu_test(via=["window", "ring"])
async def test_types_back_to_back(tb: NpuTestbench, via: Path) -> None:
    """High and wide products, of one panel and of many, in every type: the operands of one command run any
    distance ahead of the other's."""
    rows, columns = tb.config.array_rows, tb.config.array_cols
    sizes = (1, columns - 1, 2 * columns, 3 * columns + 1)
    chosen = [
        MatmulTrial(
            tb,
            tb.random.choice(sizes),
            tb.random.choice((1, rows, 4 * rows, 9 * rows + 1)),
            tb.random.choice(sizes),
            dtype=tb.random.choice(tuple(DataType)),
            trans_a=tb.random.random() < 0.5,
            trans_b=tb.random.random() < 0.5,
        )
        for _ in range(80)
    ]
    await run_all(tb, chosen, via)


@npu_test(failing=["first", "second"], operand=["a", "b"])
async def test_read_error_has_an_owner(tb: NpuTestbench, failing: str, operand: str) -> None:
    """Of two products under way, the one that cannot be read is reported; an earlier one is complete."""
    pair = products(tb, 2)
    victim = pair[failing == "second"]
    source = victim.src1 if operand == "a" else victim.src2
    for hit in (0, 4 * SIZE * SIZE - 4):
        spoil(tb, source + hit)
        packets = [*pair[0].packets, *pair[1].packets, NpuCommandPacket(Opcode.NOP)]
        await fail(tb, packets, ErrorCode.READ_RESPONSE, "ring", int(failing == "second"))
    await run_all(tb, pair, "ring")


@npu_test(dtype=list(DataType), operand=["a", "b"])
async def test_product_after_an_error(tb: NpuTestbench, dtype: DataType, operand: str) -> None:
    """Operands that arrived for a failed product do not disturb the next one, without any reset."""
    for failed in range(4):
        broken, good = (MatmulTrial(tb, SIZE, SIZE, SIZE, dtype=dtype) for _ in range(2))
        source = broken.src1 if operand == "a" else broken.src2
        hit = source + tb.random.randrange(SIZE * SIZE)
        spoil(tb, hit, 1)
        index = (await tb.state()).retired + failed
        await bus_error(tb, broken.packets, ErrorCode.READ_RESPONSE, "ring", index)
        await run_all(tb, [good], "ring")


@npu_test()
async def test_head_behind_the_command_that_failed(tb: NpuTestbench) -> None:
    """RING_HEAD does not count packets that were only examined after the failing one."""
    broken, *others = products(tb, 4)
    spoil(tb, broken.src1 + 4 * SIZE * SIZE - 4)
    index = (await tb.state()).retired
    packets = [packet for product in (broken, *others) for packet in product.packets]
    await tb.commands.submit(packets, "ring")
    assert await tb.commands.wait(1_000_000) == State.ERROR
    assert await tb.registers.read(regs.RING_HEAD) == len(broken.packets)
    await tb.check_bus_error(ErrorCode.READ_RESPONSE, index)
    tb.dram.clear_faults()
    await tb.recover()


@npu_test()
async def test_write_error_of_the_first(tb: NpuTestbench) -> None:
    """A result that cannot be written is reported for its own command, though the next one is under way."""
    pair = products(tb, 2)
    spoil(tb, pair[0].dst, write=True)
    packets = [*pair[0].packets, *pair[1].packets]
    await bus_error(tb, packets, ErrorCode.WRITE_RESPONSE, "ring", (await tb.state()).retired)
    await tb.probe()


@npu_test(of=["operand", "result"], end=["first", "last"], copy=["reads", "writes"])
async def test_one_byte_in_common(tb: NpuTestbench, of: str, end: str, copy: str) -> None:
    """A copy that shares a single byte with an operand or the result of the product before it waits for
    it."""
    nbytes, around = 4 * SIZE * SIZE, 64
    margin = np.frombuffer(tb.random.randbytes(around), np.uint8)
    places = {}
    for name, values in (("operand", tb.floats(SIZE, SIZE)), ("result", tb.floats(SIZE, SIZE))):
        inside = values.view(np.uint8).reshape(-1)
        places[name] = tb.place(np.concatenate([margin, inside, margin])) + around
    weights = tb.place(tb.floats(SIZE, SIZE), "weight")
    product = matmul_packets(places["operand"], weights, places["result"], SIZE, SIZE, SIZE)
    meets = places[of] - around + 1 if end == "first" else places[of] + nbytes - 1
    other = tb.place(np.frombuffer(tb.random.randbytes(around), np.uint8))
    source, destination = (meets, other) if copy == "reads" else (other, meets)
    packet = NpuCommandPacket(Opcode.MEMCPY, src1_addr=source, dst_addr=destination, m=around)
    assert await tb.run([*product, packet]) == State.DONE


@npu_test(of=["left", "right", "row_scales", "result"], columns=[1, SIZE])
async def test_each_operand_is_waited_for(tb: NpuTestbench, of: str, columns: int) -> None:
    """A product that starts while a copy writes one of its operands reads what the copy has written. A
    product with one column has its first operand where others have their weights."""
    shapes = {
        "left": (SIZE, SIZE),
        "right": (SIZE, columns),
        "row_scales": (SIZE,),
        "result": (SIZE, columns),
    }
    places = {name: tb.place(tb.floats(*shape)) for name, shape in shapes.items()}
    written = tb.place(tb.floats(*shapes[of]))
    size = 4 * math.prod(shapes[of])
    copy = NpuCommandPacket(Opcode.MEMCPY, src1_addr=written, dst_addr=places[of], m=size)
    scales = places["row_scales"] if of == "row_scales" else None
    product = matmul_packets(
        places["left"], places["right"], places["result"], SIZE, SIZE, columns, row_scales=scales
    )
    assert await tb.run([copy, *product]) == State.DONE


@npu_test(ending=["error", "soft reset"], count=[1, 2])
async def test_hazards_after_an_abort_at_rest(tb: NpuTestbench, ending: str, count: int) -> None:
    """An error, or a soft reset, ends what the device counts of its commands while the matrix engine rests.
    After any number of products, the next ones still wait for the copy, and the product, that they read."""
    size = 4 * SIZE * SIZE
    for _ in range(2):
        await run_all(tb, products(tb, count), "ring")
        if ending == "error":
            await refused(tb, [NpuCommandPacket(0x99)], ErrorCode.BAD_OPCODE)
        else:
            await tb.restart()
        source = tb.place(tb.floats(SIZE, SIZE))
        weights = tb.place(tb.floats(SIZE, SIZE), "weight")
        copied, first, second = (tb.alloc(size) for _ in range(3))
        chain: list[Packet] = [
            NpuCommandPacket(Opcode.MEMCPY, 0, source, 0, copied, m=size),
            *matmul_packets(copied, weights, first, SIZE, SIZE, SIZE),
            *matmul_packets(first, weights, second, SIZE, SIZE, SIZE),
        ]
        assert await tb.run(chain, "ring") == State.DONE
