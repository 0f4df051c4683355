"""Limits of FLASH_ATTN_EXT."""

from tests.runtime.server.limits.limit import Limit, apart, bf16, f16, f32, gaps, i32
from tests.runtime.server.server_client import node

ATTENTION = node(
    "FLASH_ATTN_EXT", f32(4, 6, 3), f32(8, 3, 6), f32(8, 5, 2), f32(4, 5, 2), f32(5, 3), f32(6),
    parameters={0: 1.0},
)  # fmt: skip
ONE = node("FLASH_ATTN_EXT", f32(1, 1), f32(1, 1), f32(1, (1 << 24) - 1), f32(1, (1 << 24) - 1))

LIMITS = [
    Limit("queries or a result that are not float32", ATTENTION, [
        {0: f16(4, 6, 3)}, {1: f16(8, 3, 6)}, {0: f16(4, 6, 3), 1: f16(8, 3, 6)},
    ]),
    Limit("keys and values of other types", ATTENTION, [
        {2: f16(8, 5, 2)}, {3: bf16(4, 5, 2)}, {2: i32(8, 5, 2), 3: i32(4, 5, 2)},
    ], [
        {2: f16(8, 5, 2), 3: f16(4, 5, 2)}, {2: bf16(8, 5, 2), 3: bf16(4, 5, 2)},
    ]),
    Limit("rows with gaps", ATTENTION, [
        {0: gaps(f32(4, 6, 3))}, {1: gaps(f32(8, 3, 6))}, {2: gaps(f32(8, 5, 2))}, {3: gaps(f32(4, 5, 2))},
    ], [
        {0: apart(f32(4, 6, 3))}, {1: apart(f32(8, 3, 6))}, {2: apart(f32(8, 5, 2))},
        {3: apart(f32(4, 5, 2))},
    ]),
    Limit("keys of another shape", ATTENTION, [{2: f32(7, 5, 2)}, {2: f32(8, 5, 2, 2)}]),
    Limit("values of another shape", ATTENTION, [
        {3: f32(4, 4, 2)}, {3: f32(4, 5, 3)}, {3: f32(4, 5, 2, 2)}, {3: f32(0, 5, 2)},
    ]),
    Limit("scores of one token", ONE, [{2: f32(1, 1 << 24), 3: f32(1, 1 << 24)}]),
    Limit("heads that do not share", ATTENTION, [
        {2: f32(8, 5, 4), 3: f32(4, 5, 4)}, {2: f32(8, 5, 12), 3: f32(4, 5, 12)},
        {2: f32(8, 0, 2), 3: f32(4, 0, 2)}, {2: f32(8, 5, 0), 3: f32(4, 5, 0)},
    ], [
        {2: f32(8, 5, 6), 3: f32(4, 5, 6)}, {2: f32(8, 5), 3: f32(4, 5)},
    ]),
    Limit("a result of another shape", ATTENTION, [
        {0: f32(8, 6, 3)}, {0: f32(4, 3, 6)}, {0: f32(4, 6, 3, 2)},
    ]),
    Limit("an empty mask, or one in", ATTENTION, [{4: i32(5, 3)}], [{4: f16(5, 3)}, {4: None}]),
    Limit("a mask of another shape", ATTENTION, [
        {4: f32(4, 3)}, {4: f32(5, 2)}, {4: f32(8, 3)},
    ], [
        {4: f32(5, 64)},
    ]),
    Limit("a mask that does not repeat", ATTENTION, [
        {4: f32(5, 3, 4)}, {4: f32(5, 3, 1, 2)},
    ], [
        {4: f32(5, 3, 6)}, {4: f32(5, 3, 2)},
    ]),
    Limit("sinks of another form", ATTENTION, [{5: f32(5)}, {5: f32(2)}, {5: f16(6)}], [{5: None}]),
]  # fmt: skip
