"""Packets of any magnitude, most of them with legal fields."""

import random
import struct

from echo_npu.commands.packets import BLOCK_ROWS, BLOCKS_SHIFT, DTYPE_SHIFT, EXTENSION_MAGIC, Flags, Opcode
from echo_npu.commands.vector_command import MAGICS
from echo_npu.spec.memory_map import DEFAULT_MAP, REGISTERS, MemoryMap
from tests.rtl.command.packet_checker.oracle import CASE_WORDS, PROGRAM_WORDS

SEAM = 1 << 32
"""Where memory is large it lies across multiples of this, which low words of addresses do not tell apart."""
EXT = int(Flags.EXT)
OPCODES = (*Opcode, *(Opcode.VECTOR,) * 4, Opcode.GATHER)
"""Opcodes to draw from: the more fields a packet has, the more often."""
MATMUL_FLAGS = (0, 1, 2, 4, 5, 6, 8, 9, 10, 11, 12, 13)


def number(rng: random.Random, bits: int) -> int:
    """Draw a number of at most `bits` bits: small, a power of two or a neighbour of it, or of any width."""
    kind = rng.randrange(6)
    most = (1 << bits) - 1
    if kind == 0:
        return rng.choice((0, 1, 1, 2, 3, most))
    power = 1 << rng.randint(0, bits)
    if kind <= 2:
        return min(most, power + rng.choice((-1, 0, 0, 1)))
    if kind == 3:
        return min(most, power + (power >> rng.randint(1, 20)))
    return rng.getrandbits(rng.randint(1, bits))


def count(rng: random.Random, bits: int) -> int:
    """Draw as `number`, but mostly small: one large factor of a product is enough."""
    return number(rng, bits) if rng.random() < 0.3 else rng.choice((1, 1, 2, 3, rng.randint(1, 40)))


def factors(rng: random.Random, bits: int, *most: int) -> list[int]:
    """Draw numbers whose product is 2^bits, each at most 2^most; sometimes one number is off by one."""
    found = []
    for place, limit in enumerate(most):
        least = max(0, bits - sum(most[place + 1 :]))
        power = (
            rng.randint(min(least, limit), min(limit, bits)) if place + 1 < len(most) else min(bits, limit)
        )
        found.append(1 << power)
        bits -= power
    if rng.random() < 0.3:
        found[rng.randrange(len(found))] += rng.choice((-1, 1))
    return found


def address(rng: random.Random, memory: MemoryMap) -> int:
    """Draw an address: mostly aligned and in device memory, else at its ends, in the registers, or anywhere
    in 64 bits."""
    kind = rng.randrange(24)
    if kind < 2:
        return number(rng, 64)
    if kind == 3:
        return REGISTERS.base + (rng.randrange(REGISTERS.size) & -8)
    if kind < 5:
        ends = (memory.weight.base, memory.weight.end, memory.activation.end, REGISTERS.base, REGISTERS.end)
        return max(0, rng.choice(ends) + rng.randint(-80, 80))
    region = rng.choice(list(memory.regions.values()))
    if region.size > SEAM and kind < 9:
        return SEAM * rng.randint(-(-region.base // SEAM), region.end // SEAM) + (rng.randint(-999, 999) & -4)
    offset = number(rng, (region.size - 1).bit_length())
    return region.base + (offset & -8 if kind > 6 else offset)


def _wide(value: int) -> list[int]:
    return [value & 0xFFFF_FFFF, value >> 32]


def _stride(rng: random.Random, least: int = 0) -> int:
    kind = rng.randrange(4)
    if kind == 0:
        return 0
    if kind == 1:
        return min(0xFFFF_FFFF, least)
    value = number(rng, rng.choice((12, 32)))
    return value & -4 if kind == 2 else min(0xFFFF_FFFF, least + (value & -4))


def _descriptor(rng: random.Random, is_output: bool, extreme: float) -> list[int]:
    """Draw the six words of a stream, with chance `extreme` of an extreme size."""
    size = rng.choice((0, 0, 1, 2, 2)) if rng.random() < 0.98 else 3
    length, segs = rng.randint(1, 40), rng.choice((1, 1, 2, 7))
    if rng.random() < extreme:
        length, segs = count(rng, 32), count(rng, 20)
    if size < 3 and rng.random() < extreme:  # around where a row has too many bytes
        bits = rng.choice((31, 32, 32, 33, 51, 52, 53, rng.randint(0, 53)))
        segs, length = factors(rng, max(0, bits - (2 - size)), 19, 31)
    bcast = not is_output and rng.random() < 0.1
    if bcast and rng.random() < 0.9:
        length = segs = 1
    enable = is_output or rng.random() < 0.5
    passes = 0 if is_output else rng.randint(1, 15)
    last = segs | passes << 20 | size << 24 | int(enable) << 28 | int(bcast) << 27
    if not bcast:
        last |= rng.getrandbits(1) << 26
    least = length * (4 >> size)
    steps = [_stride(rng, 4 * is_output) or 4 * is_output for _ in range(3)]
    return [*steps, _stride(rng, least) or min(least, 0xFFFF_FFFF) * is_output, length, last]


def _scatter(rng: random.Random, streams: list[int]) -> int:
    """Make the last input a list of indices and give the output one segment, mostly; return the table's rows.

    Args:
        streams: the words of all streams, which change.
    """
    indices, output = 3 * 6, 4 * 6
    if rng.random() < 0.9:
        streams[indices + 4] = rng.choice((1, 2))
        streams[indices + 5] = 1 | 1 << 20 | 1 << 28
    if rng.random() < 0.1:  # another length, or any bit of the last word
        streams[indices + rng.choice((4, 5))] ^= 1 << rng.randrange(32)
    if rng.random() < 0.95:
        streams[output + 5] = streams[output + 5] & ~0xFFFFF | 1
    size = 4 >> (streams[output + 5] >> 24 & 3)
    row = streams[output + 4] * size
    if rng.random() < 0.9:  # rows that are apart, or nearly
        near = (row, row - 1, row - size, row + size, row + _stride(rng))
        streams[output] = max(0, min(0xFFFF_FFFF, rng.choice(near)))
    return count(rng, 33) & 0xFFFF_FFFF if rng.random() < 0.7 else rng.choice((1, 1 << 31, (1 << 31) + 1))


def _matmul_flags(rng: random.Random) -> int:
    flags = 0
    for bit in MATMUL_FLAGS:
        if rng.random() < 0.3:
            flags |= 1 << bit
    return flags


def _extension(rng: random.Random, opcode: int, flags: int, memory: MemoryMap) -> list[int]:
    """Draw the words of an extension packet."""
    words = [EXTENSION_MAGIC, *(0,) * 15]
    matmul = opcode == Opcode.MATMUL
    for place in (1, 9):
        words[place] = count(rng, 16)
    for place in (2, 3, 4, 6, 7, 8, 10, 11, 12):
        if matmul or place not in (3, 7, 11):
            words[place] = _stride(rng)
    if not matmul:
        words[5] = count(rng, 25)
    elif flags & (1 << 11 | 1 << 12):
        words[13], words[5] = _operand(rng, memory)
    if matmul and flags & 1 << 10:
        words[14], words[15] = _operand(rng, memory)
    return words


def _operand(rng: random.Random, memory: MemoryMap) -> list[int]:
    """Draw an address of an extension: the low word, and the high one where memory is large."""
    low, high = _wide(address(rng, memory))
    return [low, high if memory.is_large else 0]


def draw(rng: random.Random, memory: MemoryMap = DEFAULT_MAP) -> list[int]:
    """Draw CASE_WORDS words for a device with this memory: a packet, its extensions, the loaded part of
    program memory, the protected range."""
    opcode = int(rng.choice(OPCODES)) if rng.random() < 0.97 else number(rng, 32)
    flags = rng.getrandbits(1) << 30
    bits = {int(Opcode.MATMUL): 26, int(Opcode.LOAD_PROGRAM): 14}.get(opcode, 33)
    m, k, n = count(rng, bits), count(rng, bits), count(rng, bits)
    if rng.random() < 0.05:
        m, k, n = (rng.choice((each, number(rng, 64))) for each in (m, k, n))
    if opcode in (Opcode.ADD_TENSOR, Opcode.MEMCPY) and rng.random() < 0.3:
        m, k, n = factors(rng, rng.choice((28, 31, 32, 33, 63, 64, rng.randint(0, 95))), 32, 32, 32)
    extensions = [0] * 48
    blocks = opcode == Opcode.MATMUL and rng.random() < 0.3
    if opcode == Opcode.MATMUL:
        flags |= _matmul_flags(rng)
    if blocks:
        flags |= rng.randint(1, 3) << BLOCKS_SHIFT
        if rng.random() < 0.9:
            flags &= ~int(Flags.DTYPE | Flags.HALF_B | Flags.OUT | Flags.TRANS_A | Flags.TRANS_B)
            flags |= rng.choice(BLOCK_ROWS) << DTYPE_SHIFT
            k = min(k + 31, (1 << 64) - 1) & -32
            if rng.random() < 0.2:
                k |= 1 << rng.randrange(5)
    if opcode == Opcode.VECTOR:
        flags |= EXT
        m, k = min(m, number(rng, 26)), min(k, number(rng, 26))
        extreme = rng.choice((0.02, 0.05, 0.3))
        streams = [word for i in range(5) for word in _descriptor(rng, i == 4, extreme)]
        (s2, s2_high), (s3, s3_high) = (_operand(rng, memory) for _ in range(2))
        parameters = [rng.getrandbits(32) for _ in range(7)]
        head = [MAGICS[0], number(rng, 13), count(rng, 16), count(rng, 16), s2, s3, *parameters]
        head += [s2_high, s3_high, 0]
        if rng.random() < 0.3:
            head[15] = _scatter(rng, streams)
        extensions = [*head, MAGICS[1], *streams[:15], MAGICS[2], *streams[15:]]
    elif opcode in (Opcode.MATMUL, Opcode.MEMCPY) and rng.random() < 0.6:
        flags |= EXT
        extensions[:16] = _extension(rng, opcode, flags, memory)
        for place in (3, 7, 11) if blocks and rng.random() < 0.9 else ():
            extensions[place] &= -64
    places = [address(rng, memory) for _ in range(3)]
    if rng.random() < 0.1:
        places[2] = places[0]
    if blocks and rng.random() < 0.9:
        places[1] &= -64
    words = [opcode, flags, *(half for each in (*places, m, k, n) for half in _wide(each))]
    words += [struct.unpack("<I", struct.pack("<f", 1.5))[0], 0, *extensions]
    if rng.random() < 0.1:  # any bit of any word
        words[rng.randrange(64 if flags & EXT else 16)] ^= 1 << rng.randrange(32)
    if rng.random() < 0.1:  # any word
        words[rng.randrange(64 if flags & EXT else 16)] = number(rng, 32)
    if not words[1] & EXT:
        words[16:] = [0] * 48
    elif words[0] != Opcode.VECTOR:
        words[32:] = [0] * 32
    loaded = rng.choice((0, 1, PROGRAM_WORDS, PROGRAM_WORDS, PROGRAM_WORDS, rng.randint(0, PROGRAM_WORDS)))
    guard = (0, 0, 0)
    if rng.random() < 0.2:
        low, high = _wide(rng.choice((address(rng, memory), places[2])))
        guard = (low, number(rng, 32), high % 8 if memory.is_large else 0)
    words += [loaded, *guard]
    assert len(words) == CASE_WORDS
    return words
