"""Operands of the matrix engine's arithmetic, and its definition, for the testbenches of arithmetic
modules."""

import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from echo_npu.model import vector_alu as alu

Words = NDArray[np.uint32]

CORNERS = (
    0x0000_0000, 0x8000_0000, 0x0000_0001, 0x807F_FFFF, 0x0080_0000, 0x3F80_0000, 0xBF80_0000, 0x7F7F_FFFF,
    0xFF7F_FFFF, 0x7F80_0000, 0xFF80_0000, 0x7FC0_0000, 0x7F80_0001, 0xFFFF_FFFF, 0x8080_8080, 0x7F7F_7F7F,
)  # fmt: skip
"""float32 values at the edges of the format, and the extremes of int8."""


def draw_words(count: int) -> Words:
    """Draw operands, uint32 [count]: mostly floats with finite sums and products, corners, and any bits."""
    kind = random.random()
    if kind < 0.5:
        generator = np.random.default_rng(random.getrandbits(32))
        return generator.normal(0, 4, count).astype(np.float32).view(np.uint32)
    if kind < 0.8:
        return np.array([random.getrandbits(32) for _ in range(count)], np.uint32)
    return np.array([random.choice(CORNERS) for _ in range(count)], np.uint32)


@np.errstate(all="ignore")
def products(activation: int, weights: Words, *, integer: bool, unsigned: bool = False) -> Words:
    """Multiply one activation by the weights of its row: float32, or sums of four products of int8.

    With `unsigned` the activation's bytes are uint8.
    """
    shared = np.full(weights.size, activation, np.uint32)
    if not integer:
        return alu.mul(shared, weights)
    pairs = shared.view(np.uint8 if unsigned else np.int8).astype(np.int32) * weights.view(np.int8).astype(
        np.int32
    )
    return pairs.reshape(-1, 4).sum(axis=1, dtype=np.int32).view(np.uint32)


@np.errstate(all="ignore")
def sums(terms: Words, more: Words, *, integer: bool) -> Words:
    """Add products to partial sums: float32, or int32 modulo 2**32."""
    return terms + more if integer else alu.add(terms, more)


def as_number(words: Sequence[int] | Words) -> int:
    """Return words as the value of a packed port, the first the lowest."""
    return sum(int(word) << 32 * lane for lane, word in enumerate(words))


def as_words(number: int, count: int) -> Words:
    """Return the words of a packed port."""
    return np.array([number >> 32 * lane & 0xFFFF_FFFF for lane in range(count)], np.uint32)
