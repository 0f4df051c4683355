"""Limits of norms, softmax and reductions."""

from dataclasses import replace

from tests.runtime.server.limits.limit import Limit, apart, bf16, f16, f32, gaps, i32, i64, steps
from tests.runtime.server.server_client import node

NORM = node("RMS_NORM", f32(8, 3), f32(8, 3))
GROUPS = node("GROUP_NORM", f32(8, 3, 4, 2), f32(8, 3, 4, 2), parameters={0: 2, 1: 1e-5})
SOFTMAX = node("SOFT_MAX", f32(8, 3, 4, 2), f32(8, 3, 4, 2), f32(8, 3), f32(4), parameters={0: 1.0})
ROW_SUM = node("SUM_ROWS", f32(1, 3), f32(8, 3))
TOTAL = node("SUM", f32(1), f32(8, 3))
ARGMAX = node("ARGMAX", i32(3), f32(8, 3))

LIMITS = [
    *(
        limit
        for op in ("RMS_NORM", "NORM", "L2_NORM")
        for limit in (
            Limit("a norm of other types", replace(NORM, op=op), [
                {0: f16(8, 3)}, {1: f16(8, 3)}, {0: f16(8, 3), 1: f16(8, 3)},
            ]),
            Limit("a result of another shape", replace(NORM, op=op), [
                {0: f32(8, 2)},
            ], [
                {1: gaps(f32(8, 3))},
            ]),
        )
    ),
    Limit("a norm of other types", GROUPS, [{1: f16(8, 3, 4, 2)}]),
    Limit("images with gaps", GROUPS, [
        {0: apart(f32(8, 3, 4, 2))}, {1: apart(f32(8, 3, 4, 2))}, {1: gaps(f32(8, 3, 4, 2))},
    ]),
    Limit("groups of different sizes", GROUPS, [
        {"p0": 0}, {"p0": -1}, {"p0": 3}, {"p0": 8},
    ], [
        {"p0": 1}, {"p0": 4},
    ]),
    Limit("a softmax of other types", SOFTMAX, [
        {0: f16(8, 3, 4, 2)}, {1: f16(8, 3, 4, 2)}, {0: f16(8, 3, 4, 2), 1: f16(8, 3, 4, 2)},
    ]),
    Limit("a result of another shape", SOFTMAX, [{0: f32(8, 3, 4)}, {1: f32(8, 3, 2, 2)}]),
    Limit("an empty mask, or one in", SOFTMAX, [
        {2: i32(8, 3)}, {2: f32(8, 3, 0)}, {2: f32(8, 3, 1, 0)},
    ], [
        {2: f16(8, 3)}, {2: bf16(8, 3)}, {2: None},
    ]),
    Limit("a mask of another shape", SOFTMAX, [
        {2: f32(7, 3)}, {2: f32(9, 3)}, {2: f32(8, 2)},
    ], [
        {2: f32(8, 4)},
    ]),
    Limit("a mask that does not repeat", SOFTMAX, [
        {2: f32(8, 3, 3)}, {2: f32(8, 3, 8)}, {2: f32(8, 3, 1, 3)}, {2: f32(8, 3, 1, 4)},
    ], [
        {2: f32(8, 3, 2)}, {2: f32(8, 3, 4, 2)},
    ]),
    Limit("sinks of another form", SOFTMAX, [
        {3: f16(4)}, {3: f32(3)}, {3: f32(5)}, {3: f32(1, 4)}, {3: f32(4, 2)},
    ], [
        {3: None}, {3: gaps(f32(4))},
    ]),
    *(
        limit
        for op in ("SUM_ROWS", "MEAN")
        for limit in (
            Limit("a sum of other types", replace(ROW_SUM, op=op), [
                {0: f16(1, 3)}, {1: f16(8, 3)}, {0: f16(1, 3), 1: f16(8, 3)},
            ]),
            Limit("a sum of nothing", replace(ROW_SUM, op=op), [{1: f32(0, 3)}]),
            Limit("a result of another shape", replace(ROW_SUM, op=op), [
                {0: f32(1, 2)}, {0: f32(8, 3)},
            ], [
                {1: gaps(f32(8, 3))},
            ]),
        )
    ),
    Limit("a sum of other types", TOTAL, [{0: f16(1)}, {1: f16(8, 3)}, {0: f16(1), 1: f16(8, 3)}]),
    Limit("a sum of nothing", TOTAL, [{1: f32(8, 0)}]),
    Limit("rows with gaps", TOTAL, [
        {1: gaps(f32(8, 3))}, {1: steps(f32(8, 3), 0, 32, 96, 96)},
    ], [
        {1: apart(f32(8, 3))}, {1: gaps(f32(1, 3))},
    ]),
    Limit("a result of another shape", TOTAL, [{0: f32(1, 3)}, {0: f32(8)}]),
    Limit("an argmax of other types", ARGMAX, [{0: i64(3)}, {0: f32(3)}, {1: f16(8, 3)}]),
    Limit("rows with gaps", ARGMAX, [{1: gaps(f32(8, 3))}, {1: f32(0, 3)}], [{1: apart(f32(8, 3))}]),
    Limit("more than a matrix", ARGMAX, [{1: f32(8, 3, 2)}, {1: f32(8, 3, 1, 2)}, {0: gaps(i32(3))}]),
    Limit("a result of another shape", ARGMAX, [{0: i32(2)}, {0: i32(4)}, {0: i32(1, 3)}]),
]  # fmt: skip
