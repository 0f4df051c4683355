"""The macros of elementary functions obey their conventions in a program."""

from collections.abc import Callable

import numpy as np
import pytest

from echo_npu import Device
from echo_npu.commands.vector_command import Stream
from echo_npu.vector import Builder, Operand, Program
from echo_npu.vector.isa import Form, Kind
from echo_npu.vector.kernels import math
from tests.runtime.ops.accuracy import F32
from tests.runtime.ops.elementwise_cases import arguments

UNARY = [
    math.rcp, math.sqrt, math.rsqrt, math.exp, math.log, math.sin, math.cos, math.tanh, math.sigmoid,
    math.silu, math.gelu, math.gelu_tanh, math.normal_cdf,
]  # fmt: skip
Macro = Callable[[Builder, Operand, Operand], None]


def square_quotient(b: Builder, dst: Operand, x: Operand) -> None:
    """Use `div` as a macro of one operand, x / (x * x)."""
    y = b.like(x)
    b.mul(y, x, x)
    math.div(b, dst, x, y)
    b.free(y)


MACROS: list[Macro] = [*UNARY, square_quotient]


def on_vectors(macro: Macro) -> Program:
    b = Builder("vectors")
    x = b.vector()
    with b.chunks(advance=[b.stream(0)]):
        b.mov(x, b.stream(0))
        macro(b, b.out, x)
    return b.build()


def in_place(macro: Macro) -> Program:
    b = Builder("in_place")
    x = b.vector()
    with b.chunks(advance=[b.stream(0)]):
        b.mov(x, b.stream(0))
        macro(b, x, x)
        b.mov(b.out, x)
    return b.build()


def on_scalars(macro: Macro) -> Program:
    b = Builder("scalars")
    x = b.scalar()
    b.mov(x, b.stream(0))
    macro(b, x, x)
    b.mov(b.out, x, one=True)
    return b.build()


def run(npu: Device, program: Program, values: F32, *, rows: bool = False) -> list[int]:
    """Return the bits of a program's results: on one row, or on rows of one element."""
    x, y = npu.tensor(values), npu.empty(values.shape)
    step = 4 if rows else 0
    npu.vector(
        program,
        rows=values.size if rows else 1,
        cols=1 if rows else values.size,
        inputs=[Stream(x.ptr, row_stride=step)],
        output=Stream(y.ptr, row_stride=step),
    )
    return [int(each) for each in y.to_numpy().view(np.uint32)]


@pytest.mark.parametrize("macro", MACROS, ids=lambda macro: macro.__name__)
def test_scalars_and_results_in_place_have_the_same_bits(npu: Device, macro: Macro) -> None:
    values = arguments(300)
    expected = run(npu, on_vectors(macro), values)
    assert run(npu, in_place(macro), values) == expected
    assert run(npu, on_scalars(macro), values, rows=True) == expected


@pytest.mark.parametrize("macro", MACROS, ids=lambda macro: macro.__name__)
@pytest.mark.parametrize("kind", ["vector", "scalar"])
def test_registers_go_back(macro: Macro, kind: str) -> None:
    b = Builder("registers")
    x = getattr(b, kind)()
    b.mov(x, b.stream(0))
    macro(b, x, x)
    constants = len([each for each in b.build().instructions if each.op.mnemonic == "mov"]) - 1
    rest = {Kind.VECTOR: 16, Kind.SCALAR: 16 - constants}
    rest[x.kind] -= 1
    assert len({b.vector() for _ in range(rest[Kind.VECTOR])}) == rest[Kind.VECTOR]
    assert len({b.scalar() for _ in range(rest[Kind.SCALAR])}) == rest[Kind.SCALAR]


@pytest.mark.parametrize("macro", MACROS, ids=lambda macro: macro.__name__)
def test_the_destination_is_written_last_and_once(macro: Macro) -> None:
    alu = [each for each in on_vectors(macro).instructions if each.form == Form.ALU]
    assert [each.dst for each in alu].count(alu[-1].dst) == 1


@pytest.mark.parametrize("macro", MACROS, ids=lambda macro: macro.__name__)
def test_every_nan_is_the_canonical_one(npu: Device, macro: Macro) -> None:
    values = np.array([0x7F80_0001, 0xFFFF_FFFF, 0xFFC0_0000, 0x7FC0_1234], np.uint32).view(np.float32)
    assert run(npu, on_vectors(macro), values) == [0x7FC0_0000] * 4


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (2.5, (2.5, 0, 0b110, 0)),
        (3.0, (3.0, 0x8000_0000, 0, 0)),
        (-3.0, (-3.0, 0x8000_0000, 0, 0x7F80_0000)),
        (-4.0, (-4.0, 0, 0, 0x7F80_0000)),
        (16777217.0, (16777216.0, 0, 0, 0)),
        (1e300, (2.0**31, 0, 0, 0)),
        (-np.inf, (-(2.0**31), 0, 0, 0x7F80_0000)),
    ],
)
def test_the_parameters_of_a_power(exponent: float, expected: tuple[float, int, int, int]) -> None:
    assert math.power_parameters(exponent) == expected
