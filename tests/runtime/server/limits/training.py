"""Limits of losses, gradients and the step of an optimizer."""

from tests.runtime.server.limits.limit import Limit, f16, f32, gaps, steps
from tests.runtime.server.server_client import node

SAME = f32(8, 3)
LOSS = node("CROSS_ENTROPY_LOSS", f32(1), SAME, SAME)
BACK = node("CROSS_ENTROPY_LOSS_BACK", SAME, f32(1), SAME, SAME)
ADAMW = node("OPT_STEP_ADAMW", *[SAME] * 5, f32(7))
PAIRS = [node(op, SAME, SAME, SAME) for op in ("SILU_BACK", "SOFT_MAX_BACK", "RMS_NORM_BACK")]

LIMITS = [
    *(
        limit
        for made in PAIRS
        for limit in (
            Limit("a type that is not float32", made, [{0: f16(8, 3)}, {1: f16(8, 3)}, {2: f16(8, 3)}]),
            Limit("an empty operand", made, [{1: f32(8, 0)}, {2: f32(8, 0)}]),
            Limit("operands of different shapes", made, [{0: f32(8, 2)}, {1: f32(8, 2)}, {2: f32(8, 2)}]),
        )
    ),
    Limit("ALiBi", PAIRS[1], [{"p1": 8.0}, {"p1": -8.0}], [{"p0": 0.5}]),
    Limit("a type that is not float32", LOSS, [{0: f16(1)}, {1: f16(8, 3)}, {2: f16(8, 3)}]),
    Limit("an empty operand", LOSS, [{1: f32(8, 0), 2: f32(8, 0)}]),
    Limit("operands of different shapes", LOSS, [{1: f32(8, 2)}, {2: f32(8, 2)}]),
    Limit("a result of another shape", LOSS, [{0: f32(2)}, {0: f32(1, 3)}]),
    Limit("a type that is not float32", BACK, [{0: f16(8, 3)}, {1: f16(1)}, {2: f16(8, 3)}, {3: f16(8, 3)}]),
    Limit("operands of different shapes", BACK, [{0: f32(8, 2)}, {2: f32(8, 2)}, {3: f32(8, 2)}]),
    Limit("a gradient of another shape", BACK, [{1: f32(2)}, {1: f32(1, 3)}]),
    Limit("a type that is not float32", ADAMW, [{index: f16(8, 3)} for index in range(5)]),
    Limit("operands of different shapes", ADAMW, [{index: f32(8, 2)} for index in range(5)]),
    Limit("numbers of another shape", ADAMW, [
        {5: f32(6)}, {5: f32(8)}, {5: f32(7, 2)}, {5: gaps(f32(7))}, {5: steps(f32(7), 0, 28, 28, 28)},
    ]),
]  # fmt: skip
