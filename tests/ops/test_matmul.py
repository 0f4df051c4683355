"""MATMUL in float32: every relation of a shape to the array, every operand layout, every class of value."""

import itertools

import numpy as np

from echo_npu.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, Packet, matmul_packets
from echo_npu.status import State
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path
from tests.ops.products import SPECIAL, Product, around, run_all


@npu_test(layout=["nn", "nt", "tn", "tt"], via=["window", "ring"])
async def test_shapes(bench: NpuBench, layout: str, via: Path) -> None:
    """Every combination of sizes around the array, in each dimension, in each layout."""
    rows, columns = bench.config.array_rows, bench.config.array_cols
    sizes = [(m, k, n) for m in around(rows) for k in around(rows) for n in around(columns)]
    if rows > 8:  # a third of them, so that it stays quick: the random ones below visit the rest
        sizes = bench.random.sample(sizes, len(sizes) // 3)
    products = [Product(bench, *size, trans_a=layout[0] == "t", trans_b=layout[1] == "t") for size in sizes]
    await run_all(bench, products, via)


@npu_test()
async def test_blocks(bench: NpuBench) -> None:
    """Around the on-chip block in one dimension at a time: what the device must split and put together
    again."""
    config = bench.config
    block_k = config.block_k_tiles * config.array_rows
    block_n = min(config.block_n_tiles, config.acc_entries // config.block_m) * config.array_cols
    products = []
    for off in (-1, 0, 1):
        products.append(Product(bench, config.block_m + off, 3, 5))
        products.append(Product(bench, 3, block_k + off, 5))
        products.append(Product(bench, 3, 5, block_n + off))
        products.append(Product(bench, 3, 5, config.block_n_tiles * config.array_cols + off))
    products.append(Product(bench, config.block_m + 3, block_k + 1, block_n + 2, trans_a=True))
    products.append(Product(bench, 5, 3 * block_k + 1, 2 * block_n + 3, trans_b=True))
    await run_all(bench, products, "ring")


@npu_test()
async def test_large(bench: NpuBench) -> None:
    """Several blocks in every dimension at once, all ragged."""
    config = bench.config
    block_k = config.block_k_tiles * config.array_rows
    m, k, n = config.block_m + config.array_rows + 1, 2 * block_k + 3, 5 * config.array_cols + 1
    await run_all(bench, [Product(bench, m, k, n)], "window")


@npu_test()
async def test_vectors(bench: NpuBench) -> None:
    """Decoding: one row times a matrix; and its transposed relatives."""
    size = 9 * bench.config.array_cols + 5
    products = [
        Product(bench, 1, size, size),
        Product(bench, 1, size, size, trans_b=True),
        Product(bench, size, size, 1),
        Product(bench, size, size, 1, trans_a=True),
        Product(bench, 1, size, 1),
        Product(bench, size, 1, size),
        Product(bench, 1, 1, 1),
    ]
    await run_all(bench, products, "ring")


@npu_test()
async def test_random_ragged(bench: NpuBench) -> None:
    """Random shapes, layouts and alphas."""
    limit = 6 * bench.config.array_rows
    products = []
    for _ in range(12):
        m, k, n = (bench.random.randint(1, limit) for _ in range(3))
        trans_a, trans_b = bench.random.random() < 0.5, bench.random.random() < 0.5
        alpha = bench.random.choice((None, None, 1.0, -0.125, 0.3))
        products.append(Product(bench, m, k, n, trans_a=trans_a, trans_b=trans_b, alpha=alpha))
    await run_all(bench, products, bench.random.choice(("window", "ring")))


@npu_test()
async def test_alpha(bench: NpuBench) -> None:
    """alpha multiplies the finished sum once, and counts only under its flag."""
    size = bench.config.array_rows + 1
    products = [
        Product(bench, size, size, size, alpha=alpha) for alpha in (1.0, 0.0, -0.0, 0.1, -3e-39, 1e38)
    ]
    ignored = Product(bench, size, size, size)
    first = ignored.packets[0]
    assert isinstance(first, NpuCommandPacket)
    words = [*first.param[:6], 0x7FC00000, 0]
    ignored.packets = [NpuCommandPacket(Opcode.MATMUL, 0, ignored.src1, ignored.src2, ignored.dst, words)]
    await run_all(bench, [*products, ignored], "window")


@npu_test()
async def test_special_values(bench: NpuBench) -> None:
    """Subnormals, infinities, NaN, signed zeros and limits against each other, and sums that cancel."""
    rng, size = bench.rng, bench.config.array_rows
    products = []
    for m, k, n in (
        (len(SPECIAL), 1, len(SPECIAL)),
        (size + 1, 2, size + 2),
        (3, 2 * size + 1, 7),
        (9, 5, 9),
    ):
        a = rng.choice(SPECIAL, (m, k)) if k > 1 else SPECIAL[:, None]
        b = rng.choice(SPECIAL, (k, n)) if k > 1 else SPECIAL[None, :]
        products.append(Product(bench, m, k, n, a=a, b=b))
        products.append(Product(bench, m, k, n, a=a, b=b, alpha=-0.5))
    # Finite operands whose products and sums underflow, overflow and cancel.
    finite = SPECIAL[np.isfinite(SPECIAL)]
    for _ in range(4):
        products.append(
            Product(bench, size, 9, size, a=rng.choice(finite, (size, 9)), b=rng.choice(finite, (9, size)))
        )
    bits = [
        rng.integers(0, 1 << 32, (size + 3, size + 3), dtype=np.uint32).view(np.float32) for _ in range(2)
    ]
    products.append(Product(bench, size + 3, size + 3, size + 3, a=bits[0], b=bits[1]))
    await run_all(bench, products, "ring")


@npu_test(layout=["nn", "nt", "tn", "tt"])
async def test_nothing_stays_on_chip(bench: NpuBench, layout: str) -> None:
    """Ragged products right behind one that left NaN in every on-chip memory."""
    config = bench.config
    trans_a, trans_b = layout[0] == "t", layout[1] == "t"
    m, k = 2 * config.block_m, 2 * config.block_k_tiles * config.array_rows
    n = 2 * config.array_cols
    nan = [np.full(shape, np.nan, np.float32) for shape in ((m, k), (k, n))]
    for tall, inner, wide in ((1, 1, 1), (3, config.array_rows + 1, 2), (config.array_rows + 2, 3, 5)):
        products = [
            Product(bench, m, k, n, trans_a=trans_a, trans_b=trans_b, a=nan[0], b=nan[1]),
            Product(bench, tall, inner, wide, trans_a=trans_a, trans_b=trans_b),
        ]
        await run_all(bench, products, "window")
        finite = bench.memory.read(products[1].dst, tall * wide, np.float32)
        assert np.isfinite(finite).all()


@npu_test()
async def test_order_of_sums(bench: NpuBench) -> None:
    """Sums whose value depends on the order: ascending k, from +0.0, with no wider accumulator."""
    size = 2 * bench.config.array_rows + 1
    a = np.ones((size, size), dtype=np.float32)
    a[:, 0::3], a[:, 1::3] = np.float32(2.0**24), np.float32(-(2.0**24))
    product = Product(bench, size, size, size, a=a, b=bench.floats(size, size))
    zeros = Product(bench, 3, 2, 3, a=np.full((3, 2), -0.0, np.float32), b=np.ones((2, 3), np.float32))
    await run_all(bench, [product, zeros], "window")
    assert not np.signbit(bench.memory.read(zeros.dst, 9, np.float32)).any(), "+0.0 + -0.0 is +0.0"


@npu_test(layout=["nn", "nt", "tn", "tt"])
async def test_row_strides(bench: NpuBench, layout: str) -> None:
    """Operands that are windows in larger matrices."""
    trans_a, trans_b = layout[0] == "t", layout[1] == "t"
    packets: list[Packet] = []
    for _ in range(4):
        m, k, n = (bench.random.randint(1, 2 * bench.config.array_rows + 1) for _ in range(3))
        stored = [(k, m) if trans_a else (m, k), (n, k) if trans_b else (k, n), (m, n)]
        strides = [4 * (columns + bench.random.choice((0, 1, 5, 32))) for _, columns in stored]
        sizes = [rows * stride for (rows, _), stride in zip(stored, strides, strict=True)]
        src1, src2 = (bench.place(bench.floats(size // 4)) for size in sizes[:2])
        dst = bench.destination(sizes[2])
        packets += matmul_packets(
            src1, src2, dst, m, k, n, trans_a=trans_a, trans_b=trans_b, row_strides=strides
        )
    assert await bench.run(packets, "ring") == State.DONE


@npu_test(via=["window", "ring"])
async def test_attention_batches(bench: NpuBench, via: Path) -> None:
    """Grouped-query attention scores as one command: heads inside, groups outside, keys shared within a
    group."""
    groups, heads, tokens, width = 2, 3, bench.config.array_rows + 1, 6
    queries = bench.place(bench.floats(groups, heads, tokens, width))
    keys = bench.place(bench.floats(groups, tokens, width))
    scores = bench.destination(4 * groups * heads * tokens * tokens)
    packets = matmul_packets(
        queries,
        keys,
        scores,
        tokens,
        width,
        tokens,
        trans_b=True,
        alpha=width**-0.5,
        batch=(heads, groups),
        src1_batch_strides=(4 * tokens * width, 4 * heads * tokens * width),
        src2_batch_strides=(0, 4 * tokens * width),
        dst_batch_strides=(4 * tokens * tokens, 4 * heads * tokens * tokens),
    )
    assert await bench.run(packets, via) == State.DONE


@npu_test()
async def test_interleaved_heads(bench: NpuBench) -> None:
    """Heads that lie side by side in each row, as a projection leaves them: row stride above batch stride."""
    heads, tokens, width = 4, 5, 7
    source = bench.place(bench.floats(tokens, heads, width))
    weights = bench.place(bench.floats(heads, width, width), "weight")
    dst = bench.destination(4 * tokens * heads * width)
    row = 4 * heads * width
    packets = matmul_packets(
        source,
        weights,
        dst,
        tokens,
        width,
        width,
        row_strides=(row, 0, row),
        batch=(heads, 1),
        src1_batch_strides=(4 * width, 0),
        src2_batch_strides=(4 * width * width, 0),
        dst_batch_strides=(4 * width, 0),
    )
    assert await bench.run(packets) == State.DONE


@npu_test()
async def test_many_small_batches(bench: NpuBench) -> None:
    """Products smaller than the array, so many that the overlap of one with the next is never idle."""
    packets: list[Packet] = []
    for batch in ((1, 9), (9, 1), (5, 4)):
        m, k, n = 3, 2, 2
        total = batch[0] * batch[1]
        src1, src2 = bench.place(bench.floats(total, m, k)), bench.place(bench.floats(total, k, n))
        dst = bench.destination(4 * total * m * n)
        packets += matmul_packets(
            src1,
            src2,
            dst,
            m,
            k,
            n,
            batch=batch,
            src1_batch_strides=(4 * m * k, 4 * m * k * batch[0]),
            src2_batch_strides=(4 * k * n, 4 * k * n * batch[0]),
            dst_batch_strides=(4 * m * n, 4 * m * n * batch[0]),
        )
    assert await bench.run(packets, "ring") == State.DONE


@npu_test()
async def test_neighbours_are_no_overlap(bench: NpuBench) -> None:
    """Operands and result may touch, in any order."""
    packets: list[Packet] = []
    m, k, n = 3, 5, 4
    sizes = {"a": 4 * m * k, "b": 4 * k * n, "c": 4 * m * n}
    for order in itertools.permutations("abc"):
        place = bench.place(bench.floats(sum(sizes.values()) // 4))
        at = {}
        for name in order:
            at[name] = place
            place += sizes[name]
        packets += matmul_packets(at["a"], at["b"], at["c"], m, k, n)
    assert await bench.run(packets) == State.DONE


@npu_test()
async def test_empty_extension(bench: NpuBench) -> None:
    """An extension of zeros means one dense product."""
    product = Product(bench, 5, 6, 7)
    packet = NpuCommandPacket(
        Opcode.MATMUL, Flags.EXT, product.src1, product.src2, product.dst, m=5, k=6, n=7
    )
    assert await bench.run([packet, ExtensionPacket()]) == State.DONE


@npu_test(via=["window", "ring"])
async def test_chain(bench: NpuBench, via: Path) -> None:
    """Back to back, each product taking the one before as an operand, in either place."""
    size = bench.config.array_rows + 2
    weights = [bench.place(bench.floats(size, size) / size, "weight") for _ in range(4)]
    value = bench.place(bench.floats(size, size))
    packets: list[Packet] = []
    for step in range(10):
        dst = bench.destination(4 * size * size)
        sources = (value, weights[step % 4]) if step % 3 else (weights[step % 4], value)
        packets += matmul_packets(*sources, dst, size, size, size, trans_b=step % 2 == 0)
        value = dst
    assert await bench.run(packets, via) == State.DONE
