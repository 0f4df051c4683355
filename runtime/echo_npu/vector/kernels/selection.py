"""Programs that find the greatest elements one after another.

Elements are in falling order, equal ones in the order of their places; NaN is greater than any number. An
element's *rank* is an int32 in the same order: the bits of the number, all but the sign inverted where the
sign is set. The same step turns a rank back into bits.
"""

from functools import cache

from echo_npu.vector.isa import Operand
from echo_npu.vector.program import Builder, Program

_FIRST_RANK = -(2**31)
_LAST_PLACE = 2**31 - 1
_MAGNITUDE = 2**31 - 1


@cache
def next_greatest() -> Program:
    """s0 = elements, s1, s2 = an element and its place -> the first element after it in order, and its place.

    The place is an int32 that counts from a multiple of 2^n on; p0 = -2^n. The output is two segments of one
    element. Where no element is left, the result has the least rank.
    """
    b = Builder("next_greatest")
    x, element, place = b.stream(0), b.stream(1), b.stream(2)
    base, column, last = b.scalar(), b.scalar(), b.scalar()
    b.and_(base, place, b.param(0))
    b.isub(column, place, base)
    b.mov(last, element)
    _exchange(b, last, b.scalar())
    rank, mask, other = b.vector(), b.vector(), b.vector()

    def find() -> None:
        # After adding +0, equal elements have equal bits: -0 becomes +0, and every NaN the same one.
        b.add(rank, x, 0.0)
        _exchange(b, rank, mask)
        b.icmpeq(mask, rank, last)
        b.icmplt(other, column, b.iota)
        b.and_(mask, mask, other)
        b.icmplt(other, rank, last)
        b.or_(mask, mask, other)
        b.sel(rank, mask, rank, _FIRST_RANK)

    greatest, first = b.accumulator(), b.accumulator()
    b.aset(greatest, _FIRST_RANK)
    with b.chunks(advance=[x]):
        find()
        b.imax(greatest, rank)
    wanted = b.scalar()
    b.foldimax(wanted, greatest)
    b.aset(first, _LAST_PLACE)
    with b.chunks(advance=[x]):
        find()
        b.icmpeq(mask, rank, wanted)
        b.sel(mask, mask, b.iota, _LAST_PLACE)
        b.imin(first, mask)
    b.foldimin(column, first)
    _exchange(b, wanted, last)
    b.mov(b.out, wanted, one=True)
    b.iadd(b.out, column, base, one=True)
    return b.build()


@cache
def greatest_of() -> Program:
    """s0 = elements, s1 = int32 -> the first element in order, its word of s1, and that word >> p0.

    Of equal elements it takes the one with the least word. The output is three segments of one element.
    """
    b = Builder("greatest_of")
    x, place = b.stream(0), b.stream(1)
    rank, mask = b.vector(), b.vector()
    greatest, first = b.accumulator(), b.accumulator()
    b.aset(greatest, _FIRST_RANK)
    with b.chunks(advance=[x]):
        b.mov(rank, x)
        _exchange(b, rank, mask)
        b.imax(greatest, rank)
    wanted, found = b.scalar(), b.scalar()
    b.foldimax(wanted, greatest)
    b.aset(first, _LAST_PLACE)
    with b.chunks(advance=[x, place]):
        b.mov(rank, x)
        _exchange(b, rank, mask)
        b.icmpeq(mask, rank, wanted)
        b.sel(mask, mask, place, _LAST_PLACE)
        b.imin(first, mask)
    b.foldimin(found, first)
    _exchange(b, wanted, b.scalar())
    b.mov(b.out, wanted, one=True)
    b.mov(b.out, found, one=True)
    b.shr(b.out, found, b.param(0), one=True)
    return b.build()


@cache
def replace_at() -> Program:
    """s0 = words, s1 = a word, s2 = int32 -> the words, with s1 at place s2 of the row."""
    b = Builder("replace_at")
    x, word, place = (b.stream(i) for i in range(3))
    mask = b.vector()
    with b.chunks(advance=[x]):
        b.icmpeq(mask, b.iota, place)
        b.sel(b.out, mask, word, x)
    return b.build()


def _exchange(b: Builder, x: Operand, spare: Operand) -> None:
    """Turn bits into ranks, or ranks into bits, in the register x."""
    b.sar(spare, x, 31)
    b.and_(spare, spare, _MAGNITUDE)
    b.xor(x, x, spare)
