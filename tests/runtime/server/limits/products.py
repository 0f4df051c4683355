"""Limits of products, and of products with the experts that a list picks."""

from dataclasses import replace

from tests.runtime.server.limits.limit import (
    Change,
    Limit,
    apart,
    bf16,
    changed,
    f16,
    f32,
    gaps,
    i8,
    i16,
    i32,
    i64,
    q4_0,
    q4_1,
    q8_0,
    steps,
)
from tests.runtime.server.server_client import node

PRODUCT = node("MUL_MAT", f32(3, 2, 4, 2), f32(8, 3, 2), f32(8, 2, 4, 2))
OUTER = node("OUT_PROD", f32(3, 2, 4, 2), f32(3, 5, 2), f32(2, 5, 4, 2))
EXPERTS = node("MUL_MAT_ID", f32(3, 2, 2), q8_0(32, 3, 4), f32(32, 1, 2), i32(2, 2))
BIAS = node("ADD_ID", f32(3, 2, 2), f32(3, 2, 2), f32(3, 4), i32(2, 2))
TOKENS = 1 << 14
MANY = node("MUL_MAT_ID", f32(3, 1, TOKENS), f32(8, 3, 4), f32(8, 1, TOKENS), i32(1, TOKENS))
LARGE = node("MUL_MAT_ID", f32(4096, 1, 2), f32(4096, 4096, 1), f32(4096, 1, 2), i32(1, 2))


def some_of(columns: int, experts: int, of: int) -> Change:
    """Return the change to so many of the columns of each expert."""
    weights = replace(q8_0(32, columns, experts), whole=(32, of, experts, 1))
    return {1: steps(weights, 34, 34, of * 34, of * experts * 34), 0: f32(columns, 2, 2)}


def turned(depth: int, columns: int, experts: int) -> Change:
    """Return the change to experts that are columns of a tensor, and have its matrices as theirs."""
    row = depth // 32 * 34
    weights = replace(q8_0(depth, columns, experts), whole=(depth, experts, columns, 1))
    weights = steps(weights, 34, experts * row, row, columns * experts * row)
    return {1: weights, 2: f32(depth, 1, 2), 0: f32(columns, 2, 2)}


LIMITS = [
    Limit("a product that is not float32", PRODUCT, [{0: f16(3, 2, 4, 2)}]),
    Limit("rows in", PRODUCT, [
        {2: i32(8, 2, 4, 2)}, {2: i8(8, 2, 4, 2)},
    ], [
        {2: f16(8, 2, 4, 2)}, {2: bf16(8, 2, 4, 2)},
    ]),
    Limit("weights in i32", PRODUCT, [{1: i32(8, 3, 2)}], [{1: f16(8, 3, 2)}, {1: bf16(8, 3, 2)}]),
    Limit("an empty operand", PRODUCT, [
        {1: f32(0, 3, 2), 2: f32(0, 2, 4, 2)}, {1: f32(8, 0, 2)}, {2: f32(8, 0)},
    ]),
    Limit("inner dimensions that differ", PRODUCT, [
        {1: f32(7, 3, 2)}, {2: f32(9, 2, 4, 2)}, {1: f32(9, 3, 2)},
    ]),
    Limit("a result of another shape", PRODUCT, [
        {0: f32(2, 3, 4, 2)}, {0: f32(3, 2, 2, 2)}, {0: f32(3, 2, 4)}, {0: f32(4, 2, 4, 2)},
    ]),
    Limit("outer dimensions that do not repeat", PRODUCT, [
        {1: f32(8, 3, 3)}, {1: f32(8, 3, 8)}, {1: f32(8, 3, 1, 3)},
    ], [
        {1: f32(8, 3)}, {1: f32(8, 3, 4, 2)},
    ]),
    Limit("a type that is not float32", OUTER, [
        {0: f16(3, 2, 4, 2)}, {1: f16(3, 5, 2)}, {2: f16(2, 5, 4, 2)},
        {0: f16(3, 2, 4, 2), 1: f16(3, 5, 2), 2: f16(2, 5, 4, 2)},
    ]),
    Limit("an empty operand", OUTER, [{1: f32(3, 0, 2), 2: f32(2, 0, 4, 2)}, {1: f32(3, 5, 0)}]),
    Limit("inner dimensions that differ", OUTER, [
        {1: f32(3, 4, 2)}, {2: f32(2, 6, 4, 2)}, {2: f32(2, 4, 4, 2)},
    ]),
    Limit("another shape", OUTER, [
        {0: f32(2, 3, 4, 2)}, {0: f32(3, 2, 2, 2)}, {0: f32(3, 2, 4)}, {0: f32(4, 2, 4, 2)},
    ]),
    Limit("outer dimensions that do not repeat", OUTER, [
        {1: f32(3, 5, 3)}, {1: f32(3, 5, 8)}, {1: f32(3, 5, 1, 3)},
    ], [
        {1: f32(3, 5)}, {1: f32(3, 5, 4, 2)},
    ]),
    Limit("a result with gaps", OUTER, [{0: gaps(f32(3, 2, 4, 2))}], [{0: apart(f32(3, 2, 4, 2))}]),
    Limit("an empty operand", EXPERTS, [{1: f32(32, 3, 0)}, {2: f32(32, 0, 2)}, {3: i32(0, 2)}]),
    Limit("another type", EXPERTS, [
        {0: f16(3, 2, 2)}, {2: i32(32, 1, 2)}, {3: i64(2, 2)}, {3: i16(2, 2)},
    ], [
        {2: f16(32, 1, 2)}, {2: bf16(32, 1, 2)},
    ]),
    Limit("weights in i32", EXPERTS, [
        {1: i32(32, 3, 4)},
    ], [
        {1: f16(32, 3, 4)}, {1: bf16(32, 3, 4)}, {1: q4_0(32, 3, 4)}, {1: q4_1(32, 3, 4)},
    ]),
    Limit("lists with gaps", EXPERTS, [
        {1: q8_0(32, 3, 4, 2)}, {3: i32(2, 2, 2)}, {3: i32(2, 2, 1, 2)}, {3: gaps(i32(2, 2))},
    ], [
        {3: apart(i32(2, 2))},
    ]),
    Limit("rows of another shape", EXPERTS, [
        {2: f32(64, 1, 2)}, {2: f32(32, 3, 2)}, {2: f32(32, 1, 3)}, {2: f32(32, 1, 2, 2)},
        {2: gaps(f32(32, 1, 2))}, {2: f32(16, 1, 2)}, {2: f32(32)},
    ], [
        {2: f32(32, 2, 2)}, {2: apart(f32(32, 1, 2))},
    ]),
    Limit("a result of another shape", EXPERTS, [
        {0: f32(4, 2, 2)}, {0: f32(3, 1, 2)}, {0: f32(3, 2, 3)}, {0: f32(3, 2, 2, 2)},
        {0: gaps(f32(3, 2, 2))},
    ], [
        {0: apart(f32(3, 2, 2))},
    ]),
    Limit("many tokens", MANY, [{0: f32(3, 1, TOKENS + 1), 2: f32(8, 1, TOKENS + 1), 3: i32(1, TOKENS + 1)}]),
    Limit("many large experts", LARGE, [
        {0: f32(4096, 2, 2), 3: i32(2, 2)},
    ], [
        {0: f32(4095, 2, 2), 1: f32(4096, 4095, 1), 3: i32(2, 2)},
    ]),
    Limit("many rows of parts of experts", changed(EXPERTS, some_of(128, 128, 129)), [
        some_of(129, 128, 130), turned(32, 129, 128),
    ], [
        {1: q8_0(32, 129, 128), 0: f32(129, 2, 2)}, turned(32, 128, 128),
    ]),
    Limit("large parts of experts", EXPERTS, [turned(1 << 16, 16, 121)], [turned(1 << 16, 16, 120)]),
    Limit("a type that is not float32", BIAS, [
        {0: f16(3, 2, 2)}, {1: f16(3, 2, 2)}, {2: f16(3, 4)},
        {0: f16(3, 2, 2), 1: f16(3, 2, 2), 2: f16(3, 4)},
    ]),
    Limit("another type or shape", BIAS, [{3: i64(2, 2)}, {0: f32(3, 2, 3)}, {0: f32(3, 2)}]),
    Limit("a table with gaps", BIAS, [{2: f32(3, 0)}, {2: gaps(f32(3, 4))}, {2: apart(f32(3, 4))}]),
    Limit("another table", BIAS, [
        {2: f32(4, 4)}, {2: f32(3, 4, 2)}, {2: f32(3, 4, 1, 2)}, {2: f32(2, 4)},
    ], [
        {2: f32(3, 1)},
    ]),
    Limit("more than tokens", BIAS, [{0: f32(3, 2, 2, 2), 1: f32(3, 2, 2, 2)}]),
    Limit("lists of another shape", BIAS, [
        {3: i32(2, 3)}, {3: i32(3, 2)}, {3: i32(2, 2, 2)}, {3: gaps(i32(2, 2))}, {3: i32(1, 2)},
    ], [
        {3: apart(i32(2, 2))},
    ]),
]  # fmt: skip
