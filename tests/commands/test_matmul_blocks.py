"""MATMUL with weights in blocks: formats, shapes, values, steps, strides and batches, and what is refused.

A device without weights in blocks refuses every one of these commands.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import (
    BLOCK_ROWS,
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    OUT_SHIFT,
    ExtensionPacket,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
)
from echo_npu.formats import BLOCK, FORMATS, TILE_COLUMNS, TILE_DEPTH
from echo_npu.spec.data_types import Blocks, DataType, OutType
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.stimulus.operands import packed_tiles
from tb.testbench import NpuTestbench, npu_test
from tests.commands.outcomes import refused
from tests.commands.packed_products import PACKED, BlocksTrial, run_packed, steps_of
from tests.commands.products import SPECIAL, MatmulTrial, around

KINDS = list(PACKED)


def heads(tiles: NDArray[np.uint8], blocks: Blocks) -> NDArray[np.float16]:
    """Return the scales and minima of tiles, float16 [N tiles, K tiles, of d or m, block, column], a copy."""
    part = np.ascontiguousarray(tiles[..., : FORMATS[blocks.label].quants_at])
    return part.view(np.float16).reshape(*tiles.shape[:2], -1, 2, TILE_COLUMNS)


def with_heads(tiles: NDArray[np.uint8], blocks: Blocks, values: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Return the tiles with other scales and minima, shaped as `heads` returns them."""
    changed = tiles.copy()
    changed[..., : FORMATS[blocks.label].quants_at] = (
        np.ascontiguousarray(values).reshape(*tiles.shape[:2], -1).view(np.uint8)
    )
    return changed


@npu_test(blocks=KINDS)
async def test_shapes(tb: NpuTestbench, blocks: Blocks) -> None:
    """Sizes around the array; one block, whole tiles, and an odd number of blocks."""
    depths = (BLOCK, TILE_DEPTH, TILE_DEPTH + BLOCK, 2 * TILE_DEPTH, 2 * TILE_DEPTH + BLOCK)
    sizes = list(itertools.product(around(tb.config.array_rows), depths, around(TILE_COLUMNS)))
    chosen = [*tb.random.sample(sizes, 20), (1, BLOCK, 1), (2, BLOCK, TILE_COLUMNS + 1)]
    await run_packed(tb, [BlocksTrial(tb, blocks, *size) for size in chosen])


def whole_blocks(elements: int) -> int:
    return -(-elements // BLOCK) * BLOCK


@npu_test(blocks=KINDS)
async def test_several_panels(tb: NpuTestbench, blocks: Blocks) -> None:
    """Sizes around the on-chip block in one dimension at a time, and several blocks in all dimensions."""
    config = tb.config
    block_m, block_n = config.block_m, config.block_n_tiles * config.array_cols
    block_k = whole_blocks(4 * config.block_k_tiles * config.array_rows)
    products = [BlocksTrial(tb, blocks, block_m + off, BLOCK, 5) for off in tb.random.sample((-1, 0, 1), 2)]
    depths = [block_k + off for off in (-BLOCK, 0, BLOCK) if block_k + off > 0]
    products += [BlocksTrial(tb, blocks, 3, depth, 5) for depth in depths]
    products += [BlocksTrial(tb, blocks, 3, BLOCK, block_n + off) for off in (-1, 0, 1)]
    products.append(BlocksTrial(tb, blocks, block_m + 3, whole_blocks(block_k // 2) + BLOCK, 7))
    products.append(BlocksTrial(tb, blocks, 1, 2 * block_k + BLOCK, TILE_COLUMNS + 1))
    products.append(BlocksTrial(tb, blocks, 17, block_k + BLOCK, block_n + 3))
    await run_packed(tb, products)


@npu_test(blocks=KINDS)
async def test_random(tb: NpuTestbench, blocks: Blocks) -> None:
    """Random shapes, gaps and steps."""
    products = []
    for _ in range(16):
        m, n = (tb.random.randint(1, 3 * tb.config.array_rows) for _ in range(2))
        k = BLOCK * tb.random.randint(1, 9)
        gaps = [tb.random.choice((0, 0, 1, 2, 5)) for _ in range(3)]
        steps = {name: step for name, step in steps_of(tb, m, n).items() if tb.random.random() < 0.4}
        products.append(BlocksTrial(tb, blocks, m, k, n, gaps=(gaps[0], gaps[1], gaps[2]), **steps))
    await run_packed(tb, products, tb.random.choice(("window", "ring")))


@npu_test(blocks=KINDS)
async def test_every_combination_of_steps(tb: NpuTestbench, blocks: Blocks) -> None:
    """All 32."""
    products = []
    for asked in itertools.product((False, True), repeat=5):
        m, n = tb.random.choice((1, 3, 17)), tb.random.choice((1, 15, 17))
        given = steps_of(tb, m, n)
        steps = {name: value for ask, (name, value) in zip(asked, given.items(), strict=True) if ask}
        products.append(BlocksTrial(tb, blocks, m, tb.random.choice((BLOCK, 3 * BLOCK)), n, **steps))
    await run_packed(tb, products)


def zero_blocks(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Make most blocks zeros, of either sign."""
    for block in range(0, x.shape[1], BLOCK):
        rows = tb.rng.random(x.shape[0]) < 0.6
        x[rows, block : block + BLOCK] *= np.float32(0)


def single_values(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Put NaN, infinities, and values far above the others into some blocks."""
    for row in range(x.shape[0]):
        if row % 2:
            x[row, tb.rng.integers(x.shape[1])] = tb.rng.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e20])


def wide_range(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Spread the exponents of neighbours, and of neighbouring blocks."""
    x[:] = np.ldexp(x, tb.rng.integers(-40, 1, x.shape))
    for block in range(0, x.shape[1], BLOCK):
        part = x[:, block : block + BLOCK]
        part[:] = np.ldexp(part, tb.rng.integers(-80, 80, (x.shape[0], 1)))


def subnormals(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Make whole blocks subnormal, with few bits."""
    bits = tb.rng.integers(1, 1 << 23, x.shape, dtype=np.uint32) >> tb.rng.integers(0, 23, x.shape, np.uint32)
    rows = tb.rng.random(x.shape[0]) < 0.7
    x[rows] = np.copysign(bits[rows].view(np.float32), x[rows])


def limits(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Take the values on both sides of where an integer of 16 bits ends, and of its ties."""
    near = np.array([0x3F7FFFFF, 0x3F7FFF80, 0x3F7FFF00, 0x3F7FFE80, 0x3F800000, 0x37C00000, 0x37400000])
    x[:] = np.copysign(tb.rng.choice(near.astype(np.uint32), x.shape).view(np.float32), x)
    x[:] = np.ldexp(x, tb.rng.integers(-30, 30, (x.shape[0], 1)))


def special_values(tb: NpuTestbench, x: NDArray[np.float32]) -> None:
    """Take special values only."""
    x[:] = tb.rng.choice(SPECIAL, x.shape)


Change = Callable[[NpuTestbench, NDArray[np.float32]], None]
CHANGES: list[Change] = [zero_blocks, single_values, wide_range, subnormals, limits, special_values]


@npu_test(blocks=KINDS)
async def test_activations(tb: NpuTestbench, blocks: Blocks) -> None:
    """Blocks of zeros, with NaN and infinities, of any magnitude, subnormal, and at the ends of 16 bits."""
    products = []
    for change, (m, k, n) in itertools.product(CHANGES, ((1, 96, 17), (9, 160, 5), (19, 64, 16))):
        x = tb.floats(m, k)
        change(tb, x)
        products.append(BlocksTrial(tb, blocks, m, k, n, a=x))
    await run_packed(tb, products)


@npu_test(blocks=KINDS)
async def test_activations_of_16_bits(tb: NpuTestbench, blocks: Blocks) -> None:
    """Float16 of any bits, ordinary ones, and subnormal blocks."""
    products = []
    for m, k, n in ((1, 96, 17), (9, 160, 5), (19, 64, 16), (2, 32, 1)):
        any_bits = tb.rng.integers(0, 1 << 16, (m, k)).astype(np.uint16).view(np.float16)
        small = tb.rng.integers(0, 1 << 10, (m, k)).astype(np.uint16).view(np.float16)
        for x in (any_bits, tb.floats(m, k).astype(np.float16), small):
            products.append(BlocksTrial(tb, blocks, m, k, n, a=x))
    await run_packed(tb, products)


@npu_test(blocks=KINDS)
async def test_weights(tb: NpuTestbench, blocks: Blocks) -> None:
    """Scales and minima of any bits, zeros, subnormals, NaN and infinities; quants at their ends."""
    ends = {Blocks.Q8_0: [0x80, 0x7F, 0, 0xFF, 1]}.get(blocks, [0x00, 0xFF, 0x0F, 0xF0, 0x87, 0x78])
    special = np.array([0, 0x8000, 1, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x3C00], np.uint16).view(np.float16)
    unbounded = np.array([0x7C00, 0xFC00, 0x7E00, 0x7C01, 0, 0x3C00, 0x3C00], np.uint16).view(np.float16)
    products = []
    for m, k, n in ((1, 96, 17), (5, 160, 33), (18, 64, 16)):
        tiles = packed_tiles(tb.rng, blocks, n, k)
        old = heads(tiles, blocks)
        any_bits = tb.rng.integers(0, 1 << 16, old.shape).astype(np.uint16).view(np.float16)
        for values in (tb.rng.choice(special, old.shape), tb.rng.choice(unbounded, old.shape), any_bits):
            products.append(BlocksTrial(tb, blocks, m, k, n, tiles=with_heads(tiles, blocks, values)))
        extreme = tiles.copy()
        quants = extreme[..., FORMATS[blocks.label].quants_at :]
        quants[:] = tb.rng.choice(np.array(ends, np.uint8), quants.shape)
        most = np.full((m, k), 1 - 2.0**-24, np.float32)
        most[:, ::3] *= tb.random.choice((1, -1))
        products.append(BlocksTrial(tb, blocks, m, k, n, a=most, tiles=extreme))
    await run_packed(tb, products)


@npu_test(blocks=KINDS)
async def test_each_quant_counts_once(tb: NpuTestbench, blocks: Blocks) -> None:
    """A row that is 1 in one place and 0 in all others yields the weight of that place, for every place."""
    k, n = TILE_DEPTH + BLOCK, TILE_COLUMNS + 3
    kinds = (np.float32, np.float16)
    await run_packed(tb, [BlocksTrial(tb, blocks, k, k, n, a=np.eye(k, dtype=kind)) for kind in kinds])


@npu_test(blocks=KINDS, via=["window", "ring"])
async def test_batches(tb: NpuTestbench, blocks: Blocks, via: Path) -> None:
    """Two levels of batches: rows of part of a wider matrix of weights, weights of their own or shared."""
    tile_bytes = FORMATS[blocks.label].tile_bytes
    packets: list[Sequence[Packet]] = []
    for _ in range(4):
        m, n = (tb.random.randint(1, 18) for _ in range(2))
        tiles_k, extra = tb.random.randint(1, 3), tb.random.randint(0, 2)
        k = TILE_DEPTH * tiles_k - tb.random.choice((0, BLOCK))
        inner, outer = tb.random.randint(1, 3), tb.random.randint(1, 2)
        wide = [packed_tiles(tb.rng, blocks, n, TILE_DEPTH * (tiles_k + extra)) for _ in range(inner)]
        weights = np.stack(wide)
        pad = tb.random.choice((0, 1, 3))
        a = tb.place(tb.floats(outer * inner * (m * k + pad)), offset=4)
        b = tb.place(weights, "weight") + tb.random.randint(0, extra) * tile_bytes
        step = 4 * (m * n + pad)
        packets.append(
            matmul_packets(
                a, b, tb.destination(inner * outer * step), m, k, n,
                blocks=blocks,
                bias=True,
                column_vectors=tb.place(tb.floats(n), offset=12),
                batch=(inner, outer),
                row_strides=(0, (tiles_k + extra) * tile_bytes, 0),
                src1_batch_strides=(4 * (m * k + pad), 4 * inner * (m * k + pad)),
                src2_batch_strides=(weights.strides[0], 0),
                dst_batch_strides=(step, inner * step),
            )
        )  # fmt: skip
    if tb.config.has_blocks:
        assert await tb.run([packet for each in packets for packet in each], via) == State.DONE
    else:
        for each in packets:
            await refused(tb, each, ErrorCode.BAD_FLAGS, via=via)


@npu_test()
async def test_nothing_stays(tb: NpuTestbench) -> None:
    """Products in all formats and of all types follow one another; each may leave NaN everywhere on chip."""
    if not tb.config.has_blocks:
        return await run_packed(tb, [BlocksTrial(tb, blocks, 2, BLOCK, 2) for blocks in PACKED])
    kinds: list[Blocks | DataType] = [*PACKED, *DataType]
    pairs = [pair for pair in itertools.permutations(kinds, 2) if {*pair} & {*PACKED}]
    packets: list[Packet] = []
    for pair in tb.random.sample(pairs, len(pairs)):
        for first, kind in zip((True, False), pair, strict=True):
            m, k, n = (19, 160, 35) if first else (tb.random.randint(1, 3), BLOCK, tb.random.randint(1, 5))
            if isinstance(kind, Blocks):
                x = np.full((m, k), np.nan, np.float32) if first else None
                packets += BlocksTrial(tb, kind, m, k, n, a=x).packets
            else:
                worst = {DataType.INT8: -128, DataType.BF16: 0x7FC0}.get(kind, np.nan)
                x = np.full((m, k), worst, kind.storage) if first else None
                packets += MatmulTrial(tb, m, k, n, dtype=kind, a=x).packets
    assert await tb.run(packets, "ring") == State.DONE
    return None


@npu_test(blocks=KINDS)
async def test_operands_that_were_just_written(tb: NpuTestbench, blocks: Blocks) -> None:
    """The command before writes the weights, or the activations; the one behind overwrites them."""
    m, k, n = 5, TILE_DEPTH + BLOCK, TILE_COLUMNS + 2
    packets: list[Packet] = []
    for _ in range(4):
        tiles = [packed_tiles(tb.rng, blocks, n, k) for _ in range(2)]
        sources = [tb.place(each) for each in tiles]
        weights = tb.place(packed_tiles(tb.rng, blocks, n, k), "weight")
        rows = tb.place(tb.floats(m, k))
        packets += memcpy_packets(sources[0], weights, tiles[0].nbytes)
        packets += matmul_packets(rows, weights, tb.destination(4 * m * n), m, k, n, blocks=blocks)
        packets += memcpy_packets(sources[1], weights, tiles[1].nbytes)
        packets += matmul_packets(tb.place(tb.floats(m, 3)), tb.place(tb.floats(3, k)), rows, m, 3, k)
        packets += matmul_packets(rows, weights, tb.destination(4 * m * n), m, k, n, blocks=blocks)
    if tb.config.has_blocks:
        assert await tb.run(packets, "ring") == State.DONE
    else:
        await refused(tb, packets, ErrorCode.BAD_FLAGS, via="ring")


def product(
    blocks: Blocks,
    flags: int = 0,
    a: int = 0x1000,
    b: int = 0x2000,
    dst: int = 0x1000_1000,
    *,
    k: int = 64,
    n: int = 16,
) -> NpuCommandPacket:
    """Return a MATMUL of 2 x 64 x 16 that no builder checks."""
    return NpuCommandPacket(Opcode.MATMUL, flags | blocks << BLOCKS_SHIFT, a, b, dst, m=2, k=k, n=n)


def refusals(blocks: Blocks) -> Mapping[str, tuple[ErrorCode, list[Packet]]]:
    """Return illegal products, and what a device with weights in blocks says of them."""
    ext = int(Flags.EXT)
    flags: dict[str, int] = {
        "trans a": Flags.TRANS_A,
        "trans b": Flags.TRANS_B,
        **{each.label: each << DTYPE_SHIFT for each in DataType if each not in BLOCK_ROWS},
        **{f"out {each.name}": each << OUT_SHIFT for each in OutType if each},
        "out 3": 3 << OUT_SHIFT,
    }
    strides: dict[str, dict[str, Any]] = {
        "row of tiles too short": {"src2_row_stride": 64},
        "row of tiles unaligned": {"src2_row_stride": FORMATS[blocks.label].tile_bytes + 32},
        "batch of tiles unaligned": {"batch0": 2, "src2_batch0_stride": 32, "dst_batch0_stride": 128},
        "outer batch of tiles unaligned": {"batch1": 2, "src2_batch1_stride": 4, "dst_batch1_stride": 128},
    }
    end = 0x1000_0000
    return {
        **{name: (ErrorCode.BAD_FLAGS, [product(blocks, flag)]) for name, flag in flags.items()},
        **{
            f"k of {k}": (ErrorCode.BAD_DIMENSION, [product(blocks, k=k)])
            for k in (0, 1, 16, 31, 33, 48, 63, 65, (1 << 24) + 32)
        },
        **{
            f"src2 at {offset}": (ErrorCode.MISALIGNED, [product(blocks, b=0x2000 + offset)])
            for offset in (1, 4, 32, 63)
        },
        "src1": (ErrorCode.MISALIGNED, [product(blocks, a=0x1002)]),
        "src1 of 16 bits": (
            ErrorCode.MISALIGNED,
            [product(blocks, DataType.FP16 << DTYPE_SHIFT, a=0x1001)],
        ),
        "dst": (ErrorCode.MISALIGNED, [product(blocks, dst=0x1000_1001)]),
        **{
            name: (ErrorCode.BAD_EXTENSION, [product(blocks, ext), ExtensionPacket(**fields)])
            for name, fields in strides.items()
        },
        "last tile outside": (ErrorCode.OUT_OF_RANGE, [product(blocks, b=end - 64)]),
        "dst on the weights": (ErrorCode.OVERLAP, [product(blocks, b=0x1000_1000 - 64)]),
        "dst on the last row of tiles": (
            ErrorCode.OVERLAP,
            [product(blocks, b=0x1000_1000 - 2 * FORMATS[blocks.label].tile_bytes + 64 & -64, n=17)],
        ),
    }


@npu_test(blocks=KINDS, via=["window", "ring"])
async def test_refusals(tb: NpuTestbench, blocks: Blocks, via: Path) -> None:
    """Every broken rule has its code; a device without weights in blocks finds the flags illegal first."""
    for name, (code, packets) in refusals(blocks).items():
        await refused(tb, packets, code if tb.config.has_blocks else ErrorCode.BAD_FLAGS, via=via, name=name)
    await run_packed(tb, [BlocksTrial(tb, blocks, 3, 96, 17)], via)


@npu_test(blocks=KINDS)
async def test_other_opcodes(tb: NpuTestbench, blocks: Blocks) -> None:
    """No other opcode knows the flags."""
    for opcode in Opcode:
        if opcode != Opcode.MATMUL:
            packet = NpuCommandPacket(opcode, blocks << BLOCKS_SHIFT, 0x1000, 0x2000, 0x1000_1000, m=4)
            await refused(tb, [packet], ErrorCode.BAD_FLAGS, name=opcode.name)
