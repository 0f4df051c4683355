"""Limits of the tensors of any operation."""

from dataclasses import replace

from echo_npu.server.protocol import GraphTensor
from tests.runtime.server.limits.limit import ADDRESS, Limit, f32, i32, q5_k, q8_0, steps
from tests.runtime.server.server_client import node

MEMORY = 1 << 28
"""Bytes of a region."""

COPY = node("CPY", f32(8, 3), f32(8, 3))
LONG = steps(f32(1 << 26, 1), 0, 0, 0, 0)
BLOCKS = node("CPY", q8_0(64, 3), q8_0(64, 3))
MOVED = node("CPY", q5_k(3), q5_k(3))
NOT_INTO_BLOCKS = (
    node("MUL_MAT", f32(32, 3), f32(32, 32), f32(32, 3)),
    node("MUL_MAT_ID", f32(32, 2, 2), f32(32, 32, 4), f32(32, 1, 2), i32(2, 2)),
    node("GET_ROWS", f32(64, 2), f32(64, 3), i32(2)),
)
WHOLE = (64, 8, 2, 1)


def part(rows: int, offset: int, depth: int = 64, step: int = 68) -> GraphTensor:
    """Return rows of a tensor in blocks of 64 elements a row."""
    made = replace(q8_0(depth, rows), whole=WHOLE, offset=offset, address=ADDRESS + offset)
    return steps(made, 34, step, 8 * 68, 8 * 68)


def sized(item: int) -> dict[int | str, GraphTensor | int | float | None]:
    """Return the change of both tensors to elements of so many bytes."""
    made = steps(replace(q5_k(3), item=item), *(item or 1,) * 4)
    return {0: made, 1: made}


def again(rows: int) -> GraphTensor:
    """Return a row in blocks so often."""
    return replace(steps(q8_0(64, rows), 34, 0, 0, 0), whole=(64, 1, 1, 1))


ROWS_AGAIN = node("MUL_MAT", f32(3947580), again(3947580), f32(64))
"""Rows of fewer bytes than a region has by less than one."""

LIMITS = [
    Limit("a step of no whole elements", COPY, [
        {1: steps(f32(8, 3), 6, 32, 96, 96)}, {1: steps(f32(8, 3), 4, 34, 96, 96)},
        {1: steps(f32(8, 3), 4, 32, 95, 96)}, {0: steps(f32(8, 3), 4, 32, 96, 97)},
    ], [
        {1: steps(f32(8, 3), 8, 68, 4, 4)},
    ]),
    Limit("more elements than fit into memory", COPY, [
        {0: LONG, 1: LONG}, {1: replace(LONG, elements=(1 << 13, 1 << 13, 1, 1))},
    ], [
        {0: f32((1 << 26) - 1), 1: replace(LONG, elements=((1 << 26) - 1, 1, 1, 1))},
    ]),
    Limit("a tensor larger than memory", COPY, [
        {1: steps(f32(8, 3), 4, (MEMORY - 32) // 2, 4, 4)}, {0: steps(f32(8, 3), 4, 1 << 30, 4, 4)},
    ], [
        {1: steps(f32(8, 3), 4, (MEMORY - 32) // 2 - 4, 4, 4)},
    ]),
    Limit("a result whose elements share bytes", COPY, [
        {0: steps(f32(8, 3), 4, 28, 96, 96)}, {0: steps(f32(8, 3), 4, 4, 96, 96)},
    ], [
        {0: steps(f32(8, 3), 12, 4, 96, 96)}, {1: steps(f32(8, 3), 4, 28, 96, 96)},
    ]),
    Limit("a result whose elements share bytes", COPY, [
        {0: steps(f32(8, 3), 0, 32, 96, 96)}, {0: steps(f32(8, 3), 4, 0, 96, 96)},
        {0: steps(f32(8, 1, 3), 4, 32, 0, 96), 1: f32(8, 1, 3)},
        {0: steps(f32(8, 1, 1, 3), 4, 32, 32, 0), 1: f32(8, 1, 1, 3)},
    ], [
        {0: steps(f32(8, 3), 4, 32, 0, 0)}, {1: steps(f32(8, 3), 0, 0, 0, 0)},
    ]),
    Limit("the type other", COPY, [{1: replace(f32(8, 3), type="other")}]),
    Limit("the type f32", COPY, [{1: replace(f32(8, 3), item=4)}, {0: replace(f32(8, 3), item=4)}]),
    Limit("the type q8_0", BLOCKS, [{1: replace(q8_0(64, 3), item=34)}]),
    Limit("the type q5_K", MOVED, [
        sized(0), sized((1 << 16) + 1), sized((1 << 64) - 1),
    ], [
        sized(1), sized(1 << 16),
    ]),
    Limit("one type in two sizes", MOVED, [{1: replace(q5_k(3), item=88)}, {0: replace(q5_k(3), item=88)}]),
    Limit("a tensor in blocks", node("ADD", f32(64, 3), f32(64, 3), f32(64)), [
        {0: q8_0(64, 3)}, {1: q8_0(64, 3)}, {2: q8_0(64)},
    ]),
    *(
        Limit("a tensor in blocks", made, [{0: q8_0(*made.destination.elements)}])
        for made in NOT_INTO_BLOCKS
    ),
    Limit("a part of rows in blocks", BLOCKS, [
        {1: part(3, 34)}, {1: part(3, 0, depth=32)}, {1: part(3, 0, step=34)}, {1: part(3, 69)},
        {0: part(3, 34)}, {1: steps(q8_0(64, 1, 3), 34, 68, 34, 204), 0: q8_0(64, 3)},
        {1: steps(q8_0(64, 1, 1, 3), 34, 68, 68, 34), 0: q8_0(64, 3)}, {1: q8_0(48, 3), 0: q8_0(48, 3)},
        {1: replace(part(3, 0), whole=(80, 8, 2, 1))}, {1: part(3, 0, depth=128)},
    ], [
        {1: part(3, 68)}, {1: part(3, 0, step=136)}, {1: steps(q8_0(64, 3), 34, 68, 1, 1)},
    ]),
    Limit("more rows than fit into memory", ROWS_AGAIN, [{0: f32(3947581), 1: again(3947581)}]),
]  # fmt: skip
