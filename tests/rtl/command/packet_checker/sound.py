"""Packets that break no rule, of every opcode, small and with all operands far apart."""

import random

from echo_npu.commands.packets import (
    BLOCKS_SHIFT,
    DTYPE_SHIFT,
    EXTENSION_MAGIC,
    VECTOR_OPERAND_FLAGS,
    Flags,
    Opcode,
    extension_count,
)
from echo_npu.commands.vector_command import MAGICS
from echo_npu.spec.data_types import Blocks, DataType
from tests.rtl.command.packet_checker.oracle import CASE_WORDS, PACKET_WORDS

FLAGS, SRC1, SRC2, DST, M, K, N, RESERVED = 1, 2, 4, 6, 8, 10, 12, 15
EXTENSION = 16
ENTRY = EXTENSION + 1
LOADED, GUARD_BASE, GUARD_SIZE, GUARD_BASE_HIGH = range(PACKET_WORDS, CASE_WORDS)
STEPS = (Flags.USE_ALPHA, Flags.ROW_SCALE, Flags.COL_SCALE, Flags.BIAS, Flags.RELU)
STREAMS, STREAM_WORDS = 5, 6
INDICES = 3
"""The input that lists the rows of a scatter."""
EXTENSIONS_OF = {int(opcode): extension_count(opcode, int(Flags.EXT)) for opcode in Opcode}
DISTANCE = 0x10000
"""Bytes from one operand to the next, more than each of them has."""

ADDRESSES: dict[Opcode, dict[str, int]] = {
    Opcode.NOP: {},
    Opcode.SYNC: {},
    Opcode.MATMUL: {
        "src1": SRC1, "src2": SRC2, "columns": EXTENSION + 13, "rows": EXTENSION + 14, "dst": DST,
    },
    Opcode.ADD_TENSOR: {"src1": SRC1, "src2": SRC2, "dst": DST},
    Opcode.MEMCPY: {"src1": SRC1, "dst": DST},
    Opcode.VECTOR: {
        "src1": SRC1, "src2": SRC2, "s2": EXTENSION + 4, "s3": EXTENSION + 5, "dst": DST,
    },
    Opcode.GATHER: {"src1": SRC1, "src2": SRC2, "dst": DST},
    Opcode.LOAD_PROGRAM: {"src1": SRC1},
}  # fmt: skip
"""The word of a case that holds the low bits of each operand's address; operands in the order of the
checks."""


def stream_word(stream: int, word: int) -> int:
    """Return the place of a word of a stream's descriptor, behind the second and the third magic."""
    half, rest = divmod(STREAM_WORDS * stream + word, 15)
    return EXTENSION + 16 * (1 + half) + 1 + rest


def sound(rng: random.Random, opcode: Opcode) -> list[int]:
    """Draw the words of a case whose packet is accepted.

    A MATMUL, MEMCPY or VECTOR has its extensions, two inner batches or one, and all operands that it can.
    """
    words = [0] * CASE_WORDS
    words[0], words[LOADED] = opcode, 100
    if opcode in (Opcode.NOP, Opcode.SYNC):
        return words
    base = rng.choice((0, 1 << 28))
    for place, word in enumerate(ADDRESSES[opcode].values()):
        words[word] = base + DISTANCE * (place + 1)
    words[M] = rng.randint(5, 40)
    batch = rng.choice((1, 2))
    if EXTENSIONS_OF[opcode]:
        words[FLAGS] = int(Flags.EXT)
    if opcode == Opcode.MATMUL:
        _matmul(rng, words, batch)
    elif opcode == Opcode.MEMCPY:
        words[EXTENSION : EXTENSION + 9] = [EXTENSION_MAGIC, batch, 0x100, 0, 0x100, 3, 0x400, 0, 0x400]
    elif opcode == Opcode.VECTOR:
        _vector(rng, words, batch)
    elif opcode == Opcode.GATHER:
        words[K], words[N] = rng.randint(1, 40), rng.randint(5, 40)
    elif opcode == Opcode.LOAD_PROGRAM:
        words[K] = rng.randint(0, 40)
    return words


def _matmul(rng: random.Random, words: list[int], batch: int) -> None:
    words[K], words[N] = 32 * rng.randint(1, 3), rng.randint(5, 40)
    blocks = rng.choice(list(Blocks))
    words[FLAGS] |= sum(int(step) for step in STEPS if step & VECTOR_OPERAND_FLAGS or rng.random() < 0.5)
    words[FLAGS] |= blocks << BLOCKS_SHIFT
    if not blocks:
        words[FLAGS] |= rng.choice((*(kind << DTYPE_SHIFT for kind in DataType), int(Flags.HALF_B)))
        words[FLAGS] |= rng.randrange(4) * int(Flags.TRANS_A)  # both of them
    words[EXTENSION : EXTENSION + 2] = EXTENSION_MAGIC, batch
    words[EXTENSION + 6 : EXTENSION + 9] = [0x2000] * 3


def _vector(rng: random.Random, words: list[int], batch: int) -> None:
    words[M], words[N] = rng.choice((1, 2)), 16
    head = [MAGICS[0], rng.randrange(words[LOADED]), batch]
    words[EXTENSION : EXTENSION + 3] = head
    words[EXTENSION + 16], words[EXTENSION + 32] = MAGICS[1:]
    segs = rng.choice((1, 2))
    for stream in range(STREAMS):
        passes, size = int(stream + 1 < STREAMS), rng.randrange(3)
        last = segs | passes << 20 | size << 24 | 1 << 28
        for word, value in enumerate((0x200, 0x1000, 0, 0x80, 16, last)):
            words[stream_word(stream, word)] = value
    if rng.random() < 0.3:
        _scatter(rng, words)


def _scatter(rng: random.Random, words: list[int]) -> None:
    """Make s3 a list of indices, by which the rows of the output go to a table."""
    words[EXTENSION + 15] = rng.choice((1, 2, 7))
    words[stream_word(INDICES, 4)] = rng.choice((1, 2))
    words[stream_word(INDICES, 5)] = 1 | 1 << 20 | 1 << 28
    words[stream_word(4, 5)] = words[stream_word(4, 5)] & ~0xFFFFF | 1
