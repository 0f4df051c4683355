"""Programs of the elementwise operations: one loop over the chunks; operands are streams or parameters."""

from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from echo_npu.vector.isa import Operand
from echo_npu.vector.kernels import math
from echo_npu.vector.kernels.math.common import MAGNITUDE, SIGN, temporaries
from echo_npu.vector.kernels.math.power import power
from echo_npu.vector.program import Builder, Program

Body: TypeAlias = Callable[..., None]
"""`body(b, dst, *operands)` appends what computes dst; only the last instruction writes `dst`."""


@cache
def elementwise(name: str, operands: str) -> Program:
    """The program of an operation.

    Args:
        name: one of BODIES.
        operands: a letter for each: "s" is the next input stream, "p" the next parameter.
    """
    b = Builder(f"{name}_{operands}" if "p" in operands else name)
    streams, params = map(b.stream, range(4)), map(b.param, range(8))
    given = [next(streams) if letter == "s" else next(params) for letter in operands]
    with b.chunks(advance=[b.stream(i) for i in range(operands.count("s"))]):
        BODIES[name](b, b.out, *given)
    return b.build()


def _clamp(b: Builder, dst: Operand, x: Operand, low: Operand, high: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.max(t, x, low)
        b.min(dst, t, high)


def _add_scaled(b: Builder, dst: Operand, x: Operand, y: Operand, alpha: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.mul(t, y, alpha)
        b.add(dst, x, t)


def _addcmul(b: Builder, dst: Operand, x: Operand, y: Operand, z: Operand, value: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.mul(t, y, z)
        b.fma(dst, t, value, x)


def _addcdiv(b: Builder, dst: Operand, x: Operand, y: Operand, z: Operand, value: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        math.div(b, t, y, z)
        b.fma(dst, t, value, x)


def _comparison(compare: Body, *, swapped: bool = False) -> Body:
    """Make a body that gives 1.0 where the comparison holds, else 0.0."""

    def body(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
        with temporaries(b, dst, 1) as (t,):
            compare(b, t, *((y, x) if swapped else (x, y)))
            b.and_(dst, t, 1.0)

    return body


def _ne(b: Builder, dst: Operand, x: Operand, y: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.cmpeq(t, x, y)
        b.sel(dst, t, 0.0, b.constant(1.0))


def _where_float(b: Builder, dst: Operand, condition: Operand, x: Operand, y: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.shl(t, condition, 1)  # without its sign, -0 is false
        b.sel(dst, t, x, y)


def _cube(b: Builder, dst: Operand, x: Operand) -> None:
    with temporaries(b, dst, 1) as (t,):
        b.mul(t, x, x)
        b.mul(dst, t, x)


BODIES: Final[dict[str, Body]] = {
    "mov": Builder.mov,
    "add": Builder.add,
    "add_scaled": _add_scaled,
    "sub": Builder.sub,
    "mul": Builder.mul,
    "div": math.div,
    "minimum": Builder.min,
    "maximum": Builder.max,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "eq": _comparison(Builder.cmpeq),
    "ne": _ne,
    "lt": _comparison(Builder.cmplt),
    "le": _comparison(Builder.cmple),
    "gt": _comparison(Builder.cmplt, swapped=True),
    "ge": _comparison(Builder.cmple, swapped=True),
    "where": Builder.sel,
    "where_float": _where_float,
    "neg": lambda b, dst, x: b.xor(dst, x, SIGN),
    "abs": lambda b, dst, x: b.and_(dst, x, MAGNITUDE),
    "relu": lambda b, dst, x: b.max(dst, x, 0.0),
    "clamp": _clamp,
    "clamp_min": Builder.max,
    "clamp_max": Builder.min,
    "reciprocal": math.rcp,
    "sqrt": math.sqrt,
    "rsqrt": math.rsqrt,
    "one": lambda b, dst, x: b.mov(dst, 1.0),
    "square": lambda b, dst, x: b.mul(dst, x, x),
    "cube": _cube,
    "power": power,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": math.sigmoid,
    "silu": math.silu,
    "gelu": math.gelu,
    "gelu_tanh": math.gelu_tanh,
}
"""The body of each operation."""
