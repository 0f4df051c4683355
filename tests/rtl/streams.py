"""Streams in the form of stream_t, for the testbenches of the vector engine's parts."""

from typing import Any

WORDS = ("addr", "row_stride", "batch0_stride", "batch1_stride", "seg_stride", "seg_bytes", "seg_len")
WIDTHS = {
    **dict.fromkeys(WORDS, 32),
    "segs": 25,
    "length": 32,
    "segments": 25,
    "row_granules": 32,
    "passes": 4,
    "size": 2,
    "bcast": 1,
    "enable": 1,
}
"""The members of stream_t in their order, with their bits."""


STREAM_BITS = sum(WIDTHS.values())


def stream_bits(**members: int) -> int:
    """Return the value of a port of the type stream_t; members that are not given are 0.

    Raises: AssertionError if a member does not exist or does not fit.
    """
    assert members.keys() <= WIDTHS.keys()
    bits = 0
    for name, width in WIDTHS.items():
        value = members.get(name, 0)
        assert 0 <= value < 1 << width, name
        bits = bits << width | value
    return bits


def set_stream(dut: Any, **members: int) -> None:
    """Drive the port `stream_i` of the type stream_t.

    Raises: AssertionError as `stream_bits`, or if the port has another width.
    """
    assert len(dut.stream_i) == STREAM_BITS, "stream_t has other members"
    dut.stream_i.value = stream_bits(**members)
