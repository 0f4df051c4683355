"""MATMULs on fresh operands: values of every type, their layout in memory, and their packets."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import Packet
from echo_npu.spec.data_types import DataType, OutType
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench

LAYOUTS: Final = ("nn", "nt", "tn", "tt")
"""How a and b are stored: n as they are, t transposed."""

SPECIAL: Final = np.array(
    [
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000,
        0xBF800000, 0x3F800001, 0x1F000000, 0x34000000, 0x5F000000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
        0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x33800000, 0x4B800000, 0x7FBFFFFF, 0x7E800000,
        0x00FFFFFF, 0x01000000,
    ],
    dtype=np.uint32,
).view(np.float32)  # fmt: skip
"""Zeros, subnormals, the ends of the range, infinities and NaNs of float32."""

SPECIALS: Final[dict[DataType, NDArray[Any]]] = {
    DataType.FP32: SPECIAL,
    DataType.BF16: np.array(
        [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0x3F80, 0xBF81, 0x1F00, 0x5F00, 0x7F7F, 0xFF7F, 0x7F80,
         0xFF80, 0x7FC0, 0xFFC1, 0x7F81],
        np.uint16,
    ),
    DataType.FP16: np.array(
        [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC01, 0x1400, 0x6400, 0x7BFF, 0xFBFF, 0x7C00,
         0xFC00, 0x7E00, 0xFE01, 0x7C01],
        np.uint16,
    ).view(np.float16),
    DataType.INT8: np.array([0, 1, -1, 2, 63, 64, 126, 127, -127, -128], np.int8),
}  # fmt: skip


def elements(tb: NpuTestbench, dtype: DataType, *shape: int) -> NDArray[Any]:
    """Random elements as they are stored: normally distributed, or any int8."""
    if dtype == DataType.INT8:
        return tb.rng.integers(-128, 128, shape).astype(np.int8)
    values = tb.floats(*shape)
    if dtype == DataType.BF16:
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(dtype.storage)


def outs(dtype: DataType) -> tuple[OutType, ...]:
    """Return the types that a product of these operands can have."""
    return tuple(OutType) if dtype == DataType.INT8 else (OutType.FLOAT32, OutType.OWN)


def transposes(layout: str) -> dict[str, bool]:
    """Return the arguments of `MatmulTrial` for one of `LAYOUTS`."""
    return {"trans_a": layout[0] == "t", "trans_b": layout[1] == "t"}


class MatmulTrial:
    """One MATMUL on fresh operands; `packets` submits it.

    Args:
        a, b: elements as stored, [M, K] and [K, N]; None: random.
        row_scale, column_scale, bias: float32 [M], [N], [N]; None: that step is not asked for.
        gaps: elements between two stored rows of a, b and the result. With a gap, the packets give the row
            strides of dense operands too, or leave them out.
    """

    def __init__(
        self,
        tb: NpuTestbench,
        m: int,
        k: int,
        n: int,
        *,
        dtype: DataType = DataType.FP32,
        half_b: bool = False,
        out: OutType = OutType.FLOAT32,
        trans_a: bool = False,
        trans_b: bool = False,
        alpha: float | None = None,
        row_scale: NDArray[np.float32] | None = None,
        column_scale: NDArray[np.float32] | None = None,
        bias: NDArray[np.float32] | None = None,
        relu: bool = False,
        a: NDArray[Any] | None = None,
        b: NDArray[Any] | None = None,
        gaps: tuple[int, int, int] = (0, 0, 0),
    ) -> None:
        a = elements(tb, dtype, m, k) if a is None else a
        b = elements(tb, DataType.FP16 if half_b else dtype, k, n) if b is None else b
        self.src1, stride1 = _stored(tb, a.T if trans_a else a, gaps[0], "activation")
        self.src2, stride2 = _stored(tb, b.T if trans_b else b, gaps[1], "weight")
        size = out.itemsize(dtype)
        stride = size * (n + gaps[2])
        self.dst = tb.destination(m * stride, offset=_offset(tb, size))
        strides, given = (stride1, stride2, stride), any(gaps) and tb.random.random() < 0.5
        columns = [vector for vector in (column_scale, bias) if vector is not None]
        self.packets: Sequence[Packet] = matmul_packets(
            self.src1, self.src2, self.dst, m, k, n,
            dtype=dtype,
            half_b=half_b,
            out=out,
            trans_a=trans_a,
            trans_b=trans_b,
            alpha=alpha,
            row_scales=None if row_scale is None else _placed(tb, row_scale),
            column_vectors=_placed(tb, np.concatenate(columns)) if columns else None,
            column_scale=column_scale is not None,
            bias=bias is not None,
            relu=relu,
            row_strides=[step if gap or given else 0 for step, gap in zip(strides, gaps, strict=True)],
        )  # fmt: skip


def _offset(tb: NpuTestbench, size: int) -> int:
    """Draw a multiple of `size` below 64."""
    return size * tb.random.randrange(64 // size)


def _stored(tb: NpuTestbench, matrix: NDArray[Any], gap: int, region: str) -> tuple[int, int]:
    """Store a matrix with other elements between its rows; return address and row stride."""
    size = matrix.dtype.itemsize
    rows, columns = matrix.shape
    wide = tb.rng.integers(0, 256, (rows, (columns + gap) * size), dtype=np.uint8).view(matrix.dtype)
    wide[:, :columns] = matrix
    return tb.place(wide, region, offset=_offset(tb, size)), wide.strides[0]


def _placed(tb: NpuTestbench, vector: NDArray[np.float32]) -> int:
    return tb.place(vector, tb.random.choice(("activation", "weight")), offset=_offset(tb, 4))


def around(size: int) -> tuple[int, ...]:
    """Return sizes of 1, and below, at, above and far above the array's."""
    return (1, size - 1, size, size + 1, 2 * size + size // 2 + 1)


async def run_all(tb: NpuTestbench, products: Sequence[MatmulTrial], via: Path) -> None:
    """Run trials back to back."""
    assert await tb.run([packet for product in products for packet in product.packets], via) == State.DONE
