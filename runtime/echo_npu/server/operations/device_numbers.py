"""Arithmetic on the device with operators: each one is a command, and rounds once as in C.

Quantising has groups of numbers with one scale as columns: [elements of a group, groups]. The device adds the
numbers of a column in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from echo_npu.ops.broadcast import compute
from echo_npu.server.operations.base import Emitter
from echo_npu.server.operations.constants import constant
from echo_npu.tensor import DeviceTensor
from echo_npu.vector.kernels.pointwise import pointwise
from echo_npu.vector.program import Program

Operand: TypeAlias = "DeviceNumbers | float"


class DeviceNumbers:
    """A float32 tensor on a device. A comparison gives 1.0 or 0.0.

    Attributes:
        emitter: where the commands go.
        tensor: the numbers.
    """

    __slots__ = ("emitter", "tensor")

    def __init__(self, emitter: Emitter, tensor: Any) -> None:
        assert isinstance(tensor, DeviceTensor)
        self.emitter = emitter
        self.tensor = tensor

    def _made(self, method: str, *operands: Any, **others: Any) -> DeviceNumbers:
        given = [each.tensor if isinstance(each, DeviceNumbers) else each for each in operands]
        return DeviceNumbers(self.emitter, getattr(self.emitter.device, method)(*given, **others))

    # --- two operands ---------------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> DeviceNumbers:
        return self._made("add", self, other)

    def plus(self, other: DeviceNumbers, factor: float) -> DeviceNumbers:
        """Return self + factor * other."""
        return self._made("add", self, other, factor)

    def __sub__(self, other: Operand) -> DeviceNumbers:
        return self._made("sub", self, other)

    def __rsub__(self, other: float) -> DeviceNumbers:
        return self._made("sub", other, self)

    def __mul__(self, other: Operand) -> DeviceNumbers:
        return self._made("mul", self, other)

    def __truediv__(self, other: Operand) -> DeviceNumbers:
        return self._made("div", self, other)

    def __rtruediv__(self, other: float) -> DeviceNumbers:
        return self._made("div", other, self)

    def __lt__(self, other: Operand) -> DeviceNumbers:
        return self._made("lt", self, other)

    def __le__(self, other: Operand) -> DeviceNumbers:
        return self._made("le", self, other)

    def __gt__(self, other: Operand) -> DeviceNumbers:
        return self._made("gt", self, other)

    def __ge__(self, other: Operand) -> DeviceNumbers:
        return self._made("ge", self, other)

    def equals(self, other: Operand) -> DeviceNumbers:
        """Compare: -0 is 0, and NaN is not equal to anything."""
        return self._made("eq", self, other)

    def differs(self, other: Operand) -> DeviceNumbers:
        """Return the opposite of `equals`."""
        return self._made("ne", self, other)

    def least(self, other: Operand) -> DeviceNumbers:
        """Return the lesser numbers."""
        return self._made("minimum", self, other)

    def greatest(self, other: Operand) -> DeviceNumbers:
        """Return the greater numbers."""
        return self._made("maximum", self, other)

    def where(self, condition: DeviceNumbers, other: Operand) -> DeviceNumbers:
        """Return self where the condition is not 0, else the other."""
        return self._made("where", condition, self, other)

    def or_zero(self, condition: DeviceNumbers) -> DeviceNumbers:
        """Return self where the condition is not 0, else 0."""
        return self.where(condition, 0.0)

    # --- one operand ----------------------------------------------------------------------------------------

    def __neg__(self) -> DeviceNumbers:
        return self._made("neg", self)

    def __abs__(self) -> DeviceNumbers:
        return self._made("abs", self)

    def sqrt(self) -> DeviceNumbers:
        """Return the square roots."""
        return self._made("sqrt", self)

    def inverse(self, numerator: float = 1.0) -> DeviceNumbers:
        """Return numerator / self, and 0 where self is 0."""
        return (numerator / self).or_zero(self.differs(0.0))

    def truncated(self) -> DeviceNumbers:
        """Return whole numbers, rounded toward 0; int32 must hold them."""
        return self._made("cast", self._made("cast", self, "int32"), "float32")

    def rounded(self) -> DeviceNumbers:
        """Return the nearest whole numbers, halves away from 0; int32 must hold them."""
        cut = self.truncated()
        rest = self - cut
        return cut + ((rest >= 0.5) - (rest <= -0.5))

    def nearest(self) -> DeviceNumbers:
        """Return the nearest whole numbers, halves to even."""
        return self.function("nearest_integer")

    def nearest_within(self, least: float, most: float) -> DeviceNumbers:
        """Return the nearest whole numbers within limits."""
        return self.nearest().clamp(least, most)

    def clamp(self, least: float, most: float) -> DeviceNumbers:
        """Return the numbers, limited on both sides."""
        return self._made("clamp", self, least, most)

    def split(self, base: float) -> tuple[DeviceNumbers, DeviceNumbers]:
        """Return (self mod base, self / base) of whole numbers from 0 on; the base is a power of two."""
        high = (self * (1.0 / base)).truncated()
        return self.plus(high, -base), high

    def function(self, name: str) -> DeviceNumbers:
        """Return a function of each number, by its name in `kernels.pointwise`."""
        return self.through(pointwise(name, "s", ("float32",), "float32"))

    def through(self, program: Program, *others: DeviceNumbers) -> DeviceNumbers:
        """Return what a program of elements makes of these streams."""
        streams = {f"s{index}": each.tensor for index, each in enumerate((self, *others))}
        return DeviceNumbers(self.emitter, compute(self.emitter.device, program.name, program, streams, None))

    # --- along an axis, which stays with one element --------------------------------------------------------

    def sum(self, axis: int = 0) -> DeviceNumbers:
        """Return the sums."""
        return self._made("sum", self, axis, True)

    def max(self, axis: int = 0) -> DeviceNumbers:
        """Return the greatest numbers."""
        return self._made("max", self, axis, True)

    def min(self, axis: int = 0) -> DeviceNumbers:
        """Return the least numbers."""
        return self._made("min", self, axis, True)

    def extreme(self, axis: int = 0) -> DeviceNumbers:
        """Return the first of the numbers that are farthest from 0; NaN are none."""
        known = self.or_zero(self.equals(self))
        count, size = self.shape[axis], abs(known)
        shape = [-1 if each == axis % len(self.shape) else 1 for each in range(len(self.shape))]
        order = constant(self.emitter, np.arange(count, 0, -1, dtype=np.float32).reshape(shape))
        place = (size >= size.max(axis)) * DeviceNumbers(self.emitter, order)
        return known.or_zero(place.equals(place.max(axis))).sum(axis)

    def packed(self, base: float, axis: int) -> DeviceNumbers:
        """Return the whole numbers of which those along an axis, which goes, are digits, the lowest first."""
        before = (slice(None),) * axis
        return packed([self[(*before, index)] for index in range(self.shape[axis])], base)

    # --- views ----------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements along each axis."""
        return self.tensor.shape

    @property
    def T(self) -> DeviceNumbers:  # noqa: N802  (numpy's name)
        return DeviceNumbers(self.emitter, self.tensor.T)

    def __getitem__(self, index: Any) -> DeviceNumbers:
        return DeviceNumbers(self.emitter, self.tensor[index])

    def reshape(self, *shape: int) -> DeviceNumbers:
        """Return them in another shape, dense."""
        return DeviceNumbers(self.emitter, self.tensor.contiguous().reshape(*shape))

    def transpose(self, *axes: int) -> DeviceNumbers:
        """Return them with permuted axes."""
        return DeviceNumbers(self.emitter, self.tensor.transpose(*axes))

    def columns(self, size: int) -> DeviceNumbers:
        """Return groups of `size` in columns: [size, groups], dense."""
        turned = self.reshape(self.tensor.size // size, size).T
        return DeviceNumbers(self.emitter, turned.tensor.contiguous())


def packed(parts: Sequence[DeviceNumbers], base: float) -> DeviceNumbers:
    """Return parts[0] + base * parts[1] + base**2 * parts[2] + ... of whole numbers."""
    total = parts[0]
    for power, part in enumerate(parts[1:], start=1):
        total = total.plus(part, base**power)
    return total


def total(*factors: DeviceNumbers) -> DeviceNumbers:
    """Return the sums of columns of products, which are rounded from the left."""
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product.sum()
