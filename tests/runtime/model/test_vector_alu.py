"""The vector engine's arithmetic compared with independent definitions: fractions and Python integers."""

import itertools
import math
import random
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from echo_npu.model import vector_alu as alu
from echo_npu.vector import Op
from tests.runtime.model.special_definitions import exp_value, rcp_value, rsqrt_value

pytestmark = pytest.mark.usefixtures("without_warnings")

NAN = 0x7FC00000
CORNERS = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00000002, 0x007FFFFF, 0x807FFFFF, 0x00800000,
    0x80800000, 0x00800001, 0x00FFFFFF, 0x01000000, 0x33000000, 0x33800000, 0xB3800000, 0x337FFFFF,
    0x3F7FFFFF, 0x3F800000, 0xBF800000, 0x3F800001, 0xBF800001, 0x3FFFFFFF, 0x40000000, 0x3F000000,
    0xBF000000, 0x3FC00000, 0x40200000, 0x40600000, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x38800000,
    0x387FFFFF, 0x33000001, 0x387FC000, 0x4B000000, 0x4B800001, 0x4EFFFFFF, 0x4F000000, 0xCF000000,
    0xCF000001, 0x4F800000, 0x5F000000, 0x7E7FFFFF, 0x7F000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x00000010, 0x0000001F, 0x00000020,
    0x7FFFFFFF, 0x0000FC00, 0x00007C00, 0x00007C01, 0x00000400, 0x000003FF, 0x12345678,
]  # fmt: skip
INFINITY = 0x7F800000


def is_nan(bits: int) -> bool:
    return bits & 0x7FFFFFFF > INFINITY


def is_infinite(bits: int) -> bool:
    return bits & 0x7FFFFFFF == INFINITY


def sign(bits: int) -> int:
    return bits >> 31


def exact(bits: int) -> Fraction:
    """Return the exact value of a finite float32."""
    size, power = bits & 0x7FFFFF, bits >> 23 & 0xFF
    value = (
        Fraction(size, 2**149)
        if power == 0
        else Fraction(size | 0x800000, 2**23) * Fraction(2) ** (power - 127)
    )
    return -value if sign(bits) else value


def nearest_even(value: Fraction) -> int:
    """Round to the nearest integer."""
    low = math.floor(value)
    rest = value - low
    return low + int(rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


def rounded(value: Fraction, zero_sign: int = 0, *, fraction_bits: int = 23, bias: int = 127) -> int:
    """Round a value to a binary format of IEEE-754; `zero_sign` is the sign of an exact zero."""
    width = fraction_bits + bias.bit_length() + 1
    if value == 0:
        return zero_sign << width
    negative, size = int(value < 0), abs(value)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** power > size:
        power -= 1
    power = max(power, 1 - bias)
    steps = nearest_even(size / Fraction(2) ** (power - fraction_bits))
    # steps of a subnormal carry into the exponent by themselves
    bits = steps + (power + bias - 1 << fraction_bits)
    limit = (2 * bias + 1) << fraction_bits
    return min(bits, limit) | negative << width


def fma(a: int, b: int, c: int) -> int:
    if is_nan(a) or is_nan(b) or is_nan(c):
        return NAN
    product_sign = sign(a) ^ sign(b)
    if is_infinite(a) or is_infinite(b):
        if exact(a) == 0 if not is_infinite(a) else not is_infinite(b) and exact(b) == 0:
            return NAN
        if is_infinite(c) and sign(c) != product_sign:
            return NAN
        return INFINITY | product_sign << 31
    if is_infinite(c):
        return c
    product = exact(a) * exact(b)
    return rounded(product + exact(c), product_sign & sign(c) if product == 0 or exact(c) == 0 else 0)


def flip(bits: int) -> int:
    return bits ^ 1 << 31


def key(bits: int) -> tuple[float, int]:
    """Return a sort key of float32, with -0 below +0."""
    return float_of(bits), -sign(bits)


def float_of(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def mask(condition: bool) -> int:
    return 0xFFFFFFFF if condition else 0


def scaled(a: int, b: int) -> int:
    if is_nan(a):
        return NAN
    if is_infinite(a) or exact(a) == 0:
        return a
    return rounded(exact(a) * Fraction(2) ** max(-500, min(500, signed(b))))


def class_number(bits: int) -> int:
    if is_nan(bits):
        return 8
    size = bits & 0x7FFFFFFF
    rank = 0 if size == 0 else 1 if size < 0x800000 else 2 if size < INFINITY else 3
    return 3 - rank if sign(bits) else 4 + rank


def floor_log2(bits: int) -> int:
    return math.frexp(float_of(bits))[1] - 1


def getmant(a: int) -> int:
    if is_nan(a):
        return NAN
    return a if is_infinite(a) or exact(a) == 0 else rounded(exact(a) / Fraction(2) ** floor_log2(a))


def getexp(a: int) -> int:
    if is_nan(a) or is_infinite(a):
        return 512
    return (-512 if exact(a) == 0 else floor_log2(a)) & 0xFFFFFFFF


def to_int(a: int, how: Callable[[Fraction], int]) -> int:
    if is_nan(a):
        return 0
    if is_infinite(a):
        return 0x80000000 if sign(a) else 0x7FFFFFFF
    return max(-(2**31), min(2**31 - 1, how(exact(a)))) & 0xFFFFFFFF


def narrowed(a: int, fraction_bits: int, bias: int, nan: int) -> int:
    if is_nan(a):
        return nan
    width = fraction_bits + bias.bit_length() + 1
    if is_infinite(a):
        return (2 * bias + 1) << fraction_bits | sign(a) << width
    return rounded(exact(a), sign(a), fraction_bits=fraction_bits, bias=bias)


def widened(a: int) -> int:
    half = a & 0xFFFF
    power, size = half >> 10 & 31, half & 0x3FF
    if power == 31:
        return NAN if size else INFINITY | (half >> 15) << 31
    value = (
        Fraction(size, 2**24) if power == 0 else Fraction(size | 0x400, 2**10) * Fraction(2) ** (power - 15)
    )
    return rounded(-value if half >> 15 else value, half >> 15)


def pick(a: int, b: int, greater: bool) -> int:
    if is_nan(a) or is_nan(b):
        return NAN
    return (max if greater else min)(a, b, key=key)


def special_exp(a: int) -> int:
    if is_nan(a):
        return NAN
    if abs(float_of(a)) < 128:
        return rounded(exp_value(exact(a)))
    return 0 if sign(a) else INFINITY


def special_rcp(a: int) -> int:
    if is_nan(a):
        return NAN
    if is_infinite(a) or exact(a) == 0:
        return a ^ INFINITY
    return rounded(rcp_value(abs(exact(a)))) | sign(a) << 31


def special_rsqrt(a: int) -> int:
    if is_nan(a) or float_of(a) < 0:
        return NAN
    if is_infinite(a) or exact(a) == 0:
        return a ^ INFINITY
    return rounded(rsqrt_value(exact(a)))


ONE, MINUS_ZERO = 0x3F800000, 0x80000000
DEFINITIONS: dict[Op, Callable[..., int]] = {
    Op.ADD: lambda a, b: fma(a, ONE, b),
    Op.SUB: lambda a, b: fma(a, ONE, flip(b)),
    # a product of -0 plus -0 is -0, one of +0 plus -0 is +0: the sum keeps the product as it is
    Op.MUL: lambda a, b: fma(a, b, MINUS_ZERO),
    Op.FMA: fma,
    Op.FNMA: lambda a, b, c: fma(flip(a), b, c),
    Op.FMS: lambda a, b, c: fma(a, b, flip(c)),
    Op.SCALE: scaled,
    Op.MIN: lambda a, b: pick(a, b, False),
    Op.MAX: lambda a, b: pick(a, b, True),
    Op.CMPEQ: lambda a, b: mask(float_of(a) == float_of(b)),
    Op.CMPLT: lambda a, b: mask(float_of(a) < float_of(b)),
    Op.CMPLE: lambda a, b: mask(float_of(a) <= float_of(b)),
    Op.CMPUN: lambda a, b: mask(is_nan(a) or is_nan(b)),
    Op.SEL: lambda a, b, c: b if a else c,
    Op.CLASS: lambda a, b: mask(bool(b >> class_number(a) & 1)),
    Op.GETMANT: getmant,
    Op.GETEXP: getexp,
    Op.F2I: lambda a: to_int(a, nearest_even),
    Op.F2IZ: lambda a: to_int(a, math.trunc),
    Op.I2F: lambda a: rounded(Fraction(signed(a))),
    Op.F2H: lambda a: narrowed(a, 10, 15, 0x7E00),
    Op.H2F: widened,
    Op.F2B: lambda a: narrowed(a, 7, 127, 0x7FC0),
    Op.MOV: lambda a: a,
    Op.EXP: special_exp,
    Op.RCP: special_rcp,
    Op.RSQRT: special_rsqrt,
    Op.IADD: lambda a, b: (a + b) & 0xFFFFFFFF,
    Op.ISUB: lambda a, b: (a - b) & 0xFFFFFFFF,
    Op.AND: lambda a, b: a & b,
    Op.OR: lambda a, b: a | b,
    Op.XOR: lambda a, b: a ^ b,
    Op.SHL: lambda a, b: a << b % 32 & 0xFFFFFFFF,
    Op.SHR: lambda a, b: a >> b % 32,
    Op.SAR: lambda a, b: signed(a) >> b % 32 & 0xFFFFFFFF,
    Op.IMIN: lambda a, b: min(a, b, key=signed),
    Op.IMAX: lambda a, b: max(a, b, key=signed),
    Op.ICMPEQ: lambda a, b: mask(a == b),
    Op.ICMPLT: lambda a, b: mask(signed(a) < signed(b)),
}
SOURCES = {op: definition.__code__.co_argcount for op, definition in DEFINITIONS.items()}


def near(rng: random.Random, exponent: int) -> int:
    """Draw a float32 near 2**exponent, often with few bits."""
    power = max(0, min(254, exponent + 127 + rng.randint(-2, 2)))
    fraction = rng.choice(
        (rng.getrandbits(23), 1 << rng.randrange(23), 0, 0x7FFFFF, rng.getrandbits(4) << 19)
    )
    return rng.getrandbits(1) << 31 | power << 23 | fraction


def random_operands(op: Op, rng: random.Random) -> tuple[int, ...]:
    """Draw operands with close exponents, so that products and sums cancel, round and underflow."""
    exponents = [rng.randint(-149, 127) for _ in range(2)]
    together = exponents[0] + exponents[1] if rng.random() < 0.5 else exponents[0]
    drawn = [near(rng, exponents[0]), near(rng, exponents[1]), near(rng, together + rng.randint(-50, 30))]
    if op in (Op.ADD, Op.SUB, Op.CMPEQ, Op.MIN, Op.MAX):
        drawn[1] = rng.choice((drawn[1], drawn[2], drawn[0], flip(drawn[0]), drawn[0] + 1))
    if op == Op.SCALE:
        drawn[1] = rng.choice((rng.randint(-300, 300) & 0xFFFFFFFF, rng.getrandbits(32)))
    if op in (Op.SEL, Op.SHL, Op.SHR, Op.SAR, Op.CLASS):
        drawn[rng.randrange(2)] = rng.choice((0, rng.getrandbits(9), rng.getrandbits(32)))
    if op == Op.EXP:
        drawn[0] = near(rng, rng.randint(-24, 7))
    if op in (Op.F2I, Op.F2IZ):
        drawn[0] = near(rng, rng.randint(-3, 33))
    if op in (Op.F2H, Op.F2B):
        drawn[0] = near(rng, rng.randint(-27, 18)) & rng.choice((0xFFFFFFFF, 0xFFFFF000, 0xFFFF8000))
    if op in (Op.I2F, Op.H2F, Op.ICMPLT, Op.IADD):
        drawn = [rng.getrandbits(32) >> rng.randrange(32) for _ in drawn]
    return tuple(drawn[: SOURCES[op]])


def operands(op: Op) -> list[tuple[int, ...]]:
    rng = random.Random(op)
    count = SOURCES[op]
    if count < 3:
        corners = list(itertools.product(CORNERS, repeat=count))
    else:
        corners = [(a, b, rng.choice(CORNERS)) for a in CORNERS for b in CORNERS for _ in range(2)]
    return [*corners, *(random_operands(op, rng) for _ in range(6000))]


def test_definitions_are_complete() -> None:
    """Every elementwise opcode is tested here."""
    assert set(DEFINITIONS) == set(alu.ALU)


@pytest.mark.parametrize("op", DEFINITIONS, ids=lambda op: op.mnemonic)
def test_opcode(op: Op) -> None:
    """All pairs of corner classes, and operands with close exponents, give the bits of the definition."""
    cases = operands(op)
    columns = [np.array(column, dtype=np.uint32) for column in zip(*cases, strict=True)]
    result = alu.ALU[op](*columns)
    assert result.dtype == np.uint32
    expected = np.array([DEFINITIONS[op](*case) for case in cases], dtype=np.uint32)
    wrong = np.flatnonzero(result != expected)
    if wrong.size:
        first = wrong[0]
        shown = ", ".join(f"0x{value:08x}" for value in cases[first])
        got, right = f"0x{result[first]:08x}", f"0x{expected[first]:08x}"
        pytest.fail(f"{op.mnemonic}({shown}) is {got}, not {right}; {wrong.size} wrong")


def test_fma_rounds_once() -> None:
    """Sums lie closer to a border of two float32 results than float64 can represent."""
    # (1 + 2^-23) * (1 + 2^-23) = 1 + 2^-22 + 2^-46; 2^60 times it, plus and minus half an ulp and a little
    one_ulp = 0x3F800001
    big = 0x5D800000  # 2^60
    cases = []
    for tiny in (0x00000001, 0x80000001, 0x2B000000, 0xAB000000, 0x1E000000, 0x9E000000):
        for half in (0x33800000, 0xB3800000):  # +- 2^-24
            cases.append((one_ulp, half, tiny))
            cases.append((0x3F800000 | 0x7FFFFF, half, tiny))
        cases.append((one_ulp, one_ulp, tiny))
        cases.append((big, one_ulp, tiny))
        cases.append((0x20000001, 0x1F800001, tiny))  # a product below the least subnormal's half
    for case in cases:
        got = alu.fma(*(np.array([value], dtype=np.uint32) for value in case))
        assert got[0] == fma(*case), [hex(value) for value in case]


def test_operands_broadcast() -> None:
    """A scalar operand, [rows, 1], works against [rows, n]."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**32, (5, 7), dtype=np.uint32)
    b = rng.integers(0, 2**32, (5, 1), dtype=np.uint32)
    for op, function in alu.ALU.items():
        arguments = (a, b, b)[: SOURCES[op]]
        whole = function(*arguments)
        each = function(*(np.array(np.broadcast_to(argument, a.shape)) for argument in arguments))
        assert np.array_equal(whole, each), op


@pytest.mark.parametrize("count", [1, 2, 7, 16])
def test_swap(count: int) -> None:
    a = np.arange(1, 17, dtype=np.uint32)[None, :]
    expected = [int(a[0, i ^ 1]) if i ^ 1 < count and i < count else 0 for i in range(16)]
    assert alu.swap(a, count)[0].tolist() == expected


ACCUMULATED = [Op.ADD, Op.MIN, Op.MAX, Op.IADD, Op.IMIN, Op.IMAX, Op.AND, Op.OR, Op.FMA, Op.FNMA]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 40, 115])
@pytest.mark.parametrize("op", ACCUMULATED, ids=lambda op: op.mnemonic)
def test_partials(op: Op, count: int) -> None:
    """Element i goes to partial result i mod 16, in ascending i."""
    rng = random.Random(count)
    values = [[near(rng, rng.randint(-4, 4)) for _ in range(count)] for _ in range(2)]
    start = [near(rng, 0) for _ in range(16)]
    accumulator = np.array([start], dtype=np.uint32)
    sources = values if op in (Op.FMA, Op.FNMA) else values[:1]
    alu.partials(op, accumulator, *(np.array([source], dtype=np.uint32) for source in sources))
    expected = list(start)
    for i in range(count):
        old = expected[i % 16]
        if len(sources) == 2:
            expected[i % 16] = DEFINITIONS[op](values[0][i], values[1][i], old)
        else:
            expected[i % 16] = DEFINITIONS[op](old, values[0][i])
    assert accumulator[0].tolist() == expected


@pytest.mark.parametrize(
    ("fold", "step"),
    [
        (Op.FOLDADD, Op.ADD),
        (Op.FOLDMIN, Op.MIN),
        (Op.FOLDMAX, Op.MAX),
        (Op.FOLDIADD, Op.IADD),
        (Op.FOLDIMIN, Op.IMIN),
        (Op.FOLDIMAX, Op.IMAX),
    ],
)
def test_fold(fold: Op, step: Op) -> None:
    """From the first partial result on, one rounded operation a step."""
    rng = random.Random(fold)
    for _ in range(20):
        values = [near(rng, rng.randint(-9, 9)) for _ in range(16)]
        expected = values[0]
        for value in values[1:]:
            expected = DEFINITIONS[step](expected, value)
        assert alu.fold(fold, np.array([values], dtype=np.uint32)).tolist() == [expected]
