"""Elements as beats of memory and words of lanes, for the testbenches of what turns one into the other."""

from typing import Any

import numpy as np
from cocotb.triggers import RisingEdge

DTYPES = {4: np.int32, 2: np.int16, 1: np.int8}


def as_number(values: np.ndarray) -> int:
    """An array as the bits of a bus, its first element the lowest."""
    return int.from_bytes(values.tobytes(), "little")


def as_beats(values: np.ndarray, size: int, seg_len: int, bus: int) -> list[int]:
    """Elements of `size` bytes in segments of `seg_len`, each of which begins a beat of `bus` bytes; zeros
    fill its last beat."""
    beats = []
    for segment in values.astype(DTYPES[size]).reshape(-1, seg_len):
        raw = segment.tobytes()
        raw += bytes(-len(raw) % bus)
        beats += [int.from_bytes(raw[first : first + bus], "little") for first in range(0, len(raw), bus)]
    return beats


async def start(dut: Any, *, reset: bool) -> None:
    """Begin with the stream that the ports describe; first a reset, if wanted."""
    dut.abort_i.value = dut.start_i.value = 0
    if reset:
        dut.rst_ni.value = 0
        for _ in range(3):
            await RisingEdge(dut.clk_i)
        dut.rst_ni.value = 1
    dut.start_i.value = 1
    await RisingEdge(dut.clk_i)
    dut.start_i.value = 0
