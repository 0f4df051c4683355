"""The operators that fused programs compute, as expressions."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import torch

from echo_npu.torch.compiled.expression import Argument, Value, apply, total

Rule: TypeAlias = Callable[..., Value | None]
"""Makes the value of an operator: tensors come as values, other arguments as they are; None if it cannot."""

_aten: Final = torch.ops.aten
RULES: Final[dict[Any, Rule]] = {}
ROWS: Final[dict[Any, Rule]] = {}
"""Operators that reduce the last axis, or go along it. The first argument is followed by its length."""


def _rule(table: dict[Any, Rule], *targets: Any) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        for each in targets:
            table[each] = rule
        return rule

    return register


def _plain(name: str) -> Rule:
    return lambda *args: apply(name, *args)


for _name in (
    *("neg", "abs", "reciprocal", "sqrt", "rsqrt", "exp", "log", "log1p", "sin", "cos", "tanh", "sigmoid"),
    *("silu", "relu", "sigmoid_backward", "tanh_backward", "threshold_backward", "minimum", "maximum"),
):
    RULES[getattr(_aten, _name).default] = _plain(_name)
for _name in ("mul", "div"):
    RULES[getattr(_aten, _name).Tensor] = RULES[getattr(_aten, _name).Scalar] = _plain(_name)
COMPARISONS: Final = frozenset(
    getattr(getattr(_aten, name), overload)
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
    for overload in ("Tensor", "Scalar")
)
for _each in COMPARISONS:
    RULES[_each] = _plain(_each._schema.name.removeprefix("aten::"))
for _name in ("clamp_min", "clamp_max"):
    RULES[getattr(_aten, _name).default] = _plain(_name)


@_rule(RULES, _aten.add.Tensor, _aten.add.Scalar)
def _add(x: Argument, y: Argument, alpha: float = 1) -> Value:
    return apply("add", x, y) if alpha == 1 else apply("add_scaled", x, y, alpha)


@_rule(RULES, _aten.sub.Tensor, _aten.sub.Scalar)
def _sub(x: Argument, y: Argument, alpha: float = 1) -> Value:
    return apply("sub", x, y) if alpha == 1 else apply("add_scaled", x, y, -alpha)


@_rule(RULES, _aten.rsub.Scalar)
def _rsub(x: Argument, y: Argument, alpha: float = 1) -> Value | None:
    return apply("sub", y, x) if alpha == 1 else None


@_rule(RULES, _aten.pow.Tensor_Scalar)
def _pow(x: Value, exponent: float) -> Value | None:
    names = {-1.0: "reciprocal", 0.5: "sqrt", 1.0: "mov", 2.0: "square", 3.0: "cube", -0.5: "rsqrt"}
    name = names.get(float(exponent))
    return None if name is None else apply(name, x)


@_rule(RULES, _aten.gelu.default)
def _gelu(x: Value, approximate: str = "none") -> Value:
    return apply("gelu" if approximate == "none" else "gelu_tanh", x)


@_rule(RULES, _aten.clamp.default)
def _clamp(x: Value, low: float | None = None, high: float | None = None) -> Value | None:
    if low is not None:
        x = apply("clamp_min", x, low)
    return x if high is None else apply("clamp_max", x, high)


@_rule(RULES, _aten.where.self)
def _where(condition: Value, x: Argument, y: Argument) -> Value:
    return apply("where_float", condition, x, y)


@_rule(RULES, _aten.masked_fill.Scalar)
def _masked_fill(x: Value, mask: Value, value: float) -> Value:
    return apply("where_float", mask, value, x)


@_rule(RULES, _aten.addcmul.default)
def _addcmul(x: Value, y: Value, z: Value, value: float = 1) -> Value:
    return apply("addcmul", x, y, z, value)


@_rule(RULES, _aten.addcdiv.default)
def _addcdiv(x: Value, y: Value, z: Value, value: float = 1) -> Value:
    return apply("addcdiv", x, y, z, value)


@_rule(RULES, _aten.lerp.Scalar)
def _lerp(x: Value, y: Value, weight: float) -> Value:
    return apply("lerp", x, y, weight) if weight < 0.5 else apply("lerp_from_end", x, y, 1 - weight)


@_rule(RULES, _aten.silu_backward.default)
def _silu_backward(grad: Value, x: Value) -> Value:
    limited = apply("clamp_max", apply("clamp_min", x, -128.0), 128.0)
    gate = apply("sigmoid", limited)
    slope = apply("add", apply("mul", limited, apply("sub", 1.0, gate)), 1.0)
    return apply("mul", apply("mul", slope, gate), grad)


@_rule(RULES, _aten._to_copy.default, _aten.clone.default, _aten.expand.default)
def _same(x: Value, *others: Any, **options: Any) -> Value:
    return x


@_rule(ROWS, _aten.sum.dim_IntList)
def _sum(x: Value, cols: int, *others: Any, **options: Any) -> Value:
    return total("sum", x)


@_rule(ROWS, _aten.mean.dim)
def _mean(x: Value, cols: int, *others: Any, **options: Any) -> Value:
    return apply("mul", total("sum", x), 1 / cols)


@_rule(ROWS, _aten.amax.default)
def _amax(x: Value, cols: int, *others: Any, **options: Any) -> Value:
    return total("max", x)


@_rule(ROWS, _aten.amin.default)
def _amin(x: Value, cols: int, *others: Any, **options: Any) -> Value:
    return total("min", x)


@_rule(ROWS, _aten._softmax.default)
def _softmax(x: Value, cols: int, *others: Any, **options: Any) -> Value:
    power = apply("exp", apply("sub", x, total("max", x)))
    return apply("mul", power, apply("reciprocal", total("sum", power)))


FREE: Final = frozenset((_aten._to_copy.default, _aten.clone.default, _aten.expand.default))
"""Operators that cost nothing in a program."""

KEEPING: Final = frozenset((_aten._softmax.default,))
"""Operators of ROWS whose result has the shape of their argument."""

CHEAP: Final = frozenset(
    {
        *(_aten.where.self, _aten.masked_fill.Scalar, _aten.neg.default),
        *(op.Tensor for op in (_aten.add, _aten.sub, _aten.mul)),
        *FREE,
    }
)
"""Operators of a smaller shape that a program may repeat for each row rather than have their result read."""
