"""Every limit of MATMUL, MEMCPY, ADD_TENSOR and the ring: one below, at, and one above it. Also sizes around
the multiples of tiles, panels and blocks.

A legal command that is too large to simulate breaks a later rule, whose code shows that it passed this one.
"""

from collections.abc import Callable, Sequence
from functools import partial

from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType
from echo_npu.spec.memory_map import ACTIVATION, MEMORY_REGIONS, WEIGHT
from echo_npu.spec.status import ErrorCode, State
from tb.testbench import NpuTestbench, npu_test
from tests.commands import packets
from tests.commands.products import MatmulTrial, run_all

AROUND = (-1, 0, 1)
BEYOND = 0x3000_0000
"""No memory: a command that uses this address passes all rules before that of the range."""
OPERANDS = ("src1", "src2", "dst", "columns", "rows")
SOURCE, RESULT = packets.W, packets.A

Slots = list[Packet]
Draw = Callable[[int], Slots]


# The least of each.
matmul = partial(packets.matmul, m=1, k=1, n=1)
memcpy = partial(packets.copy, m=1)
add = partial(packets.add, m=1)


def more(packet: NpuCommandPacket, **fields: int) -> Slots:
    """Return the packet with its extension."""
    return [packet, ExtensionPacket(**fields)]


COUNTS: dict[str, tuple[int, Draw]] = {
    "M of MATMUL": (1 << 24, lambda size: [matmul(BEYOND, m=size)]),
    "K of MATMUL": (1 << 24, lambda size: [matmul(BEYOND, k=size)]),
    "N of MATMUL": (1 << 24, lambda size: [matmul(BEYOND, n=size)]),
    "least M": (0, lambda size: [matmul(BEYOND, m=size)]),
    "least K": (0, lambda size: [matmul(BEYOND, k=size)]),
    "least N": (0, lambda size: [matmul(BEYOND, n=size)]),
    "least M of a copy": (0, lambda size: [memcpy(BEYOND, RESULT, m=size)]),
    "least K of a copy": (-1, lambda size: [memcpy(BEYOND, RESULT, k=size)]),
    "least N of a sum": (-1, lambda size: [add(BEYOND, SOURCE, RESULT, n=size)]),
    "bytes": ((1 << 32) - 1, lambda size: [memcpy(BEYOND, RESULT, m=size)]),
    "bytes in K": ((1 << 32) - 1, lambda size: [memcpy(BEYOND, RESULT, k=size)]),
    "bytes in N": ((1 << 32) - 1, lambda size: [memcpy(BEYOND, RESULT, n=size)]),
    # 641 times 6700417 is 2**32 + 1.
    "bytes in M and K": (6700416, lambda size: [memcpy(BEYOND, RESULT, m=641, k=size)]),
    "bytes in M and N": ((1 << 16) + 1, lambda size: [memcpy(BEYOND, RESULT, m=(1 << 16) - 1, n=size)]),
    "bytes in all": ((1 << 12) - 1, lambda size: [memcpy(BEYOND, RESULT, m=1 << 10, k=1 << 10, n=size)]),
    "elements": ((1 << 32) - 1, lambda size: [add(BEYOND, SOURCE, RESULT, m=size)]),
    "elements in K and N": (
        (1 << 16) + 1,
        lambda size: [add(BEYOND, SOURCE, RESULT, k=(1 << 16) - 1, n=size)],
    ),
    "batch0": (65535, lambda size: more(matmul(BEYOND, flags=Flags.EXT), batch0=size, dst_batch0_stride=4)),
    "batch1": (65535, lambda size: more(matmul(BEYOND, flags=Flags.EXT), batch1=size, dst_batch1_stride=4)),
    "batch0 of a copy": (
        65535,
        lambda size: more(memcpy(BEYOND, RESULT, flags=Flags.EXT), batch0=size, dst_batch0_stride=1),
    ),
    "batch1 of a copy": (
        65535,
        lambda size: more(memcpy(BEYOND, RESULT, flags=Flags.EXT), batch1=size, dst_batch1_stride=1),
    ),
    "rows": (1 << 24, lambda size: more(memcpy(BEYOND, RESULT, flags=Flags.EXT), rows=size)),
}
"""A limit of a count, and what makes the submission for a count near it."""


async def judge(tb: NpuTestbench, slots: Sequence[Packet]) -> ErrorCode:
    """Submit, compare everything with the model; return the error, and clear it."""
    if await tb.run(slots) != State.ERROR:
        return ErrorCode.NONE
    code = ErrorCode((await tb.state()).error_code)
    await tb.commands.clear_error()
    return code


@npu_test()
async def test_counts(tb: NpuTestbench) -> None:
    """Each count is tried on both sides of its limit."""
    for name, (limit, draw) in COUNTS.items():
        codes = {await judge(tb, draw(limit + off)) for off in AROUND}
        assert len(codes) == 2, f"{name}: {codes}"
        assert ErrorCode.OUT_OF_RANGE in codes, f"{name}: {codes}"


@npu_test(region=list(MEMORY_REGIONS), level=["dense", "row", "batch0", "batch1"])
async def test_region_ends(tb: NpuTestbench, region: str, level: str) -> None:
    """Each operand ends one element before the end of its region, at it, and one beyond it."""
    home = MEMORY_REGIONS[region]
    other = ACTIVATION if home is WEIGHT else WEIGHT
    away = other.base + 0x8000
    strides = {"dense": 0, "row": 20, "batch0": 48, "batch1": 1 << 20}
    step = strides[level]
    batches = {"batch0": 2 if level == "batch0" else 1, "batch1": 2 if level == "batch1" else 1}
    for operand in OPERANDS:
        extent = {"columns": 24, "rows": 8}.get(operand, {"dense": 24, "row": 32}.get(level, 24 + step))
        # Each operand under test has two rows of three: 24 bytes.
        m, k, n = (3, 3, 2) if operand == "src2" else (2, 3, 3)
        flags = Flags.EXT | Flags.TRANS_B | Flags.ROW_SCALE | Flags.COL_SCALE | Flags.BIAS
        fields: dict[str, int] = dict(batches)
        for name in OPERANDS[:3]:
            if level.startswith("batch"):
                fields[f"{name}_{level}_stride"] = step
            elif level == "row" and name == operand:
                fields[f"{name}_row_stride"] = step
        for off in AROUND:
            sources = away if operand == "dst" else home.base + 0x2000
            at = dict.fromkeys(OPERANDS, sources) | {"dst": away} | {operand: home.end - extent + 4 * off}
            packet = matmul(at["src1"], at["src2"], at["dst"], flags=flags, m=m, k=k, n=n)
            slots = more(packet, **fields, column_vectors=at["columns"], row_scales=at["rows"])
            code = await judge(tb, slots)
            assert code == (ErrorCode.OUT_OF_RANGE if off > 0 else ErrorCode.NONE), f"{operand} {off}: {code}"


@npu_test(dtype=list(DataType))
async def test_multiples(tb: NpuTestbench, dtype: DataType) -> None:
    """Sizes around one, two and three times what the array, a panel and each kind of block hold."""
    config, pick = tb.config, tb.random
    tile = config.array_rows
    deep = 4 if dtype == DataType.INT8 else 1
    sizes = {
        "m": (tile, config.block_m // 4, config.block_m // 2, config.block_m),
        "k": (tile * deep, 2 * tile * deep, config.block_k_tiles * tile * deep),
        "n": (tile, config.acc_entries // config.block_m * tile, config.block_n_tiles * tile),
    }
    products = []
    for dimension, units in sizes.items():
        for unit in units:
            for multiple in (1, 2, 3):
                for off in AROUND:
                    shape = {name: pick.choice((1, 2, tile, tile + 1)) for name in "mkn"}
                    shape[dimension] = multiple * unit + off
                    scaled = pick.random() < 0.4
                    products.append(
                        MatmulTrial(
                            tb,
                            shape["m"],
                            shape["k"],
                            shape["n"],
                            dtype=dtype,
                            trans_a=pick.random() < 0.5,
                            trans_b=pick.random() < 0.5,
                            row_scale=tb.floats(shape["m"]) if scaled else None,
                            bias=tb.floats(shape["n"]) if scaled else None,
                            relu=pick.random() < 0.2,
                        )
                    )
    pick.shuffle(products)
    for at in range(0, len(products), 20):
        await run_all(tb, products[at : at + 20], "ring")


@npu_test()
async def test_ring(tb: NpuTestbench) -> None:
    """Sizes, bases and tails of the ring."""

    async def ring(base: int, slots: int, tail: int) -> ErrorCode:
        await tb.restart()
        await tb.commands.setup_ring(base, slots)
        await tb.registers.write(regs.RING_TAIL, tail)
        state = await tb.check()
        if state != State.ERROR:
            return ErrorCode.NONE
        code = ErrorCode((await tb.state()).error_code)
        await tb.commands.clear_error()
        return code

    # Memory there is zero: NOPs.
    for region in MEMORY_REGIONS.values():
        for slots in (2, 3, 16, 255, 256, 4096, 65535):
            base = region.end - 64 * slots
            assert await ring(base - 64, slots, 1) == ErrorCode.NONE
            assert await ring(base, slots, 1) == ErrorCode.NONE
            assert await ring(base + 64, slots, 1) == ErrorCode.RING_CONFIG
    for slots in (0, 1):
        assert await ring(ACTIVATION.base + 0x10000, slots, 0) == ErrorCode.RING_CONFIG
    for slots in (2, 15, 16, 17, 255, 256, 257):
        for off in AROUND:
            code = await ring(ACTIVATION.end - 64 * slots, slots, slots + off)
            assert code == (ErrorCode.NONE if off < 0 else ErrorCode.RING_INDEX)
    for off in (1, 32, 63):
        assert await ring(ACTIVATION.base + 0x10000 + off, 16, 1) == ErrorCode.RING_CONFIG
    await tb.restart()
