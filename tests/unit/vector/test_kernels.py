"""The library's programs: docs/ops.md has their names and what they cost."""

from __future__ import annotations

import re
from pathlib import Path

from echo_npu.vector import Program
from echo_npu.vector.isa import Form, Kind, Op, kind_of
from echo_npu.vector.kernels import cast, fill, norm, pool, reduce, rope, softmax, training
from echo_npu.vector.kernels.elementwise import elementwise

PAGE = Path(__file__).resolve().parents[3] / "docs" / "ops.md"

PROGRAMS = [
    *(elementwise(name, "ss") for name in ("add", "sub", "mul", "div", "minimum", "maximum", "lt", "ne")),
    *(elementwise(name, "s") for name in ("neg", "abs", "relu", "reciprocal", "sqrt", "rsqrt", "exp", "log")),
    *(elementwise(name, "s") for name in ("sin", "cos", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh")),
    *(elementwise(name, "sss") for name in ("where", "where_float")),
    elementwise("mul", "sp"),
    elementwise("add_scaled", "ssp"),
    elementwise("clamp", "spp"),
    elementwise("square", "s"),
    elementwise("cube", "s"),
    elementwise("power_half", "s"),
    elementwise("power", "spppp"),
    elementwise("addcmul", "sssp"),
    elementwise("addcdiv", "sssp"),
    cast.cast("float32", "float16"),
    cast.cast("bfloat16", "float32"),
    cast.quantize_scales(),
    cast.quantize(),
    cast.dequantize(),
    reduce.reduction("add"),
    reduce.reduction("add", column=True),
    reduce.reduction("max"),
    reduce.reduction("max", column=True),
    reduce.reduction("min"),
    reduce.mean(),
    reduce.mean(column=True),
    reduce.dot_column(),
    reduce.argmax(),
    reduce.argmax(column=True),
    softmax.softmax(),
    softmax.softmax(scaled=True),
    softmax.softmax(scaled=True, causal=True),
    softmax.softmax(scaled=True, masked=True),
    softmax.softmax(scaled=True, causal=True, masked=True),
    softmax.softmax(kept=False),
    softmax.softmax(column=True, kept=False),
    norm.rms_norm(),
    norm.rms_norm(kept=False),
    norm.layer_norm(),
    norm.layer_norm(kept=False),
    rope.rope_halves(),
    rope.rope_pairs(),
    fill.fill(),
    pool.taps("max", 4),
    pool.taps("add", 4),
    training.softmax_backward(),
    training.softmax_backward(kept=False),
    training.silu_backward(),
    training.gelu_backward(),
    training.gelu_tanh_backward(),
    norm.rms_norm_backward(),
    norm.rms_norm_backward(kept=False),
    norm.layer_norm_backward(),
    norm.layer_norm_backward(kept=False),
    training.cross_entropy(),
    training.cross_entropy_backward(),
    training.cross_entropy_backward(kept=False),
    training.moving_average(),
    training.moving_average(squared=True),
    training.adamw_update(),
]


def cost(program: Program) -> str:
    """The program's row of the table. What is in a loop works on every element: nothing scalar is there."""
    element = row = depth = 0
    streams: set[int] = set()
    for each in program.instructions:
        streams.update(code - 32 for code in each.sources if kind_of(code) == Kind.STREAM)
        if each.form == Form.LOOP:
            depth += 1
        elif each.op == Op.NEXT:
            depth -= 1
        elif depth:
            assert kind_of(each.dst) != Kind.SCALAR
            element += 1
        elif each.form != Form.END:
            row += 1
    reads = " ".join(str(program.passes[stream]) for stream in sorted(streams)) or "-"
    return f"| `{program.name}` | {element} | {row} | {reads} |"


def test_names_are_unique() -> None:
    assert len({program.name for program in PROGRAMS}) == len(PROGRAMS)


def test_the_page_has_every_program_and_its_cost() -> None:
    lines = set(PAGE.read_text(encoding="utf-8").splitlines())
    missing = [cost(program) for program in PROGRAMS if cost(program) not in lines]
    assert not missing, "docs/ops.md should have:\n" + "\n".join(missing)


def test_the_page_has_no_program_that_is_not_there() -> None:
    names = {program.name for program in PROGRAMS}
    programs = PAGE.read_text(encoding="utf-8").split("## Programs")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)` \|", programs, re.MULTILINE))
    assert listed <= names


def test_programs_fit_the_smallest_program_memory_together() -> None:
    assert sum(len(program) for program in PROGRAMS) <= 4096
