"""The elementwise operations and casts as methods of `Device`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from numpy.typing import DTypeLike

from echo_npu.locking import Locked, locked
from echo_npu.ops import cast as casts
from echo_npu.ops import elementwise
from echo_npu.ops.elementwise import Number
from echo_npu.tensor import DeviceTensor

if TYPE_CHECKING:
    from echo_npu.device import Device


def _device(methods: ElementwiseMethods) -> Device:
    return cast("Device", methods)


class ElementwiseMethods(Locked):
    """What `Device` inherits. The documentation is with the functions."""

    @locked
    def add(self, a: Any, b: Any, alpha: Number = 1.0, *, out: DeviceTensor | None = None) -> Any:
        """`a + alpha * b`. See `echo_npu.ops.elementwise.add`."""
        return elementwise.add(_device(self), a, b, alpha, out=out)

    @locked
    def sub(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """`a - b`. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "sub", a, b, out=out)

    @locked
    def mul(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """`a * b`. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "mul", a, b, out=out)

    @locked
    def div(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """`a / b`. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "div", a, b, out=out)

    @locked
    def minimum(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """The lesser; NaN if either is. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "minimum", a, b, out=out)

    @locked
    def maximum(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """The greater; NaN if either is. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "maximum", a, b, out=out)

    @locked
    def eq(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a = b, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "eq", a, b, out=out)

    @locked
    def ne(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a and b differ or one is NaN, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "ne", a, b, out=out)

    @locked
    def lt(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a < b, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "lt", a, b, out=out)

    @locked
    def le(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a <= b, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "le", a, b, out=out)

    @locked
    def gt(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a > b, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "gt", a, b, out=out)

    @locked
    def ge(self, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """1.0 where a >= b, else 0.0. See `echo_npu.ops.elementwise.binary`."""
        return elementwise.binary(_device(self), "ge", a, b, out=out)

    @locked
    def neg(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`-x`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "neg", x, out=out)

    @locked
    def abs(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """x without its sign. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "abs", x, out=out)

    @locked
    def relu(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`max(x, 0)`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "relu", x, out=out)

    @locked
    def reciprocal(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`1 / x`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "reciprocal", x, out=out)

    @locked
    def sqrt(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The square root. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "sqrt", x, out=out)

    @locked
    def rsqrt(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`1 / sqrt(x)`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "rsqrt", x, out=out)

    @locked
    def exp(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """e to the power of x. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "exp", x, out=out)

    @locked
    def log(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The natural logarithm. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "log", x, out=out)

    @locked
    def sin(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The sine of x in radians. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "sin", x, out=out)

    @locked
    def cos(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The cosine of x in radians. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "cos", x, out=out)

    @locked
    def tanh(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """The hyperbolic tangent. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "tanh", x, out=out)

    @locked
    def sigmoid(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`1 / (1 + exp(-x))`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "sigmoid", x, out=out)

    @locked
    def silu(self, x: Any, *, out: DeviceTensor | None = None) -> Any:
        """`x / (1 + exp(-x))`. See `echo_npu.ops.elementwise.unary`."""
        return elementwise.unary(_device(self), "silu", x, out=out)

    @locked
    def gelu(
        self,
        x: Any,
        approximate: Literal["none", "tanh"] = "none",
        *,
        out: DeviceTensor | None = None,
    ) -> Any:
        """`x * (1 + erf(x / sqrt(2))) / 2`, or with tanh. See `echo_npu.ops.elementwise.gelu`."""
        return elementwise.gelu(_device(self), x, approximate, out=out)

    @locked
    def clamp(
        self,
        x: Any,
        min: Any = None,  # noqa: A002  (numpy's name)
        max: Any = None,  # noqa: A002
        *,
        out: DeviceTensor | None = None,
    ) -> Any:
        """x within limits. See `echo_npu.ops.elementwise.clamp`."""
        return elementwise.clamp(_device(self), x, min, max, out=out)

    @locked
    def pow(self, x: Any, exponent: Number, *, out: DeviceTensor | None = None) -> Any:
        """x to the power of a number. See `echo_npu.ops.elementwise.power`."""
        return elementwise.power(_device(self), x, exponent, out=out)

    @locked
    def where(self, condition: Any, a: Any, b: Any, *, out: DeviceTensor | None = None) -> Any:
        """a where the condition holds, else b. See `echo_npu.ops.elementwise.where`."""
        return elementwise.where(_device(self), condition, a, b, out=out)

    @locked
    def masked_fill(self, x: Any, mask: Any, value: Number, *, out: DeviceTensor | None = None) -> Any:
        """A number where the mask is set, else x. See `echo_npu.ops.elementwise.masked_fill`."""
        return elementwise.masked_fill(_device(self), x, mask, value, out=out)

    @locked
    def addcmul(self, x: Any, a: Any, b: Any, value: Number = 1.0, *, out: DeviceTensor | None = None) -> Any:
        """`x + value * (a * b)`. See `echo_npu.ops.elementwise.addcmul`."""
        return elementwise.addcmul(_device(self), x, a, b, value, out=out)

    @locked
    def addcdiv(self, x: Any, a: Any, b: Any, value: Number = 1.0, *, out: DeviceTensor | None = None) -> Any:
        """`x + value * (a / b)`. See `echo_npu.ops.elementwise.addcdiv`."""
        return elementwise.addcdiv(_device(self), x, a, b, value, out=out)

    @locked
    def cast(self, x: Any, dtype: DTypeLike | str, *, out: DeviceTensor | None = None) -> Any:
        """The elements as another type. See `echo_npu.ops.cast.cast`."""
        return casts.cast(_device(self), x, dtype, out=out)

    @locked
    def quantize(self, x: Any) -> tuple[Any, Any]:
        """(int8, scale of each row). See `echo_npu.ops.cast.quantize`."""
        return casts.quantize(_device(self), x)

    @locked
    def dequantize(self, q: Any, scales: Any, *, out: DeviceTensor | None = None) -> Any:
        """`q * scale` of the row. See `echo_npu.ops.cast.dequantize`."""
        return casts.dequantize(_device(self), q, scales, out=out)
