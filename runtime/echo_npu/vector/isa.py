"""The vector engine's instruction set: opcodes, operands, the 64-bit encoding (docs/vector.md)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

CHUNK_MULTIPLE: Final = 16
"""Partial results of an accumulator; VLEN, ROW and the places of output writes are multiples of it."""


class Op(IntEnum):
    """Opcodes. The mnemonic is the name in lower case."""

    ADD = 0x00
    SUB = 0x01
    MUL = 0x02
    FMA = 0x03
    FNMA = 0x04
    FMS = 0x05
    SCALE = 0x06
    MIN = 0x08
    MAX = 0x09
    CMPEQ = 0x0A
    CMPLT = 0x0B
    CMPLE = 0x0C
    CMPUN = 0x0D
    SEL = 0x10
    CLASS = 0x11
    GETMANT = 0x12
    GETEXP = 0x13
    F2I = 0x14
    F2IZ = 0x15
    I2F = 0x16
    F2H = 0x17
    H2F = 0x18
    F2B = 0x19
    MOV = 0x1A
    SWAP = 0x1B
    IADD = 0x20
    ISUB = 0x21
    AND = 0x22
    OR = 0x23
    XOR = 0x24
    SHL = 0x25
    SHR = 0x26
    SAR = 0x27
    IMIN = 0x28
    IMAX = 0x29
    ICMPEQ = 0x2A
    ICMPLT = 0x2B
    ASET = 0x30
    FOLDADD = 0x38
    FOLDMIN = 0x39
    FOLDMAX = 0x3A
    FOLDIADD = 0x3B
    FOLDIMIN = 0x3C
    FOLDIMAX = 0x3D
    CHUNKS = 0x40
    REPEAT = 0x41
    NEXT = 0x42
    ADVANCE = 0x43
    END = 0x44

    @property
    def mnemonic(self) -> str:
        return self.name.lower()


class Form(StrEnum):
    """How an opcode uses the fields of its instruction."""

    ALU = "alu"  # dst and one to three sources
    ASET = "aset"
    FOLD = "fold"
    LOOP = "loop"  # chunks, repeat
    STEP = "step"  # next, advance: a set of streams in imm
    END = "end"


_UNARY: Final = frozenset(
    {Op.GETMANT, Op.GETEXP, Op.F2I, Op.F2IZ, Op.I2F, Op.F2H, Op.H2F, Op.F2B, Op.MOV, Op.SWAP}
)
_TERNARY: Final = frozenset({Op.FMA, Op.FNMA, Op.FMS, Op.SEL})

ACCUMULATING: Final = {
    Op.ADD: 1,
    Op.MIN: 1,
    Op.MAX: 1,
    Op.IADD: 1,
    Op.IMIN: 1,
    Op.IMAX: 1,
    Op.AND: 1,
    Op.OR: 1,
    Op.FMA: 2,
    Op.FNMA: 2,
}
"""Opcodes that may have an accumulator as destination, and how many sources they then take."""

FOLDED: Final = {
    Op.FOLDADD: Op.ADD,
    Op.FOLDMIN: Op.MIN,
    Op.FOLDMAX: Op.MAX,
    Op.FOLDIADD: Op.IADD,
    Op.FOLDIMIN: Op.IMIN,
    Op.FOLDIMAX: Op.IMAX,
}
"""The operation of the fifteen steps of a fold."""


def form_of(op: Op) -> Form:
    """How `op` uses its fields."""
    if op <= Op.ICMPLT:
        return Form.ALU
    if op == Op.ASET:
        return Form.ASET
    if op in FOLDED:
        return Form.FOLD
    if op in (Op.CHUNKS, Op.REPEAT):
        return Form.LOOP
    return Form.END if op == Op.END else Form.STEP


def source_count(op: Op, dst: int = 0) -> int:
    """How many of a, b, c `op` reads, when it writes the operand of code `dst`."""
    form = form_of(op)
    if form in (Form.ASET, Form.FOLD):
        return 1
    if form != Form.ALU:
        return 0
    if kind_of(dst) == Kind.ACCUMULATOR and op in ACCUMULATING:
        return ACCUMULATING[op]
    return 1 if op in _UNARY else 3 if op in _TERNARY else 2


class Kind(StrEnum):
    """What an operand code stands for."""

    VECTOR = "v"
    SCALAR = "r"
    STREAM = "s"
    ACCUMULATOR = "a"
    ROW_REGISTER = "w"
    OUT = "o"
    IMMEDIATE = "imm"
    IOTA = "iota"
    COUNTER = "counter"
    PARAMETER = "p"


_BANKS: Final = (
    (Kind.VECTOR, 0, 16),
    (Kind.SCALAR, 16, 16),
    (Kind.STREAM, 32, 4),
    (Kind.ACCUMULATOR, 36, 4),
    (Kind.ROW_REGISTER, 40, 2),
    (Kind.PARAMETER, 56, 8),
)
_SINGLE: Final = {
    42: ("o", Kind.OUT),
    48: ("imm", Kind.IMMEDIATE),
    49: ("iota", Kind.IOTA),
    50: ("row", Kind.COUNTER),
    51: ("batch0", Kind.COUNTER),
    52: ("batch1", Kind.COUNTER),
    53: ("cols", Kind.COUNTER),
    54: ("rep", Kind.COUNTER),
}

OPERAND_NAMES: Final[dict[int, str]] = {
    **{first + i: f"{kind.value}{i}" for kind, first, count in _BANKS for i in range(count)},
    **{code: name for code, (name, _) in _SINGLE.items()},
}
"""The name of each operand code that there is."""

OPERAND_CODES: Final[dict[str, int]] = {name: code for code, name in OPERAND_NAMES.items()}

_KINDS: Final[dict[int, Kind]] = {
    **{first + i: kind for kind, first, count in _BANKS for i in range(count)},
    **{code: kind for code, (_, kind) in _SINGLE.items()},
}

_DESTINATIONS: Final = frozenset({Kind.VECTOR, Kind.SCALAR, Kind.ROW_REGISTER, Kind.OUT, Kind.ACCUMULATOR})
_SOURCES: Final = frozenset(Kind) - {Kind.ACCUMULATOR, Kind.OUT}
_ASET_SOURCES: Final = frozenset({Kind.SCALAR, Kind.PARAMETER, Kind.IMMEDIATE, Kind.COUNTER})
_SWAP_SOURCES: Final = frozenset({Kind.VECTOR, Kind.STREAM, Kind.ROW_REGISTER})

OUT: Final = OPERAND_CODES["o"]
IMMEDIATE: Final = OPERAND_CODES["imm"]
IOTA: Final = OPERAND_CODES["iota"]


def kind_of(code: int) -> Kind | None:
    """What the operand code stands for; None if there is no such operand."""
    return _KINDS.get(code)


def index_of(code: int) -> int:
    """The number within its bank: 3 for v3, r3, ...; 0 for an operand that is alone."""
    for _, first, count in _BANKS:
        if first <= code < first + count:
            return code - first
    return 0


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an instruction, by its code of six bits."""

    code: int

    def __post_init__(self) -> None:
        if self.code not in OPERAND_NAMES:
            raise ValueError(f"there is no operand with code {self.code}")

    @property
    def kind(self) -> Kind:
        return _KINDS[self.code]

    @property
    def index(self) -> int:
        return index_of(self.code)

    def __str__(self) -> str:
        return OPERAND_NAMES[self.code]


def operand(name: str) -> Operand:
    """The operand called `name` ("v0", "iota", ...); ValueError if there is none."""
    code = OPERAND_CODES.get(name)
    if code is None:
        raise ValueError(f"there is no operand {name!r}")
    return Operand(code)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. Operand fields are codes; a field that the opcode does not use is 0.

    Any codes can be encoded and decoded; `illegal` tells whether the engine executes them.
    """

    op: Op
    dst: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    imm: int = 0
    one: bool = False

    def encode(self) -> int:
        """The 64-bit word."""
        return (
            self.op
            | int(self.one) << 7
            | self.dst << 8
            | self.a << 14
            | self.b << 20
            | self.c << 26
            | self.imm << 32
        )

    @classmethod
    def decode(cls, word: int) -> Instruction:
        """From a 64-bit word; ValueError for an unknown opcode."""
        try:
            op = Op(word & 0x7F)
        except ValueError:
            raise ValueError(f"there is no opcode 0x{word & 0x7F:02x}") from None
        return cls(
            op,
            dst=word >> 8 & 0x3F,
            a=word >> 14 & 0x3F,
            b=word >> 20 & 0x3F,
            c=word >> 26 & 0x3F,
            imm=word >> 32 & 0xFFFF_FFFF,
            one=bool(word >> 7 & 1),
        )

    @property
    def form(self) -> Form:
        return form_of(self.op)

    @property
    def sources(self) -> tuple[int, ...]:
        """The codes of the operands that it reads."""
        return (self.a, self.b, self.c)[: source_count(self.op, self.dst)]

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that a `next` or `advance` moves on."""
        return tuple(i for i in range(4) if self.imm >> i & 1) if self.form == Form.STEP else ()

    def illegal(self) -> str | None:
        """Why the engine does not execute it, whatever comes before: one of its operands. None: it does."""
        form = self.form
        if form in (Form.LOOP, Form.STEP, Form.END):
            return None
        destination = kind_of(self.dst)
        wanted = {Form.ASET: Kind.ACCUMULATOR, Form.FOLD: Kind.SCALAR}.get(form)
        if wanted is not None:
            if destination != wanted:
                return f"the destination of {self.op.mnemonic} is {_named(self.dst)}, not {wanted} register"
        elif destination not in _DESTINATIONS:
            return f"{_named(self.dst)} cannot be written"
        elif destination == Kind.ACCUMULATOR and self.op not in ACCUMULATING:
            return f"{self.op.mnemonic} does not accumulate"
        allowed = {Form.ASET: _ASET_SOURCES, Form.FOLD: frozenset({Kind.ACCUMULATOR})}.get(form, _SOURCES)
        if self.op == Op.SWAP:
            allowed = _SWAP_SOURCES
        for name, code in zip("abc", self.sources, strict=False):
            if kind_of(code) not in allowed:
                return f"{self.op.mnemonic} cannot read {_named(code)} as {name}"
        return None


def _named(code: int) -> str:
    return OPERAND_NAMES.get(code, f"operand code {code}")
