"""Packets for the fuzzer: wholly random ones, and commands that were legal before something happened to
them."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Final

from echo_npu.packets import LEGAL_FLAGS, Flags, Opcode

Slots = list[bytes]

OPCODES: Final = tuple(int(opcode) for opcode in Opcode)
CORNERS: Final = (
    0,
    1,
    2,
    3,
    0xFFFF,
    0x1_0000,
    1 << 24,
    (1 << 24) + 1,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    0x0FFF_FFFF,
    0x0FFF_FFC0,
    0x1000_0000,
    0x1FFF_FFFC,
    0x2000_0000,
    0x2000_FFFF,
    0x2001_0000,
    0x3FFF_FFFF,
)
"""Values of a 32-bit word at which something begins or ends: types, limits, regions of memory."""


def random_packet(rng: random.Random) -> bytes:
    """64 random bytes."""
    return rng.randbytes(64)


def shaped_packet(rng: random.Random) -> bytes:
    """A known opcode, often with flags that it knows; anything behind them."""
    opcode = rng.choice(OPCODES)
    flags = rng.getrandbits(32) & LEGAL_FLAGS[opcode]
    if rng.random() < 0.7:
        flags &= ~Flags.EXT
    if rng.random() < 0.2:
        flags ^= 1 << rng.randrange(32)
    words = [rng.choice((rng.choice(CORNERS), rng.getrandbits(32), rng.randrange(64))) for _ in range(14)]
    if rng.random() < 0.8:
        words[13] = 0
        for upper in (1, 3, 5, 7, 9, 11):
            words[upper] = 0
    return struct.pack("<16I", opcode, flags, *words)


def flipped(rng: random.Random, slots: Sequence[bytes], bits: int) -> Slots:
    """The same packets with so many bits flipped, anywhere."""
    data = bytearray(b"".join(slots))
    for _ in range(bits):
        position = rng.randrange(8 * len(data))
        data[position // 8] ^= 1 << position % 8
    return [bytes(data[start : start + 64]) for start in range(0, len(data), 64)]


def edited(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """The same packets with one to three of their words changed to something near or to something special."""
    data = bytearray(b"".join(slots))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        start = 4 * rng.randrange(len(data) // 4)
        (word,) = struct.unpack_from("<I", data, start)
        special = rng.choice(CORNERS)
        near = word + rng.choice((-64, -4, -1, 1, 2, 4, 64))
        other = struct.unpack_from("<I", data, 4 * rng.randrange(len(data) // 4))[0]
        value = rng.choice((special, near, near, other, word << 1, rng.getrandbits(32)))
        struct.pack_into("<I", data, start, value & 0xFFFF_FFFF)
    return [bytes(data[start : start + 64]) for start in range(0, len(data), 64)]


def mixed_up(rng: random.Random, slots: Sequence[bytes], others: Sequence[bytes]) -> Slots:
    """The packets of a command cut short, doubled, in another order, or with some of another command's."""
    kind = rng.randrange(4)
    if kind == 0:
        return list(slots[: rng.randint(1, len(slots))])
    if kind == 1:
        return [*slots, slots[-1]]
    if kind == 2:
        return rng.sample(list(slots), len(slots))
    return [slots[0], *others[1:], *slots[1:]]


def fuzzed(rng: random.Random, pool: Sequence[Slots]) -> Slots:
    """One submission's packets: of any kind; `pool` has legal commands."""
    draw = rng.random()
    if draw < 0.30:
        return [random_packet(rng)]
    if draw < 0.50:
        return [shaped_packet(rng)]
    slots = rng.choice(pool)
    if draw < 0.68:
        return flipped(rng, slots, rng.choice((1, 1, 2, 3, 8)))
    if draw < 0.88:
        return edited(rng, slots)
    if draw < 0.93:
        return mixed_up(rng, slots, rng.choice(pool))
    return slots
