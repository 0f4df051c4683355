"""Elements as beats of memory and as words of lanes, for the testbenches of the converters."""

import numpy as np

from tests.rtl.transfers import bytes_as_beats

DTYPES = {4: np.int32, 2: np.int16, 1: np.int8}


def as_number(values: np.ndarray) -> int:
    """Return an array as the bits of a bus, its first element the lowest."""
    return int.from_bytes(values.tobytes(), "little")


def as_beats(values: np.ndarray, size: int, seg_len: int, bus: int) -> list[int]:
    """Return elements of `size` bytes as beats of `bus` bytes. Each segment of `seg_len` elements begins a
    beat; zeros fill its last one."""
    beats = []
    for segment in values.astype(DTYPES[size]).reshape(-1, seg_len):
        beats += bytes_as_beats(segment.tobytes(), bus)
    return beats
