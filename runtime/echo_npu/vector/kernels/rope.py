"""Programs of the rotary position embedding."""

from functools import cache

from echo_npu.vector.kernels.axes import variant
from echo_npu.vector.kernels.rounding import result
from echo_npu.vector.program import Builder, Program


@cache
def rope_halves(*, half: bool = False) -> Program:
    """s0, s1 = the halves of a head, s2 = cos, s3 = sin -> two segments, the halves rotated; to float16 with
    `half`.

    The second half waits in a row register until the first one is written.
    """
    b = Builder(variant("rope_halves", half=half))
    first, second, cos, sin = (b.stream(i) for i in range(4))
    row, left, right = b.row_register(), b.vector(), b.vector()
    with b.chunks(advance=[first, second, cos, sin]):
        b.mul(left, first, cos)
        b.mul(right, second, cos)
        with result(b, half=half) as out:
            b.fnma(out, second, sin, left)
        b.fma(row, first, sin, right)
    with b.chunks():
        (b.f2h if half else b.mov)(b.out, row)
    return b.build()


@cache
def rope_pairs(*, half: bool = False) -> Program:
    """s0 = a head, s1 = cos, s2 = sin of each element's pair -> the pairs rotated; to float16 with `half`."""
    b = Builder(variant("rope_pairs", half=half))
    x, cos, sin = (b.stream(i) for i in range(3))
    kept, turned, sign = b.vector(), b.vector(), b.vector()
    with b.chunks(advance=[x, cos, sin]):
        # The second element of a pair adds what the first one subtracts, so its neighbour changes sign.
        b.shl(sign, b.iota, 31)
        b.swap(turned, x)
        b.xor(turned, turned, sign)
        b.mul(kept, x, cos)
        with result(b, half=half) as out:
            b.fnma(out, turned, sin, kept)
    return b.build()
