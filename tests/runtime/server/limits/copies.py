"""Limits of copies, and of rows by their numbers."""

from dataclasses import replace

from tests.runtime.server.limits.limit import (
    Limit,
    apart,
    bf16,
    changed,
    computed,
    f16,
    f32,
    gaps,
    i8,
    i16,
    i32,
    i64,
    q4_0,
    q4_1,
    q5_k,
    q8_0,
    steps,
)
from tests.runtime.server.server_client import node

BLOCK_ROWS = 1 << 14
BATCHES = 1 << 17
GATHERED_ROWS = 3 << 16
MOST_ROWS = 1 << 20
COPY = node("CPY", f32(8, 3), f32(8, 3))
QUANTISED = node("CPY", q8_0(64, 6), f32(64, 6))
JOINED = node("CONCAT", f32(8, 5), f32(8, 3), f32(8, 2), parameters={0: 1})
JOINED_BLOCKS = node("CONCAT", q8_0(64, 5), q8_0(64, 3), q8_0(64, 2), parameters={0: 1})
ALONG = {"p0": 0, 0: q8_0(128, 3), 2: q8_0(64, 3)}
PICKED = node("GET_ROWS", f32(8, 2, 2), f32(8, 5, 2), i32(2, 2))
PICKED_BLOCKS = node("GET_ROWS", f32(64, 2), q8_0(64, 5), i32(2))
SCATTERED = node("SET_ROWS", f16(32, 3), f32(32, 2), i64(2), f16(32, 3))
SCATTERED_BLOCKS = node("SET_ROWS", q8_0(64, 3), f32(64, 2), i32(2), q8_0(64, 3))
LISTS = node("SET_ROWS", f32(4, 6, 4, 6), f32(4, 2, 4, 6), i64(2, 2, 3), f32(4, 6, 4, 6))
MATRICES = node("SET_ROWS", f16(1, 1, BATCHES), f32(1, 1, BATCHES), i64(1), f16(1, 1, BATCHES))
MANY_ROWS = node("SET_ROWS", f16(1, 3), f32(1, MOST_ROWS), i64(MOST_ROWS), f16(1, 3))
UNPACKED = node("CPY", f32(256, 6), q5_k(1, 6))
PICKED_UNPACKED = node("GET_ROWS", f32(256, 2), q5_k(1, 5), i32(2))
SCATTERED_PACKED = node("SET_ROWS", q5_k(1, 3), f32(256, 2), i32(2), q5_k(1, 3))
EVERY = (f32, f16, bf16, i8, i16, i32, i64)
CONVERTED = (f32, f16, bf16, i32)

LIMITS = [
    *(
        Limit(" to ", node(op, f32(8, 3), f32(8, 3)), [
            {0: to(8, 3), 1: made(8, 3)}
            for made in EVERY for to in EVERY
            if made is not to and not (made in CONVERTED and to in CONVERTED)
        ], [
            *({0: to(8, 3), 1: made(8, 3)} for made in CONVERTED for to in CONVERTED),
            *({0: to(8, 3), 1: to(8, 3)} for to in EVERY),
        ])
        for op in ("CPY", "CONT", "DUP")
    ),
    Limit("other numbers of elements", COPY, [
        {0: f32(8, 2)}, {0: f32(8, 3, 2)},
    ], [
        {0: f32(3, 8)}, {0: f32(2, 3, 2, 2)},
    ]),
    Limit("other blocks", QUANTISED, [
        {1: q4_0(64, 6)}, {1: i32(64, 6)}, {0: q4_0(64, 6), 1: q8_0(64, 6)},
    ], [
        {1: f16(64, 6)}, {1: bf16(64, 6)}, {1: q8_0(64, 6)}, {0: f16(64, 6), 1: q4_1(64, 6)},
    ]),
    Limit("rows of another length", QUANTISED, [
        {1: f32(32, 12)}, {1: q8_0(32, 12)}, {0: f32(128, 3), 1: q8_0(64, 6)}, {0: q8_0(32, 6)},
    ]),
    Limit("many rows, or other numbers of them", QUANTISED, [
        {1: f32(64, 5)}, {1: f32(64, 7)}, {1: q8_0(64, 5)},
        {0: q8_0(32, BLOCK_ROWS + 1), 1: f32(32, BLOCK_ROWS + 1)},
    ], [
        {0: q8_0(32, BLOCK_ROWS), 1: f32(32, BLOCK_ROWS)}, {1: f32(64, 2, 3)},
    ]),
    Limit("floats with gaps", QUANTISED, [
        {1: apart(f32(64, 2, 3))}, {0: apart(f32(64, 3, 2)), 1: q8_0(64, 6)},
    ], [
        {1: apart(f32(64, 6))}, {1: gaps(f32(64, 6))},
        {0: q8_0(64, 2, 3), 1: replace(apart(q8_0(64, 6)), whole=(64, 12, 1, 1))},
    ]),
    Limit("types that differ", JOINED, [
        {0: f16(8, 5)}, {1: f16(8, 3)}, {2: f16(8, 2)}, {0: i32(8, 5)}, {1: i32(8, 3)}, {2: i32(8, 2)},
    ]),
    Limit("the dimension", JOINED, [
        {"p0": 4}, {"p0": -1}, {1: f32(8, 0), 0: f32(8, 2)}, {2: f32(8, 0), 0: f32(8, 3)},
    ]),
    Limit("a result of another shape", JOINED, [
        {0: f32(8, 4)}, {0: f32(8, 6)}, {"p0": 0},
    ], [
        {"p0": 3, 0: f32(8, 1, 1, 5), 1: f32(8, 1, 1, 3), 2: f32(8, 1, 1, 2)},
    ]),
    Limit("shapes that differ", JOINED, [{2: f32(7, 2)}, {2: f32(8, 2, 2)}]),
    Limit("many rows in blocks", JOINED_BLOCKS, [
        {0: q8_0(64, BLOCK_ROWS + 1), 1: q8_0(64, BLOCK_ROWS - 1)},
    ], [
        {0: q8_0(64, BLOCK_ROWS), 1: q8_0(64, BLOCK_ROWS - 2)},
    ]),
    Limit("blocks that begin inside a tile", changed(JOINED_BLOCKS, ALONG), [
        {0: q8_0(96, 3), 1: q8_0(32, 3)}, {0: q8_0(160, 3), 1: q8_0(96, 3)},
    ], [
        {0: q8_0(96, 3), 2: q8_0(32, 3)}, {0: q8_0(192, 3), 1: q8_0(128, 3)},
    ]),
    Limit("types that differ", node("REPEAT", f32(8, 6), f32(4, 3)), [{1: f16(4, 3)}, {0: f16(8, 6)}]),
    Limit("a shape that does not repeat", node("REPEAT", f32(8, 6), f32(4, 3)), [
        {1: f32(3, 3)}, {1: f32(4, 4)}, {1: f32(16, 3)}, {1: f32(4, 0)}, {1: f32(4, 3, 2)},
    ], [
        {1: f32(8, 6)}, {1: f32(1)},
    ]),
    Limit("a result with gaps", node("FILL", f32(8, 3), f32(8, 3)), [
        {0: f16(8, 3)}, {0: i32(8, 3)}, {0: apart(f32(8, 3))},
    ]),
    Limit("numbers that the graph computes, for a table in blocks", PICKED_BLOCKS, [{2: computed(i32(2))}]),
    Limit("rows of blocks as another type", PICKED_BLOCKS, [{0: f16(64, 2)}, {0: i32(64, 2)}]),
    Limit("many rows in blocks", PICKED_BLOCKS, [
        {0: f32(64, GATHERED_ROWS + 1), 2: i32(GATHERED_ROWS + 1)},
    ], [
        {0: f32(64, GATHERED_ROWS), 2: i32(GATHERED_ROWS)},
    ]),
    Limit("other numbers of elements", UNPACKED, [
        {0: f32(255, 6)}, {0: f32(256, 7)}, {1: q5_k(2, 6)}, {0: q5_k(1, 6), 1: f32(256, 7)},
    ], [
        {0: f32(6, 256)}, {0: f16(256, 2, 3)}, {1: q5_k(2, 3)}, {1: apart(q5_k(1, 6))},
        {0: q5_k(6), 1: bf16(256, 6)}, {0: apart(q5_k(2, 3)), 1: f32(256, 6)}, {0: gaps(f32(256, 6))},
    ]),
    Limit("q5_K and ", UNPACKED, [{0: i32(256, 6)}, {0: i64(256, 6)}, {0: q5_k(1, 6), 1: i32(256, 6)}]),
    Limit("more elements than fit", UNPACKED, [
        {0: f16(256, 1 << 18), 1: q5_k(1 << 18)},
    ], [
        {0: f16(256, (1 << 18) - 1), 1: q5_k((1 << 18) - 1)},
    ]),
    Limit("a result of another shape", PICKED_UNPACKED, [
        {0: f32(1, 2)}, {0: f32(512, 2)}, {1: q5_k(2, 5)}, {0: f32(256, 3)},
    ], [
        {0: f32(512, 2), 1: q5_k(2, 5)}, {2: computed(i32(2))}, {1: apart(q5_k(1, 5))},
    ]),
    Limit("more elements than fit", PICKED_UNPACKED, [
        {0: f16(256, 1 << 18), 2: i32(1 << 18)},
    ], [
        {0: f16(256, (1 << 18) - 1), 2: i32((1 << 18) - 1)}, {1: q5_k(1, 1 << 20)},
    ]),
    Limit("more elements than fit", SCATTERED_PACKED, [
        {1: f16(256, 1 << 18), 2: i32(1 << 18)},
    ], [
        {1: f16(256, (1 << 18) - 1), 2: i32((1 << 18) - 1)}, {0: q5_k(1, 1 << 20)},
    ]),
    Limit("q5_K and f64", PICKED_UNPACKED, [
        {0: steps(replace(q5_k(256, 2), type="f64"), 176, 176 * 256, 176 * 512, 176 * 512)},
    ]),
    Limit("rows of another length", SCATTERED_PACKED, [
        {1: f32(1, 2)}, {1: f32(512, 2)}, {0: q5_k(2, 3)},
    ], [
        {1: f32(512, 2), 0: q5_k(2, 3)}, {1: f16(256, 2)}, {2: computed(i32(2))}, {0: apart(q5_k(1, 3))},
    ]),
    Limit("rows of blocks with gaps", SCATTERED_PACKED, [{0: gaps(q5_k(2, 3)), 1: f32(512, 2)}]),
    Limit("a table in", PICKED, [
        {0: f32(8, 2, 2), 1: i64(8, 5, 2)}, {0: i16(8, 2, 2)},
    ], [
        {0: i64(8, 2, 2), 1: i64(8, 5, 2)}, {1: f16(8, 5, 2)}, {0: bf16(8, 2, 2)}, {2: computed(i32(2, 2))},
    ]),
    Limit("numbers in", PICKED, [{2: i64(2, 2)}, {2: i16(2, 2)}, {2: f32(2, 2)}]),
    Limit("an empty table", PICKED, [{1: f32(8, 0, 2)}]),
    Limit("lists of another shape", PICKED, [
        {2: i32(2)}, {2: i32(2, 2, 2)}, {2: i32(2, 2, 1, 2)}, {1: f32(8, 5)},
    ]),
    Limit("a result of another shape", PICKED, [
        {0: f32(8, 3, 2)}, {0: f32(7, 2, 2)}, {0: f32(8, 2)}, {0: f32(8, 2, 2, 2)},
    ]),
    Limit("many tables", PICKED, [
        {0: f32(1, 1, BATCHES + 1), 1: f32(1, 1, BATCHES + 1), 2: i32(1, BATCHES + 1)},
    ], [
        {0: f32(1, 1, BATCHES), 1: f32(1, 1, BATCHES), 2: i32(1, BATCHES)},
    ]),
    Limit("a result with gaps", PICKED, [{0: gaps(f32(8, 2, 2))}, {0: apart(f32(8, 2, 2))}]),
    Limit("tables or lists with gaps", PICKED, [
        {1: gaps(f32(8, 5, 2))}, {2: gaps(i32(2, 2))},
    ], [
        {1: apart(f32(8, 5, 2))}, {2: apart(i32(2, 2))},
    ]),
    Limit("tables or lists with gaps", PICKED_BLOCKS, [{2: gaps(i32(2))}]),
    Limit(" to ", SCATTERED, [
        {1: i32(32, 2)}, {0: i32(32, 3)}, {0: i64(32, 3)}, {1: i8(32, 2)},
    ], [
        {1: f16(32, 2)}, {1: bf16(32, 2)}, {0: f32(32, 3)}, {0: bf16(32, 3)},
    ]),
    Limit(" to ", SCATTERED_BLOCKS, [{1: i32(64, 2)}], [{1: f16(64, 2)}]),
    Limit("many rows in blocks", SCATTERED_BLOCKS, [
        {1: f32(64, BLOCK_ROWS + 1), 2: i32(BLOCK_ROWS + 1)},
    ], [
        {1: f32(64, BLOCK_ROWS), 2: i32(BLOCK_ROWS)},
    ]),
    Limit("numbers in", SCATTERED, [{2: i16(2)}, {2: f32(2)}], [{2: i32(2)}]),
    Limit("numbers that the graph computes", SCATTERED_BLOCKS, [{2: computed(i32(2))}]),
    Limit("numbers that the graph computes", changed(SCATTERED, {2: computed(i64(2))}), [
        {0: gaps(f16(32, 3))},
    ], [
        {0: apart(f16(32, 3))}, {0: gaps(f16(32, 3)), 2: i64(2)}, {0: steps(f16(32, 1), 2, 2, 64, 64)},
        {0: gaps(f16(1, 3)), 1: f32(1, 2)}, {2: computed(i32(2))},
    ]),
    Limit("rows of another length", SCATTERED, [{1: f32(31, 2)}, {0: f16(33, 3)}, {1: f32(33, 2)}]),
    Limit("matrices of another number", SCATTERED, [{1: f32(32, 2, 2)}, {0: f16(32, 3, 1, 2)}]),
    Limit("no lists", LISTS, [{2: i64(2, 0, 3)}, {2: i64(2, 2, 0)}]),
    Limit("lists that do not fit", LISTS, [
        {2: i64(2, 3, 3)}, {2: i64(2, 2, 4)}, {2: i64(2, 8, 3)}, {2: i64(1, 2, 3)}, {2: i64(3, 2, 3)},
        {2: i64(2, 2, 3, 2)},
    ], [
        {2: i64(2, 4, 6)}, {2: i64(2)},
    ]),
    Limit("many matrices", MATRICES, [{0: f16(1, 1, BATCHES + 1), 1: f32(1, 1, BATCHES + 1)}]),
    Limit("many rows", MANY_ROWS, [{1: f32(1, MOST_ROWS + 1), 2: i64(MOST_ROWS + 1)}]),
]  # fmt: skip
