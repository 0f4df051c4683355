"""Accuracy check of every command: is the functional model's result within a stated bound of the true one?

Nothing here uses the model's arithmetic: products and sums are float64, copies are plain loops over rows. The
bounds are those of floating-point error analysis, with u = 2**-24 (half an ulp at 1) and eta = 2**-149 (the
smallest subnormal, which bounds the loss of an underflowing product):

    add      |alpha*b| * u + |a + alpha*b| * u (1 + u) + eta
    matmul   gamma(K + 1) * sum |a||b| + K * eta,   gamma(n) = n u / (1 - n u);   exact for int8
    matmul with weights in blocks   as `echo_npu.reference.blocks` says
    memcpy   exact
    gather   exact

Each later step of a product adds its rounding: |v| u + eta for a float32 product, sum or conversion from
int32, |v| 2**-8 + 2**-134 for bf16, |v| 2**-11 + 2**-25 for fp16, 1/2 for int8. Scaling a value scales its
bound.

A VECTOR command has no true result: what its program computes is the subject of that program's tests. It is
only compared bit for bit with the device.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.formats import BLOCK, FORMATS, tile_parts
from echo_npu.reference.blocks import truth
from echo_npu.spec.data_types import DataType, OutType
from tb.scoreboards.errors import AccuracyError

U = 2.0**-24
ETA = 2.0**-149
FLOAT32_MAX = float(np.finfo(np.float32).max)
FLOAT32_LEAST_NORMAL = float(np.finfo(np.float32).smallest_normal)
NARROW = {DataType.BF16: (2.0**-8, 2.0**-134), DataType.FP16: (2.0**-11, 2.0**-25)}
"""Half an ulp at 1 and half the smallest subnormal, by result type."""
LARGEST = {DataType.BF16: (2 - 2.0**-7) * 2.0**127, DataType.FP16: 65504.0}

Float64 = NDArray[np.float64]


def addresses(operand: MemoryOperand, batch: tuple[int, int]) -> NDArray[np.int64]:
    """Return the address of each run's first byte, [outer, inner, runs]; the segments of a row are adjacent
    runs."""
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


def gather(memory: NDArray[np.uint8], operand: MemoryOperand, batch: tuple[int, int]) -> NDArray[np.uint8]:
    """Copy an operand's bytes: [outer, inner, runs, bytes per run]."""
    starts = addresses(operand, batch)
    out = np.empty((*starts.shape, operand.row_bytes), dtype=np.uint8)
    for index in np.ndindex(starts.shape):
        start = int(starts[index])
        out[index] = memory[start : start + operand.row_bytes]
    return out


def _final(operand: MemoryOperand, batch: tuple[int, int]) -> NDArray[np.bool_]:
    """Return for each byte of a destination, in the layout of `gather`, whether no later batch overwrites
    it."""
    places = addresses(operand, batch)[..., None] + np.arange(operand.row_bytes)
    _, last = np.unique(places.reshape(-1)[::-1], return_index=True)
    final = np.zeros(places.size, dtype=np.bool_)
    final[places.size - 1 - last] = True
    return final.reshape(places.shape)


def _floats(raw: NDArray[np.uint8]) -> Float64:
    with np.errstate(invalid="ignore"):  # signalling NaNs warn
        return np.ascontiguousarray(raw).view(np.float32).astype(np.float64)


def _elements(raw: NDArray[np.uint8], dtype: DataType) -> Float64:
    if dtype == DataType.FP32:
        return _floats(raw)
    if dtype == DataType.BF16:
        upper = np.ascontiguousarray(raw).view("<u2").astype("<u4")
        return _floats((upper << 16).view(np.uint8))
    stored = np.float16 if dtype == DataType.FP16 else np.int8
    with np.errstate(invalid="ignore"):
        return np.ascontiguousarray(raw).view(stored).astype(np.float64)


def _compare(
    model: Float64, true: Float64, bound: Float64, what: str, *, largest: float = FLOAT32_MAX, unit: float = U
) -> None:
    """Raise AccuracyError where a finite value exceeds its bound, or the class (NaN, infinity) differs.

    `largest` and `unit` are the result type's greatest value and its half ulp at 1.
    """
    with np.errstate(all="ignore"):
        finite = np.isfinite(true) & np.isfinite(bound)
        # Near overflow, rounding may yield an infinity in between or at the end; beyond it, it must.
        overflow = np.abs(true) + bound >= largest * (1 - unit)
        beyond = finite & (np.abs(true) - bound > largest * (1 + 2 * unit))
        wrong = finite & ~overflow & ~(np.abs(model - true) <= bound)
        wrong |= beyond & (model != np.copysign(np.inf, true))
        wrong |= np.isnan(true) & ~np.isnan(model)
        wrong |= np.isinf(true) & ~np.isnan(bound) & (model != true)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AccuracyError(
            f"{what}: {int(wrong.sum())} of {wrong.size} values of the functional model are outside the"
            " bound; first at"
            f" {where}: {model[where]!r}, true {true[where]!r}, bound {bound[where]!r}"
        )


class _Value:
    """True values of a product's elements, with the bounds of the device's error, through the epilogue.

    A bound of NaN means that nothing is known, as after an intermediate value that may have overflowed.
    """

    def __init__(self, true: Float64, bound: Float64) -> None:
        self.true, self.bound = true, bound

    def round(self) -> None:
        """Round once to float32."""
        self.bound = self.bound + (np.abs(self.true) + self.bound) * U + ETA
        self._forget(np.isfinite(self.true) & (np.abs(self.true) + self.bound >= FLOAT32_MAX * (1 - U)))

    def scale(self, factor: Float64) -> None:
        """Multiply by `factor` and round."""
        # With an infinite factor, the result depends on zero and sign, which the bound may leave open.
        self._forget(np.isinf(factor) & (self.bound > 0) & (np.abs(self.true) <= self.bound))
        self._become(self.true * factor, factor)
        self.bound = self.bound * np.abs(factor)
        self.round()

    def add(self, term: Float64) -> None:
        """Add `term` and round."""
        self._become(self.true + term, term)
        self.round()

    def _become(self, true: Float64, operand: Float64) -> None:
        """Take new values. What nothing is known of is a NaN for sure only if it meets one."""
        guessed = np.isnan(self.bound) & ~np.isnan(self.true) & ~np.isnan(operand)
        self.true = np.where(guessed & np.isnan(true), 0.0, true)

    def limit(self, low: float, high: float) -> None:
        """Clip the values. Clipping moves no two values further apart."""
        self.bound = np.where(np.isinf(self.true) & ~np.isnan(self.bound), 0.0, self.bound)
        self.true = np.clip(self.true, low, high)

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Mark these elements as unknown."""
        self.true, self.bound = np.where(where, 0.0, self.true), np.where(where, np.nan, self.bound)

    def _forget(self, where: NDArray[np.bool_]) -> None:
        self.bound = np.where(where, np.nan, self.bound)


def _product(command: CheckedCommand, memory: NDArray[np.uint8]) -> _Value:
    """Return the elements of a MATMUL in float64, before rounding to a narrow type."""
    packet, batch = command.packet, command.batch
    if packet.blocks:
        value = _blocks(command, memory)
        _epilogue(value, command, memory)
        return value
    dtype = packet.data_type
    types = dtype, packet.right_type
    a, b = (
        _elements(gather(memory, each, batch), kind)
        for each, kind in zip(command.sources[:2], types, strict=True)
    )
    if packet.flags & Flags.TRANS_A:
        a = a.swapaxes(-1, -2)
    if packet.flags & Flags.TRANS_B:
        b = b.swapaxes(-1, -2)
    depth = a.shape[-1]
    true = a @ b
    if dtype == DataType.INT8:
        wrapped = (true.astype(np.int64) + 2**31) % 2**32 - 2**31
        value = _Value(wrapped.astype(np.float64), np.zeros_like(true))
        if packet.out_type == OutType.INT32:
            return value
        value.round()
    else:
        size = np.abs(a) @ np.abs(b)
        gamma = (depth + 1) * U / (1 - (depth + 1) * U)
        bound = gamma * size + depth * ETA
        bound[size >= FLOAT32_MAX * (1 - U)] = np.nan  # a partial sum may overflow, so there is no bound
        value = _Value(true, bound)
    _epilogue(value, command, memory)
    return value


def _blocks(command: CheckedCommand, memory: NDArray[np.uint8]) -> _Value:
    """Return the sums of a product with weights in blocks; those that meet no finite number are unknown."""
    packet = command.packet
    left, right = (gather(memory, each, command.batch) for each in command.sources[:2])
    block_format = FORMATS[packet.blocks.label]
    shape = (*left.shape[:2], packet.m, packet.n)
    value = _Value(np.zeros(shape), np.zeros(shape))
    for index in np.ndindex(shape[:2]):
        x = _elements(left[index], packet.data_type).astype(np.float32)
        tiles = right[index].reshape(right.shape[2], -1, block_format.tile_bytes)
        parts = tile_parts(tiles, block_format, packet.n, packet.k)
        heads = [parts.d] if parts.m is None else [parts.d, parts.m]
        with np.errstate(all="ignore"):
            value.true[index], value.bound[index] = truth(x, parts.q, parts.d, parts.m)
            signless = [np.abs(x), np.abs(parts.q.astype(np.int16)), *(np.abs(each) for each in heads)]
            size, _ = truth(*signless)
            unknown: NDArray[np.bool_] = ~np.isfinite(x).all(axis=1, keepdims=True) | ~(
                size < FLOAT32_MAX / 2
            )
        for each in heads:
            unknown |= ~np.isfinite(each).all(axis=1)
        value.true[index][unknown], value.bound[index][unknown] = 0.0, np.nan
    return value


def block_kinds(command: CheckedCommand, memory: NDArray[np.uint8]) -> frozenset[str]:
    """Return the kinds of the blocks of activations of a product with weights in blocks, before it runs.

    They are zeros, special (with NaN or an infinity), subnormal (nothing else but zeros) and ordinary. Other
    commands have none.
    """
    if command.packet.opcode != Opcode.MATMUL or not command.packet.blocks:
        return frozenset()
    rows = _elements(gather(memory, command.sources[0], command.batch), command.packet.data_type)
    most = np.abs(rows).reshape(-1, BLOCK).max(axis=1)
    special, zeros = ~np.isfinite(most), most == 0
    subnormal = ~zeros & (most < FLOAT32_LEAST_NORMAL)
    found = {"special": special, "zeros": zeros, "subnormal": subnormal}
    found["ordinary"] = ~(special | zeros | subnormal)
    return frozenset(name for name, where in found.items() if where.any())


def _epilogue(value: _Value, command: CheckedCommand, memory: NDArray[np.uint8]) -> None:
    packet = command.packet
    if packet.flags & Flags.USE_ALPHA:
        value.scale(_floats(np.array([packet.param[6]], dtype="<u4").view(np.uint8)))
    if command.row_scales is not None:
        value.scale(_floats(gather(memory, command.row_scales, (1, 1))).reshape(-1, 1))
    if command.column_vectors is not None:
        columns = list(_floats(gather(memory, command.column_vectors, (1, 1)))[0, 0])
        if packet.flags & Flags.COL_SCALE:
            value.scale(columns.pop(0))
        if packet.flags & Flags.BIAS:
            value.add(columns.pop(0))
    if packet.flags & Flags.RELU:
        value.limit(0.0, np.inf)


def _picked(memory: NDArray[np.uint8], table: MemoryOperand, indices: MemoryOperand) -> NDArray[np.uint8]:
    """Return the rows of a table that the indices name; zeros for an index out of range."""
    wanted = gather(memory, indices, (1, 1)).reshape(-1).view(np.int32)
    out = np.zeros((1, 1, wanted.size, table.row_bytes), dtype=np.uint8)
    for row, index in enumerate(wanted.tolist()):
        if 0 <= index < table.rows:
            start = table.address + index * table.row_stride
            out[0, 0, row] = memory[start : start + table.row_bytes]
    return out


def _copied(command: CheckedCommand, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return gather(memory, command.sources[0], command.batch)


def _gathered(command: CheckedCommand, memory: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return _picked(memory, *command.sources)


def _sum(command: CheckedCommand, memory: NDArray[np.uint8]) -> _Value:
    """Return the elements of an ADD_TENSOR."""
    a, b = (_floats(gather(memory, each, command.batch)) for each in command.sources)
    alpha = float(np.array([command.packet.param[6]], dtype=np.uint32).view(np.float32)[0])
    scaled = alpha * b
    true = a + scaled
    bound = (np.abs(scaled) + np.abs(true) * (1 + U)) * U + ETA
    # alpha * b may overflow although the sum does not, so there is no bound.
    bound[np.abs(scaled) >= FLOAT32_MAX * (1 - U)] = np.nan
    return _Value(true, bound)


EXACT: Final[Mapping[int, Callable[[CheckedCommand, NDArray[np.uint8]], NDArray[np.uint8]]]] = (
    MappingProxyType({Opcode.MEMCPY: _copied, Opcode.GATHER: _gathered})
)
"""The true bytes of dst in the layout of `gather`, by opcode."""
BOUNDED: Final[Mapping[int, Callable[[CheckedCommand, NDArray[np.uint8]], _Value]]] = MappingProxyType(
    {Opcode.MATMUL: _product, Opcode.ADD_TENSOR: _sum}
)
"""The true elements of dst with their bounds, by opcode."""
UNSTATED: Final = frozenset({Opcode.VECTOR})
"""Opcodes that write memory and have no true result."""


class Expectation:
    """True result of one command, computed from its inputs before it runs.

    Raises: NotImplementedError for an opcode that none of the tables above has.
    """

    def __init__(self, command: CheckedCommand, memory: NDArray[np.uint8]) -> None:
        self._command = command
        self._copy: NDArray[np.uint8] | None = None
        self._value: _Value | None = None
        opcode, dst = command.packet.opcode, command.dst
        if dst is None or opcode in UNSTATED:
            return
        if opcode in EXACT:
            self._copy = EXACT[opcode](command, memory)
            return
        if opcode not in BOUNDED:
            raise NotImplementedError(
                f"tb/scoreboards/accuracy.py has no true result of {Opcode(opcode).name}"
            )
        with np.errstate(all="ignore"):
            self._value = BOUNDED[opcode](command, memory)
        if dst.overlaps_itself(command.batch):
            self._value.forget(~_final(dst, command.batch)[..., :: command.element_bytes])

    def check(self, memory: NDArray[np.uint8]) -> None:
        """Compare with the functional model's result in `memory`. Raises AccuracyError."""
        command = self._command
        if command.dst is None or (self._copy is None and self._value is None):
            return
        result = gather(memory, command.dst, command.batch)
        if self._copy is not None:
            final: NDArray[np.bool_] | bool = True
            if command.dst.overlaps_itself(command.batch):
                final = _final(command.dst, command.batch)
            if ((result != self._copy) & final).any():
                raise AccuracyError(f"{command.packet}: the functional model did not copy every byte")
        elif self._value is not None:
            _check_elements(command.packet, self._value, result)


def _check_elements(packet: NpuCommandPacket, value: _Value, result: NDArray[np.uint8]) -> None:
    dtype, what = packet.data_type, str(packet)
    if packet.out_type == OutType.INT32:
        model = result.view(np.int32).astype(np.float64)
        _compare(model, value.true, value.bound, what)
    elif packet.out_type == OutType.FLOAT32 or dtype == DataType.FP32:
        _compare(_floats(result), value.true, value.bound, what)
    elif dtype == DataType.INT8:
        value.limit(-128.0, 127.0)
        nan = np.isnan(value.true)
        true = np.where(nan, 0.0, value.true)
        _compare(_elements(result, dtype), true, np.where(nan, 0.0, value.bound + 0.5), what)
    else:
        unit, least = NARROW[dtype]
        bound = value.bound + (np.abs(value.true) + value.bound) * unit + least
        _compare(_elements(result, dtype), value.true, bound, what, largest=LARGEST[dtype], unit=unit)
