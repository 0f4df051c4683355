"""Packets for the fuzzer: random ones, and legal commands that were altered."""

import random
import struct
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from echo_npu.commands.packets import BLOCKS_SHIFT, LEGAL_FLAGS, PACKET_BYTES, TILE_ALIGNMENT, Flags, Opcode
from echo_npu.formats import BLOCK
from echo_npu.spec.contract import (
    COMMAND_OFFSETS,
    DESCRIPTOR_BATCH0_STRIDE,
    DESCRIPTOR_BATCH1_STRIDE,
    DESCRIPTOR_ENABLE,
    DESCRIPTOR_PASSES,
    DESCRIPTOR_ROW_STRIDE,
    DESCRIPTOR_SEG_LEN,
    DESCRIPTOR_SEGS,
    DESCRIPTOR_SIZE,
    MAX_BATCH,
    MAX_DIM,
    PACKET_WORDS,
    VECTOR_EXTENSION_WORDS,
    VECTOR_EXTENSIONS,
    ExtensionFields,
)
from echo_npu.spec.entries import Field
from echo_npu.spec.instructions import INPUTS
from echo_npu.spec.memory_map import ACTIVATION, REGISTERS, RESERVED, WEIGHT

Slots = list[bytes]

_COMMAND: Final = {name: offset // 4 for name, offset in COMMAND_OFFSETS.items()}
"""The first word of each field of a command packet."""
_EXTENSION: Final = {field.name: PACKET_WORDS + word for word, field in enumerate(fields(ExtensionFields))}
"""The word of each field of an extension packet, after its command packet."""
_VECTOR: Final = range(PACKET_WORDS, PACKET_WORDS * (1 + VECTOR_EXTENSIONS))
"""The words of a VECTOR command's extension."""
_DESCRIPTORS: Final = tuple(
    word for name in ("descriptors_low", "descriptors_high") for word in _VECTOR[VECTOR_EXTENSION_WORDS[name]]
)
"""The words of its descriptors."""
_DESCRIPTOR: Final = len(_DESCRIPTORS) // (INPUTS + 1)
"""Words of a descriptor; the output's is the last."""
_STRIDE, _LENGTH, _SHAPE = (
    field.shift // 32 for field in (DESCRIPTOR_ROW_STRIDE, DESCRIPTOR_SEG_LEN, DESCRIPTOR_SEGS)
)
"""Words of a descriptor with the row's stride, a segment's length, and the fields below."""
_SEGS, _PASSES, _SIZE, _ENABLE = (
    Field(field.shift % 32, field.width)
    for field in (DESCRIPTOR_SEGS, DESCRIPTOR_PASSES, DESCRIPTOR_SIZE, DESCRIPTOR_ENABLE)
)
_WIDE: Final = tuple(_COMMAND[name] for name in ("src1_addr", "src2_addr", "dst_addr", "m", "k", "n"))
"""The lower words of a command packet's fields of 64 bits."""

REGIONS: Final = (WEIGHT, ACTIVATION, REGISTERS, RESERVED)
OPCODES: Final = tuple(int(opcode) for opcode in Opcode)
CORNERS: Final = (
    *(0, 1, 2, 3, MAX_BATCH, MAX_BATCH + 1, MAX_DIM, MAX_DIM + 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF),
    *(ACTIVATION.base - PACKET_BYTES, ACTIVATION.end - 4),
    *(edge for region in REGIONS for edge in (region.base, region.end - 1)),
)
"""Boundary values of a 32-bit word: types, limits, memory regions."""


def random_packet(rng: random.Random) -> bytes:
    """Draw a packet of random bytes."""
    return rng.randbytes(PACKET_BYTES)


def shaped_packet(rng: random.Random) -> bytes:
    """Draw a packet with a known opcode and mostly legal flags; the rest is random."""
    opcode = rng.choice(OPCODES)
    flags = rng.getrandbits(32) & LEGAL_FLAGS[opcode]
    if rng.random() < 0.7:
        flags &= ~Flags.EXT
    if rng.random() < 0.2:
        flags ^= 1 << rng.randrange(32)
    words = [opcode, flags]
    for _ in range(len(words), PACKET_WORDS):
        words.append(rng.choice((rng.choice(CORNERS), rng.getrandbits(32), rng.randrange(64))))
    if rng.random() < 0.8:
        words[_COMMAND["reserved"]] = 0
        for lower in _WIDE:
            words[lower + 1] = 0
    return _packed(words)[0]


def _packed(words: Sequence[int]) -> Slots:
    return _packets(struct.pack(f"<{len(words)}I", *words))


def _words(slots: Sequence[bytes]) -> list[int]:
    return list(struct.unpack(f"<{PACKET_WORDS * len(slots)}I", b"".join(slots)))


def _packets(data: bytes | bytearray) -> Slots:
    return [bytes(data[start : start + PACKET_BYTES]) for start in range(0, len(data), PACKET_BYTES)]


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
_DIMENSIONS: Final = tuple(COMMAND_OFFSETS[name] for name in ("m", "k", "n"))
"""Bytes from the start of a command packet to its sizes of 64 bits."""


def resized(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Set some sizes, counts and strides to values near a power of two."""
    data = bytearray(b"".join(slots))
    for _ in range(rng.choice((1, 2, 2, 3, 5))):
        value = rng.choice(SIZES)
        if len(slots) == 1 or rng.random() < 0.4:  # a 64-bit dimension
            struct.pack_into("<Q", data, rng.choice(_DIMENSIONS), value & (1 << 64) - 1)
        else:
            word = rng.randrange(PACKET_WORDS, len(data) // 4)
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


_BATCHES: Final = {
    2: (_EXTENSION["batch0"], _EXTENSION["batch1"]),
    4: tuple(_VECTOR[VECTOR_EXTENSION_WORDS[name].start] for name in ("batch0", "batch1")),
}
"""Words of the batch counts, by the number of packets of a command."""
_STRIDES: Final = {
    2: tuple(_EXTENSION[f"dst_{name}_stride"] for name in ("row", "batch0", "batch1")),
    4: tuple(
        _DESCRIPTORS[field.shift // 32 - _DESCRIPTOR]
        for field in (DESCRIPTOR_ROW_STRIDE, DESCRIPTOR_BATCH0_STRIDE, DESCRIPTOR_BATCH1_STRIDE)
    ),
}
"""Words of the destination's strides (row, batch0, batch1), by the number of packets of a command."""


def multiplied(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a VECTOR command: one stream's row has a power of two of elements, or nearly so.

    The number is the product of two counts, neither of which is out of range by itself; half of the rows are
    the longest ones that fit the fields.
    """
    words = _words(slots)
    streams = [
        _DESCRIPTORS[first : first + _DESCRIPTOR] for first in range(0, len(_DESCRIPTORS), _DESCRIPTOR)
    ]
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
    return _packed(words)


def rescattered(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a VECTOR command: it scatters to a table of any height, mostly by a sound list of indices."""
    words = _words(slots)
    words[_VECTOR[VECTOR_EXTENSION_WORDS["table_rows"].start]] = rng.choice(
        (1, 2, 5, rng.randint(1, 64), rng.choice(CORNERS), rng.choice(SIZES) & 0xFFFF_FFFF)
    )
    indices, output = _DESCRIPTORS[-2 * _DESCRIPTOR : -_DESCRIPTOR], _DESCRIPTORS[-_DESCRIPTOR:]
    if rng.random() < 0.9:
        words[indices[_LENGTH]] = rng.choice((1, 2))
        words[indices[_SHAPE]] = _SEGS.put(1) | _PASSES.put(1) | _ENABLE.put(1)
    if rng.random() < 0.2:
        words[indices[rng.choice((_LENGTH, _SHAPE))]] ^= 1 << rng.randrange(32)
    if rng.random() < 0.8:  # one segment, and rows that are apart
        words[output[_SHAPE]] = words[output[_SHAPE]] & ~_SEGS.mask | _SEGS.put(1)
        row = words[output[_LENGTH]] * 4 >> _SIZE.get(words[output[_SHAPE]])
        words[output[_STRIDE]] = max(0, row + rng.choice((0, 0, 4, 64, -4))) & 0xFFFF_FFFF
    return _packed(words)


def reformatted(rng: random.Random, slots: Sequence[bytes]) -> Slots:
    """Change a MATMUL: its weights are in another block format, in none, or float16.

    Mostly K is whole blocks, the weights are aligned, and no other flag forbids the format.
    """
    words, flags = _words(slots[:1]), _COMMAND["flags"]
    words[flags] = words[flags] & ~Flags.BLOCKS | rng.randrange(4) << BLOCKS_SHIFT
    for mask in (Flags.DTYPE, Flags.HALF_B, Flags.OUT, Flags.TRANS_A, Flags.TRANS_B):
        if rng.random() < 0.9:
            words[flags] &= ~mask
    if rng.random() < (0.1 if words[flags] & Flags.BLOCKS else 0.5):
        words[flags] |= Flags.HALF_B
    if rng.random() < 0.9:
        words[_COMMAND["k"]] = BLOCK * rng.choice((1, 1, 2, 3, 5))
    if rng.random() < 0.9:
        words[_COMMAND["src2_addr"]] &= ~(TILE_ALIGNMENT - 1)
    return [*_packed(words), *slots[1:]]


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
