"""The types of blocks that lie in device memory as a file has them, and what the device makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from echo_npu.server.operations.device_numbers import DeviceNumbers
from echo_npu.server.operations.file_blocks import (
    around_zero,
    even,
    from_minimum,
    grids,
    super_blocks,
    ternary,
    uneven,
)
from echo_npu.server.operations.file_blocks.blocks import FileBlocks


@dataclass(frozen=True)
class FileFormat:
    """A type of blocks.

    Attributes:
        elements: of a block.
        size: its bytes.
        values: returns the elements, [blocks, elements].
        quantise: writes [blocks, elements] to as many blocks; None if the device does not.
        grid: whether its values take a grid of the package gguf.
    """

    elements: int
    size: int
    values: Callable[[FileBlocks], DeviceNumbers]
    quantise: Callable[[DeviceNumbers, FileBlocks], None] | None = None
    grid: bool = False


FILE_FORMATS: Final[dict[str, FileFormat]] = {
    "q1_0": FileFormat(128, 18, even.q1_0, even.to_q1_0),
    "q2_0": FileFormat(64, 18, even.q2_0, even.to_q2_0),
    "q5_0": FileFormat(32, 22, even.q5_0, even.to_q5_0),
    "q5_1": FileFormat(32, 24, even.q5_1, even.to_q5_1),
    "mxfp4": FileFormat(32, 17, uneven.mxfp4, uneven.to_mxfp4),
    "nvfp4": FileFormat(64, 36, uneven.nvfp4, uneven.to_nvfp4),
    "iq4_nl": FileFormat(32, 18, uneven.iq4_nl, uneven.to_iq4_nl),
    "iq4_xs": FileFormat(256, 136, uneven.iq4_xs, uneven.to_iq4_xs),
    "tq1_0": FileFormat(256, 54, ternary.tq1_0, ternary.to_tq1_0),
    "tq2_0": FileFormat(256, 66, ternary.tq2_0, ternary.to_tq2_0),
    "q2_K": FileFormat(256, 84, super_blocks.q2_k, from_minimum.to_q2_k),
    "q3_K": FileFormat(256, 110, super_blocks.q3_k, around_zero.to_q3_k),
    "q4_K": FileFormat(256, 144, super_blocks.q4_k, from_minimum.to_q4_k),
    "q5_K": FileFormat(256, 176, super_blocks.q5_k, from_minimum.to_q5_k),
    "q6_K": FileFormat(256, 210, super_blocks.q6_k, around_zero.to_q6_k),
    "iq1_s": FileFormat(256, 50, grids.iq1_s, grid=True),
    "iq1_m": FileFormat(256, 56, grids.iq1_m, grid=True),
    "iq2_xxs": FileFormat(256, 66, grids.iq2_xxs, grid=True),
    "iq2_xs": FileFormat(256, 74, grids.iq2_xs, grid=True),
    "iq2_s": FileFormat(256, 82, grids.iq2_s, grid=True),
    "iq3_xxs": FileFormat(256, 98, grids.iq3_xxs, grid=True),
    "iq3_s": FileFormat(256, 110, grids.iq3_s, grid=True),
}
"""By ggml's names. Their layouts are those of its blocks."""
