"""A supported node of each kind, for searches that change it a little."""

import math
from typing import Final

from echo_npu.formats import FORMATS
from echo_npu.server.operations.base import TYPES
from echo_npu.server.protocol import GraphNode, GraphTensor, TensorFlag
from tests.runtime.server.server_client import node

MOVED: Final = {"q5_K": 176}
"""Bytes of an element of types that lie as a file has them: of a block."""


def dense(address: int, name: str, *elements: int) -> GraphTensor:
    """Return an input without gaps."""
    shape = (*elements, *(1,) * (4 - len(elements)))
    blocks, moved = FORMATS.get(name), MOVED.get(name, 0)
    item = moved or (TYPES[name].itemsize if blocks is None else blocks.block_bytes)
    steps = [item, item * shape[0] if blocks is None else blocks.row_bytes(shape[0])]
    steps += [steps[1] * math.prod(shape[1:axis]) for axis in (2, 3)]
    return GraphTensor(name, TensorFlag.INPUT, shape, tuple(steps), address, item=moved)


def honest_nodes(address: int) -> list[GraphNode]:
    """Return supported nodes, all of whose tensors start at one address, of a small buffer of zeros."""

    def f32(*elements: int) -> GraphTensor:
        return dense(address, "f32", *elements)

    def q8_0(*elements: int) -> GraphTensor:
        return dense(address, "q8_0", *elements)

    def i32(*elements: int) -> GraphTensor:
        return dense(address, "i32", *elements)

    def q5_k(*elements: int) -> GraphTensor:
        return dense(address, "q5_K", *elements)

    heads, half = f32(8, 3, 2), dense(address, "f16", 32, 3)
    half_rows = dense(address, "f16", 256, 3)
    rope = {1: 8, 2: 2, 5: 10000.0, 6: 1.0, 8: 1.0}
    return [
        node("SQR", f32(8, 3), f32(8, 3)),
        node("ADD", half, half, dense(address, "f16", 32)),
        node("SWIGLU", f32(4, 3), f32(8, 3)),
        node("MUL_MAT", f32(3, 2, 4, 2), f32(8, 3, 2), f32(8, 2, 4, 2)),
        node("MUL_MAT", f32(3, 2, 2), q8_0(64, 3, 2), f32(64, 2, 2)),
        node("OUT_PROD", f32(3, 2), f32(3, 4), f32(2, 4)),
        node("MUL_MAT_ID", f32(3, 2, 2), q8_0(32, 3, 4), f32(32, 1, 2), i32(2, 2)),
        node("ADD_ID", f32(3, 2, 2), f32(3, 2, 2), f32(3, 4), i32(2, 2)),
        node("CPY", q8_0(64, 3), f32(64, 3)),
        node("CONT", half, f32(32, 3)),
        node("DUP", q8_0(64, 3), q8_0(64, 3)),
        node("CPY", q5_k(3, 2), q5_k(2, 3)),
        node("CPY", f32(256, 3), q5_k(1, 3)),
        node("CPY", q5_k(1, 3), half_rows),
        node("CONCAT", q5_k(2, 5), q5_k(2, 3), q5_k(2, 2), parameters={0: 1}),
        node("CONCAT", q8_0(64, 5), q8_0(64, 3), q8_0(64, 2), parameters={0: 1}),
        node("CONCAT", f32(8, 5), f32(8, 3), f32(8, 2), parameters={0: 1}),
        node("REPEAT", f32(8, 6), f32(4, 3)),
        node("GET_ROWS", f32(8, 2, 2), f32(8, 5, 2), i32(2, 2)),
        node("GET_ROWS", f32(64, 2), q8_0(64, 5), i32(2)),
        node("SET_ROWS", half, f32(32, 1), dense(address, "i64", 1), half),
        node("SET_ROWS", q8_0(64, 3), f32(64, 2), i32(2), q8_0(64, 3)),
        node("GET_ROWS", f32(256, 2), q5_k(1, 5), i32(2)),
        node("SET_ROWS", q5_k(1, 3), f32(256, 2), i32(2), q5_k(1, 3)),
        node("SOFT_MAX", heads, heads, f32(8, 3), f32(2), parameters={0: 1.0, 1: 8.0}),
        node("SOFT_MAX", heads, heads, f32(8, 3, 2), parameters={0: 1.0}),
        node("FLASH_ATTN_EXT", f32(8, 2, 3), heads, f32(8, 5), f32(8, 5), f32(5, 3), parameters={0: 1.0}),
        node("ROPE", heads, heads, i32(2), f32(4), parameters=rope),
        node("RMS_NORM", heads, heads, parameters={0: 1e-5}),
        node("GROUP_NORM", heads, heads, parameters={0: 2, 1: 1e-5}),
        node("SUM_ROWS", f32(1, 3), f32(8, 3)),
        node("ARGMAX", i32(3), f32(8, 3)),
        node("PAD", f32(10, 4), f32(8, 3), parameters={1: 2, 3: 1}),
        node("IM2COL", f32(4, 3, 2), f32(2, 2), f32(4, 3), parameters={0: 1, 1: 1, 4: 1, 5: 1, 6: 1}),
        node("POOL_2D", f32(2, 2), f32(4, 4), parameters={1: 2, 2: 2, 3: 2, 4: 2}),
        node("CROSS_ENTROPY_LOSS_BACK", f32(8, 3), f32(1), f32(8, 3), f32(8, 3)),
        node("OPT_STEP_ADAMW", *[f32(8, 3)] * 5, f32(7)),
        node("VIEW", f32(8, 3), f32(8, 3)),
    ]
