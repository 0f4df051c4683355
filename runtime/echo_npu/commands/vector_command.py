"""VECTOR commands and their four packets (docs/vector.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, SupportsIndex

import numpy as np

from echo_npu.commands.command import Command
from echo_npu.commands.integers import checked_integer
from echo_npu.commands.packets import (
    MAX_BATCH,
    MAX_ROWS,
    MAX_TABLE,
    PACKET_BYTES,
    VECTOR_EXTENSIONS,
    Flags,
    NpuCommandPacket,
    Opcode,
    Packet,
)
from echo_npu.spec.contract import (
    DESCRIPTOR_BATCH0_STRIDE,
    DESCRIPTOR_BATCH1_STRIDE,
    DESCRIPTOR_BCAST,
    DESCRIPTOR_ENABLE,
    DESCRIPTOR_PACK,
    DESCRIPTOR_PASSES,
    DESCRIPTOR_ROW_STRIDE,
    DESCRIPTOR_SEG_LEN,
    DESCRIPTOR_SEG_STRIDE,
    DESCRIPTOR_SEGS,
    DESCRIPTOR_SIZE,
    MAX_DIM,
    PARAM_ALPHA,
    VECTOR_EXTENSION_MAGIC1,
    VECTOR_EXTENSION_MAGIC2,
    VECTOR_EXTENSION_MAGIC3,
    VECTOR_EXTENSION_STRUCT,
    VECTOR_EXTENSION_WORDS,
)
from echo_npu.spec.instructions import INPUTS
from echo_npu.vector.immediates import immediate_bits
from echo_npu.vector.program import MAX_PASSES

PARAMETERS: Final = 8
MAX_REPEATS: Final = MAX_DIM
INPUTS_OF_SCATTER: Final = INPUTS - 1
"""Input streams of a command that scatters: the last one is the list of indices."""
MAX_SEGMENTS: Final = (1 << DESCRIPTOR_SEGS.width) - 1
MAGICS: Final = (VECTOR_EXTENSION_MAGIC1, VECTOR_EXTENSION_MAGIC2, VECTOR_EXTENSION_MAGIC3)

ELEMENT_SIZES: Final = (4, 2, 1)
"""Bytes of an element, by the number in a descriptor."""

_DESCRIPTOR_WORDS: Final = 6
_AT: Final = VECTOR_EXTENSION_WORDS
_U32: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as the caller gives it. Addresses and strides are bytes, lengths are elements.

    Attributes:
        address: of the first element.
        seg_len: elements of a segment. None: the command's `cols`, or 1 with `bcast`.
        segs: segments of a row.
        row_stride: from one row to the next; 0: the same row again.
        batch_strides: (batch0, batch1).
        seg_stride: from one segment to the next.
        size: bytes of an element: 4, 2 or 1. Shorter elements are sign-extended when read, cut when written.
        pack: the row counts as one segment of segs * seg_len elements.
        bcast: (inputs) the row is one element, which every element of the window repeats.
        passes: (inputs) how many times the program goes through the row, 1..15. None: as the program says.
    """

    address: int
    seg_len: int | None = None
    segs: int = 1
    row_stride: int = 0
    batch_strides: tuple[int, int] = (0, 0)
    seg_stride: int = 0
    size: int = 4
    pack: bool = False
    bcast: bool = False
    passes: int | None = None


@dataclass(frozen=True, slots=True)
class Descriptor(Stream):
    """A stream of a command with every number known; `passes` is 0 for the output."""

    seg_len: int
    passes: int = 1

    @property
    def length(self) -> int:
        """Elements of a segment as programs see it."""
        return self.segs * self.seg_len if self.pack else self.seg_len

    @property
    def segments(self) -> int:
        """Segments as programs see them."""
        return 1 if self.pack else self.segs

    @property
    def segment_bytes(self) -> int:
        """Bytes of a segment in memory."""
        return self.seg_len * self.size

    def words(self) -> tuple[int, ...]:
        """Return the six words of an enabled descriptor."""
        whole = (
            DESCRIPTOR_ROW_STRIDE.put(self.row_stride)
            | DESCRIPTOR_BATCH0_STRIDE.put(self.batch_strides[0])
            | DESCRIPTOR_BATCH1_STRIDE.put(self.batch_strides[1])
            | DESCRIPTOR_SEG_STRIDE.put(self.seg_stride)
            | DESCRIPTOR_SEG_LEN.put(self.seg_len)
            | DESCRIPTOR_SEGS.put(self.segs)
            | DESCRIPTOR_PASSES.put(self.passes)
            | DESCRIPTOR_SIZE.put(ELEMENT_SIZES.index(self.size))
            | DESCRIPTOR_PACK.put(self.pack)
            | DESCRIPTOR_BCAST.put(self.bcast)
            | DESCRIPTOR_ENABLE.put(1)
        )
        return tuple(whole >> 32 * word & _U32 for word in range(_DESCRIPTOR_WORDS))


@dataclass(frozen=True, slots=True)
class RowIndices:
    """The list of indices by which a command scatters the rows of its output. Strides are bytes.

    Attributes:
        address: of the first index, a multiple of 4.
        table_rows: rows of the table at the output's address, 1..2**31, the output's row stride apart.
        wide: indices are int64; else int32.
        row_stride: from the index of a row to that of the next one. None: the list is dense.
        batch_strides: (batch0, batch1); 0: the same indices again.
    """

    address: int
    table_rows: int
    wide: bool = False
    row_stride: int | None = None
    batch_strides: tuple[int, int] = (0, 0)

    @property
    def stream(self) -> Stream:
        """The stream that reads the list."""
        length = 2 if self.wide else 1
        stride = 4 * length if self.row_stride is None else self.row_stride
        return Stream(self.address, length, row_stride=stride, batch_strides=self.batch_strides, passes=1)


@dataclass(frozen=True, slots=True)
class VectorExtension:
    """The three extension packets of a VECTOR command, as they are in memory, valid or not."""

    words: tuple[int, ...]

    @classmethod
    def unpack(cls, slots: Sequence[bytes]) -> VectorExtension:
        """Unpack three packets of 64 bytes; ValueError for another number or size."""
        if len(slots) != VECTOR_EXTENSIONS or any(len(slot) != PACKET_BYTES for slot in slots):
            raise ValueError(f"a VECTOR command has {VECTOR_EXTENSIONS} extensions of {PACKET_BYTES} bytes")
        return cls(VECTOR_EXTENSION_STRUCT.unpack(b"".join(slots)))

    def pack(self) -> list[bytes]:
        """Return the three packets."""
        data = VECTOR_EXTENSION_STRUCT.pack(*self.words)
        return [data[first : first + PACKET_BYTES] for first in range(0, len(data), PACKET_BYTES)]

    def _word(self, name: str) -> int:
        return self.words[_AT[name].start]

    @property
    def magics(self) -> tuple[int, int, int]:
        return self._word("magic1"), self._word("magic2"), self._word("magic3")

    @property
    def entry(self) -> int:
        return self._word("entry")

    @property
    def batch(self) -> tuple[int, int]:
        """The two words; 0 means 1."""
        return self._word("batch0"), self._word("batch1")

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of s2 and s3."""
        high2, high3 = self.high_words
        return high2 << 32 | self._word("s2_addr"), high3 << 32 | self._word("s3_addr")

    @property
    def high_words(self) -> tuple[int, int]:
        """The high words of these addresses."""
        return self._word("s2_addr_high"), self._word("s3_addr_high")

    @property
    def params(self) -> tuple[int, ...]:
        """p1..p7."""
        return self.words[_AT["params"]]

    @property
    def table_rows(self) -> int:
        """Rows of the table that the command scatters to; 0: it does not scatter."""
        return self._word("table_rows")

    def descriptor(self, stream: int) -> tuple[int, ...]:
        """Return the six words of stream 0..4."""
        listed = self.words[_AT["descriptors_low"]] + self.words[_AT["descriptors_high"]]
        return listed[stream * _DESCRIPTOR_WORDS : (stream + 1) * _DESCRIPTOR_WORDS]


@dataclass(frozen=True, slots=True)
class VectorCommand:
    """Run the program at `entry` once for each row of each batch.

    Attributes:
        entry: word of program memory.
        rows, cols, repeats: counts, at least 1; cols are elements of a row.
        inputs: s0..s3; None where there is no stream.
        params: 32 bits each.
        batch: (batch0, batch1) counts, at least 1.
        indices: of a scatter, the list of indices, which is s3 for the packets but not for the program.
        table_rows: of a scatter, rows of the table at the output's address; else 0.
    """

    entry: int
    rows: int
    cols: int
    inputs: tuple[Descriptor | None, Descriptor | None, Descriptor | None, Descriptor | None]
    output: Descriptor
    params: tuple[int, ...] = (0,) * PARAMETERS
    repeats: int = 1
    batch: tuple[int, int] = (1, 1)
    indices: Descriptor | None = None
    table_rows: int = 0

    @property
    def sources(self) -> tuple[Descriptor | None, ...]:
        """What the command reads, as its packets number it: s0..s3."""
        return self.inputs if self.indices is None else (*self.inputs[:INPUTS_OF_SCATTER], self.indices)

    def packets(self, *, irq: bool = False) -> list[Packet]:
        """Return the command packet and its three extensions."""
        packet, *extensions = self.command(irq=irq).slots
        return [NpuCommandPacket.unpack(packet), *extensions]

    def command(self, *, irq: bool = False) -> Command:
        """Return the command packet with its three extensions."""
        addresses = [each.address if each is not None else 0 for each in self.sources]
        flags = Flags.EXT | (Flags.IRQ if irq else Flags.NONE)
        packet = NpuCommandPacket(
            Opcode.VECTOR,
            flags,
            addresses[0],
            addresses[1],
            self.output.address,
            param=[self.params[0] if word == PARAM_ALPHA else 0 for word in range(8)],
            m=self.rows,
            k=self.repeats,
            n=self.cols,
        )
        nothing = (0,) * _DESCRIPTOR_WORDS
        listed: list[int] = []
        for each in (*self.sources, self.output):
            listed += each.words() if each is not None else nothing
        words = [0] * (VECTOR_EXTENSION_STRUCT.size // 4)
        for name, values in (
            ("magic1", MAGICS[:1]),
            ("entry", (self.entry,)),
            ("batch0", self.batch[:1]),
            ("batch1", self.batch[1:]),
            ("s2_addr", (addresses[2] & _U32,)),
            ("s3_addr", (addresses[3] & _U32,)),
            ("s2_addr_high", (addresses[2] >> 32,)),
            ("s3_addr_high", (addresses[3] >> 32,)),
            ("params", self.params[1:]),
            ("table_rows", (self.table_rows,)),
            ("magic2", MAGICS[1:2]),
            ("descriptors_low", listed[:15]),
            ("magic3", MAGICS[2:]),
            ("descriptors_high", listed[15:]),
        ):
            words[_AT[name]] = values
        return Command.of(packet, *VectorExtension(tuple(words)).pack())


def entry_of(command: Command) -> int | None:
    """Return the entry that a complete VECTOR command names; None for any other command."""
    if len(command.slots) != 1 + VECTOR_EXTENSIONS:
        return None
    return VectorExtension.unpack(command.slots[1:]).entry


def placed(command: Command, entry: int) -> Command:
    """Return a complete VECTOR command with its program at another entry."""
    packet, first, *others = command.slots
    return Command((packet, first[:4] + entry.to_bytes(4, "little") + first[8:], *others))


def vector_command(
    entry: int,
    *,
    rows: SupportsIndex,
    cols: SupportsIndex,
    inputs: Sequence[Stream | None] = (),
    output: Stream,
    params: Sequence[float | np.floating | np.integer] = (),
    repeats: SupportsIndex = 1,
    batch: Sequence[SupportsIndex] = (1, 1),
    passes: Sequence[int] = (1, 1, 1, 1),
    indices: RowIndices | None = None,
) -> VectorCommand:
    """Make a command with legal fields.

    Args:
        rows: 1..2**24.  cols: 1..2**32-1.  repeats: 1..2**24.  batch: (batch0, batch1), each 1..65535.
        inputs: up to four; None where there is no stream.
        params: up to eight; a float is float32, an integer 32 bits.
        passes: of each input whose stream has None.
        indices: the rows of the output go to the rows of a table that these name, in order, so the later of
            two equal indices wins. There are three inputs then, and the output has one segment.

    Raises:
        TypeError, ValueError: naming the field and its value.
    """
    counts = {
        "rows": checked_integer("rows", rows, 1, MAX_ROWS),
        "cols": checked_integer("cols", cols, 1, _U32),
    }
    if len(batch) != 2:
        raise ValueError(f"batch has {len(batch)} entries; it is (batch0, batch1)")
    batches = (
        checked_integer("batch[0]", batch[0], 1, MAX_BATCH),
        checked_integer("batch[1]", batch[1], 1, MAX_BATCH),
    )
    most = INPUTS if indices is None else INPUTS_OF_SCATTER
    if len(inputs) > most:
        raise ValueError(f"inputs has {len(inputs)} entries; there are {most} input streams")
    if len(params) > PARAMETERS:
        raise ValueError(f"params has {len(params)} entries; there are {PARAMETERS} parameters")
    listed: list[Descriptor | None] = [None] * INPUTS
    steps = (counts["rows"], *batches)
    for index, stream in enumerate(inputs):
        if stream is not None:
            name = f"inputs[{index}]"
            if not isinstance(stream, Stream):
                raise TypeError(f"{name} must be a Stream or None, got {type(stream).__name__}")
            own = passes[index] if stream.passes is None else stream.passes
            own = checked_integer(f"{name}.passes", own, 1, MAX_PASSES)
            listed[index] = _descriptor(name, stream, counts["cols"], steps, own)
    if not isinstance(output, Stream):
        raise TypeError(f"output must be a Stream, got {type(output).__name__}")
    words = [immediate_bits(value) for value in params]
    table_rows, listing = 0, None
    if indices is not None:
        table_rows = checked_integer("indices.table_rows", indices.table_rows, 1, MAX_TABLE)
        listing = _descriptor("indices", indices.stream, 1, steps, 1)
    return VectorCommand(
        entry=checked_integer("entry", entry, 0, _U32),
        inputs=(listed[0], listed[1], listed[2], listed[3]),
        output=_output(output, counts["cols"], steps, table_rows),
        params=(*words, *(0,) * (PARAMETERS - len(words))),
        repeats=checked_integer("repeats", repeats, 1, MAX_REPEATS),
        batch=batches,
        indices=listing,
        table_rows=table_rows,
        **counts,
    )


def _descriptor(name: str, stream: Stream, cols: int, steps: tuple[int, int, int], passes: int) -> Descriptor:
    """Check one stream; `steps` are the counts of rows and of the two batches."""
    if stream.size not in ELEMENT_SIZES:
        raise ValueError(f"{name}.size is {stream.size!r}; an element has 4, 2 or 1 bytes")
    size = stream.size
    default = 1 if stream.bcast else cols
    seg_len = checked_integer(
        f"{name}.seg_len", default if stream.seg_len is None else stream.seg_len, 1, _U32
    )
    segs = checked_integer(f"{name}.segs", stream.segs, 1, MAX_SEGMENTS)
    if stream.bcast and (segs != 1 or seg_len != 1 or stream.pack):
        raise ValueError(f"{name} is bcast: its row is one element, so segs and seg_len are 1, without pack")
    if segs * seg_len * size > _U32:
        raise ValueError(f"{name}: a row of {segs} * {seg_len} elements of {size} bytes is too long")
    if len(stream.batch_strides) != 2:
        raise ValueError(
            f"{name}.batch_strides has {len(stream.batch_strides)} entries; it is (batch0, batch1)"
        )
    given = {
        "row_stride": (stream.row_stride, steps[0]),
        "batch_strides[0]": (stream.batch_strides[0], steps[1]),
        "batch_strides[1]": (stream.batch_strides[1], steps[2]),
        "seg_stride": (stream.seg_stride, segs),
    }
    strides: list[int] = []
    for field, (value, count) in given.items():
        # A stride that is never stepped becomes 0.
        number = checked_integer(f"{name}.{field}", value if count > 1 else 0, 0, _U32)
        if number % size:
            raise ValueError(
                f"{name}.{field} is {number}; it must be a multiple of the {size} bytes of an element"
            )
        strides.append(number)
    address = checked_integer(f"{name}.address", stream.address, 0, 2**64 - 1)
    if address % size:
        raise ValueError(f"{name}.address is 0x{address:x}; it must be a multiple of {size}")
    row, batch0, batch1, segment = strides
    pack, bcast = bool(stream.pack), bool(stream.bcast)
    return Descriptor(address, seg_len, segs, row, (batch0, batch1), segment, size, pack, bcast, passes)


def _output(stream: Stream, cols: int, steps: tuple[int, int, int], table_rows: int) -> Descriptor:
    """Check the output; `table_rows` are those that a scatter can reach, 0 without one."""
    if stream.bcast or stream.passes:
        raise ValueError("output has neither bcast nor passes")
    if table_rows:
        steps = (table_rows, *steps[1:])
    made = _descriptor("output", stream, cols, steps, 0)
    for field, stride, count in (
        ("row_stride", made.row_stride, steps[0]),
        ("batch_strides[0]", made.batch_strides[0], steps[1]),
        ("batch_strides[1]", made.batch_strides[1], steps[2]),
    ):
        if count > 1 and not stride:
            raise ValueError(f"output.{field} is 0 for {count} steps: all would write one place")
    if table_rows and made.segs > 1:
        raise ValueError(f"output.segs is {made.segs}; a row that is scattered has one segment")
    if table_rows > 1 and made.row_stride < made.segment_bytes:
        raise ValueError(
            f"output.row_stride is {made.row_stride}; a row of the table has {made.segment_bytes} bytes"
        )
    if made.segs > 1 and made.seg_stride < made.segment_bytes:
        raise ValueError(f"output.seg_stride is {made.seg_stride}; a segment has {made.segment_bytes} bytes")
    return made
