"""Programs of reductions of int64, whose low and high words are two streams."""

from functools import cache
from typing import Final

from echo_npu.vector.kernels.axes import Axis
from echo_npu.vector.program import Builder, Program

_LIMITS: Final = {"max": -(2**31), "min": 2**31 - 1}


@cache
def extreme(op: str, *, high: bool) -> Program:
    """s0, s1 = low and high words -> the low, or `high`, word of the greatest ("max") or least ("min")."""
    b = Builder(f"extreme_{op}" + ("_high" if high else "_low"))
    axis = Axis(b)
    low, upper = b.stream(0), b.stream(1)
    uppers = axis.start(f"i{op}", _LIMITS[op])
    with axis.loop(advance=[upper]):
        uppers.take(upper)
    wanted = uppers.result()
    if high:
        axis.store(wanted)
        return b.build()
    value, mask = b.vector(), b.vector()
    lows = axis.start(f"i{op}", _LIMITS[op])
    with axis.loop(advance=[low, upper]):
        b.icmpeq(mask, upper, wanted)
        b.xor(value, low, 0x8000_0000)  # low words are unsigned
        b.sel(value, mask, value, _LIMITS[op])
        lows.take(value)
    found = lows.result()
    b.xor(found, found, 0x8000_0000)
    axis.store(found)
    return b.build()
