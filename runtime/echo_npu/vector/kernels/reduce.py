"""Programs of the reductions. Row axis: a row gives one element. Column axis: `repeats` segments give one."""

from functools import cache
from math import inf

from echo_npu.vector.kernels.axes import Axis
from echo_npu.vector.kernels.math import div
from echo_npu.vector.program import Builder, Program

_IDENTITY = {"add": 0.0, "min": inf, "max": -inf}
_LAST_INDEX = 2**31 - 1


@cache
def reduction(op: str, *, column: bool = False) -> Program:
    """s0 -> its sum ("add"), "min" or "max"."""
    return _total(f"reduce_{op}", op, column)


@cache
def mean(*, column: bool = False) -> Program:
    """s0 -> its sum / p0."""
    return _total("mean", "add", column)


def _total(name: str, op: str, column: bool) -> Program:
    b = Builder(f"{name}{'_column' if column else ''}")
    axis = Axis(b, column=column)
    x = b.stream(0)
    total = axis.start(op, _IDENTITY[op])
    with axis.loop(advance=[x]):
        total.take(x)
    result = total.result()
    if name == "mean":
        div(b, result, result, b.param(0))
    axis.store(result)
    return b.build()


@cache
def dot_column() -> Program:
    """s0, s1 -> the sum of their products down the columns, each fused with its addition."""
    b = Builder("dot_column")
    axis = Axis(b, column=True)
    x, y = b.stream(0), b.stream(1)
    total = axis.start("add", 0.0)
    with axis.loop(advance=[x, y]):
        total.take_product(x, y)
    axis.store(total.result())
    return b.build()


@cache
def argmax(*, column: bool = False) -> Program:
    """s0 -> int32 position of the first greatest element; NaN is greater than any number."""
    b = Builder(f"argmax{'_column' if column else ''}")
    axis = Axis(b, column=column)
    x = b.stream(0)
    greatest = axis.start("max", -inf)
    with axis.loop(advance=[x]):
        greatest.take(x)
    # After adding +0, equal elements have equal bits: -0 becomes +0, and every NaN the same one.
    wanted = greatest.result()
    b.add(wanted, wanted, 0.0)
    first = axis.start("imin", _LAST_INDEX)
    place = b.vector()
    with axis.loop(advance=[x]):
        b.add(place, x, 0.0)
        b.icmpeq(place, place, wanted)
        b.sel(place, place, axis.index, _LAST_INDEX)
        first.take(place)
    axis.store(first.result())
    return b.build()
