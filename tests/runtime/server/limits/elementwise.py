"""Limits of sums, products and functions of elements."""

from dataclasses import replace

from tests.runtime.server.limits.limit import Limit, bf16, f16, f32, gaps, i8, i32, i64
from tests.runtime.server.server_client import node

SUM = node("ADD", f32(8, 3), f32(8, 3), f32(8))
SQUARE = node("SQR", f32(8, 3), f32(8, 3))
GATED = node("SWIGLU", f32(8, 3), f32(8, 3), f32(8, 3))
HALVES = node("SWIGLU", f32(4, 3), f32(8, 3))

LIMITS = [
    *(
        limit
        for op in ("ADD", "SUB", "MUL", "DIV")
        for limit in (
            Limit("a type that is no float", replace(SUM, op=op), [
                {0: i32(8, 3)}, {1: i32(8, 3)}, {2: i32(8)}, {2: i8(8)},
            ], [{0: f16(8, 3)}, {1: bf16(8, 3)}, {2: f16(8)}, {0: bf16(8, 3)}, {1: f16(8, 3)}]),
            Limit("a result of another shape", replace(SUM, op=op), [
                {0: f32(8, 4)}, {0: f32(16, 3)}, {0: f32(8, 3, 2)},
            ]),
            Limit("a second operand that does not repeat", replace(SUM, op=op), [
                {2: f32(3)}, {2: f32(16)}, {2: f32(8, 2)}, {2: f32(8, 0)}, {2: f32(8, 3, 2)},
            ], [{2: f32(4)}, {2: f32(1, 3)}, {2: f32(1)}, {2: f32(8, 3)}]),
        )
    ),
    *(
        limit
        for op in ("SQR", "SCALE", "CLAMP", "LEAKY_RELU", "TANH")
        for limit in (
            Limit("a type that is no float", replace(SQUARE, op=op), [
                {0: i32(8, 3)}, {1: i32(8, 3)}, {1: i64(8, 3)},
            ], [{0: f16(8, 3)}, {1: bf16(8, 3)}, {1: f16(8, 3)}, {1: gaps(f32(8, 3))}]),
            Limit("a result of another shape", replace(SQUARE, op=op), [{0: f32(8, 2)}, {1: f32(4, 3)}]),
        )
    ),
    *(
        limit
        for op in ("REGLU", "GEGLU", "SWIGLU", "GEGLU_ERF", "GEGLU_QUICK", "SWIGLU_OAI")
        for limit in (
            Limit("a type that is no float", replace(GATED, op=op), [
                {0: i32(8, 3)}, {1: i32(8, 3)}, {2: i32(8, 3)},
            ], [{0: f16(8, 3)}, {1: bf16(8, 3)}, {2: f16(8, 3)}]),
            Limit("operands of different shapes", replace(GATED, op=op), [
                {0: f32(8, 2)}, {1: f32(8, 2)}, {2: f32(8, 2)}, {2: f32(8)},
            ]),
            Limit("rows of no two halves", replace(HALVES, op=op), [
                {0: f32(8, 3)}, {1: f32(4, 3)}, {1: f32(10, 3)}, {1: f32(7, 3)}, {0: f32(4, 2)},
            ], [{1: f32(9, 3)}]),
        )
    ),
]  # fmt: skip
