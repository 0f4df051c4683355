"""The second check of every command: is the functional model's own answer right, within a stated bound?

Nothing here uses the model's arithmetic: products and sums are float64, copies are plain loops over rows.
The bounds are the usual ones of floating-point error analysis, with u = 2**-24 (half an ulp at 1) and eta =
2**-149 (the smallest subnormal, which bounds what a product that underflows can lose):

    add      |alpha*b| * u + |a + alpha*b| * u (1 + u) + eta
    matmul   gamma(K + 1) * sum |a||b| + K * eta,   gamma(n) = n u / (1 - n u);   one more rounding with alpha
    memcpy   equal
    gather   equal

A VECTOR command has no true result of its own: what a program computes is the business of that program's
tests. It is compared with the device bit for bit only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from echo_npu.checks import Command, Operand
from echo_npu.packets import Flags, Opcode
from tb.scoreboards.errors import AccuracyError

U = 2.0**-24
ETA = 2.0**-149
FLOAT32_MAX = float(np.finfo(np.float32).max)

Float64 = NDArray[np.float64]


def addresses(operand: Operand, batch: tuple[int, int]) -> NDArray[np.int64]:
    """Address of the first byte of each run of bytes, [outer, inner, runs]: the segments of the first row, of
    the second, ..."""
    inner, outer = batch
    runs = (
        np.arange(operand.rows)[:, None] * operand.row_stride
        + np.arange(operand.segments)[None, :] * operand.segment_stride
    )
    return (
        operand.address
        + np.arange(outer)[:, None, None] * operand.batch_strides[1]
        + np.arange(inner)[None, :, None] * operand.batch_strides[0]
        + runs.reshape(-1)
    )


def gather(memory: NDArray[np.uint8], operand: Operand, batch: tuple[int, int]) -> NDArray[np.uint8]:
    """A copy of an operand's bytes: [outer, inner, runs, bytes of a run]."""
    starts = addresses(operand, batch)
    out = np.empty((*starts.shape, operand.row_bytes), dtype=np.uint8)
    for index in np.ndindex(starts.shape):
        start = int(starts[index])
        out[index] = memory[start : start + operand.row_bytes]
    return out


def _floats(raw: NDArray[np.uint8]) -> Float64:
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return np.ascontiguousarray(raw).view(np.float32).astype(np.float64)


def _compare(model: Float64, true: Float64, bound: Float64, what: str) -> None:
    """Raise AccuracyError where a finite value is outside its bound, or the class (NaN, infinity) is
    another."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(true) & np.isfinite(bound)
        # Close to overflow the rounded value may be an infinity, on the way or at the end.
        overflow = np.abs(true) + bound >= FLOAT32_MAX * (1 - U)
        wrong = finite & ~overflow & ~(np.abs(model - true) <= bound)
        wrong |= np.isnan(true) & ~np.isnan(model)
        wrong |= np.isinf(true) & ~np.isnan(bound) & (model != true)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AccuracyError(
            f"{what}: {int(wrong.sum())} of {wrong.size} values of the functional model are outside the"
            " bound; first at"
            f" {where}: {model[where]!r}, true {true[where]!r}, bound {bound[where]!r}"
        )


def _picked(memory: NDArray[np.uint8], table: Operand, indices: Operand) -> NDArray[np.uint8]:
    """The rows of a table that the indices name, as far as they are in it."""
    wanted = gather(memory, indices, (1, 1)).reshape(-1).view(np.int32)
    out = np.zeros((1, 1, wanted.size, table.row_bytes), dtype=np.uint8)
    for row, index in enumerate(wanted.tolist()):
        if 0 <= index < table.rows:
            start = table.address + index * table.row_stride
            out[0, 0, row] = memory[start : start + table.row_bytes]
    return out


class Expectation:
    """The true result of one command, taken from its inputs before it ran."""

    def __init__(self, command: Command, memory: NDArray[np.uint8]) -> None:
        self._command = command
        packet = command.packet
        if command.dst is None or packet.opcode == Opcode.VECTOR:
            return
        if packet.opcode == Opcode.MEMCPY:
            self._copy = gather(memory, command.sources[0], command.batch)
            return
        if packet.opcode == Opcode.GATHER:
            self._copy = _picked(memory, *command.sources)
            return
        first, second = command.sources
        a = _floats(gather(memory, first, command.batch))
        b = _floats(gather(memory, second, command.batch))
        alpha = float(np.array([packet.param[6]], dtype=np.uint32).view(np.float32)[0])
        with np.errstate(all="ignore"):
            if packet.opcode == Opcode.ADD_TENSOR:
                scaled = alpha * b
                self._true = a + scaled
                self._bound = (np.abs(scaled) + np.abs(self._true) * (1 + U)) * U + ETA
                # alpha * b alone may overflow where the sum does not: no bound.
                self._bound[np.abs(scaled) >= FLOAT32_MAX * (1 - U)] = np.nan
                return
            if packet.flags & Flags.TRANS_A:
                a = a.swapaxes(-1, -2)
            if packet.flags & Flags.TRANS_B:
                b = b.swapaxes(-1, -2)
            depth = a.shape[-1]
            self._true = a @ b
            size = np.abs(a) @ np.abs(b)
            gamma = (depth + 1) * U / (1 - (depth + 1) * U)
            self._bound = gamma * size + depth * ETA
            self._bound[size >= FLOAT32_MAX * (1 - U)] = np.nan  # a partial sum may overflow: no bound
            if packet.flags & Flags.USE_ALPHA:
                self._bound = np.abs(alpha) * self._bound * (1 + U)
                self._true = alpha * self._true
                self._bound += np.abs(self._true) * U + ETA

    def check(self, memory: NDArray[np.uint8]) -> None:
        """Compare with what the functional model left in `memory`. AccuracyError says where and by how
        much."""
        command = self._command
        if command.dst is None or command.packet.opcode == Opcode.VECTOR:
            return
        result = gather(memory, command.dst, command.batch)
        if command.packet.opcode in (Opcode.MEMCPY, Opcode.GATHER):
            if not np.array_equal(result, self._copy):
                raise AccuracyError(f"{command.packet}: the functional model did not copy every byte")
            return
        _compare(
            _floats(result), self._true.reshape((*result.shape[:-1], -1)), self._bound, str(command.packet)
        )
