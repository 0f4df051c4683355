"""Long commands: counters of rows, batches and elements exceed what shapes of networks need."""

from typing import Any

import numpy as np

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.vector_command import Stream, vector_command
from echo_npu.spec.status import State
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tb.testbench import NpuTestbench, npu_test
from tests.commands.programs import encoded, load

ELEMENTS = 1 << 16
MANY = 1 << 11

_ADD = Instruction(Op.IADD, OPERAND_CODES["o"], OPERAND_CODES["s0"], OPERAND_CODES["iota"])
NUMBERED = encoded([Instruction(Op.CHUNKS), _ADD, Instruction(Op.NEXT, imm=1), Instruction(Op.END)])

SHAPES: dict[str, dict[str, Any]] = {
    "elements": {"rows": 1, "cols": ELEMENTS, "batch": (1, 1)},
    "rows": {"rows": MANY, "cols": 1, "batch": (1, 1)},
    "batch0": {"rows": 1, "cols": 1, "batch": (MANY, 1)},
    "batch1": {"rows": 1, "cols": 1, "batch": (1, MANY)},
}


@npu_test(shape=list(SHAPES))
async def test_vector(tb: NpuTestbench, shape: str) -> None:
    """Each element plus its index in its row."""
    counts = SHAPES[shape]
    total = counts["rows"] * counts["cols"] * counts["batch"][0] * counts["batch"][1]
    data = tb.rng.integers(-(1 << 31), 1 << 31, total).astype(np.int32)
    await load(tb, NUMBERED)
    row_stride = 4 * counts["cols"]
    command = vector_command(
        0,
        **counts,
        inputs=[Stream(tb.place(data, "weight"), row_stride=row_stride, batch_strides=(4, 4))],
        output=Stream(tb.destination(4 * total), row_stride=row_stride, batch_strides=(4, 4)),
    )
    assert await tb.run(command.packets()) == State.DONE


@npu_test(long=["m", "n", "k"])
async def test_matmul(tb: NpuTestbench, long: str) -> None:
    """One dimension far beyond a block."""
    m, k, n = (8 * MANY if name == long else 2 for name in "mkn")
    a, b = tb.place(tb.floats(m, k)), tb.place(tb.floats(k, n), "weight")
    scales, columns = tb.place(tb.floats(m)), tb.place(tb.floats(2, n))
    packets = matmul_packets(
        a, b, tb.destination(4 * m * n), m, k, n,
        row_scales=scales,
        column_vectors=columns,
        column_scale=True,
        bias=True,
    )  # fmt: skip
    assert await tb.run(packets) == State.DONE
