"""The vector engine's instruction set: opcodes, operands, the 64-bit encoding (docs/vector.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from echo_npu.spec.instructions import (
    BANKS,
    FOLDED,
    INSTRUCTION_A,
    INSTRUCTION_B,
    INSTRUCTION_C,
    INSTRUCTION_DST,
    INSTRUCTION_IMM,
    INSTRUCTION_ONE,
    INSTRUCTION_OPCODE,
    INSTRUCTIONS,
    PARTIALS,
    Kind,
    Op,
)

__all__ = [
    "ACCUMULATING",
    "CHUNK_MULTIPLE",
    "CODES_OF",
    "FOLDED",
    "IMMEDIATE",
    "IOTA",
    "OPERAND_CODES",
    "OPERAND_NAMES",
    "OUT",
    "Form",
    "Immediate",
    "Instruction",
    "Kind",
    "Op",
    "Operand",
    "data_instruction",
    "form_of",
    "index_of",
    "kind_of",
    "operand",
    "source_count",
]

CHUNK_MULTIPLE: Final = PARTIALS
"""Partial results of an accumulator. VLEN, ROW and the offsets of output writes are multiples of it."""


class Form(StrEnum):
    """How an opcode uses the fields of its instruction."""

    ALU = "alu"  # dst and one to three sources
    ASET = "aset"
    FOLD = "fold"
    LOOP = "loop"  # chunks, repeat
    STEP = "step"  # next, advance: a set of streams in imm
    END = "end"


_FORMS: Final = {op: Form(facts.form) for op, facts in INSTRUCTIONS.items()}

ACCUMULATING: Final = {op: facts.accumulates for op, facts in INSTRUCTIONS.items() if facts.accumulates}
"""Opcodes that may write an accumulator, and the number of sources that they then take."""


def form_of(op: Op) -> Form:
    """Return how `op` uses its fields."""
    return _FORMS[op]


def source_count(op: Op, dst: int = 0) -> int:
    """Return how many of a, b, c `op` reads when it writes the operand of code `dst`."""
    facts = INSTRUCTIONS[op]
    accumulates = facts.accumulates and kind_of(dst) == Kind.ACCUMULATOR
    return facts.accumulates if accumulates else facts.sources


OPERAND_NAMES: Final[dict[int, str]] = {
    first + i: f"{name}{i}" if count > 1 else name for name, _, first, count in BANKS for i in range(count)
}
"""The name of each operand code."""

OPERAND_CODES: Final[dict[str, int]] = {name: code for code, name in OPERAND_NAMES.items()}

_KINDS: Final[dict[int, Kind]] = {first + i: kind for _, kind, first, count in BANKS for i in range(count)}

CODES_OF: Final[dict[Kind, list[int]]] = {
    kind: [code for code, each in _KINDS.items() if each == kind] for kind in Kind
}
"""The operand codes of each kind, in their order."""

_DESTINATIONS: Final = frozenset({Kind.VECTOR, Kind.SCALAR, Kind.ROW_REGISTER, Kind.OUT, Kind.ACCUMULATOR})
_SOURCES: Final = frozenset(Kind) - {Kind.ACCUMULATOR, Kind.OUT}
_ASET_SOURCES: Final = frozenset({Kind.SCALAR, Kind.PARAMETER, Kind.IMMEDIATE, Kind.COUNTER})
_SWAP_SOURCES: Final = frozenset({Kind.VECTOR, Kind.STREAM, Kind.ROW_REGISTER})

OUT: Final = OPERAND_CODES["o"]
IMMEDIATE: Final = OPERAND_CODES["imm"]
IOTA: Final = OPERAND_CODES["iota"]


def kind_of(code: int) -> Kind | None:
    """Return the kind of an operand code; None if there is no such operand."""
    return _KINDS.get(code)


def index_of(code: int) -> int:
    """Return the number within the operand's bank: 3 for v3, r3, ...; 0 for a single operand."""
    for _, _, first, count in BANKS:
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
    """Return the operand called `name` ("v0", "iota", ...); ValueError if there is none."""
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
        """Return the 64-bit word."""
        return (
            self.op << INSTRUCTION_OPCODE.shift
            | int(self.one) << INSTRUCTION_ONE.shift
            | self.dst << INSTRUCTION_DST.shift
            | self.a << INSTRUCTION_A.shift
            | self.b << INSTRUCTION_B.shift
            | self.c << INSTRUCTION_C.shift
            | self.imm << INSTRUCTION_IMM.shift
        )

    @classmethod
    def decode(cls, word: int) -> Instruction:
        """Decode a 64-bit word; ValueError for an unknown opcode."""
        number = INSTRUCTION_OPCODE.get(word)
        try:
            op = Op(number)
        except ValueError:
            raise ValueError(f"there is no opcode 0x{number:02x}") from None
        return cls(
            op,
            dst=INSTRUCTION_DST.get(word),
            a=INSTRUCTION_A.get(word),
            b=INSTRUCTION_B.get(word),
            c=INSTRUCTION_C.get(word),
            imm=INSTRUCTION_IMM.get(word),
            one=bool(INSTRUCTION_ONE.get(word)),
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
        """The streams that a `next` or `advance` advances."""
        return tuple(i for i in range(4) if self.imm >> i & 1) if self.form == Form.STEP else ()

    def illegal(self) -> str | None:
        """Return which operand keeps the engine from executing it, and why; None if it executes it."""
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


@dataclass(frozen=True, slots=True)
class Immediate:
    """A source that is a number, by its 32 bits."""

    bits: int


def data_instruction(
    op: Op, dst: int, sources: Sequence[int | Immediate], *, one: bool = False
) -> Instruction:
    """Return an instruction that reads operands.

    Args:
        dst: code of the destination.
        sources: codes of operands, and immediates, of which an instruction has room for one.

    Raises:
        ValueError: two different immediates, or another number of sources than `op` takes.
    """
    numbers = list(dict.fromkeys(source.bits for source in sources if isinstance(source, Immediate)))
    if len(numbers) > 1:
        raise ValueError(f"two immediates, 0x{numbers[0]:08x} and 0x{numbers[1]:08x}")
    wanted = source_count(op, dst)
    if len(sources) != wanted:
        raise ValueError(f"{len(sources)} sources, it takes {wanted}")
    codes = [IMMEDIATE if isinstance(source, Immediate) else source for source in sources]
    a, b, c = (*codes, 0, 0, 0)[:3]
    return Instruction(op, dst, a, b, c, numbers[0] if numbers else 0, one)


def _named(code: int) -> str:
    return OPERAND_NAMES.get(code, f"operand code {code}")
