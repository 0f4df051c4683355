"""Limits of PAD, IM2COL and POOL_2D."""

from tests.runtime.server.limits.limit import Limit, apart, bf16, f16, f32, gaps, i32
from tests.runtime.server.server_client import node

PAD = node("PAD", f32(10, 4), f32(8, 3), parameters={1: 2, 3: 1})
IMAGES = {0: 1, 1: 1, 4: 1, 5: 1, 6: 1}
IM2COL = node("IM2COL", f32(4, 3, 2), f32(2, 2), f32(4, 3), parameters=IMAGES)
LINES = node("IM2COL", f32(6, 3, 5), f32(2, 3), f32(4, 3, 5), parameters={0: 1, 4: 1})
TALL = node("IM2COL", f32(4096, 1, 905), f32(1, 4096), f32(1, 5000), parameters=IMAGES)
POOL = node("POOL_2D", f32(2, 2), f32(4, 4), parameters={1: 2, 2: 2, 3: 2, 4: 2})
WIDEST = node("POOL_2D", f32(1, 1), f32(64, 65), parameters={1: 64, 2: 64, 3: 1, 4: 1})

LIMITS = [
    Limit("a type that is not float32", PAD, [
        {0: f16(10, 4)}, {1: f16(8, 3)}, {0: f16(10, 4), 1: f16(8, 3)},
    ]),
    Limit("a border that repeats the tensor", PAD, [{"p8": 1}]),
    Limit("a negative border", PAD, [{"p0": -1, "p1": 3}, {"p2": 2, "p3": -1}, {1: f32(0, 3), "p1": 10}]),
    Limit("a result of another form", PAD, [
        {0: f32(10, 5)}, {0: f32(9, 4)}, {"p4": 1}, {"p7": 1}, {0: apart(f32(10, 4))},
    ], [
        {1: gaps(f32(8, 3))}, {"p0": 2, "p1": 0}, {"p5": 1, 0: f32(10, 4, 2)},
    ]),
    Limit("a type that is no float", IM2COL, [
        {0: i32(4, 3, 2)}, {2: i32(4, 3)},
    ], [
        {0: f16(4, 3, 2)}, {2: bf16(4, 3)}, {2: f16(4, 3)}, {0: bf16(4, 3, 2)},
    ]),
    Limit("a result with gaps", IM2COL, [{0: apart(f32(4, 3, 2))}, {1: f32(0, 2)}, {2: f32(4, 0)}]),
    Limit("such a window", IM2COL, [
        {"p0": 0}, {"p1": 0}, {"p0": -1}, {"p2": -1}, {"p3": -1}, {"p4": 0}, {"p5": 0}, {"p5": -1},
    ], [
        {"p0": 2, 0: f32(4, 2, 2)}, {"p2": 1, 0: f32(4, 5, 2)}, {"p3": 1, 0: f32(4, 3, 4)},
        {"p4": 2, 0: f32(4, 2, 2)},
    ]),
    Limit("more than rows", LINES, [{2: f32(4, 3, 5, 2)}]),
    Limit("a large window", TALL, [{0: f32(4097, 1, 904), 1: f32(1, 4097)}]),
    Limit("a result of another shape", IM2COL, [
        {0: f32(4, 2, 2)}, {0: f32(4, 3, 3)}, {0: f32(5, 3, 2)}, {0: f32(4, 3, 2, 2)},
    ], [
        {0: f32(4, 3, 2, 2), 2: f32(4, 3, 1, 2)},
    ]),
    Limit("a result of another shape", LINES, [{0: f32(6, 3, 4)}, {0: f32(6, 2, 5)}, {0: f32(6, 3, 5, 2)}]),
    Limit("another type", POOL, [{0: f16(2, 2)}, {1: bf16(4, 4)}, {1: i32(4, 4)}], [{1: f16(4, 4)}]),
    Limit("another kind of pooling", POOL, [{"p0": 2}, {"p0": -1}, {0: apart(f32(2, 2))}], [{"p0": 1}]),
    Limit("an empty image", POOL, [{1: f32(0, 4)}, {1: f32(4, 0)}]),
    Limit("such a window", POOL, [
        {"p1": 0}, {"p2": 0}, {"p2": -1}, {"p3": 0}, {"p4": 0}, {"p5": -1}, {"p6": -1},
    ], [
        {"p3": 1}, {"p5": 1},
    ]),
    Limit("a large window", WIDEST, [{"p2": 65}]),
    Limit("windows in the border", POOL, [
        {"p5": 2}, {"p6": 2}, {"p5": 3}, {0: f32(3, 2)}, {0: f32(2, 3)}, {"p6": 1, 0: f32(2, 4)},
    ], [
        {"p6": 1, 0: f32(2, 3)}, {"p5": 1, 0: f32(3, 2)}, {0: f32(1, 1)},
    ]),
    Limit("a result of another shape", POOL, [
        {0: f32(2, 2, 2)}, {0: f32(2, 2, 1, 2)}, {1: f32(4, 4, 3)},
    ], [
        {0: f32(2, 2, 3), 1: f32(4, 4, 3)},
    ]),
]  # fmt: skip
