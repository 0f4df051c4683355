"""Programs of the rotary position embedding."""

from functools import cache

from echo_npu.vector.program import Builder, Program


@cache
def rope_halves() -> Program:
    """s0, s1 = the halves of a head, s2 = cos, s3 = sin -> two segments, the halves rotated.

    The second half waits in a row register until the first one is written.
    """
    b = Builder("rope_halves")
    first, second, cos, sin = (b.stream(i) for i in range(4))
    row, left, right = b.row_register(), b.vector(), b.vector()
    with b.chunks(advance=[first, second, cos, sin]):
        b.mul(left, first, cos)
        b.mul(right, second, cos)
        b.fnma(b.out, second, sin, left)
        b.fma(row, first, sin, right)
    with b.chunks():
        b.mov(b.out, row)
    return b.build()


@cache
def rope_pairs() -> Program:
    """s0 = a head, s1 = cos, s2 = sin of each element's pair -> the pairs rotated."""
    b = Builder("rope_pairs")
    x, cos, sin = (b.stream(i) for i in range(3))
    kept, turned, sign = b.vector(), b.vector(), b.vector()
    with b.chunks(advance=[x, cos, sin]):
        # The second element of a pair adds what the first one subtracts, so its neighbour changes sign.
        b.shl(sign, b.iota, 31)
        b.swap(turned, x)
        b.xor(turned, turned, sign)
        b.mul(kept, x, cos)
        b.fnma(b.out, turned, sin, kept)
    return b.build()
