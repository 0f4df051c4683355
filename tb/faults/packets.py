"""Packets for the fuzzer: random ones, and legal commands that were altered."""

import random
import struct
from collections.abc import Sequence
from typing import Final

from echo_npu.commands.packets import (
    BLOCKS_SHIFT,
    LEGAL_FLAGS,
    PACKET_BYTES,
    TILE_ALIGNMENT,
    Flags,
    Opcode,
)
from echo_npu.formats import BLOCK
from echo_npu.spec.contract import (
    DESCRIPTOR_ENABLE,
    DESCRIPTOR_SEG_LEN,
    DESCRIPTOR_SEGS,
    MAX_BATCH,
    MAX_DIM,
    VECTOR_EXTENSION_WORDS,
)
from echo_npu.spec.memory_map import ACTIVATION, REGISTERS, RESERVED, WEIGHT

Slots = list[bytes]

REGIONS: Final = (WEIGHT, ACTIVATION, REGISTERS, RESERVED)
OPCODES: Final = tuple(int(opcode) for opcode in Opcode)
CORNERS: Final = (
    *(0, 1, 2, 3, MAX_BATCH, MAX_BATCH + 1, MAX_DIM, MAX_DIM + 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF),
    *(ACTIVATION.base - PACKET_BYTES, ACTIVATION.end - 4),
    *(edge for region in REGIONS for edge in (region.base, region.end - 1)),
)
"""Boundary values of a 32-bit word: types, limits, memory regions."""


def random_packet(rng: random.Random) -> bytes:
    """Draw 64 random bytes."""
    return rng.randbytes(64)


def shaped_packet(rng: random.Random) -> bytes:
    """Draw a packet with a known opcode and mostly legal flags; the rest is random."""
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


def _packets(data: bytes | bytearray) -> Slots:
    return [bytes(data[start : start + 64]) for start in range(0, len(data), 64)]


def flipped(rng: random.Random, slots: Sequence[bytes], bits: int) -> Slots:
    """Flip `bits` random bits."""
    data = bytearray(b"".join(slots))
    for _ in range(bits):
        position = rng.randrange(8 * len(data))
        data[position // 8] ^= 1 << position % 8
    return _packets(data)


def edited(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change one to three words to a special value or to one near the old."""
    data = bytearray(b"".join(slots))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        start = 4 * rng.randrange(len(data) // 4)
        (word,) = struct.unpack_from("<I", data, start)
        special = rng.choice(CORNERS)
        near = word + rng.choice((-64, -4, -1, 1, 2, 4, 64))
        other = struct.unpack_from("<I", data, 4 * rng.randrange(len(data) // 4))[0]
        value = rng.choice((special, near, near, other, word << 1, rng.getrandbits(32)))
        struct.pack_into("<I", data, start, value & 0xFFFF_FFFF)
    return _packets(data)


SIZES: Final = tuple(
    max(0, (1 << exponent) + near)
    for exponent in (8, 15, 16, 19, 20, 24, 25, 31, 32, 33, 51, 52, 53, 62, 63)
    for near in (-1, 0, 1)
)
"""Counts and sizes that may overflow a counter, or a product of two."""


def resized(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Set some sizes, counts and strides to values near a power of two."""
    data = bytearray(b"".join(slots))
    for _ in range(rng.choice((1, 2, 2, 3, 5))):
        value = rng.choice(SIZES)
        if len(slots) == 1 or rng.random() < 0.4:  # a 64-bit dimension
            struct.pack_into("<Q", data, rng.choice((32, 40, 48)), value & (1 << 64) - 1)
        else:
            word = rng.randrange(16, len(data) // 4)
            (old,) = struct.unpack_from("<I", data, 4 * word)
            # Keep the flags that may share a word with a count.
            kept = rng.choice((0, old & 0xFFF0_0000))
            struct.pack_into("<I", data, 4 * word, (value | kept) & 0xFFFF_FFFF)
    return _packets(data)


def restrided(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Set few batches, and strides with which the destination's rows and batches mostly overlap.

    A stride may be 0, or negative if read as signed.
    """
    if len(slots) not in (2, 4):
        return list(slots)
    data = bytearray(b"".join(slots))
    words = _STRIDES[len(slots)]
    for word in _BATCHES[len(slots)]:
        struct.pack_into("<I", data, 4 * word, rng.choice((0, 1, 2, 2, 3)))
    for word in words:
        (old,) = struct.unpack_from("<I", data, 4 * word)
        near = 4 * rng.randint(1, 16)
        value = rng.choice((old, near, near, near, near, rng.randint(1, 40), rng.randint(0, old)))
        if rng.random() < 0.02:
            value = rng.choice((0, -4, -64))
        struct.pack_into("<I", data, 4 * word, value & 0xFFFF_FFFF)
    return _packets(data)


_BATCHES: Final = {2: (16 + 1, 16 + 9), 4: (16 + 2, 16 + 3)}
"""Words of the batch counts, by the number of packets of a command."""
_STRIDES: Final = {2: (16 + 4, 16 + 8, 16 + 12), 4: (48 + 10, 48 + 11, 48 + 12)}
"""Words of the destination's strides (row, batch0, batch1), by the number of packets of a command."""


def multiplied(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a VECTOR command: one stream's row has a power of two of elements, or nearly so.

    The number is the product of two counts, neither of which is out of range by itself; half of the rows are
    the longest ones that fit the fields.
    """
    words = list(struct.unpack(f"<{16 * len(slots)}I", b"".join(slots)))
    listed = [
        place
        for name in ("descriptors_low", "descriptors_high")
        for place in range(16, len(words))[VECTOR_EXTENSION_WORDS[name]]
    ]
    streams = [listed[first : first + 6] for first in range(0, len(listed), 6)]
    numbers = [sum(words[place] << 32 * i for i, place in enumerate(places)) for places in streams]
    enabled = [i for i, number in enumerate(numbers) if DESCRIPTOR_ENABLE.get(number)]
    chosen = rng.choice(enabled or range(len(streams)))
    exponent = rng.choice((50, rng.randint(30, 50)))
    segment_bits = rng.randint(max(0, exponent - 31), min(19, exponent))
    length = (1 << exponent - segment_bits) + rng.choice((0, 0, 0, -1, 1))
    for field, value in ((DESCRIPTOR_SEGS, 1 << segment_bits), (DESCRIPTOR_SEG_LEN, length & 0xFFFF_FFFF)):
        numbers[chosen] += field.put(value) - field.put(field.get(numbers[chosen]))
    for i, place in enumerate(streams[chosen]):
        words[place] = numbers[chosen] >> 32 * i & 0xFFFF_FFFF
    return [struct.pack("<16I", *words[first : first + 16]) for first in range(0, len(words), 16)]


def rescattered(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a VECTOR command: it scatters to a table of any height, mostly by a sound list of indices."""
    words = list(struct.unpack(f"<{16 * len(slots)}I", b"".join(slots)))
    first = 16 + VECTOR_EXTENSION_WORDS["table_rows"].start
    low, high = (VECTOR_EXTENSION_WORDS[name] for name in ("descriptors_low", "descriptors_high"))
    listed = [*range(16, len(words))[low], *range(16, len(words))[high]]
    words[first] = rng.choice(
        (1, 2, 5, rng.randint(1, 64), rng.choice(CORNERS), rng.choice(SIZES) & 0xFFFF_FFFF)
    )
    indices, output = listed[18:24], listed[24:30]
    if rng.random() < 0.9:
        words[indices[4]], words[indices[5]] = rng.choice((1, 2)), 1 | 1 << 20 | 1 << 28
    if rng.random() < 0.2:
        words[indices[rng.choice((4, 5))]] ^= 1 << rng.randrange(32)
    if rng.random() < 0.8:  # one segment, and rows that are apart
        words[output[5]] = words[output[5]] & ~0xF_FFFF | 1
        row = words[output[4]] * 4 >> (words[output[5]] >> 24 & 3)
        words[output[0]] = max(0, row + rng.choice((0, 0, 4, 64, -4))) & 0xFFFF_FFFF
    return [struct.pack("<16I", *words[first : first + 16]) for first in range(0, len(words), 16)]


def reformatted(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a MATMUL: its weights are in another block format, in none, or float16.

    Mostly K is whole blocks, the weights are aligned, and no other flag forbids the format.
    """
    words = list(struct.unpack_from("<16I", slots[0]))
    words[1] = words[1] & ~Flags.BLOCKS | rng.randrange(4) << BLOCKS_SHIFT
    for mask in (Flags.DTYPE, Flags.HALF_B, Flags.OUT, Flags.TRANS_A, Flags.TRANS_B):
        if rng.random() < 0.9:
            words[1] &= ~mask
    if rng.random() < (0.1 if words[1] & Flags.BLOCKS else 0.5):
        words[1] |= Flags.HALF_B
    if rng.random() < 0.9:
        words[_K] = BLOCK * rng.choice((1, 1, 2, 3, 5))
    if rng.random() < 0.9:
        words[_SRC2] &= ~(TILE_ALIGNMENT - 1)
    return [struct.pack("<16I", *words), *slots[1:]]


_SRC2: Final = 4
_K: Final = 10
"""Words of a command packet."""


def mixed_up(rng: random.Random, slots: Sequence[bytes], others: Sequence[bytes]) -> Slots:
    """Truncate or reorder a command's packets, repeat one, or insert some of another command's."""
    kind = rng.randrange(4)
    if kind == 0:
        return list(slots[: rng.randint(1, len(slots))])
    if kind == 1:
        return [*slots, slots[-1]]
    if kind == 2:
        return rng.sample(list(slots), len(slots))
    return [slots[0], *others[1:], *slots[1:]]


def fuzzed(rng: random.Random, pool: Sequence[Slots]) -> Slots:
    """Draw the packets of one submission, of any kind; `pool` has legal commands."""
    draw = rng.random()
    if draw < 0.30:
        return [random_packet(rng)]
    if draw < 0.50:
        return [shaped_packet(rng)]
    slots = rng.choice(pool)
    if draw < 0.68:
        return flipped(rng, slots, rng.choice((1, 1, 2, 3, 8)))
    if draw < 0.82:
        return edited(rng, slots)
    if draw < 0.88:
        return resized(rng, slots)
    if draw < 0.91:
        return restrided(rng, slots)
    if draw < 0.95:
        return mixed_up(rng, slots, rng.choice(pool))
    if draw < 0.96 and (products := [each for each in pool if each[0][0] == Opcode.MATMUL]):
        return reformatted(rng, rng.choice(products))
    if draw < 0.99 and (vectors := [each for each in pool if len(each) == 4]):
        return (multiplied if draw < 0.975 else rescattered)(rng, rng.choice(vectors))
    return slots
