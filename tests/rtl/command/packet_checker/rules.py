"""The rules of the packets, in the order in which they are checked, each with a way to break it."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from echo_npu.commands.packets import VECTOR_OPERAND_FLAGS, Flags, Opcode
from echo_npu.spec.memory_map import REGISTERS
from echo_npu.spec.status import ErrorCode
from tests.rtl.command.packet_checker.sound import (
    ADDRESSES,
    DST,
    ENTRY,
    EXTENSION,
    EXTENSIONS_OF,
    FLAGS,
    GUARD_BASE,
    GUARD_SIZE,
    LOADED,
    RESERVED,
    STREAMS,
    K,
    M,
    N,
    stream_word,
)

UNKNOWN = 0x55
"""No opcode."""

OF_AN_OPERAND = (ErrorCode.MISALIGNED, ErrorCode.OUT_OF_RANGE)
"""Errors whose address tells the operand."""

Changes = dict[int, int]
"""New values of words of a case."""


@dataclass(frozen=True)
class PacketRule:
    """A rule for the packets of an opcode.

    Attributes: codes (errors of a packet that breaks it), spoil (returns the words that break it in a sound
    case, or none if the case has nothing to break), operand (whose address breaks it).
    """

    name: str
    codes: tuple[ErrorCode, ...]
    spoil: Callable[[random.Random, list[int]], Changes]
    operand: str = ""


def rules_of(opcode: Opcode) -> Iterator[PacketRule]:
    """List the rules that a packet of the opcode can break, the one that wins first."""
    yield PacketRule("opcode", (ErrorCode.BAD_OPCODE,), lambda _rng, _words: {0: UNKNOWN})
    yield PacketRule("flags", (ErrorCode.BAD_FLAGS,), _flags)
    operands = ADDRESSES[opcode]
    if not operands:
        return
    if EXTENSIONS_OF[opcode]:
        if opcode != Opcode.MEMCPY:
            yield PacketRule("announcement", (ErrorCode.BAD_EXTENSION,), _announcement)
        yield PacketRule("extension", (ErrorCode.BAD_EXTENSION,), _extension)
    if opcode == Opcode.VECTOR:
        yield PacketRule("size", (ErrorCode.BAD_EXTENSION,), _size)
    yield PacketRule("dimensions", (ErrorCode.BAD_DIMENSION,), _dimensions)
    if opcode == Opcode.VECTOR:
        yield PacketRule("entry", (ErrorCode.BAD_PROGRAM,), lambda _rng, words: {LOADED: words[ENTRY]})
    for operand in _aligned(opcode):
        yield PacketRule(
            f"alignment of {operand}", (ErrorCode.MISALIGNED,), _misaligned(operands[operand]), operand
        )
    if EXTENSIONS_OF[opcode]:
        yield PacketRule("strides", (ErrorCode.BAD_EXTENSION,), _strides)
    codes = ErrorCode.OUT_OF_RANGE, ErrorCode.REGISTER_WINDOW
    for operand, word in operands.items():
        yield PacketRule(f"range of {operand}", codes, _outside(word), operand)
    if "dst" not in operands:
        return
    yield PacketRule("guard", (ErrorCode.PROTECTED,), _guard)
    for operand, word in operands.items():
        if operand != "dst":
            yield PacketRule(f"overlap with {operand}", (ErrorCode.OVERLAP,), _overlapping(word), operand)


def independent(first: PacketRule, second: PacketRule) -> bool:
    """Return whether a packet may break both rules and show which of them wins."""
    if first.codes == second.codes and first.codes[0] not in OF_AN_OPERAND:
        return False  # the same answer
    # An address of 64 bits may be misaligned in its low word and out of range in its high word.
    wide = first.operand in ("src1", "src2", "dst") and "range" in second.name
    return first.operand != second.operand or not first.operand or wide


def _aligned(opcode: Opcode) -> tuple[str, ...]:
    """Return the operands whose address must be a multiple of something."""
    if opcode == Opcode.MEMCPY:
        return ()
    return ("src2",) if opcode == Opcode.GATHER else tuple(ADDRESSES[opcode])


def _wide(word: int) -> bool:
    return word in (2, 4, 6)


def _flags(rng: random.Random, words: list[int]) -> Changes:
    return rng.choice(({FLAGS: words[FLAGS] | 1 << rng.choice((18, 29))}, {RESERVED: 1 << rng.randrange(32)}))


def _announcement(_rng: random.Random, words: list[int]) -> Changes:
    needed = words[0] == Opcode.VECTOR or words[FLAGS] & VECTOR_OPERAND_FLAGS
    return {FLAGS: words[FLAGS] & ~int(Flags.EXT)} if needed else {}


def _extension(rng: random.Random, words: list[int]) -> Changes:
    vector = words[0] == Opcode.VECTOR
    magic = EXTENSION + (rng.choice((0, 16, 32)) if vector else 0)
    batch0, batch1 = (2, 3) if vector else (1, 9)
    return rng.choice(
        (
            {magic: words[magic] ^ 1 << rng.randrange(32)},
            {EXTENSION + batch0: 1 << rng.randint(16, 31)},
            {EXTENSION + batch1: 1 << rng.randint(16, 31)},
            {EXTENSION + 15: 1 << rng.randrange(32)},
        )
    )


def _size(rng: random.Random, words: list[int]) -> Changes:
    stream = rng.randrange(STREAMS)
    last = stream_word(stream, 5)
    return {stream_word(stream, 4): (1 << 32) - rng.randint(1, 16), last: words[last] & ~0xFFFFF | 3}


def _dimensions(rng: random.Random, words: list[int]) -> Changes:
    wrong: list[Changes] = [
        {M: 0, M + 1: 0},
        {M + 1: 1 << rng.randrange(32)},
        {K + 1: 1 << rng.randrange(32)},
    ]
    if words[0] != Opcode.LOAD_PROGRAM:
        wrong.append({N + 1: 1 << rng.randrange(32)})
    if words[0] == Opcode.MATMUL and words[FLAGS] & Flags.BLOCKS:
        wrong.append({K: words[K] | 1 << rng.randrange(5)})
    return rng.choice(wrong)


def _misaligned(word: int) -> Callable[[random.Random, list[int]], Changes]:
    return lambda _rng, words: {word: words[word] + 1}


def _strides(rng: random.Random, words: list[int]) -> Changes:
    if words[0] == Opcode.VECTOR:
        stream = rng.randrange(STREAMS)
        return {stream_word(stream, rng.choice((0, 1, 3))): rng.choice((0x81, 0))}
    wrong: list[Changes] = [{EXTENSION + 4: 1}, {EXTENSION + 8: 0}]
    if words[0] == Opcode.MATMUL:
        wrong.append({EXTENSION + rng.choice((6, 7, 8)): 0x2001})
    return rng.choice(wrong)


def _outside(word: int) -> Callable[[random.Random, list[int]], Changes]:
    def spoil(rng: random.Random, _words: list[int]) -> Changes:
        if _wide(word) and rng.random() < 0.5:
            return {word + 1: 1 << rng.randrange(32)}
        return {word: rng.choice((REGISTERS.base, REGISTERS.end - 64, REGISTERS.end, 0xFFFF_FFC0))}

    return spoil


def _guard(_rng: random.Random, words: list[int]) -> Changes:
    return {GUARD_BASE: words[DST] & -64, GUARD_SIZE: 64}


def _overlapping(word: int) -> Callable[[random.Random, list[int]], Changes]:
    return lambda rng, words: {word: words[DST] + rng.choice((0, 4, 8))}
