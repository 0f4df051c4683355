"""Programs of the vector engine, and the builder that kernels are written with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final, ParamSpec, cast

import numpy as np
from numpy.typing import NDArray

from echo_npu.vector.disassembler import describe, disassemble
from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.isa import (
    CODES_OF,
    IMMEDIATE,
    OPERAND_NAMES,
    OUT,
    Form,
    Immediate,
    Instruction,
    Kind,
    Op,
    Operand,
    data_instruction,
    kind_of,
    operand,
)

Value = Operand | float | np.floating | np.integer
"""A source operand. A number is an immediate: a float becomes float32, an integer 32 bits."""

MAX_PASSES: Final = 15


class AssemblyError(ValueError):
    """A program that the vector engine would not execute, or that reads a register before writing it.

    Attributes: instruction (its number from the program's start; None if the error has no single one).
    """

    def __init__(self, reason: str, instruction: int | None = None) -> None:
        self.instruction = instruction
        super().__init__(reason)


@dataclass(frozen=True)
class Program:
    """The words of one program. They are position-independent: it runs at any place of program memory.

    Attributes:
        name: for messages and listings.
        instructions: the last one is END.
        passes: for each input stream, how many times the program goes through the row; a loop that advances
            the stream is one pass. 1 for a stream that it does not read.
    """

    name: str
    instructions: tuple[Instruction, ...]
    passes: tuple[int, int, int, int]

    @cached_property
    def words(self) -> NDArray[np.uint64]:
        """The encoded instructions, read-only."""
        words = np.array([instruction.encode() for instruction in self.instructions], dtype=np.uint64)
        words.flags.writeable = False
        return words

    @cached_property
    def code(self) -> bytes:
        """The words as bytes, which identify a program."""
        return self.words.tobytes()

    def __len__(self) -> int:
        return len(self.instructions)

    def listing(self) -> str:
        """Return the text that assembles to this program."""
        return disassemble(self)


def make_program(name: str, instructions: Sequence[Instruction]) -> Program:
    """Check instructions and make a program of them.

    Raises:
        AssemblyError: an illegal operand, wrongly nested loops, END not at the end, or a register read before
            it is written; it names the instruction and the reason.
    """
    _check(name, instructions)
    return Program(name, tuple(instructions), _passes(instructions))


def _check(name: str, instructions: Sequence[Instruction]) -> None:
    def fail(number: int, reason: str) -> AssemblyError:
        shown = describe(instructions[number]) if number < len(instructions) else "the end"
        return AssemblyError(f"{name}: instruction {number}, `{shown}`: {reason}", number)

    loops: list[Op] = []
    written: set[int] = set()
    for number, instruction in enumerate(instructions):
        reason = instruction.illegal()
        if reason:
            raise fail(number, reason)
        op = instruction.op
        if op == Op.END and loops:
            raise fail(number, f"{loops[-1].mnemonic} has no next")
        if op == Op.END and number != len(instructions) - 1:
            raise fail(number, "end must be the last instruction")
        if instruction.form == Form.LOOP:
            if op in loops:
                raise fail(number, f"a {op.mnemonic} loop in a {op.mnemonic} loop")
            loops.append(op)
        elif op == Op.NEXT:
            if not loops:
                raise fail(number, "no loop to end")
            loops.pop()
        read = list(instruction.sources)
        if kind_of(instruction.dst) == Kind.ACCUMULATOR and instruction.form == Form.ALU:
            read.append(instruction.dst)
        for code in read:
            kept = (Kind.VECTOR, Kind.SCALAR, Kind.ROW_REGISTER, Kind.ACCUMULATOR)
            if kind_of(code) in kept and code not in written:
                raise fail(number, f"{OPERAND_NAMES[code]} is read before it is written")
        if instruction.form in (Form.ALU, Form.ASET, Form.FOLD):
            written.add(instruction.dst)
    if not instructions or instructions[-1].op != Op.END:
        raise AssemblyError(f"{name}: the program does not end with `end`", len(instructions))


def _passes(instructions: Sequence[Instruction]) -> tuple[int, int, int, int]:
    """Count passes: an outermost loop that advances a stream is one; a read after it begins another."""
    done = [0] * 4  # passes that are complete
    needed = [1] * 4
    moved: set[int] = set()  # streams advanced in the current outermost loop
    depth = 0
    for instruction in instructions:
        for code in instruction.sources:
            if kind_of(code) == Kind.STREAM:
                needed[code - 32] = done[code - 32] + 1
        if instruction.form == Form.LOOP:
            depth += 1
        elif instruction.form == Form.STEP and depth:
            moved.update(instruction.streams)
        if instruction.op == Op.NEXT:
            depth -= 1
            if depth == 0:
                for stream in moved:
                    done[stream] += 1
                moved.clear()
    first, second, third, fourth = (min(count, MAX_PASSES) for count in needed)
    return first, second, third, fourth


_P = ParamSpec("_P")


# The signatures of the mnemonics. An accumulator as destination is also the last source.
def _unary(b: Builder, dst: Operand, a: Value, /, *, one: bool = False) -> None: ...
def _binary(b: Builder, dst: Operand, a: Value, c: Value, /, *, one: bool = False) -> None: ...
def _ternary(b: Builder, dst: Operand, a: Value, c: Value, d: Value, /, *, one: bool = False) -> None: ...
def _binary_or_accumulate(
    b: Builder, dst: Operand, a: Value, c: Value | None = None, /, *, one: bool = False
) -> None: ...
def _ternary_or_accumulate(
    b: Builder, dst: Operand, a: Value, c: Value, d: Value | None = None, /, *, one: bool = False
) -> None: ...
def _accumulator(b: Builder, dst: Operand, a: Value, /) -> None: ...


def _mnemonic(form: Callable[_P, None], op: Op, doc: str) -> Callable[_P, None]:
    """Make the method of `Builder` that appends an instruction, with the signature of `form`."""

    def method(b: Builder, dst: Operand, /, *sources: Value | None, one: bool = False) -> None:
        b._emit(op, dst, sources, one)

    method.__name__ = op.mnemonic
    method.__doc__ = doc
    method.__signature__ = inspect.signature(form)  # type: ignore[attr-defined]
    return cast("Callable[_P, None]", method)


class Builder:
    """Writes a program: every mnemonic is a method, `b.fma(dst, a, b, c)`.

    A source is an operand or a number, which becomes the instruction's only immediate. With `one=True` an
    instruction processes only element 0. `and`, `or` and `class` have a trailing underscore.

    Registers come from `vector`, `scalar`, `accumulator` and `row_register`, and go back with `free`.

    Raises (any mnemonic): AssemblyError for an operand that the instruction cannot have, or two different
    immediates.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._instructions: list[Instruction] = []
        self._constants: dict[int, Operand] = {}  # by their bits
        self._used: set[Operand] = set()  # every register that was ever given out
        self._free = {
            kind: [Operand(code) for code in CODES_OF[kind]]
            for kind in (Kind.VECTOR, Kind.SCALAR, Kind.ACCUMULATOR, Kind.ROW_REGISTER)
        }
        self.out = Operand(OUT)
        self.iota = operand("iota")
        self.row = operand("row")
        self.batch0 = operand("batch0")
        self.batch1 = operand("batch1")
        self.cols = operand("cols")
        self.rep = operand("rep")

    # --- operands -------------------------------------------------------------------------------------------

    def stream(self, index: int) -> Operand:
        """Return the window of input stream 0..3."""
        return operand(f"s{index}")

    def param(self, index: int) -> Operand:
        """Parameter 0..7 of the command."""
        return operand(f"p{index}")

    def vector(self) -> Operand:
        """Return a vector register that is not in use."""
        return self._allocate(Kind.VECTOR)

    def scalar(self) -> Operand:
        """Return a scalar register that is not in use."""
        return self._allocate(Kind.SCALAR)

    def accumulator(self) -> Operand:
        """Return an accumulator that is not in use."""
        return self._allocate(Kind.ACCUMULATOR)

    def row_register(self) -> Operand:
        """Return a row register that is not in use."""
        return self._allocate(Kind.ROW_REGISTER)

    def constant(self, value: float | np.floating | np.integer) -> Operand:
        """Return a scalar register that holds `value`, set outside of all loops, during the whole program.

        It serves instructions with two constants, of which only one can be an immediate.
        """
        bits = immediate_bits(value)
        if bits not in self._constants:
            bank = self._free[Kind.SCALAR]
            # One that was written before would not hold the value any more.
            unused = [each for each in bank if each not in self._used]
            if not unused:
                raise AssemblyError(f"{self.name}: all scalar registers are or were in use")
            bank.remove(unused[0])
            self._constants[bits] = unused[0]
        return self._constants[bits]

    def like(self, dst: Operand) -> Operand:
        """Return a temporary of the width of `dst`: a scalar register for a scalar one, else a vector
        register."""
        return self.scalar() if dst.kind == Kind.SCALAR else self.vector()

    def free(self, *registers: Operand) -> None:
        """Give registers back; AssemblyError for one that is not in use."""
        for register in registers:
            bank = self._free.get(register.kind)
            if bank is None or register in bank:
                raise AssemblyError(f"{self.name}: {register} is not in use")
            bank.append(register)
            bank.sort(key=lambda each: each.code)

    def _allocate(self, kind: Kind) -> Operand:
        if not self._free[kind]:
            raise AssemblyError(f"{self.name}: all {kind} registers are in use")
        register = self._free[kind].pop(0)
        self._used.add(register)
        return register

    # --- loops ----------------------------------------------------------------------------------------------

    @contextmanager
    def chunks(self, advance: Sequence[Operand] = ()) -> Iterator[None]:
        """Loop over the chunks of the row; the streams advance at the loop's end."""
        self._append(Instruction(Op.CHUNKS))
        yield
        self._append(Instruction(Op.NEXT, imm=_stream_set(advance)))

    @contextmanager
    def repeat(self, advance: Sequence[Operand] = ()) -> Iterator[None]:
        """Loop over the command's `repeats` iterations; the streams advance at the loop's end."""
        self._append(Instruction(Op.REPEAT))
        yield
        self._append(Instruction(Op.NEXT, imm=_stream_set(advance)))

    def advance(self, streams: Sequence[Operand]) -> None:
        """Advance streams without a loop."""
        self._append(Instruction(Op.ADVANCE, imm=_stream_set(streams)))

    def build(self) -> Program:
        """Append END and return the program; AssemblyError as `make_program`."""
        setup = [
            Instruction(Op.MOV, register.code, IMMEDIATE, imm=bits)
            for bits, register in self._constants.items()
        ]
        return make_program(self.name, [*setup, *self._instructions, Instruction(Op.END)])

    def _append(self, instruction: Instruction) -> None:
        number = len(self._instructions)
        reason = instruction.illegal()
        if reason:
            raise AssemblyError(
                f"{self.name}: instruction {number}, `{describe(instruction)}`: {reason}", number
            )
        self._instructions.append(instruction)

    def _emit(self, op: Op, dst: Operand, sources: Sequence[Value | None], one: bool = False) -> None:
        given = [
            source.code if isinstance(source, Operand) else Immediate(immediate_bits(source))
            for source in sources
            if source is not None
        ]
        try:
            made = data_instruction(op, dst.code, given, one=one)
        except ValueError as error:
            where = f"{self.name}: instruction {len(self._instructions)}, {op.mnemonic} {dst}"
            raise AssemblyError(f"{where}: {error}") from None
        self._append(made)

    # --- float32 --------------------------------------------------------------------------------------------

    add = _mnemonic(_binary_or_accumulate, Op.ADD, "dst = a + b; with an accumulator: acc += a.")
    sub = _mnemonic(_binary, Op.SUB, "dst = a - b.")
    mul = _mnemonic(_binary, Op.MUL, "dst = a * b.")
    fma = _mnemonic(
        _ternary_or_accumulate, Op.FMA, "dst = a * b + c; with an accumulator: acc = a * b + acc."
    )
    fnma = _mnemonic(
        _ternary_or_accumulate, Op.FNMA, "dst = c - a * b; with an accumulator: acc = acc - a * b."
    )
    fms = _mnemonic(_ternary, Op.FMS, "dst = a * b - c.")
    scale = _mnemonic(_binary, Op.SCALE, "dst = a * 2^b, b int32.")
    min = _mnemonic(_binary_or_accumulate, Op.MIN, "dst = the lesser; with an accumulator: of it and a.")
    max = _mnemonic(_binary_or_accumulate, Op.MAX, "dst = the greater; with an accumulator: of it and a.")
    cmpeq = _mnemonic(_binary, Op.CMPEQ, "dst = mask of a = b.")
    cmplt = _mnemonic(_binary, Op.CMPLT, "dst = mask of a < b.")
    cmple = _mnemonic(_binary, Op.CMPLE, "dst = mask of a <= b.")
    cmpun = _mnemonic(_binary, Op.CMPUN, "dst = mask of a or b being NaN.")
    sel = _mnemonic(_ternary, Op.SEL, "dst = b where a is not all zero bits, else c.")
    class_ = _mnemonic(_binary, Op.CLASS, "dst = mask of the class of a being one of the bits of b.")
    getmant = _mnemonic(_unary, Op.GETMANT, "dst = a scaled into [1, 2) or (-2, -1].")
    getexp = _mnemonic(_unary, Op.GETEXP, "dst = int32 floor(log2 abs a).")
    f2i = _mnemonic(_unary, Op.F2I, "dst = int32 of a, nearest even.")
    f2iz = _mnemonic(_unary, Op.F2IZ, "dst = int32 of a, toward zero.")
    i2f = _mnemonic(_unary, Op.I2F, "dst = float32 of int32 a.")
    f2h = _mnemonic(_unary, Op.F2H, "dst = bits of float16 of a.")
    h2f = _mnemonic(_unary, Op.H2F, "dst = float32 of the float16 in bits 15:0.")
    f2b = _mnemonic(_unary, Op.F2B, "dst = bits of bfloat16 of a.")
    mov = _mnemonic(_unary, Op.MOV, "dst = a, bits untouched.")
    swap = _mnemonic(_unary, Op.SWAP, "dst = a with neighbours exchanged.")
    exp = _mnemonic(_unary, Op.EXP, "dst = e^a.")
    rcp = _mnemonic(_unary, Op.RCP, "dst = 1 / a.")
    rsqrt = _mnemonic(_unary, Op.RSQRT, "dst = 1 / sqrt(a).")

    # --- integers -------------------------------------------------------------------------------------------

    iadd = _mnemonic(
        _binary_or_accumulate, Op.IADD, "dst = a + b modulo 2^32; with an accumulator: acc += a."
    )
    isub = _mnemonic(_binary, Op.ISUB, "dst = a - b modulo 2^32.")
    and_ = _mnemonic(_binary_or_accumulate, Op.AND, "dst = a & b; with an accumulator: acc &= a.")
    or_ = _mnemonic(_binary_or_accumulate, Op.OR, "dst = a | b; with an accumulator: acc |= a.")
    xor = _mnemonic(_binary, Op.XOR, "dst = a ^ b.")
    shl = _mnemonic(_binary, Op.SHL, "dst = a << (b mod 32).")
    shr = _mnemonic(_binary, Op.SHR, "dst = a >> (b mod 32), zeros shifted in.")
    sar = _mnemonic(_binary, Op.SAR, "dst = a >> (b mod 32), sign shifted in.")
    imin = _mnemonic(
        _binary_or_accumulate, Op.IMIN, "dst = the lesser int32; with an accumulator: of it and a."
    )
    imax = _mnemonic(
        _binary_or_accumulate, Op.IMAX, "dst = the greater int32; with an accumulator: of it and a."
    )
    icmpeq = _mnemonic(_binary, Op.ICMPEQ, "dst = mask of a = b.")
    icmplt = _mnemonic(_binary, Op.ICMPLT, "dst = mask of a < b, signed.")

    # --- accumulators ---------------------------------------------------------------------------------------

    aset = _mnemonic(_accumulator, Op.ASET, "All 16 partial results of accumulator dst = a.")
    foldadd = _mnemonic(
        _accumulator,
        Op.FOLDADD,
        "Scalar dst = the sum of accumulator a's partial results, from the first on.",
    )
    foldmin = _mnemonic(_accumulator, Op.FOLDMIN, "Scalar dst = the least partial result of accumulator a.")
    foldmax = _mnemonic(
        _accumulator, Op.FOLDMAX, "Scalar dst = the greatest partial result of accumulator a."
    )
    foldiadd = _mnemonic(
        _accumulator, Op.FOLDIADD, "Scalar dst = the int32 sum of accumulator a's partial results."
    )
    foldimin = _mnemonic(_accumulator, Op.FOLDIMIN, "Scalar dst = the least int32 of accumulator a.")
    foldimax = _mnemonic(_accumulator, Op.FOLDIMAX, "Scalar dst = the greatest int32 of accumulator a.")


def _stream_set(streams: Sequence[Operand]) -> int:
    """Return the imm field of `next` and `advance`."""
    for stream in streams:
        if stream.kind != Kind.STREAM:
            raise AssemblyError(f"{stream} is no input stream, so it cannot advance")
    return sum(1 << stream.index for stream in set(streams))
