"""Execute VECTOR commands in numpy, many rows at once, to the bit (docs/vector.md).

Rows are independent and take the same path through the program, so an instruction is executed for a block of
rows together. If the iterations of a chunk loop are independent too, several chunks are executed as one (see
`control`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from echo_npu.commands.strided import overlaps
from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.model import vector_alu as alu
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.model.vector_alu import Words
from echo_npu.model.vector_control import WHOLE_ROW, ProgramFault, ProgramOverdue
from echo_npu.model.vector_plan import OperandSource, PlanCache, PlannedStep
from echo_npu.model.vector_scatter import dense_output, scatter_rows
from echo_npu.vector.isa import CHUNK_MULTIPLE, OPERAND_CODES, Form, Kind, Op, kind_of

__all__ = ["ProgramFault", "ProgramOverdue", "VectorModel"]

_BLOCK_ELEMENTS: Final = 1 << 14  # float64 temporaries stay in the cache
_StreamPlace: TypeAlias = tuple[NDArray[np.uint8], Descriptor, tuple[int, int, int]]
"""A memory, a stream in it, and the first row (batch1, batch0, row) of a block."""

_SIGNED: Final = {2: np.int16, 1: np.int8}

_ROW: Final = OPERAND_CODES["row"]
_BATCH0: Final = OPERAND_CODES["batch0"]
_BATCH1: Final = OPERAND_CODES["batch1"]
_COLS: Final = OPERAND_CODES["cols"]


@dataclass(slots=True)
class VectorModel:
    """The vector engine without its timing.

    Attributes:
        memory: all of device memory, uint8, indexed by physical address.
        programs: program memory.
        vector_length, row_elements: elements of a vector and of a row register.
        block_elements: about so many elements are processed at once; results do not depend on it.
        widen: process independent chunks together; results do not depend on it.
    """

    memory: NDArray[np.uint8]
    programs: ProgramMemory
    vector_length: int
    row_elements: int
    _: KW_ONLY
    block_elements: int = _BLOCK_ELEMENTS
    widen: bool = True
    _plans: PlanCache = field(init=False)

    def __post_init__(self) -> None:
        self._plans = PlanCache(self.programs, self.vector_length, self.row_elements)

    def execute(self, command: VectorCommand, limit: int = 0, least: int = 0) -> None:
        """Run the command, which may take `limit` clocks (0: any number) and takes at least `least`.

        The indices of a scatter are inside of its table.

        Raises, before anything is written: as `check`.
        """
        self.check(command, limit, least)
        chunk = min(command.cols, self.vector_length)
        # Where rows of the output overlap, the later one wins.
        most = 1 if _rows_meet(command) else max(1, self.block_elements // chunk)
        with np.errstate(all="ignore"):
            for block in _blocks(command, most):
                chunks = max(1, self.block_elements // (block.count * self.vector_length))
                widest = chunks * self.vector_length if self.widen else 0
                rows = _Rows(self.memory, command, block, self.vector_length, self.row_elements)
                rows.run(self._plans.steps(command, widest))
                rows.place()

    def check(self, command: VectorCommand, limit: int = 0, least: int = 0) -> None:
        """Check the program and the time of a command, which takes at least `least` clocks.

        Raises:
            ProgramFault: its program breaks a rule.
            ProgramOverdue: it surely takes more than `limit` clocks.
        """
        clocks = self._plans.least_clocks(command, WHOLE_ROW if self.widen else 0, limit)
        batch0, batch1 = command.batch
        if 0 < limit < max(least, clocks * command.rows * batch0 * batch1):
            raise ProgramOverdue


@dataclass(frozen=True, slots=True)
class _Block:
    """Rows that are executed together: the first index and the count of (batch1, batch0, row)."""

    first: tuple[int, int, int]
    shape: tuple[int, int, int]

    @property
    def count(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    def indices(self, axis: int) -> Words:
        """Return the index of each row of the block along one axis, [count, 1]."""
        steps = np.arange(self.shape[axis], dtype=np.uint32) + np.uint32(self.first[axis])
        shape = [1, 1, 1]
        shape[axis] = -1
        return np.array(np.broadcast_to(steps.reshape(shape), self.shape)).reshape(-1, 1)


def _rows_meet(command: VectorCommand) -> bool:
    """Return whether two rows of the output, of any batches, may share bytes while a block is executed."""
    if command.table_rows:
        return False  # they are placed after that, one by one
    output, (batch0, batch1) = command.output, command.batch
    strides = (output.seg_stride, output.row_stride, *output.batch_strides)
    counts = (output.segs, command.rows, batch0, batch1)
    return overlaps(output.segment_bytes, zip(strides, counts, strict=True))


def _blocks(command: VectorCommand, limit: int) -> Iterator[_Block]:
    """Yield blocks of at most `limit` rows, in the command's order."""
    counts = (command.batch[1], command.batch[0], command.rows)
    # The innermost axes are whole as long as they fit; the next one is cut.
    inner = 1
    axis = 2
    while axis > 0 and inner * counts[axis] <= limit:
        inner *= counts[axis]
        axis -= 1
    step = max(1, limit // inner)
    outer = counts[:axis]
    for place in np.ndindex(*outer):
        for start in range(0, counts[axis], step):
            length = min(step, counts[axis] - start)
            first = (*(int(each) for each in place), start, *(0,) * (2 - axis))
            shape = (*(1,) * axis, length, *counts[axis + 1 :])
            yield _Block((first[0], first[1], first[2]), (shape[0], shape[1], shape[2]))


@dataclass
class _Rows:
    """The registers of a block of rows, and their execution. Arrays are [rows, elements]."""

    memory: NDArray[np.uint8]
    command: VectorCommand
    block: _Block
    vector_length: int
    row_elements: int

    def __post_init__(self) -> None:
        self._count = self.block.count
        self._widths = {
            Kind.VECTOR: min(self.command.cols, self.vector_length),
            Kind.SCALAR: 1,
            Kind.ACCUMULATOR: CHUNK_MULTIPLE,
            Kind.ROW_REGISTER: min(self.command.cols, self.row_elements),
        }
        self._registers: dict[int, Words] = {}
        self._wide: dict[int, Words] = {}  # vector registers of a chunk wider than they are
        self._loaded: dict[int, tuple[int, int, Words]] = {}  # the last window of each stream, and its place
        self._in_place = any(
            # No other input may share memory with the output.
            each is not None and each.address == self.command.output.address
            for each in self.command.inputs
        )
        self._pending: list[tuple[int, int, Words]] = []
        # Where the output goes: rows that are scattered are placed when the block is complete.
        self._target, self._output, self._first = self.memory, self.command.output, self.block.first
        if self.command.table_rows:
            self._output, self._first = dense_output(self.command, self.block.shape), (0, 0, 0)
            self._target = np.empty(self._count * self._output.segment_bytes, np.uint8)

    def run(self, steps: Iterable[PlannedStep]) -> None:
        for step in steps:
            if step.form == Form.FOLD:
                total = alu.fold(step.op, self._register(step.sources[0].code))
                self._write(step, total[:, None])
            elif step.form == Form.ASET:
                self._register(step.dst)[...] = self._source(step, step.sources[0])
            else:
                self._compute(step)
        for segment, offset, values in self._pending:
            self._store(segment, offset, values)

    def place(self) -> None:
        """Scatter the rows, if the command does that."""
        if self.command.table_rows:
            scatter_rows(self.memory, self.command, self._target, self.block.first, self.block.shape)

    def _compute(self, step: PlannedStep) -> None:
        sources = [self._source(step, each) for each in step.sources]
        if step.kind == Kind.ACCUMULATOR:
            whole = [self._whole(source, step.elements) for source in sources]
            alu.partials(step.op, self._register(step.dst), *whole)
        elif step.function is None:
            assert step.op == Op.SWAP
            self._write(step, alu.swap(self._whole(sources[0], step.elements), step.elements))
        else:
            self._write(step, step.function(*sources))

    def _whole(self, values: Words, elements: int) -> Words:
        """Return values for all rows and elements."""
        shape = (self._count, elements)
        return values if values.shape == shape else np.broadcast_to(values, shape)

    # --- operands -------------------------------------------------------------------------------------------

    def _register(self, code: int) -> Words:
        """Return the whole register, zero if nothing was written to it in this row."""
        found = self._registers.get(code)
        if found is None:
            kind = kind_of(code)
            assert kind is not None
            found = self._registers[code] = np.zeros((self._count, self._widths[kind]), dtype=np.uint32)
        return found

    def _source(self, step: PlannedStep, source: OperandSource) -> Words:
        """Return an operand's values; one column if all elements are the same."""
        kind, code = source.kind, source.code
        if kind == Kind.VECTOR:
            bank = self._wide[code] if step.wide else self._register(code)
            return bank if bank.shape[1] == step.elements else bank[:, : step.elements]
        if kind == Kind.SCALAR:
            return self._register(code)
        if source.values is not None:
            return source.values
        if kind == Kind.STREAM:
            return self._window(source, step.elements)
        if kind == Kind.ROW_REGISTER:
            return self._register(code)[:, step.base : step.base + step.elements]
        if kind == Kind.PARAMETER:
            return _uniform(self.command.params[source.number])
        if code == _ROW:
            return self.block.indices(2)
        if code == _BATCH0:
            return self.block.indices(1)
        if code == _BATCH1:
            return self.block.indices(0)
        return _uniform(self.command.cols if code == _COLS else step.rep)

    def _write(self, step: PlannedStep, values: Words) -> None:
        """Write a result, which nothing else refers to."""
        kind, code, elements = step.kind, step.dst, step.elements
        if kind == Kind.OUT:
            whole = self._whole(values, elements)
            if self._in_place:
                self._pending.append((step.segment, step.offset, whole))
            else:
                self._store(step.segment, step.offset, whole)
        elif kind == Kind.ROW_REGISTER:
            self._register(code)[:, step.base : step.base + elements] = values
        elif kind == Kind.VECTOR and step.wide:
            self._write_wide(code, self._whole(values, elements))
        elif kind is not None and values.shape == (self._count, self._widths[kind]):
            self._registers[code] = values
        else:
            self._register(code)[:, :elements] = values

    def _write_wide(self, code: int, values: Words) -> None:
        """Write several chunks of a vector register; the register itself keeps the last ones."""
        self._wide[code] = values
        length = self.vector_length
        whole, rest = divmod(values.shape[1], length)
        register = self._register(code)
        if whole:
            register[...] = values[:, (whole - 1) * length : whole * length]
        register[:, :rest] = values[:, whole * length :]

    # --- memory ---------------------------------------------------------------------------------------------

    def _window(self, source: OperandSource, elements: int) -> Words:
        stream = source.number
        descriptor = self.command.inputs[stream]
        assert descriptor is not None
        loaded = self._loaded.get(stream)
        if descriptor.bcast:
            if loaded is None:
                loaded = self._loaded[stream] = (0, 0, self._load(descriptor, 0, 0, 1))
            return loaded[2]
        segment, offset = source.segment, source.offset
        if loaded is None or loaded[:2] != (segment, offset) or loaded[2].shape[1] < elements:
            values = self._load(descriptor, segment, offset, elements)
            loaded = self._loaded[stream] = (segment, offset, values)
        values = loaded[2]
        return values if values.shape[1] == elements else values[:, :elements]

    def _load(self, descriptor: Descriptor, segment: int, offset: int, elements: int) -> Words:
        """Return a window, zero after the end of its segment."""
        there = min(elements, descriptor.length - offset)
        made = np.empty if there == elements else np.zeros
        result = made((self._count, elements), dtype=np.uint32)
        place = self.memory, descriptor, self.block.first
        for first, count, view in self._pieces(place, segment, offset, there):
            values = view.astype(np.int32).view(np.uint32) if descriptor.size < 4 else view
            result[:, first : first + count] = values.reshape(self._count, count)
        return result

    def _store(self, segment: int, offset: int, values: Words) -> None:
        place = self._target, self._output, self._first
        for first, count, view in self._pieces(place, segment, offset, values.shape[1]):
            view[...] = values[:, first : first + count].reshape(view.shape).astype(view.dtype)

    def _pieces(
        self, stream: _StreamPlace, segment: int, offset: int, elements: int
    ) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield the memory of `elements` elements from a place on: (first element, count, view).

        The views are [batch1, batch0, row, segment, element]. Only a packed row needs more than one.
        """
        descriptor = stream[1]
        first, length = 0, descriptor.seg_len
        if descriptor.pack:
            segment, offset = divmod(offset, length)
        while first < elements:
            if offset or elements - first < length:
                segments, part = 1, min(length - offset, elements - first)
            else:
                segments, part = (elements - first) // length, length
            yield first, segments * part, self._view(stream, segment, offset, segments, part)
            first += segments * part
            segment += segments
            offset = 0

    def _view(
        self, stream: _StreamPlace, segment: int, offset: int, segments: int, part: int
    ) -> NDArray[Any]:
        memory, descriptor, block_first = stream
        batch0, batch1 = descriptor.batch_strides
        strides = (batch1, batch0, descriptor.row_stride)
        address = descriptor.address + segment * descriptor.seg_stride + offset * descriptor.size
        address += sum(first * stride for first, stride in zip(block_first, strides, strict=True))
        return np.ndarray(
            (*self.block.shape, segments, part),
            _SIGNED.get(descriptor.size, np.uint32),
            memory,
            address,
            (*strides, descriptor.seg_stride, descriptor.size),
        )


def _uniform(value: int) -> Words:
    return np.array([[value & 0xFFFF_FFFF]], dtype=np.uint32)
