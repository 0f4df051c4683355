"""The operations as methods of `Device`: the function of each, under the device's lock."""

import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

# Modules have other names than the methods, which would hide them in the class.
from echo_npu.driver.command_device import CommandDevice
from echo_npu.driver.locking import locked
from echo_npu.ops import attention as attention_ops
from echo_npu.ops import cast as casts
from echo_npu.ops import conv, elementwise, gather, norm, pool, reduce, scatter, training
from echo_npu.ops import copy as copies
from echo_npu.ops import matmul as matrix
from echo_npu.ops import rope as rotary
from echo_npu.ops import shape as layout
from echo_npu.ops import softmax as softmax_ops
from echo_npu.ops import top_k as top

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _named(
    family: Callable[Concatenate[CommandDevice, str, _P], _R], op: str, doc: str
) -> Callable[Concatenate[CommandDevice, _P], _R]:
    """Make the method of one operation from the function of its family, which takes the operation's name."""

    def method(device: CommandDevice, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return family(device, op, *args, **kwargs)

    signature = inspect.signature(family)
    device, _, *others = signature.parameters.values()
    method.__signature__ = signature.replace(parameters=[device, *others])  # type: ignore[attr-defined]
    method.__name__ = method.__qualname__ = op
    method.__doc__ = f"{doc}\n\nArguments, result, errors: `{family.__module__}.{family.__name__}`."
    return locked(method)


class OpMethods(CommandDevice):
    """What `Device` inherits. Signatures and documentation are those of the functions."""

    matmul = locked(matrix.matmul)
    copy = locked(copies.copy)

    # --- elementwise ----------------------------------------------------------------------------------------

    add = locked(elementwise.add)
    sub = _named(elementwise.binary, "sub", "`a - b`.")
    mul = _named(elementwise.binary, "mul", "`a * b`.")
    div = _named(elementwise.binary, "div", "`a / b`.")
    minimum = _named(elementwise.binary, "minimum", "The lesser; NaN if either is.")
    maximum = _named(elementwise.binary, "maximum", "The greater; NaN if either is.")
    eq = _named(elementwise.binary, "eq", "1.0 where a = b, else 0.0.")
    ne = _named(elementwise.binary, "ne", "1.0 where a and b differ or one is NaN, else 0.0.")
    lt = _named(elementwise.binary, "lt", "1.0 where a < b, else 0.0.")
    le = _named(elementwise.binary, "le", "1.0 where a <= b, else 0.0.")
    gt = _named(elementwise.binary, "gt", "1.0 where a > b, else 0.0.")
    ge = _named(elementwise.binary, "ge", "1.0 where a >= b, else 0.0.")

    neg = _named(elementwise.unary, "neg", "`-x`.")
    abs = _named(elementwise.unary, "abs", "x without its sign.")
    relu = _named(elementwise.unary, "relu", "`max(x, 0)`.")
    reciprocal = _named(elementwise.unary, "reciprocal", "`1 / x`.")
    sqrt = _named(elementwise.unary, "sqrt", "The square root.")
    rsqrt = _named(elementwise.unary, "rsqrt", "`1 / sqrt(x)`.")
    exp = _named(elementwise.unary, "exp", "e to the power of x.")
    log = _named(elementwise.unary, "log", "The natural logarithm.")
    sin = _named(elementwise.unary, "sin", "The sine of x in radians.")
    cos = _named(elementwise.unary, "cos", "The cosine of x in radians.")
    tanh = _named(elementwise.unary, "tanh", "The hyperbolic tangent.")
    sigmoid = _named(elementwise.unary, "sigmoid", "`1 / (1 + exp(-x))`.")
    silu = _named(elementwise.unary, "silu", "`x / (1 + exp(-x))`.")

    gelu = locked(elementwise.gelu)
    clamp = locked(elementwise.clamp)
    pow = locked(elementwise.power)
    where = locked(elementwise.where)
    masked_fill = locked(elementwise.masked_fill)
    addcmul = locked(elementwise.addcmul)
    addcdiv = locked(elementwise.addcdiv)

    # --- types ----------------------------------------------------------------------------------------------

    cast = locked(casts.cast)
    quantize = locked(casts.quantize)
    dequantize = locked(casts.dequantize)

    # --- reductions -----------------------------------------------------------------------------------------

    sum = _named(reduce.reduction, "sum", "The sum over axes.")
    mean = _named(reduce.reduction, "mean", "The mean over axes.")
    max = _named(reduce.reduction, "max", "The maximum over axes.")
    min = _named(reduce.reduction, "min", "The minimum over axes.")
    argmax = locked(reduce.argmax)
    top_k = locked(top.top_k)

    # --- transformers ---------------------------------------------------------------------------------------

    softmax = locked(softmax_ops.softmax)
    rms_norm = locked(norm.rms_norm)
    layer_norm = locked(norm.layer_norm)
    rope_tables = staticmethod(rotary.rope_tables)
    rope = locked(rotary.rope)
    attention = locked(attention_ops.attention)
    embedding = locked(gather.embedding)
    scatter_rows = locked(scatter.scatter_rows)

    # --- data movement --------------------------------------------------------------------------------------

    cat = locked(layout.cat)
    clone = locked(copies.copy)
    contiguous = locked(layout.contiguous)
    permute = locked(layout.permute)
    transpose = locked(layout.transpose)
    full = locked(layout.full)

    # --- images ---------------------------------------------------------------------------------------------

    im2col = locked(conv.im2col)
    conv2d = locked(conv.conv2d)
    max_pool2d = locked(pool.max_pool2d)
    avg_pool2d = locked(pool.avg_pool2d)

    # --- training -------------------------------------------------------------------------------------------

    softmax_backward = locked(training.softmax_backward)
    silu_backward = locked(training.silu_backward)
    gelu_backward = locked(training.gelu_backward)
    rms_norm_backward = locked(training.rms_norm_backward)
    layer_norm_backward = locked(training.layer_norm_backward)
    cross_entropy = locked(training.cross_entropy)
    cross_entropy_backward = locked(training.cross_entropy_backward)
    adamw_step = locked(training.adamw_step)
