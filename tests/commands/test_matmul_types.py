"""MATMUL of every type: shapes, layouts, values, types of results, and steps of the epilogue."""

import itertools
from typing import Any

import numpy as np

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import Packet
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.products import (
    LAYOUTS,
    SPECIAL,
    SPECIALS,
    MatmulTrial,
    around,
    elements,
    outs,
    run_all,
    transposes,
)

NARROW = [DataType.BF16, DataType.FP16, DataType.INT8]


def depth(tb: NpuTestbench, dtype: DataType) -> int:
    """Return how much of K one pass through the array takes."""
    return tb.config.array_rows * (4 if dtype == DataType.INT8 else 1)


def vectors(tb: NpuTestbench, m: int, n: int) -> dict[str, np.ndarray]:
    """Draw scales and biases of ordinary size."""
    return {"row_scale": tb.floats(m), "column_scale": tb.floats(n), "bias": tb.floats(n)}


def some_steps(tb: NpuTestbench, m: int, n: int) -> dict[str, Any]:
    """Draw which steps of the epilogue are done."""
    steps: dict[str, Any] = {**vectors(tb, m, n), "alpha": 0.3, "relu": True}
    return {name: value for name, value in steps.items() if tb.random.random() < 0.5}


@npu_test(dtype=NARROW, layout=LAYOUTS)
async def test_shapes(tb: NpuTestbench, dtype: DataType, layout: str) -> None:
    """Sizes around the array in each dimension, in each layout, to each type of result."""
    rows, columns, inner = tb.config.array_rows, tb.config.array_cols, depth(tb, dtype)
    depths = sorted({*around(inner), *around(rows), 2, 3, 5, 6, 7})
    sizes = list(itertools.product(around(rows), depths, around(columns)))
    products = [
        MatmulTrial(tb, *size, dtype=dtype, out=tb.random.choice(outs(dtype)), **transposes(layout))
        for size in tb.random.sample(sizes, 30)
    ]
    await run_all(tb, products, tb.random.choice(("window", "ring")))


@npu_test(dtype=NARROW)
async def test_blocks(tb: NpuTestbench, dtype: DataType) -> None:
    """Sizes around the on-chip block in one dimension at a time, and several blocks in all dimensions."""
    config = tb.config
    block_k = config.block_k_tiles * depth(tb, dtype)
    block_n = min(config.block_n_tiles, config.acc_entries // config.block_m) * config.array_cols
    products = []
    for off in (-1, 0, 1):
        products.append(MatmulTrial(tb, config.block_m + off, 3, 5, dtype=dtype))
        products.append(MatmulTrial(tb, 3, block_k + off, 5, dtype=dtype, out=OutType.OWN))
        products.append(MatmulTrial(tb, 3, 5, block_n + off, dtype=dtype))
        products.append(MatmulTrial(tb, 3, 5, config.block_n_tiles * config.array_cols + off, dtype=dtype))
    for layout in LAYOUTS:
        flags = transposes(layout)
        products.append(MatmulTrial(tb, config.block_m + 3, block_k + 1, 7, dtype=dtype, **flags))
        products.append(MatmulTrial(tb, 5, 3 * block_k + 2, 2 * block_n + 3, dtype=dtype, **flags))
    await run_all(tb, products, "ring")


@npu_test(dtype=list(DataType))
async def test_long_epilogue(tb: NpuTestbench, dtype: DataType) -> None:
    """Scales and biases of a result of several blocks: each element meets its own."""
    config = tb.config
    m, n = config.block_m + config.array_rows + 1, config.block_n_tiles * config.array_cols + 3
    for out in (OutType.FLOAT32, OutType.OWN):
        k = 2 * depth(tb, dtype) + 1
        steps = vectors(tb, m, n)
        products = [
            MatmulTrial(tb, m, k, n, dtype=dtype, out=out, alpha=0.01, relu=True, **steps),
            MatmulTrial(tb, m, 3, 1, dtype=dtype, out=out, row_scale=steps["row_scale"]),
            MatmulTrial(tb, 1, 3, n, dtype=dtype, out=out, bias=steps["bias"]),
        ]
        await run_all(tb, products, "window")


@npu_test(dtype=list(DataType))
async def test_vectors(tb: NpuTestbench, dtype: DataType) -> None:
    """One row times a matrix, stored either way, as in decoding; and the transposed products."""
    size = 9 * tb.config.array_cols + 5
    products = []
    for out in outs(dtype):
        products += [
            MatmulTrial(tb, 1, size, size, dtype=dtype, out=out),
            MatmulTrial(tb, 1, size, size, dtype=dtype, out=out, trans_b=True),
            MatmulTrial(tb, size, size, 1, dtype=dtype, out=out),
            MatmulTrial(tb, size, size, 1, dtype=dtype, out=out, trans_a=True),
            MatmulTrial(tb, 1, size, 1, dtype=dtype, out=out),
            MatmulTrial(tb, size, 1, size, dtype=dtype, out=out),
            MatmulTrial(tb, 1, 1, 1, dtype=dtype, out=out),
        ]
    await run_all(tb, products, "ring")


@npu_test(dtype=list(DataType))
async def test_random(tb: NpuTestbench, dtype: DataType) -> None:
    """Random shapes, layouts, gaps, types of results and steps."""
    limit = 5 * tb.config.array_rows
    products = []
    for _ in range(16):
        m, k, n = (tb.random.randint(1, limit) for _ in range(3))
        out = tb.random.choice(outs(dtype))
        gap = [tb.random.choice((0, 1, 2, 5, 32)) for _ in range(3)]
        products.append(
            MatmulTrial(
                tb, m, k, n,
                dtype=dtype,
                out=out,
                gaps=(gap[0], gap[1], gap[2]),
                **transposes(tb.random.choice(LAYOUTS)),
                **({} if out == OutType.INT32 else some_steps(tb, m, n)),
            )
        )  # fmt: skip
    await run_all(tb, products, tb.random.choice(("window", "ring")))


@npu_test(dtype=list(DataType), out=[OutType.FLOAT32, OutType.OWN])
async def test_every_combination_of_steps(tb: NpuTestbench, dtype: DataType, out: OutType) -> None:
    """All 32, on ordinary values that do not saturate."""
    rows, columns = tb.config.array_rows, tb.config.array_cols
    products = []
    for asked in itertools.product((False, True), repeat=5):
        m, n = tb.random.choice(around(rows)), tb.random.choice(around(columns))
        given: dict[str, Any] = {"alpha": 0.01, **vectors(tb, m, n), "relu": True}
        steps = {name: value for ask, (name, value) in zip(asked, given.items(), strict=True) if ask}
        products.append(MatmulTrial(tb, m, 3, n, dtype=dtype, out=out, **steps))
    await run_all(tb, products, "ring")


@npu_test(dtype=NARROW)
async def test_special_values(tb: NpuTestbench, dtype: DataType) -> None:
    """Subnormals, infinities, NaN, signed zeros and limits against each other, or the ends of int8."""
    rng, size, special = tb.rng, tb.config.array_rows, SPECIALS[dtype]
    count = len(special)
    products = []
    for out in outs(dtype):
        pairs = {"a": special[:, None], "b": special[None, :]}
        products.append(MatmulTrial(tb, count, 1, count, dtype=dtype, out=out, **pairs))
        for m, k, n in ((size + 1, 2, size + 2), (3, 2 * size + 1, 7), (9, 5, 9)):
            pairs = {"a": rng.choice(special, (m, k)), "b": rng.choice(special, (k, n))}
            products.append(MatmulTrial(tb, m, k, n, dtype=dtype, out=out, **pairs))
        bits = [
            rng.integers(0, 256, (size + 3, (size + 3) * dtype.itemsize), dtype=np.uint8).view(dtype.storage)
            for _ in range(2)
        ]
        products.append(
            MatmulTrial(tb, size + 3, size + 3, size + 3, dtype=dtype, out=out, a=bits[0], b=bits[1])
        )
    await run_all(tb, products, "ring")


@npu_test(dtype=list(DataType), out=[OutType.FLOAT32, OutType.OWN])
async def test_special_steps(tb: NpuTestbench, dtype: DataType, out: OutType) -> None:
    """Zero, infinity, NaN and subnormals as alpha, scales and biases, and random bits."""
    m = n = len(SPECIAL)
    rng, products = tb.rng, []
    for alpha in (None, 0.0, -0.0, float("inf"), 1e-40, 3e38):
        steps = {name: rng.permutation(SPECIAL) for name in ("row_scale", "column_scale", "bias")}
        products.append(MatmulTrial(tb, m, 3, n, dtype=dtype, out=out, alpha=alpha, **steps))
        chosen = tb.random.choice(sorted(steps))
        products.append(
            MatmulTrial(tb, m, 3, n, dtype=dtype, out=out, alpha=alpha, relu=True, **{chosen: steps[chosen]})
        )
    bits = {
        name: rng.integers(0, 1 << 32, m, dtype=np.uint32).view(np.float32)
        for name in ("row_scale", "column_scale", "bias")
    }
    products.append(MatmulTrial(tb, m, 5, n, dtype=dtype, out=out, **bits))
    await run_all(tb, products, "window")


@npu_test(dtype=NARROW)
async def test_rounding_to_the_own_type(tb: NpuTestbench, dtype: DataType) -> None:
    """Values on both sides of every kind of tie: a row of ones times scales that are any float32."""
    m, n = 2 * tb.config.array_rows, 3 * tb.config.array_cols
    one = {DataType.BF16: 0x3F80, DataType.FP16: 1.0, DataType.INT8: 1}[dtype]
    a, b = np.full((m, 1), one, dtype.storage), np.full((1, n), one, dtype.storage)
    products = []
    for _ in range(4):
        upper = tb.rng.integers(0, 1 << 16, n, dtype=np.uint32) << 16
        ties = (upper + 0x8000 + tb.rng.integers(-1, 2, n)).astype(np.uint32)
        halves = (tb.rng.integers(-300, 300, n) / 2).astype(np.float32)
        near = tb.rng.integers(0x477FD000, 0x47801000, n, dtype=np.uint32)  # about fp16's largest
        small = tb.rng.integers(0x33000000, 0x38900000, n, dtype=np.uint32)  # fp16's subnormals
        for scales in (ties.view(np.float32), halves, near.view(np.float32), small.view(np.float32)):
            products.append(
                MatmulTrial(tb, m, 1, n, dtype=dtype, out=OutType.OWN, a=a, b=b, column_scale=scales)
            )
    await run_all(tb, products, "ring")


@npu_test()
async def test_int8_wraps(tb: NpuTestbench) -> None:
    """A sum of more than 2**31 is taken modulo 2**32."""
    k = (1 << 17) + 3
    lowest, highest = np.full((2, k), -128, np.int8), np.full((2, k), 127, np.int8)
    lowest[1], highest[1] = highest[1].copy(), lowest[1].copy()
    for out in outs(DataType.INT8):
        product = MatmulTrial(tb, 2, k, 2, dtype=DataType.INT8, out=out, a=lowest, b=lowest.T, trans_b=True)
        await run_all(tb, [product], "window")


@npu_test(dtype=list(DataType), layout=LAYOUTS)
async def test_row_strides(tb: NpuTestbench, dtype: DataType, layout: str) -> None:
    """Operands and results that are windows in larger matrices, at any address that the type allows."""
    products = []
    for _ in range(8):
        m, k, n = (tb.random.randint(1, 2 * tb.config.array_rows + 1) for _ in range(3))
        gap = [tb.random.choice((0, 1, 3, 5, 31, 32, 64)) for _ in range(3)]
        out = tb.random.choice(outs(dtype))
        gaps = (gap[0], gap[1], gap[2])
        products.append(MatmulTrial(tb, m, k, n, dtype=dtype, out=out, gaps=gaps, **transposes(layout)))
    await run_all(tb, products, "ring")


@npu_test(dtype=list(DataType), via=["window", "ring"])
async def test_batches(tb: NpuTestbench, dtype: DataType, via: Path) -> None:
    """Two levels of batches with strides of any multiple; scales and biases are the same for all."""
    packets: list[Packet] = []
    size = dtype.itemsize
    for _ in range(4):
        m, k, n = (tb.random.randint(1, tb.config.array_rows + 2) for _ in range(3))
        inner, outer = tb.random.randint(1, 4), tb.random.randint(1, 3)
        pad = tb.random.choice((0, 1, 3))
        a = tb.place(elements(tb, dtype, outer * inner * (m * k + pad)), offset=size)
        b = tb.place(elements(tb, dtype, inner * (k * n + pad)), "weight", offset=3 * size)
        out = tb.random.choice((OutType.FLOAT32, OutType.OWN))
        step = out.itemsize(dtype) * (m * n + pad)
        scales = {
            "row_scales": tb.place(tb.floats(m), offset=4),
            "column_vectors": tb.place(tb.floats(2 * n), offset=12),
        }
        packets += matmul_packets(
            a, b, tb.destination(inner * outer * step), m, k, n,
            dtype=dtype,
            out=out,
            column_scale=True,
            bias=True,
            batch=(inner, outer),
            src1_batch_strides=(size * (m * k + pad), size * inner * (m * k + pad)),
            src2_batch_strides=(size * (k * n + pad), 0),
            dst_batch_strides=(step, inner * step),
            **scales,
        )  # fmt: skip
    assert await tb.run(packets, via) == State.DONE


@npu_test(layout=LAYOUTS)
async def test_nothing_stays(tb: NpuTestbench, layout: str) -> None:
    """A small product follows a large one of another type that left NaN, or -128, everywhere on chip, scales
    and biases included."""
    config = tb.config
    nan32 = np.float32(np.nan)
    for first, second in itertools.permutations(DataType, 2):
        m, n = config.block_m, config.block_n_tiles * config.array_cols
        k = 2 * config.block_k_tiles * config.array_rows
        worst = {DataType.FP32: nan32, DataType.BF16: 0x7FC0, DataType.FP16: np.nan, DataType.INT8: -128}[
            first
        ]
        filled = [np.full(shape, worst, first.storage) for shape in ((m, k), (k, n))]
        nan = {name: np.full(length, nan32) for name, length in (("row_scale", m), ("bias", n))}
        flags = transposes(layout)
        products = [
            MatmulTrial(tb, m, k, n, dtype=first, a=filled[0], b=filled[1], relu=True, **nan, **flags),
            MatmulTrial(tb, 3, config.array_rows + 1, 2, dtype=second, **flags),
            MatmulTrial(tb, 2, 3, 3, dtype=second, bias=tb.floats(3), **flags),
        ]
        await run_all(tb, products, "window")
        assert np.isfinite(tb.memory.read(products[1].dst, 6, np.float32)).all()


@npu_test(via=["window", "ring"])
async def test_chain(tb: NpuTestbench, via: Path) -> None:
    """Back to back, each product taking the one before as an operand, in its own type."""
    size = tb.config.array_rows + 2
    packets: list[Packet] = []
    for dtype in DataType:
        scale = tb.place(np.full(size, 0.005 if dtype == DataType.INT8 else 0.3, np.float32))
        weights = [tb.place(elements(tb, dtype, size, size), "weight") for _ in range(3)]
        value = tb.place(elements(tb, dtype, size, size))
        for step in range(7):
            dst = tb.destination(dtype.itemsize * size * size)
            sources = (value, weights[step % 3]) if step % 2 else (weights[step % 3], value)
            packets += matmul_packets(
                *sources, dst, size, size, size,
                dtype=dtype, out=OutType.OWN, row_scales=scale, trans_a=step % 3 == 1, relu=step % 4 == 3,
            )  # fmt: skip
            value = dst
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_scales_that_were_just_computed(tb: NpuTestbench) -> None:
    """The command before writes scales, biases and operands, on either engine."""
    m, k, n = tb.config.array_rows + 1, 6, 5
    packets: list[Packet] = []
    scales, columns = tb.place(tb.floats(m)), tb.place(tb.floats(2 * n))
    for _ in range(6):
        # [m, 1] and [1, 2 n] are vectors as well as results.
        packets += matmul_packets(tb.place(tb.floats(m, k)), tb.place(tb.floats(k)), scales, m, k, 1)
        packets += matmul_packets(tb.place(tb.floats(k)), tb.place(tb.floats(k, 2 * n)), columns, 1, k, 2 * n)
        packets += matmul_packets(
            tb.place(elements(tb, DataType.INT8, m, k)),
            tb.place(elements(tb, DataType.INT8, k, n)),
            tb.destination(4 * m * n),
            m,
            k,
            n,
            dtype=DataType.INT8,
            row_scales=scales,
            column_vectors=columns,
            column_scale=True,
            bias=True,
        )
    assert await tb.run(packets, "ring") == State.DONE
