"""MATMULs with weights in blocks on fresh operands, which a device without them refuses."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import BLOCK_ROWS, Packet
from echo_npu.formats import FORMATS
from echo_npu.spec.data_types import Blocks
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.stimulus.operands import packed_tiles
from tb.testbench import NpuTestbench
from tests.commands.outcomes import refused

PACKED: Final = tuple(each for each in Blocks if each)


class BlocksTrial:
    """One MATMUL with weights in blocks on fresh operands; `packets` submits it.

    Args:
        a: float32 or float16 [M, K]; None: random, of either.
        tiles: uint8 [N tiles, K tiles, bytes of a tile]; None: random.
        row_scale, column_scale, bias: float32 [M], [N], [N]; None: that step is not asked for.
        gaps: between two stored rows of `a` and of the result in elements, of the weights in tiles; what lies
            there has any bits.
    """

    def __init__(
        self,
        tb: NpuTestbench,
        blocks: Blocks,
        m: int,
        k: int,
        n: int,
        *,
        a: NDArray[np.float32] | NDArray[np.float16] | None = None,
        tiles: NDArray[np.uint8] | None = None,
        alpha: float | None = None,
        row_scale: NDArray[np.float32] | None = None,
        column_scale: NDArray[np.float32] | None = None,
        bias: NDArray[np.float32] | None = None,
        relu: bool = False,
        gaps: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        if a is None:
            a = tb.floats(m, k)
            a = tb.random.choice((a, a.astype(np.float16)))
        size = a.itemsize
        tiles = packed_tiles(tb.rng, blocks, n, k) if tiles is None else tiles
        rows = np.ascontiguousarray(tiles).reshape(tiles.shape[0], -1)
        left = _spread(tb, a.view(np.uint8), size * gaps[0])
        right = _spread(tb, rows, FORMATS[blocks.label].tile_bytes * gaps[1])
        strides = (left.shape[1], right.shape[1], 4 * (n + gaps[2]))
        self.src1 = tb.place(left, offset=size * tb.random.randrange(64 // size))
        self.src2 = tb.place(right, "weight")
        self.dst = tb.destination(m * strides[2], offset=4 * tb.random.randrange(16))
        self.shape = (m, n)
        columns = [vector for vector in (column_scale, bias) if vector is not None]
        self.packets: Sequence[Packet] = matmul_packets(
            self.src1, self.src2, self.dst, m, k, n,
            dtype=BLOCK_ROWS[size < np.float32().itemsize],
            blocks=blocks,
            alpha=alpha,
            row_scales=None if row_scale is None else tb.place(row_scale, "weight", offset=4),
            column_vectors=tb.place(np.concatenate(columns), "weight", offset=8) if columns else None,
            column_scale=column_scale is not None,
            bias=bias is not None,
            relu=relu,
            row_strides=[stride if gap else 0 for stride, gap in zip(strides, gaps, strict=True)],
        )  # fmt: skip


def _spread(tb: NpuTestbench, rows: NDArray[np.uint8], gap: int) -> NDArray[np.uint8]:
    """Return rows of bytes with `gap` random bytes behind each."""
    wide = tb.rng.integers(0, 256, (rows.shape[0], rows.shape[1] + gap), dtype=np.uint8)
    wide[:, : rows.shape[1]] = rows
    return wide


def steps_of(tb: NpuTestbench, m: int, n: int) -> dict[str, Any]:
    """Draw the operands of every step of the epilogue, of ordinary size."""
    return {
        "alpha": 0.3,
        "row_scale": tb.floats(m),
        "column_scale": tb.floats(n),
        "bias": tb.floats(n),
        "relu": True,
    }


async def run_packed(tb: NpuTestbench, products: Sequence[BlocksTrial], via: Path = "ring") -> None:
    """Run trials back to back; on a device without weights in blocks, require that each is refused."""
    if tb.config.has_blocks:
        assert await tb.run([packet for product in products for packet in product.packets], via) == State.DONE
        return
    for product in products:
        await refused(tb, product.packets, ErrorCode.BAD_FLAGS, via=via)
