"""MATMUL of float32 by float16: shapes, layouts, values, strides, batches, neighbours, and refusals."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import (
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
)
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import refused
from tests.commands.products import (
    LAYOUTS,
    SPECIAL,
    SPECIALS,
    MatmulTrial,
    around,
    elements,
    run_all,
    transposes,
)


@npu_test(layout=LAYOUTS)
async def test_shapes(tb: NpuTestbench, layout: str) -> None:
    """Sizes around the array in each dimension, windows in larger matrices, and some steps."""
    sizes = list(itertools.product(around(tb.config.array_rows), repeat=3))
    products = []
    for m, k, n in tb.random.sample(sizes, 16):
        gap = [tb.random.choice((0, 0, 1, 2, 5, 32)) for _ in range(3)]
        given: dict[str, Any] = {
            "alpha": 0.3,
            "row_scale": tb.floats(m),
            "column_scale": tb.floats(n),
            "bias": tb.floats(n),
            "relu": True,
        }
        steps = {name: value for name, value in given.items() if tb.random.random() < 0.4}
        gaps = (gap[0], gap[1], gap[2])
        products.append(MatmulTrial(tb, m, k, n, half_b=True, gaps=gaps, **transposes(layout), **steps))
    await run_all(tb, products, tb.random.choice(("window", "ring")))


@npu_test()
async def test_blocks(tb: NpuTestbench) -> None:
    """Several on-chip blocks in each dimension, for every layout, high and flat products."""
    config = tb.config
    block_k, block_n = config.block_k_tiles * config.array_rows, config.block_n_tiles * config.array_cols
    products = [
        MatmulTrial(tb, *size, half_b=True, **transposes(layout))
        for layout in LAYOUTS
        for size in ((config.block_m + 3, block_k + 1, 7), (5, 3 * block_k + 2, block_n + 3))
    ]
    await run_all(tb, products, "ring")


@npu_test()
async def test_vectors(tb: NpuTestbench) -> None:
    """One row, and one column: then the float16 vector is the left operand of the transpose."""
    size = 9 * tb.config.array_cols + 5
    shapes = ((1, size, size), (size, size, 1), (1, size, 1), (size, 1, size), (1, 1, 1))
    products = [
        MatmulTrial(tb, *shape, half_b=True, **transposes(layout)) for shape in shapes for layout in LAYOUTS
    ]
    # Columns with gaps, one as wide as an element of float32 too.
    products += [MatmulTrial(tb, size, 7, 1, half_b=True, gaps=(0, gap, 0)) for gap in (1, 2, 3)]
    products.append(MatmulTrial(tb, size, 7, 1, half_b=True, bias=tb.floats(1)))
    await run_all(tb, products, "ring")


@npu_test()
async def test_special_values(tb: NpuTestbench) -> None:
    """Subnormals, infinities, NaN and signed zeros of both types against each other."""
    left, right, rng = SPECIAL, SPECIALS[DataType.FP16], tb.rng
    products = [
        MatmulTrial(tb, left.size, 1, right.size, half_b=True, a=left[:, None], b=right[None, :]),
        MatmulTrial(tb, left.size, 1, 1, half_b=True, a=left[:, None], b=right[:1, None]),
    ]
    for m, k, n in ((5, 2, 9), (3, 2 * tb.config.array_rows + 1, 7)):
        pair = {"a": rng.choice(left, (m, k)), "b": rng.choice(right, (k, n))}
        products.append(MatmulTrial(tb, m, k, n, half_b=True, **pair))
    await run_all(tb, products, "window")


@npu_test(via=["window", "ring"])
async def test_batches(tb: NpuTestbench, via: Path) -> None:
    """Two levels of batches, whose float16 matrices are any multiple of two bytes apart."""
    packets: list[Packet] = []
    for trans_b in (False, True):
        m, k, n = (tb.random.randint(2, tb.config.array_rows + 2) for _ in range(3))
        inner, outer, pad = 3, 2, tb.random.choice((0, 1, 3))
        a = tb.place(tb.floats(outer * inner * m * k), offset=4)
        b = tb.place(elements(tb, DataType.FP16, inner * (k * n + pad) + outer), "weight", offset=6)
        packets += matmul_packets(
            a, b, tb.destination(4 * inner * outer * m * n), m, k, n,
            half_b=True,
            trans_b=trans_b,
            batch=(inner, outer),
            src1_batch_strides=(4 * m * k, 4 * inner * m * k),
            src2_batch_strides=(2 * (k * n + pad), 2),
            dst_batch_strides=(4 * m * n, 4 * inner * m * n),
        )  # fmt: skip
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_neighbours(tb: NpuTestbench) -> None:
    """Products of other types before and behind: each loader takes its own command's type."""
    size = tb.config.array_rows + 2
    products = []
    for dtype in DataType:
        products += [
            MatmulTrial(tb, size, size, size, half_b=True),
            MatmulTrial(tb, size, size, size, dtype=dtype),
            MatmulTrial(tb, size, size, 1, half_b=True),
        ]
    await run_all(tb, products, "ring")


@npu_test()
async def test_a_right_operand_that_was_just_computed(tb: NpuTestbench) -> None:
    """A product writes float16, which the next one takes beside float32."""
    size = tb.config.array_rows + 2
    packets: list[Packet] = []
    for columns in (size, 1):
        made = tb.destination(2 * size * columns)
        sources = (tb.place(elements(tb, DataType.FP16, size, each)) for each in (size, columns))
        packets += matmul_packets(
            *sources, made, size, size, columns, dtype=DataType.FP16, out=OutType.OWN, alpha=0.1
        )
        packets += matmul_packets(
            tb.place(tb.floats(size, size)),
            made,
            tb.destination(4 * size * columns),
            size,
            size,
            columns,
            half_b=True,
        )
    assert await tb.run(packets, "ring") == State.DONE


def product(flags: int = 0, a: int = 0x1000, b: int = 0x2000, dst: int = 0x1000_1000) -> NpuCommandPacket:
    """Return a MATMUL of 4 x 32 x 6 of float32 by float16 that no builder checks."""
    return NpuCommandPacket(Opcode.MATMUL, Flags.HALF_B | flags, a, b, dst, m=4, k=32, n=6)


def refusals() -> Mapping[str, tuple[ErrorCode, list[Packet]]]:
    """Return illegal products, and what a device says of them."""
    ext = int(Flags.EXT)
    strides: dict[str, dict[str, int]] = {
        "a row too short": {"src2_row_stride": 10},
        "an odd row": {"src2_row_stride": 13},
        "an odd batch": {"batch0": 2, "src2_batch0_stride": 7, "dst_batch0_stride": 96},
        "an odd outer batch": {"batch1": 2, "src2_batch1_stride": 1, "dst_batch1_stride": 96},
        "a float32 row of a multiple of 2": {"src1_row_stride": 130},
        "a result's row of a multiple of 2": {"dst_row_stride": 26},
    }
    end = 0x1000_0000
    return {
        **{
            f"{each.label} by float16": (ErrorCode.BAD_FLAGS, [product(each << DTYPE_SHIFT)])
            for each in DataType
            if each
        },
        **{each.label: (ErrorCode.BAD_FLAGS, [product(each << BLOCKS_SHIFT)]) for each in Blocks if each},
        "src1": (ErrorCode.MISALIGNED, [product(a=0x1002)]),
        "src2": (ErrorCode.MISALIGNED, [product(b=0x2001)]),
        "dst": (ErrorCode.MISALIGNED, [product(dst=0x1000_1002)]),
        **{
            name: (ErrorCode.BAD_EXTENSION, [product(ext), ExtensionPacket(**fields)])
            for name, fields in strides.items()
        },
        "the last element outside": (ErrorCode.OUT_OF_RANGE, [product(b=end - 2 * 32 * 6 + 2)]),
        "dst on the last element": (ErrorCode.OVERLAP, [product(b=0x1000_1000 - 2 * 32 * 6 + 2)]),
    }


@npu_test()
async def test_refusals(tb: NpuTestbench) -> None:
    """Every broken rule has its code."""
    for name, (code, packets) in refusals().items():
        await refused(tb, packets, code, name=name)


@npu_test()
async def test_just_legal(tb: NpuTestbench) -> None:
    """A float16 operand at the end of memory, on either side of dst, and with rows 7 elements apart."""
    half = elements(tb, DataType.FP16, 32 * 6)
    for offset in (0x1000_0000 - half.nbytes, 0x1000_1000 - half.nbytes, 0x1000_1000 + 4 * 24):
        tb.memory.write(offset, half)
        assert await tb.run([product(b=offset)], "window") == State.DONE
    tb.memory.write(0x2000, np.resize(half, 32 * 7))
    packets: list[Packet] = [product(int(Flags.EXT)), ExtensionPacket(src2_row_stride=14)]
    assert await tb.run(packets, "window") == State.DONE
