"""Commands that the device must refuse, and commands that fail during execution."""

import random
import struct
from collections.abc import Callable, Sequence

import numpy as np

from echo_npu.commands.builders import gather_packets, load_program_packets
from echo_npu.commands.checked import PacketFault
from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import (
    BLOCKS_SHIFT,
    LEGAL_FLAGS,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
    extension_count,
    packet_bytes,
)
from echo_npu.commands.vector_command import RowIndices, Stream, vector_command
from echo_npu.spec.contract import COMMAND_OFFSETS, PACKET_WORDS, VECTOR_EXTENSION_WORDS
from echo_npu.spec.memory_map import ACTIVATION, REGISTERS, RESERVED, WEIGHT
from echo_npu.spec.status import ErrorCode
from echo_sim.config import NpuConfig
from tb.checking import check, loaded_programs
from tb.stimulus.limits import GUARD
from tb.stimulus.programs import ARENAS, ENTRIES, ProgramMaker

BAD_CODE = 0x00F0_0000
BAD_INDICES = 0x00F1_0000
BAD_WIDE_INDICES = 0x00F1_1000
BAD_ENTRY = 280  # no sequence loads other programs there

UNKNOWN_OPCODE = next(code for code in range(256) if code not in set(Opcode))

_OPCODE, _FLAGS, _M, _K, _N, _RESERVED, *_ADDRESSES = (
    COMMAND_OFFSETS[name] // 4
    for name in ("opcode", "flags", "m", "k", "n", "reserved", "src1_addr", "src2_addr", "dst_addr")
)
_SRC1, _SRC2, _DST = _ADDRESSES
_ENTRY = PACKET_WORDS + VECTOR_EXTENSION_WORDS["entry"].start

Words = list[int]
Slots = Sequence[Packet]
Change = Callable[[random.Random, Words], None]

CHECKED = (*tuple(code for code in ErrorCode if 1 <= code <= ErrorCode.BAD_EXTENSION), ErrorCode.BAD_PROGRAM)
"""Errors for which a packet can be refused; PROTECTED also occurs where GUARD is."""


def _opcode(pick: random.Random, words: Words) -> None:
    words[_OPCODE] = pick.choice(
        (UNKNOWN_OPCODE, 0xFE, 0x100, words[_OPCODE] | 1 << 31, pick.getrandbits(32))
    )


def _flags(pick: random.Random, words: Words) -> None:
    if pick.random() < 0.3:
        words[_RESERVED] = 1 << pick.randrange(32)
    elif words[_OPCODE] == Opcode.MATMUL and pick.random() < 0.4:  # illegal for most types, or on the device
        words[_FLAGS] |= pick.choice((Flags.HALF_B, *(each << BLOCKS_SHIFT for each in (1, 2, 3))))
    else:
        words[_FLAGS] |= 1 << pick.choice(
            [bit for bit in range(32) if not LEGAL_FLAGS[words[_OPCODE]] >> bit & 1]
        )


def _dimension(pick: random.Random, words: Words) -> None:
    low = pick.choice((_M, _K, _N))
    value = pick.choice((0, -1, 1 << 62, 1 << 32, (1 << 24) + 1, -pick.getrandbits(40)))
    if words[_OPCODE] == Opcode.MATMUL and words[_FLAGS] & Flags.BLOCKS and pick.random() < 0.5:
        low, value = _K, words[_K] + pick.choice((-16, -1, 1, 8, 16, 31))  # no whole blocks
    words[low], words[low + 1] = value & 0xFFFF_FFFF, value >> 32 & 0xFFFF_FFFF


def _address(value: Callable[[random.Random, int], int]) -> Change:
    def change(pick: random.Random, words: Words) -> None:
        low = pick.choice(_ADDRESSES)
        address = value(pick, words[low])
        words[low], words[low + 1] = address & 0xFFFF_FFFF, address >> 32

    return change


def _protected(pick: random.Random, words: Words) -> None:
    words[_DST], words[_DST + 1] = GUARD.base + 8 * pick.randrange(GUARD.size // 8), 0


def _overlap(pick: random.Random, words: Words) -> None:
    words[_DST] = words[pick.choice((_SRC1, _SRC2))] + pick.choice((0, 0, 4, 16))


def _extension(pick: random.Random, words: Words) -> None:
    if len(words) > PACKET_WORDS:
        words[PACKET_WORDS * pick.randrange(1, len(words) // PACKET_WORDS)] ^= 1 << pick.randrange(32)


def _entry(pick: random.Random, words: Words) -> None:
    if len(words) > _ENTRY:
        words[_ENTRY] = pick.choice((1 << 31, 0xFFFF_FFFF, 4096 + pick.randrange(1 << 20)))


CHANGES: dict[ErrorCode, Change] = {
    ErrorCode.BAD_OPCODE: _opcode,
    ErrorCode.BAD_FLAGS: _flags,
    ErrorCode.BAD_DIMENSION: _dimension,
    ErrorCode.MISALIGNED: _address(lambda pick, old: old + pick.choice((1, 2, 3))),
    ErrorCode.OUT_OF_RANGE: _address(
        lambda pick, _: pick.choice(
            (RESERVED.base, RESERVED.end, WEIGHT.end - 4, ACTIVATION.end - 4, 1 << 32, (1 << 64) - 64)
        )
    ),
    ErrorCode.REGISTER_WINDOW: _address(lambda pick, _: REGISTERS.base + 64 * pick.randrange(1, 513)),
    ErrorCode.OVERLAP: _overlap,
    ErrorCode.BAD_EXTENSION: _extension,
    ErrorCode.BAD_PROGRAM: _entry,
    ErrorCode.PROTECTED: _protected,
}
"""For each error, a change that may give it to a legal command, depending on the command."""


def verdict(packets: Slots, config: NpuConfig) -> ErrorCode:
    """Return the device's error for a command; NONE if it accepts it.

    All of program memory counts as loaded, and GUARD is protected.
    """
    try:
        programs = loaded_programs(config.program_words)
        check(as_commands(packets)[0], programs, GUARD, blocks=config.has_blocks)
    except PacketFault as fault:
        return fault.code
    return ErrorCode.NONE


class ErrorMaker:
    """Draws failing commands. `maker` draws the legal commands that they are derived from, and gets the
    images."""

    def __init__(self, rng: random.Random, maker: ProgramMaker, config: NpuConfig) -> None:
        self._random = rng
        self._maker = maker
        self._config = config
        maker.images[BAD_CODE] = b"\xff" * 8
        maker.images[BAD_INDICES] = np.array([0, 1, -1, 1000, 2], dtype=np.int32).tobytes()
        maker.images[BAD_WIDE_INDICES] = np.array([3, 0, 1 << 32, -1], dtype=np.int64).tobytes()

    def refused(self, code: ErrorCode) -> Slots:
        """Draw a command that is refused with `code`, one of CHECKED, or PROTECTED where GUARD is."""
        maker = self._maker
        kinds = [
            maker.copy,
            maker.strided_copy,
            maker.add,
            maker.matmul,
            maker.gather,
            maker.vector,
            maker.scatter,
        ]
        while True:
            raw = [packet_bytes(packet) for packet in maker.draw(kinds)]
            words = list(struct.unpack(f"<{PACKET_WORDS * len(raw)}I", b"".join(raw)))
            CHANGES[code](self._random, words)
            broken: Slots = [
                struct.pack(f"<{PACKET_WORDS}I", *words[at : at + PACKET_WORDS])
                for at in range(0, len(words), PACKET_WORDS)
            ]
            packet = NpuCommandPacket.unpack(packet_bytes(broken[0]))
            # If the change adds or removes an extension, the following slots change their meaning.
            if 1 + extension_count(packet.opcode, packet.flags) != len(broken):
                broken = broken[:1]
                if extension_count(packet.opcode, packet.flags):
                    continue
            if verdict(broken, self._config) == code:
                return broken

    def bad_program(self) -> Slots:
        """Return a VECTOR with an illegal program, preceded by its load."""
        command = vector_command(BAD_ENTRY, rows=1, cols=8, output=Stream(ARENAS[0]))
        return [*load_program_packets(BAD_CODE, 1, BAD_ENTRY), *command.packets()]

    def never_loaded(self) -> Slots:
        """Draw a VECTOR that starts at a random word; no sequence loads most of them."""
        entry = self._random.randrange(self._config.program_words - 1)
        return vector_command(entry, rows=1, cols=8, output=Stream(ARENAS[0])).packets()

    def bad_index(self) -> Slots:
        """Return a GATHER with an index outside its table."""
        return gather_packets(ARENAS[1], BAD_INDICES, ARENAS[0], 5, 16, 5)

    def bad_scatter(self) -> Slots:
        """Draw a VECTOR that scatters, with an index outside its table: the first one, or a later one."""
        first, table_rows = self._random.choice(((0, 5), (1, 5), (2, 5), (3, 5), (0, 2)))
        entry = self._random.choice(ENTRIES)
        indices = RowIndices(BAD_WIDE_INDICES + 8 * first, table_rows, wide=True)
        if self._random.random() < 0.5:
            indices = RowIndices(BAD_INDICES + 4 * first, min(table_rows, 2), wide=False)
        source = Stream(ARENAS[1], row_stride=12)
        return vector_command(
            entry,
            rows=5 if not indices.wide else 4 - first,
            cols=3,
            inputs=[source, source],
            output=Stream(ARENAS[0], row_stride=12),
            params=[1.0],
            passes=(2, 2, 1, 1),
            indices=indices,
        ).packets()

    def failing(self, *, guarded: bool = False) -> Slots:
        """Draw any failing command; with `guarded`, GUARD is protected."""
        pick = self._random
        if pick.random() < 0.25:
            return pick.choice((self.bad_program, self.never_loaded, self.bad_index, self.bad_scatter))()
        return self.refused(pick.choice((*CHECKED, ErrorCode.PROTECTED) if guarded else CHECKED))


def without_extension(packets: Slots) -> Slots:
    """Return the packets without their last extension, if they have one."""
    first = NpuCommandPacket.unpack(packet_bytes(packets[0]))
    if first.opcode in set(Opcode) and extension_count(first.opcode, first.flags):
        return packets[:-1]
    return packets
