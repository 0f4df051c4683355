"""ADD_TENSOR: dst = src1 + alpha * src2, float32, rounded twice."""

import itertools

import numpy as np

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test
from tests.commands.products import SPECIAL

ALPHAS = (1.0, 0.0, -1.0, 0.5, 3.14159, -1e-20, 1e30)


def add(src1: int, src2: int, dst: int, count: int, alpha: float = 1.0) -> NpuCommandPacket:
    """One ADD_TENSOR of `count` elements."""
    return NpuCommandPacket(Opcode.ADD_TENSOR, 0, src1, src2, dst, m=count, alpha=alpha)


@npu_test(via=["window", "ring"])
async def test_sizes(tb: NpuTestbench, via: Path) -> None:
    """Sizes around the lane count and the bus width, and far above, at every alignment of 4 bytes."""
    lanes = tb.config.vector_lanes
    packets = []
    for count in (1, 2, lanes - 1, lanes, lanes + 1, 2 * lanes - 1, 5 * lanes + 3, 1023, 1024, 4500):
        count = max(count, 1)
        offsets = [4 * tb.random.randrange(16) for _ in range(3)]
        a = tb.place(tb.floats(count), offset=offsets[0])
        b = tb.place(tb.floats(count), "weight", offset=offsets[1])
        packets.append(
            add(a, b, tb.destination(4 * count, offset=offsets[2]), count, tb.random.choice(ALPHAS))
        )
    assert await tb.run(packets, via) == State.DONE


@npu_test()
async def test_special_values(tb: NpuTestbench) -> None:
    """All pairs of subnormals, infinities, NaN, signed zeros, ties and limits, with many values of alpha."""
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)), dtype=np.float32)
    a, b = tb.place(pairs[:, 0].copy()), tb.place(pairs[:, 1].copy())
    packets = []
    for alpha in (*ALPHAS, float("inf"), float("nan"), 2.0**-149, 2.0**-126, -0.0):
        packets.append(add(a, b, tb.destination(4 * len(pairs)), len(pairs), alpha))
    assert await tb.run(packets, "ring") == State.DONE


@npu_test()
async def test_random_bits(tb: NpuTestbench) -> None:
    """Uniformly random bit patterns: every exponent, NaN payloads included."""
    count = 3000
    a, b = (tb.place(tb.rng.integers(0, 1 << 32, count, dtype=np.uint32)) for _ in range(2))
    packets = [add(a, b, tb.destination(4 * count), count, alpha) for alpha in (1.0, -0.37, 1e-38)]
    assert await tb.run(packets) == State.DONE


@npu_test(via=["window", "ring"])
async def test_in_place(tb: NpuTestbench, via: Path) -> None:
    """The destination may be either source exactly, or both at once, at any size."""
    packets = []
    for count in (1, 37, 1000):
        a, b, c = (tb.place(tb.floats(count)) for _ in range(3))
        packets += [add(a, b, a, count, 0.5), add(a, b, b, count, -2.0), add(c, c, c, count, 1.0)]
    assert await tb.run(packets, via) == State.DONE


@npu_test(via=["window", "ring"])
async def test_accumulate(tb: NpuTestbench, via: Path) -> None:
    """Commands back to back into one place: each needs the result of the one before."""
    count = 203
    total = tb.place(np.zeros(count, dtype=np.float32))
    terms = [tb.place(tb.floats(count)) for _ in range(20)]
    assert await tb.run([add(total, term, total, count) for term in terms], via) == State.DONE


@npu_test()
async def test_dimensions_multiply(tb: NpuTestbench) -> None:
    """The element count is M * max(K, 1) * max(N, 1)."""
    packets = []
    for m, k, n in ((5, 0, 0), (5, 3, 0), (5, 0, 7), (4, 3, 7)):
        count = m * max(k, 1) * max(n, 1)
        a, b = tb.place(tb.floats(count)), tb.place(tb.floats(count))
        dst = tb.destination(4 * count)
        packets.append(NpuCommandPacket(Opcode.ADD_TENSOR, 0, a, b, dst, m=m, k=k, n=n, alpha=1.0))
    assert await tb.run(packets) == State.DONE


@npu_test()
async def test_neighbours_are_no_overlap(tb: NpuTestbench) -> None:
    """Sources and destination may touch, in any order."""
    packets = []
    for count in (1, 7, 16, 33):
        for order in itertools.permutations(range(3)):
            place = tb.place(tb.floats(3 * count))
            a, b, dst = (place + 4 * count * slot for slot in order)
            packets.append(add(a, b, dst, count, 0.5))
    assert await tb.run(packets, "ring") == State.DONE
