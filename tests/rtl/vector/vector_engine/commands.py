"""Commands of the vector engine in the form of vector_command_t."""

import itertools
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from echo_npu.commands.vector_command import ELEMENT_SIZES, Descriptor
from echo_npu.vector.isa import CHUNK_MULTIPLE
from tests.rtl.streams import STREAM_BITS, stream_bits

OUTPUT = 4
"""Number of the output among the streams."""

COMMAND_WIDTHS = {
    "kind": 2,
    **{f"stream{stream}": STREAM_BITS for stream in range(OUTPUT, -1, -1)},
    "rows": 25,
    "cols": 32,
    "repeats": 25,
    "batch0": 16,
    "batch1": 16,
    "entry": 32,
    **{f"param{number}": 32 for number in range(7, -1, -1)},
    "table_rows": 32,
}
"""The members of vector_command_t in their order, with their bits."""


class EngineKind(IntEnum):
    """The kinds of commands."""

    PROGRAM = 0
    COPY = 1
    GATHER = 2
    LOAD = 3


@dataclass(frozen=True)
class Extent:
    """The bytes of a stream: segments of a row, rows, inner and outer batches.

    Attributes: addr (of the first byte), seg_bytes, counts and strides ((segments, rows, batch0, batch1)).
    """

    addr: int
    seg_bytes: int
    counts: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]

    @property
    def end(self) -> int:
        """Return the address behind the last byte."""
        steps = zip(self.counts, self.strides, strict=True)
        return self.addr + sum((count - 1) * stride for count, stride in steps) + self.seg_bytes

    @cached_property
    def places(self) -> frozenset[int]:
        """The addresses of all segments."""
        return frozenset(self.starts())

    def starts(self) -> list[int]:
        """Return the addresses of all segments, in the order of the loops."""
        places = itertools.product(*(range(count) for count in reversed(self.counts)))
        return [
            self.addr + sum(n * stride for n, stride in zip(place, reversed(self.strides), strict=True))
            for place in places
        ]

    def members(self) -> dict[str, int]:
        """Return these members of stream_t. Strides that are never stepped are 0."""
        steps = (stride if count > 1 else 0 for count, stride in zip(self.counts, self.strides, strict=True))
        names = ("seg_stride", "row_stride", "batch0_stride", "batch1_stride")
        return {
            **dict(zip(names, steps, strict=True)),
            "seg_bytes": self.seg_bytes,
            "segs": self.counts[0],
            "enable": 1,
        }


def extent_of(stream: Descriptor, rows: int, batch: tuple[int, int]) -> Extent:
    """Return the bytes of a stream of a VECTOR command."""
    return Extent(
        stream.address,
        stream.segment_bytes,
        (stream.segs, rows, *batch),
        (stream.seg_stride, stream.row_stride, *stream.batch_strides),
    )


def program_stream(stream: Descriptor, extent: Extent, base: int) -> int:
    """Return a stream of a VECTOR command as stream_t, its address moved by `base`."""
    return stream_bits(
        addr=base + extent.addr,
        **extent.members(),
        seg_len=stream.seg_len,
        length=stream.length,
        segments=stream.segments,
        row_granules=stream.segments * -(-stream.length // CHUNK_MULTIPLE),
        passes=stream.passes,
        size=ELEMENT_SIZES.index(stream.size),
        bcast=int(stream.bcast),
    )


def counted_stream(extent: Extent, count: int, base: int) -> int:
    """Return a stream of any other command as stream_t: as far as it is read, a row of `count` elements."""
    return stream_bits(
        addr=base + extent.addr,
        **extent.members(),
        seg_len=count,
        length=count,
        segments=1,
        row_granules=-(-count // CHUNK_MULTIPLE),
        passes=1,
    )


def command_bits(**members: int) -> int:
    """Return a value of the type vector_command_t; every member must be given.

    Raises: AssertionError if a member is missing, does not exist or does not fit.
    """
    assert members.keys() == COMMAND_WIDTHS.keys()
    bits = 0
    for name, width in COMMAND_WIDTHS.items():
        assert 0 <= members[name] < 1 << width, name
        bits = bits << width | members[name]
    return bits
