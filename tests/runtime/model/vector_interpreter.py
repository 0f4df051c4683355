"""A second, slow model of VECTOR commands: row by row, element by element, directly from docs/vector.md.

It shares the arithmetic of single elements and the decoding of instructions with the functional model, and
nothing else: no blocks of rows, no chunks put together, no strided views.
"""

from collections.abc import Sequence

import numpy as np

from echo_npu.commands.vector_command import Descriptor, VectorCommand
from echo_npu.model import vector_alu as alu
from echo_npu.vector.isa import FOLDED, IOTA, OUT, Form, Instruction, Kind, Op, index_of, kind_of

COUNTERS = {50: "row", 51: "batch0", 52: "batch1", 53: "cols", 54: "rep"}


class BadProgram(Exception):  # noqa: N818
    """BAD_PROGRAM at an instruction."""

    def __init__(self, number: int) -> None:
        self.number = number


def calculate(op: Op, *values: int) -> int:
    """One element."""
    with np.errstate(all="ignore"):
        return int(alu.ALU[op](*(np.array([value], dtype=np.uint32) for value in values))[0])


class Input:
    """A stream of one row, read beforehand, and its window."""

    def __init__(self, memory: np.ndarray, stream: Descriptor, start: int) -> None:
        self.stream = stream
        self.rows: list[list[int]] = []
        for segment in range(stream.segs):
            base = start + segment * stream.seg_stride
            values = []
            for i in range(stream.seg_len):
                at = base + i * stream.size
                raw = memory[at : at + stream.size].tobytes()
                values.append(int.from_bytes(raw, "little", signed=True) & 0xFFFFFFFF)
            self.rows.append(values)
        if stream.pack:
            self.rows = [[value for values in self.rows for value in values]]
        self.segment = self.offset = self.turn = 0

    def element(self, i: int) -> int:
        if self.stream.bcast:
            return self.rows[0][0]
        values = self.rows[self.segment]
        return values[self.offset + i] if self.offset + i < len(values) else 0

    def advance(self, vl: int) -> None:
        if self.stream.bcast or self.turn >= self.stream.passes:
            return
        self.offset += (vl + 15) // 16 * 16
        if self.offset >= len(self.rows[self.segment]):
            self.offset = 0
            self.segment += 1
            if self.segment == len(self.rows):
                self.segment = 0
                self.turn += 1


class RowState:
    """The state of one row."""

    def __init__(
        self,
        command: VectorCommand,
        program: Sequence[Instruction | None],
        vector_length: int,
        row_elements: int,
        inputs: Sequence[Input | None],
        counters: dict[str, int],
    ) -> None:
        self.command, self.program = command, program
        self.vector_length, self.row_elements = vector_length, row_elements
        self.inputs, self.counters = inputs, counters
        self.v = [[0] * vector_length for _ in range(16)]
        self.r = [0] * 16
        self.a = [[0] * 16 for _ in range(4)]
        self.w = [[0] * row_elements for _ in range(2)]
        self.chunk = 0
        self.written: list[list[int]] = [[]]  # by segment of the output

    @property
    def vl(self) -> int:
        return min(self.vector_length, self.command.cols - self.chunk * self.vector_length)

    def read(self, number: int, instruction: Instruction, code: int, i: int) -> int:
        kind, index = kind_of(code), index_of(code)
        if kind == Kind.VECTOR:
            return self.v[index][i]
        if kind == Kind.SCALAR:
            return self.r[index]
        if kind == Kind.STREAM:
            window = self.inputs[index]
            if window is None or window.turn >= window.stream.passes:
                raise BadProgram(number)
            return window.element(i)
        if kind == Kind.ROW_REGISTER:
            return self.w[index][self.chunk * self.vector_length + i]
        if kind == Kind.IMMEDIATE:
            return instruction.imm
        if kind == Kind.PARAMETER:
            return self.command.params[index]
        if code == IOTA:
            return self.chunk * self.vector_length + i & 0xFFFFFFFF
        return self.counters[COUNTERS[code]]

    def run(self) -> None:
        loops: list[tuple[Op, int]] = []
        number = self.command.entry
        while True:
            instruction = self.program[number] if number < len(self.program) else None
            if instruction is None or instruction.illegal():
                raise BadProgram(number)
            op = instruction.op
            if op in (Op.CHUNKS, Op.REPEAT):
                if op in [kind for kind, _ in loops]:
                    raise BadProgram(number)
                loops.append((op, number))
            elif op == Op.END:
                output = self.command.output
                lengths = [len(each) for each in self.written]
                if loops or lengths != [output.length] * output.segments:
                    raise BadProgram(number)
                return
            elif op in (Op.NEXT, Op.ADVANCE):
                if op == Op.NEXT and not loops:
                    raise BadProgram(number)
                for stream in range(4):
                    window = self.inputs[stream]
                    if instruction.imm >> stream & 1 and window is not None:
                        window.advance(self.vl)
                if op == Op.NEXT:
                    kind, start = loops[-1]
                    if kind == Op.CHUNKS:
                        self.chunk += 1
                        again = self.chunk * self.vector_length < self.command.cols
                        self.chunk = self.chunk if again else 0
                    else:
                        self.counters["rep"] += 1
                        again = self.counters["rep"] < self.command.repeats
                        self.counters["rep"] = self.counters["rep"] if again else 0
                    if again:
                        number = start
                    else:
                        loops.pop()
            else:
                self.data(number, instruction)
            number += 1

    def data(self, number: int, instruction: Instruction) -> None:
        op, dst = instruction.op, instruction.dst
        kind, index = kind_of(dst), index_of(dst)
        if instruction.form == Form.ASET:
            self.a[index] = [self.read(number, instruction, instruction.a, 0)] * 16
            return
        if instruction.form == Form.FOLD:
            acc = self.a[index_of(instruction.a)]
            total = acc[0]
            for value in acc[1:]:
                total = calculate(FOLDED[op], total, value)
            self.r[index] = total
            return
        count = 1 if instruction.one or kind == Kind.SCALAR else self.vl
        uses_row = any(kind_of(code) == Kind.ROW_REGISTER for code in (*instruction.sources, dst))
        if uses_row and self.chunk * self.vector_length + count > self.row_elements:
            raise BadProgram(number)
        results = []
        for i in range(count):
            if op == Op.SWAP:
                other = i ^ 1
                results.append(self.read(number, instruction, instruction.a, other) if other < count else 0)
                if other >= count:
                    self.read(number, instruction, instruction.a, i)  # the window must exist all the same
                continue
            values = [self.read(number, instruction, code, i) for code in instruction.sources]
            if kind == Kind.ACCUMULATOR:
                old = self.a[index][i % 16]
                operands = (*values, old) if len(values) == 2 else (old, *values)
                self.a[index][i % 16] = calculate(op, *operands)
            else:
                results.append(calculate(op, *values))
        self.store(number, dst, results)

    def store(self, number: int, dst: int, results: list[int]) -> None:
        kind, index = kind_of(dst), index_of(dst)
        if kind == Kind.SCALAR:
            self.r[index] = results[0]
        elif kind == Kind.VECTOR:
            self.v[index][: len(results)] = results
        elif kind == Kind.ROW_REGISTER:
            base = self.chunk * self.vector_length
            self.w[index][base : base + len(results)] = results
        elif dst == OUT:
            output = self.command.output
            if len(self.written[-1]) == output.length:
                self.written.append([])
            place = self.written[-1]
            if len(self.written) > output.segments or len(place) % 16:
                raise BadProgram(number)
            if len(place) + len(results) > output.length:
                raise BadProgram(number)
            place += results


def execute(
    memory: np.ndarray,
    program: Sequence[Instruction | None],
    command: VectorCommand,
    vector_length: int,
    row_elements: int,
) -> None:
    """Run the command on `memory`, in place. Everything is read before anything is written."""
    rows: list[tuple[int, RowState]] = []
    for batch1 in range(command.batch[1]):
        for batch0 in range(command.batch[0]):
            for row in range(command.rows):

                def start(stream: Descriptor, place: tuple[int, int, int] = (row, batch0, batch1)) -> int:
                    strides = (stream.row_stride, *stream.batch_strides)
                    return stream.address + sum(i * s for i, s in zip(place, strides, strict=True))

                inputs = [Input(memory, each, start(each)) if each else None for each in command.inputs]
                counters = {"row": row, "batch0": batch0, "batch1": batch1, "cols": command.cols, "rep": 0}
                state = RowState(command, program, vector_length, row_elements, inputs, counters)
                rows.append((start(command.output), state))
    output = command.output
    for address, state in rows:
        state.run()
        values = [value for segment in state.written for value in segment]
        for i, value in enumerate(values):
            at = address + i // output.seg_len * output.seg_stride + i % output.seg_len * output.size
            data = (value & (1 << 8 * output.size) - 1).to_bytes(output.size, "little")
            memory[at : at + output.size] = np.frombuffer(data, dtype=np.uint8)
