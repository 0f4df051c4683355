"""Programs of the vector engine, and the builder that kernels are written with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.vector.disassembler import describe, disassemble
from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.isa import (
    IMMEDIATE,
    OPERAND_NAMES,
    OUT,
    Form,
    Instruction,
    Kind,
    Op,
    Operand,
    kind_of,
    operand,
    source_count,
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
        name: for messages and listings. instructions: the last one is END. passes: for each input stream, how
        many times the program goes through the row; a loop that advances the
            stream is one pass. 1 for a stream that it does not read.
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
        AssemblyError: an illegal operand, wrongly nested loops, END not at the end, or a register that is
        read
            before it is written; it names the instruction and the reason.
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
        self._free = {
            Kind.VECTOR: [Operand(code) for code in range(16)],
            Kind.SCALAR: [Operand(16 + i) for i in range(16)],
            Kind.ACCUMULATOR: [Operand(36 + i) for i in range(4)],
            Kind.ROW_REGISTER: [Operand(40 + i) for i in range(2)],
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
            self._constants[bits] = self.scalar()
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
        return self._free[kind].pop(0)

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
        codes: list[int] = []
        imm: int | None = None
        where = f"{self.name}: instruction {len(self._instructions)}, {op.mnemonic}"
        for source in sources:
            if isinstance(source, Operand):
                codes.append(source.code)
            elif source is not None:
                bits = immediate_bits(source)
                if imm is not None and imm != bits:
                    raise AssemblyError(f"{where}: two immediates, 0x{imm:08x} and 0x{bits:08x}")
                imm = bits
                codes.append(IMMEDIATE)
        wanted = source_count(op, dst.code)
        if len(codes) != wanted:
            raise AssemblyError(f"{where} {dst}: {len(codes)} sources, it takes {wanted}")
        a, b, c = (*codes, 0, 0, 0)[:3]
        self._append(Instruction(op, dst.code, a, b, c, imm or 0, one))

    # --- float32 --------------------------------------------------------------------------------------------

    def add(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = a + b; with an accumulator: acc += a."""
        self._emit(Op.ADD, dst, (a, b), one)

    def sub(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a - b."""
        self._emit(Op.SUB, dst, (a, b), one)

    def mul(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a * b."""
        self._emit(Op.MUL, dst, (a, b), one)

    def fma(self, dst: Operand, a: Value, b: Value, c: Value | None = None, *, one: bool = False) -> None:
        """dst = a * b + c; with an accumulator: acc = a * b + acc."""
        self._emit(Op.FMA, dst, (a, b, c), one)

    def fnma(self, dst: Operand, a: Value, b: Value, c: Value | None = None, *, one: bool = False) -> None:
        """dst = c - a * b; with an accumulator: acc = acc - a * b."""
        self._emit(Op.FNMA, dst, (a, b, c), one)

    def fms(self, dst: Operand, a: Value, b: Value, c: Value, *, one: bool = False) -> None:
        """dst = a * b - c."""
        self._emit(Op.FMS, dst, (a, b, c), one)

    def scale(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a * 2^b, b int32."""
        self._emit(Op.SCALE, dst, (a, b), one)

    def min(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = the lesser; with an accumulator: of it and a."""
        self._emit(Op.MIN, dst, (a, b), one)

    def max(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = the greater; with an accumulator: of it and a."""
        self._emit(Op.MAX, dst, (a, b), one)

    def cmpeq(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a = b."""
        self._emit(Op.CMPEQ, dst, (a, b), one)

    def cmplt(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a < b."""
        self._emit(Op.CMPLT, dst, (a, b), one)

    def cmple(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a <= b."""
        self._emit(Op.CMPLE, dst, (a, b), one)

    def cmpun(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a or b being NaN."""
        self._emit(Op.CMPUN, dst, (a, b), one)

    def sel(self, dst: Operand, a: Value, b: Value, c: Value, *, one: bool = False) -> None:
        """dst = b where a is not all zero bits, else c."""
        self._emit(Op.SEL, dst, (a, b, c), one)

    def class_(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of the class of a being one of the bits of b."""
        self._emit(Op.CLASS, dst, (a, b), one)

    def getmant(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = a scaled into [1, 2) or (-2, -1]."""
        self._emit(Op.GETMANT, dst, (a,), one)

    def getexp(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = int32 floor(log2 abs a)."""
        self._emit(Op.GETEXP, dst, (a,), one)

    def f2i(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = int32 of a, nearest even."""
        self._emit(Op.F2I, dst, (a,), one)

    def f2iz(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = int32 of a, toward zero."""
        self._emit(Op.F2IZ, dst, (a,), one)

    def i2f(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = float32 of int32 a."""
        self._emit(Op.I2F, dst, (a,), one)

    def f2h(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = bits of float16 of a."""
        self._emit(Op.F2H, dst, (a,), one)

    def h2f(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = float32 of the float16 in bits 15:0."""
        self._emit(Op.H2F, dst, (a,), one)

    def f2b(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = bits of bfloat16 of a."""
        self._emit(Op.F2B, dst, (a,), one)

    def mov(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = a, bits untouched."""
        self._emit(Op.MOV, dst, (a,), one)

    def swap(self, dst: Operand, a: Value, *, one: bool = False) -> None:
        """dst = a with neighbours exchanged."""
        self._emit(Op.SWAP, dst, (a,), one)

    # --- integers -------------------------------------------------------------------------------------------

    def iadd(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = a + b modulo 2^32; with an accumulator: acc += a."""
        self._emit(Op.IADD, dst, (a, b), one)

    def isub(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a - b modulo 2^32."""
        self._emit(Op.ISUB, dst, (a, b), one)

    def and_(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = a & b; with an accumulator: acc &= a."""
        self._emit(Op.AND, dst, (a, b), one)

    def or_(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = a | b; with an accumulator: acc |= a."""
        self._emit(Op.OR, dst, (a, b), one)

    def xor(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a ^ b."""
        self._emit(Op.XOR, dst, (a, b), one)

    def shl(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a << (b mod 32)."""
        self._emit(Op.SHL, dst, (a, b), one)

    def shr(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a >> (b mod 32), zeros shifted in."""
        self._emit(Op.SHR, dst, (a, b), one)

    def sar(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = a >> (b mod 32), sign shifted in."""
        self._emit(Op.SAR, dst, (a, b), one)

    def imin(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = the lesser int32; with an accumulator: of it and a."""
        self._emit(Op.IMIN, dst, (a, b), one)

    def imax(self, dst: Operand, a: Value, b: Value | None = None, *, one: bool = False) -> None:
        """dst = the greater int32; with an accumulator: of it and a."""
        self._emit(Op.IMAX, dst, (a, b), one)

    def icmpeq(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a = b."""
        self._emit(Op.ICMPEQ, dst, (a, b), one)

    def icmplt(self, dst: Operand, a: Value, b: Value, *, one: bool = False) -> None:
        """dst = mask of a < b, signed."""
        self._emit(Op.ICMPLT, dst, (a, b), one)

    # --- accumulators ---------------------------------------------------------------------------------------

    def aset(self, dst: Operand, a: Value) -> None:
        """All 16 partial results of accumulator dst = a."""
        self._emit(Op.ASET, dst, (a,))

    def foldadd(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the sum of accumulator a's partial results, from the first on."""
        self._emit(Op.FOLDADD, dst, (a,))

    def foldmin(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the least partial result of accumulator a."""
        self._emit(Op.FOLDMIN, dst, (a,))

    def foldmax(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the greatest partial result of accumulator a."""
        self._emit(Op.FOLDMAX, dst, (a,))

    def foldiadd(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the int32 sum of accumulator a's partial results."""
        self._emit(Op.FOLDIADD, dst, (a,))

    def foldimin(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the least int32 of accumulator a."""
        self._emit(Op.FOLDIMIN, dst, (a,))

    def foldimax(self, dst: Operand, a: Operand) -> None:
        """Scalar dst = the greatest int32 of accumulator a."""
        self._emit(Op.FOLDIMAX, dst, (a,))


def _stream_set(streams: Sequence[Operand]) -> int:
    """Return the imm field of `next` and `advance`."""
    for stream in streams:
        if stream.kind != Kind.STREAM:
            raise AssemblyError(f"{stream} is no input stream, so it cannot advance")
    return sum(1 << stream.index for stream in set(streams))
