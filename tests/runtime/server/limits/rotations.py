"""Limits of ROPE."""

from dataclasses import replace

from tests.runtime.server.limits.limit import Limit, bf16, changed, computed, f16, f32, gaps, i32, i64, steps
from tests.runtime.server.server_client import node

ROTATED = f32(8, 3, 2)
TURN = {1: 8, 2: 2, 5: 10000.0, 6: 1.0, 8: 1.0}
ROPE = node("ROPE", ROTATED, ROTATED, i32(2), f32(4), parameters=TURN)
SECTIONS = changed(ROPE, {2: i32(8), "p2": 8, "p11": 2, "p12": 2})
YARN = changed(ROPE, {"p4": 4096, "p7": 1.0, "p9": 32.0, "p10": 1.0})
WIDE = node("ROPE", f32(20000), f32(20000), i32(1), parameters=TURN | {1: 16384})

LIMITS = [
    *(
        limit
        for op in ("ROPE", "ROPE_BACK")
        for limit in (
            Limit("a type that is no float", replace(ROPE, op=op), [
                {0: i32(8, 3, 2)}, {1: i32(8, 3, 2)},
            ], [
                {0: f16(8, 3, 2)}, {1: bf16(8, 3, 2)},
            ]),
            Limit("positions that the graph computes", replace(ROPE, op=op), [{2: computed(i32(2))}]),
        )
    ),
    Limit("a result of another shape", ROPE, [{0: f32(8, 2, 2)}]),
    Limit("positions that are not dense int32", ROPE, [
        {2: i64(2)}, {2: f32(2)}, {2: gaps(i32(2))}, {2: steps(i32(2), 0, 8, 8, 8)},
    ]),
    Limit("the mode", ROPE, [{"p2": mode} for mode in (1, 3, 4, 16, -1)], [{"p2": 0}]),
    Limit("the mode", SECTIONS, [
        {"p2": mode} for mode in (9, 41, 32, 56)
    ], [
        {"p2": 40}, {"p2": 24, "p1": 4},
    ]),
    Limit("positions of another shape", ROPE, [{2: i32(1)}, {2: i32(3)}, {2: i32(8)}, {2: i32(2, 2)}]),
    Limit("positions of another shape", SECTIONS, [{2: i32(2)}, {2: i32(7)}, {2: i32(2, 4)}]),
    Limit("no sections", SECTIONS, [
        {"p11": 0, "p12": 0}, {"p13": -1}, {"p14": -1}, {"p11": -1},
    ], [
        {"p11": 0, "p12": 0, "p14": 1},
    ]),
    Limit("rotated dimensions", ROPE, [
        {"p1": 0}, {"p1": -2}, {"p1": 7}, {"p15": -1, "p1": 6}, {"p1": 10}, {"p15": 1}, {"p1": 6, "p15": 3},
    ], [
        {"p1": 6}, {"p1": 2}, {"p1": 6, "p15": 2},
    ]),
    Limit("rotated dimensions", SECTIONS, [{"p2": 24}, {"p2": 24, "p1": 4, "p15": 1}], [{"p2": 24, "p1": 4}]),
    Limit("16386 rotated dimensions", WIDE, [{"p1": 16386}]),
    Limit("a base or a scale that is not positive", ROPE, [
        {"p5": 0.0}, {"p5": -1.0}, {"p6": 0.0}, {"p6": -1.0}, {"p5": float("nan")},
    ], [
        {"p5": 0.5}, {"p6": 1e-30}, {"p5": 1.0},
    ]),
    Limit("such a ramp", YARN, [
        {"p4": -1}, {"p5": 1.0}, {"p9": 0.0}, {"p9": -1.0}, {"p10": 0.0}, {"p10": -1.0},
    ], [
        {"p4": 0}, {"p5": 1.5}, {"p7": 0.0, "p4": -1}, {"p7": 0.0, "p9": -1.0, "p10": 0.0},
    ]),
    Limit("factors that are not dense float32", ROPE, [
        {3: f16(4)}, {3: gaps(f32(4))}, {3: steps(f32(4), 0, 16, 16, 16)},
    ], [
        {3: None},
    ]),
    Limit("too few factors", ROPE, [{3: f32(3)}], [{3: f32(5)}]),
    Limit("factors that the graph computes", ROPE, [{3: computed(f32(4))}]),
]  # fmt: skip
