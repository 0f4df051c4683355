"""MATMUL in float32: every relation of a shape to the array, every operand layout, every class of value."""

import itertools

import numpy as np

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.products import SPECIAL, MatmulTrial, around, run_all


@npu_test(layout=["nn", "nt", "tn", "tt"], via=["window", "ring"])
async def test_shapes(tb: NpuTestbench, layout: str, via: Path) -> None:
    """Every combination of sizes around the array, in each dimension, in each layout."""
    rows, columns = tb.config.array_rows, tb.config.array_cols
    sizes = [(m, k, n) for m in around(rows) for k in around(rows) for n in around(columns)]
    if rows > 8:  # a third of them, to be quick; the random shapes below cover the rest
        sizes = tb.random.sample(sizes, len(sizes) // 3)
    products = [MatmulTrial(tb, *size, trans_a=layout[0] == "t", trans_b=layout[1] == "t") for size in sizes]
    await run_all(tb, products, via)


@npu_test()
async def test_blocks(tb: NpuTestbench) -> None:
    """Sizes around the on-chip block in one dimension at a time: the device must split and join."""
    config = tb.config
    block_k = config.block_k_tiles * config.array_rows
    block_n = min(config.block_n_tiles, config.acc_entries // config.block_m) * config.array_cols
    products = []
    for off in (-1, 0, 1):
        products.append(MatmulTrial(tb, config.block_m + off, 3, 5))
        products.append(MatmulTrial(tb, 3, block_k + off, 5))
        products.append(MatmulTrial(tb, 3, 5, block_n + off))
        products.append(MatmulTrial(tb, 3, 5, config.block_n_tiles * config.array_cols + off))
    products.append(MatmulTrial(tb, config.block_m + 3, block_k + 1, block_n + 2, trans_a=True))
    products.append(MatmulTrial(tb, 5, 3 * block_k + 1, 2 * block_n + 3, trans_b=True))
    await run_all(tb, products, "ring")


@npu_test()
async def test_large(tb: NpuTestbench) -> None:
    """Several blocks in every dimension at once, all ragged."""
    config = tb.config
    block_k = config.block_k_tiles * config.array_rows
    m, k, n = config.block_m + config.array_rows + 1, 2 * block_k + 3, 5 * config.array_cols + 1
    await run_all(tb, [MatmulTrial(tb, m, k, n)], "window")


@npu_test()
async def test_random_ragged(tb: NpuTestbench) -> None:
    """Random shapes, layouts and alphas."""
    limit = 6 * tb.config.array_rows
    products = []
    for _ in range(12):
        m, k, n = (tb.random.randint(1, limit) for _ in range(3))
        trans_a, trans_b = tb.random.random() < 0.5, tb.random.random() < 0.5
        alpha = tb.random.choice((None, None, 1.0, -0.125, 0.3))
        products.append(MatmulTrial(tb, m, k, n, trans_a=trans_a, trans_b=trans_b, alpha=alpha))
    await run_all(tb, products, tb.random.choice(("window", "ring")))


@npu_test()
async def test_alpha(tb: NpuTestbench) -> None:
    """alpha multiplies the finished sum once, and only if its flag is set."""
    size = tb.config.array_rows + 1
    products = [
        MatmulTrial(tb, size, size, size, alpha=alpha) for alpha in (1.0, 0.0, -0.0, 0.1, -3e-39, 1e38)
    ]
    ignored = MatmulTrial(tb, size, size, size)
    first = ignored.packets[0]
    assert isinstance(first, NpuCommandPacket)
    words = [*first.param[:6], 0x7FC00000, 0]
    ignored.packets = [NpuCommandPacket(Opcode.MATMUL, 0, ignored.src1, ignored.src2, ignored.dst, words)]
    await run_all(tb, [*products, ignored], "window")


@npu_test()
async def test_special_values(tb: NpuTestbench) -> None:
    """Subnormals, infinities, NaN, signed zeros and limits against each other, and sums that cancel."""
    rng, size = tb.rng, tb.config.array_rows
    products = []
    for m, k, n in (
        (len(SPECIAL), 1, len(SPECIAL)),
        (size + 1, 2, size + 2),
        (3, 2 * size + 1, 7),
        (9, 5, 9),
    ):
        a = rng.choice(SPECIAL, (m, k)) if k > 1 else SPECIAL[:, None]
        b = rng.choice(SPECIAL, (k, n)) if k > 1 else SPECIAL[None, :]
        products.append(MatmulTrial(tb, m, k, n, a=a, b=b))
        products.append(MatmulTrial(tb, m, k, n, a=a, b=b, alpha=-0.5))
    # Finite operands whose products and sums underflow, overflow and cancel.
    finite = SPECIAL[np.isfinite(SPECIAL)]
    for _ in range(4):
        products.append(
            MatmulTrial(tb, size, 9, size, a=rng.choice(finite, (size, 9)), b=rng.choice(finite, (9, size)))
        )
    bits = [
        rng.integers(0, 1 << 32, (size + 3, size + 3), dtype=np.uint32).view(np.float32) for _ in range(2)
    ]
    products.append(MatmulTrial(tb, size + 3, size + 3, size + 3, a=bits[0], b=bits[1]))
    await run_all(tb, products, "ring")


@npu_test(layout=["nn", "nt", "tn", "tt"])
async def test_nothing_stays_on_chip(tb: NpuTestbench, layout: str) -> None:
    """Ragged products directly after one that left NaN in every on-chip memory."""
    config = tb.config
    trans_a, trans_b = layout[0] == "t", layout[1] == "t"
    m, k = 2 * config.block_m, 2 * config.block_k_tiles * config.array_rows
    n = 2 * config.array_cols
    nan = [np.full(shape, np.nan, np.float32) for shape in ((m, k), (k, n))]
    for tall, inner, wide in ((1, 1, 1), (3, config.array_rows + 1, 2), (config.array_rows + 2, 3, 5)):
        products = [
            MatmulTrial(tb, m, k, n, trans_a=trans_a, trans_b=trans_b, a=nan[0], b=nan[1]),
            MatmulTrial(tb, tall, inner, wide, trans_a=trans_a, trans_b=trans_b),
        ]
        await run_all(tb, products, "window")
        finite = tb.memory.read(products[1].dst, tall * wide, np.float32)
        assert np.isfinite(finite).all()


@npu_test()
async def test_order_of_sums(tb: NpuTestbench) -> None:
    """Sums whose value depends on the order: ascending k, from +0.0, with no wider accumulator."""
    size = 2 * tb.config.array_rows + 1
    a = np.ones((size, size), dtype=np.float32)
    a[:, 0::3], a[:, 1::3] = np.float32(2.0**24), np.float32(-(2.0**24))
    product = MatmulTrial(tb, size, size, size, a=a, b=tb.floats(size, size))
    zeros = MatmulTrial(tb, 3, 2, 3, a=np.full((3, 2), -0.0, np.float32), b=np.ones((2, 3), np.float32))
    await run_all(tb, [product, zeros], "window")
    assert not np.signbit(tb.memory.read(zeros.dst, 9, np.float32)).any(), "+0.0 + -0.0 is +0.0"


@npu_test(via=["window", "ring"])
async def test_attention_batches(tb: NpuTestbench, via: Path) -> None:
    """Grouped-query attention scores as one command: heads inside, groups outside, keys shared within a
    group."""
    groups, heads, tokens, width = 2, 3, tb.config.array_rows + 1, 6
    queries = tb.place(tb.floats(groups, heads, tokens, width))
    keys = tb.place(tb.floats(groups, tokens, width))
    scores = tb.destination(4 * groups * heads * tokens * tokens)
    packets = matmul_packets(
        queries, keys, scores, tokens, width, tokens,
        trans_b=True,
        alpha=width**-0.5,
        batch=(heads, groups),
        src1_batch_strides=(4 * tokens * width, 4 * heads * tokens * width),
        src2_batch_strides=(0, 4 * tokens * width),
        dst_batch_strides=(4 * tokens * tokens, 4 * heads * tokens * tokens),
    )  # fmt: skip
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_interleaved_heads(tb: NpuTestbench) -> None:
    """Heads that lie side by side in each row, as a projection leaves them: row stride above batch stride."""
    heads, tokens, width = 4, 5, 7
    source = tb.place(tb.floats(tokens, heads, width))
    weights = tb.place(tb.floats(heads, width, width), "weight")
    dst = tb.destination(4 * tokens * heads * width)
    row = 4 * heads * width
    packets = matmul_packets(
        source, weights, dst, tokens, width, width,
        row_strides=(row, 0, row),
        batch=(heads, 1),
        src1_batch_strides=(4 * width, 0),
        src2_batch_strides=(4 * width * width, 0),
        dst_batch_strides=(4 * width, 0),
    )  # fmt: skip
    assert await tb.run(packets) == State.DONE


@npu_test()
async def test_many_small_batches(tb: NpuTestbench) -> None:
    """Many products smaller than the array, each of which overlaps the next."""
    packets: list[Packet] = []
    for batch in ((1, 9), (9, 1), (5, 4)):
        m, k, n = 3, 2, 2
        total = batch[0] * batch[1]
        src1, src2 = tb.place(tb.floats(total, m, k)), tb.place(tb.floats(total, k, n))
        dst = tb.destination(4 * total * m * n)
        packets += matmul_packets(
            src1, src2, dst, m, k, n,
            batch=batch,
            src1_batch_strides=(4 * m * k, 4 * m * k * batch[0]),
            src2_batch_strides=(4 * k * n, 4 * k * n * batch[0]),
            dst_batch_strides=(4 * m * n, 4 * m * n * batch[0]),
        )  # fmt: skip
    assert await tb.run(packets, "ring") == State.DONE


@npu_test()
async def test_neighbours_are_no_overlap(tb: NpuTestbench) -> None:
    """Operands and result may touch, in any order."""
    packets: list[Packet] = []
    m, k, n = 3, 5, 4
    sizes = {"a": 4 * m * k, "b": 4 * k * n, "c": 4 * m * n}
    for order in itertools.permutations("abc"):
        place = tb.place(tb.floats(sum(sizes.values()) // 4))
        at = {}
        for name in order:
            at[name] = place
            place += sizes[name]
        packets += matmul_packets(at["a"], at["b"], at["c"], m, k, n)
    assert await tb.run(packets) == State.DONE


@npu_test()
async def test_empty_extension(tb: NpuTestbench) -> None:
    """An extension of zeros means one dense product."""
    product = MatmulTrial(tb, 5, 6, 7)
    packet = NpuCommandPacket(
        Opcode.MATMUL, Flags.EXT, product.src1, product.src2, product.dst, m=5, k=6, n=7
    )
    assert await tb.run([packet, ExtensionPacket()]) == State.DONE


@npu_test(via=["window", "ring"])
async def test_chain(tb: NpuTestbench, via: Path) -> None:
    """Back to back, each product taking the one before as an operand, in either place."""
    size = tb.config.array_rows + 2
    weights = [tb.place(tb.floats(size, size) / size, "weight") for _ in range(4)]
    value = tb.place(tb.floats(size, size))
    packets: list[Packet] = []
    for step in range(10):
        dst = tb.destination(4 * size * size)
        sources = (value, weights[step % 4]) if step % 3 else (weights[step % 4], value)
        packets += matmul_packets(*sources, dst, size, size, size, trans_b=step % 2 == 0)
        value = dst
    assert await tb.run(packets, via) == State.DONE
