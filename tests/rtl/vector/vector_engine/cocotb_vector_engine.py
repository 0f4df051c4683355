"""vector_engine: random commands of every kind on a memory at any pace, aborts and resets.

The model knows memory and program memory after each command, by the functional model, and which bytes a
command may read. It does not prescribe in which clock anything happens.
"""

import itertools
import random
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from echo_npu.commands.vector_command import INPUTS_OF_SCATTER, Descriptor, VectorCommand
from echo_npu.model.program_memory import ProgramMemory
from echo_npu.vector.isa import OPERAND_CODES, Instruction, Op
from tests.rtl.channels import ReadChannel, WriteChannel
from tests.rtl.situations import Situations
from tests.rtl.stimulus import CHANCES, InputPort, reset
from tests.rtl.transfers import Transfer
from tests.rtl.vector.vector_core.commands import ROW_ELEMENTS, VECTOR_LENGTH, UnfitError
from tests.rtl.vector.vector_engine.commands import EngineKind
from tests.rtl.vector.vector_engine.draws import (
    BUS,
    LOAD_WORDS,
    MANY,
    MEMORY_BYTES,
    PROGRAM_WORDS,
    Counts,
    EngineJob,
    add_job,
    copy_job,
    draw_base,
    draw_program,
    gather_job,
    input_count,
    load_job,
    program_job,
)

CONFIGURATIONS = [
    {
        "DataWidth": 256, "Lanes": 16, "VectorLength": 32, "RowElements": 64, "ProgramWords": 512,
        "Pipeline": 0,
    },
    {
        "DataWidth": 64, "Lanes": 4, "VectorLength": 32, "RowElements": 64, "ProgramWords": 512,
        "Pipeline": 1,
    },
]  # fmt: skip
PATIENCE = 1500
"""Clocks within which something must happen in a command."""


class VectorEngineSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    NO_INPUT = "a program without an input"
    ONE_INPUT = "a program with one input"
    TWO_INPUTS = "a program with two inputs"
    THREE_INPUTS = "a program with three inputs"
    FOUR_INPUTS = "a program with four inputs"
    UNREAD = "a program with an input that it does not read to its end"
    ROWS = "several rows"
    BATCH0 = "inner batches alone"
    BATCH1 = "outer batches alone"
    BATCHES = "rows in inner and outer batches"
    MANY_ROWS = "more rows than eight bits count"
    MANY_BATCH0 = "more inner batches than eight bits count"
    MANY_BATCH1 = "more outer batches than eight bits count"
    SEGMENTS_IN = "an input of several segments"
    SEGMENTS_OUT = "an output of several segments"
    PACKED_IN = "an input whose segments count as one"
    PACKED_OUT = "an output whose segments count as one"
    BROADCAST = "an input of one element"
    SAME_ROW = "an input with the same row again"
    PASSES = "an input with several passes"
    LONG = "an input that does not stay on chip, with several passes"
    IN4 = "an input of 4 bytes an element"
    IN2 = "an input of 2 bytes an element"
    IN1 = "an input of 1 byte an element"
    OUT4 = "an output of 4 bytes an element"
    OUT2 = "an output of 2 bytes an element"
    OUT1 = "an output of 1 byte an element"
    OVERLAP = "rows or batches of an output that overlap"
    REPEATS = "several repeats"
    ADD = "the built-in program"
    ADD_IN_PLACE = "the built-in program in place"
    ADD_LONG = "the built-in program on a row that does not stay on chip"
    COPY_ROWS = "a copy of several rows, apart"
    COPY_BATCHES = "a copy of rows in inner and outer batches"
    COPY_SAME = "a copy of the same batch again"
    COPY_SHORT = "a copy of rows shorter than a beat"
    COPY_LONG = "a copy of rows of several beats, the last one not whole"
    COPY_MANY = "a copy of more rows than eight bits count"
    COPY_OVERLAP = "a copy to batches that overlap"
    GATHER_SHORT = "a gather of rows shorter than a beat"
    GATHER_LONG = "a gather of rows of several beats, the last one not whole"
    GATHER_SAME = "a gather of the same row twice in a row"
    GATHER_BEATS = "a gather with several beats of numbers, the last one not whole"
    GATHER_MANY = "a gather of more rows than eight bits count"
    GATHER_FAR = "a gather of a row behind 64 KiB"
    NEGATIVE = "a negative row number"
    BEYOND = "the number of the row behind the table"
    BAD_FIRST = "a bad row number that is the first"
    BAD_LATER = "a bad row number with rows before it"
    SCATTER32 = "a scatter by indices of 32 bits"
    SCATTER64 = "a scatter by indices of 64 bits"
    SCATTER_INPUTS = "a scatter with three inputs"
    SCATTER_SAME = "a scatter to the same row twice in a row"
    SCATTER_BATCHES = "a scatter of several rows in inner and outer batches"
    SCATTER_OVERLAP = "a scatter to tables that overlap"
    SCATTER_MANY = "a scatter of more rows than eight bits count"
    SCATTER_FAR = "a scatter to a row behind 64 KiB"
    SCATTER_NARROW = "a scatter of elements of 2 bytes"
    SCATTER_BEYOND = "a scatter to the row behind the table"
    SCATTER_HIGH = "a bad index by its upper half alone"
    SCATTER_BAD_FIRST = "a bad index that is the first"
    SCATTER_BAD_LATER = "a bad index with rows before it"
    SCATTER_BAD_PROGRAM = "a bad index of a program that breaks a rule"
    LOAD_ONE = "a load of one word"
    LOAD_BEAT = "a load of one whole beat"
    LOAD_MORE = "a load of a beat and a word"
    LOAD_LESS = "a load of one word less than some beats"
    LOAD_MANY = "a load of more words than eight bits count"
    LOAD_ALL = "a load of all program memory"
    LOAD_GAP = "a load that begins behind the loaded part"
    LOAD_INSIDE = "a load inside of the loaded part"
    LOAD_LAST = "a load of the last word"
    RUN_LOADED = "a program that runs right after its load"
    RUN_OTHER = "a program that was loaded before others"
    RUN_SWEPT = "a program that runs while the words of an aborted load become illegal"
    RETIRED_AT_ONCE = "a load that retires in the clock in which it is done"
    RETIRED_LATE = "a load that retires later"
    BAD_PROGRAM = "a program that breaks a rule"
    BAD_LOADED = "a program that reaches a word that is not loaded"
    AFTER_FAULT = "a command after one that failed"
    AWAKE = "a program, with no clock at rest"
    RESTING = "a program, with clocks that may rest"
    READ_STALL = "lanes that wait for operands"
    WRITE_STALL = "lanes that wait for room"
    COPY_READ_STALL = "a copy that waits for data"
    COPY_WRITE_STALL = "a copy that waits for room"
    UNWRITTEN = "results that are on their way to memory"
    ABORT_READ = "an abort with operands on their way"
    ABORT_WRITE = "an abort in the midst of a transfer of results"
    ABORT_ASKING = "an abort with a transfer that was not accepted"
    ABORT_START = "an abort in the clock after the start"
    ABORT_DONE = "an abort between the end of a load and its retirement"
    ABORT_LOAD = "an abort of a load over loaded words"
    ABORT_IDLE = "an abort of no command"
    RESET = "a reset with a command inside"


Behind = Enum(
    "Behind",
    {
        f"{a.name}_{b.name}": f"{b.name} in the clock after the end of {a.name}"
        for a in EngineKind
        for b in EngineKind
    },
)
Cut = Enum("Cut", {kind.name: f"an abort of {kind.name}" for kind in EngineKind})
TURNS = {
    EngineKind.PROGRAM: "add",  # in place: no load comes before it
    EngineKind.LOAD: "load",
    EngineKind.COPY: "copy",
    EngineKind.GATHER: "gather",
}
"""The kind of `CommandTraffic.turn` that starts with a command of each kind."""
KINDS = ("program", "program", "scatter", "load", "copy", "gather", "add")
NEEDED = {
    kind: [each for each in VectorEngineSituation if each.name.startswith(names)]
    for kind, names in (
        ("scatter", ("SCATTER",)),
        ("copy", ("COPY",)),
        ("gather", ("GATHER", "NEGATIVE", "BEYOND", "BAD_FIRST", "BAD_LATER")),
        ("load", ("LOAD", "ABORT_DONE", "ABORT_LOAD")),
    )
}
"""Situations that only commands of a kind meet. While one is missing, there are more of these."""
COUNTS = {
    "program": {
        VectorEngineSituation.BATCHES: [(2, 3, 2), (2, 70, 3)],
        VectorEngineSituation.MANY_ROWS: [(MANY, 1, 1)],
        VectorEngineSituation.MANY_BATCH0: [(1, MANY, 1)],
        VectorEngineSituation.MANY_BATCH1: [(1, 1, MANY)],
    },
    "scatter": {
        VectorEngineSituation.SCATTER_BATCHES: [(2, 3, 2)],
        VectorEngineSituation.SCATTER_OVERLAP: [(2, 1, 3)],
        VectorEngineSituation.SCATTER_BAD_LATER: [(9, 1, 1)],
        VectorEngineSituation.SCATTER_MANY: [(MANY, 1, 1), (1, MANY, 1), (1, 1, MANY), (2, 70, 3)],
    },
}
"""Rows, inner and outer batches with which a command meets a situation. While it is missing, more have
them."""
INPUT_COUNTS = ("NO_INPUT", "ONE_INPUT", "TWO_INPUTS", "THREE_INPUTS", "FOUR_INPUTS")


class VectorEngineTestbench:
    """The ports, memory, and a model of the command inside.

    Attributes: at_once (commands retire when they are done).
    """

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.controls = [
            InputPort(getattr(dut, name))
            for name in ("start_i", "retire_i", "abort_i", "rst_ni", "at_once_i")
        ]
        self.inputs = [ReadChannel(dut, f"s{stream}_", flagged=False) for stream in range(4)]
        self.output = WriteChannel(dut, "dst_", early=True)
        self.memory = np.random.default_rng(random.getrandbits(32)).integers(0, 256, MEMORY_BYTES, np.uint8)
        self.programs = ProgramMemory(PROGRAM_WORDS)
        self.job: EngineJob | None = None
        self.failed = False  # the job has failed and waits for an abort
        self.done = False  # the job is done and has not retired
        self.at_once = False
        self.quiet = 0  # clocks without any event
        self.asked: list[int] = []  # segments of the first input that were requested
        self.before: EngineKind | None = None  # of a command that ended in the last clock
        self.swept = False  # program memory was being swept when the last command started
        self.clocks = 0  # of the job

    # --- clocks ---------------------------------------------------------------------------------------------

    async def clock(self, *, start: EngineJob | None = None, retire: bool = False, end: str = "") -> None:
        """Do one clock: choose inputs, judge outputs, update the model. `end` "abort" or "reset" ends all
        work."""
        dut, idle = self.dut, self.job is None
        controls = (start is not None, retire, end == "abort", end != "reset", self.at_once)
        for port, control in zip(self.controls, controls, strict=True):
            port.drive(int(control))
        if start:
            dut.command_i.value = start.bits
        elif self.job is None:
            dut.command_i.value = random.getrandbits(len(dut.command_i))
        for channel in self.inputs:
            channel.drive(abort=bool(end))
        self.output.drive(abort=bool(end))
        await RisingEdge(dut.clk_i)
        if end:
            self.cut(end)
            return
        self.judge()
        if start:
            self.begin(start)
        if idle:
            self.before = None
        if retire:
            self.retire()
        self.clocks += 1

    def begin(self, job: EngineJob) -> None:
        """Note that a command has started."""
        assert self.job is None
        if self.before is not None:
            self.situations.saw(Behind[f"{self.before.name}_{job.kind.name}"])
        self.job, self.asked = job, []
        self.failed = self.done = False
        self.quiet = self.clocks = 0

    def judge(self) -> None:
        """Compare the outputs of this clock, and follow the data."""
        dut, job = self.dut, self.job
        assert bool(dut.busy_o.value) == (job is not None and not self.done)
        assert int(dut.program_words_o.value) == self.programs.loaded
        self.quiet += 1
        done, fault = bool(dut.done_o.value), bool(dut.fault_o.value)
        self.judge_stalls()
        unwritten = job is not None and not (self.output.active or self.output.idle or self.failed)
        self.situations.saw(VectorEngineSituation.UNWRITTEN, unwritten)
        if job is None or self.done:
            assert not done
            assert not fault
            for channel in (*self.inputs, self.output):
                assert channel.wanted() is None, "a transfer of no command"
            self.output.follow()
            return
        for stream, channel in enumerate(self.inputs):
            self.follow_read(stream, channel, job)
        self.follow_output(job)
        assert self.quiet < PATIENCE or self.failed, "nothing happens any more"
        assert not (done and fault)
        if fault:
            self.judge_fault(job)
        assert not (done and self.failed), "a command that failed is done"
        if done:
            self.finish(job)

    def judge_stalls(self) -> None:
        """Check the performance events."""
        dut, job, saw = self.dut, self.job, self.situations.saw
        read, write = bool(dut.stall_read_o.value), bool(dut.stall_write_o.value)
        assert not (read and write), "a wait for two reasons"
        if job is None or self.done or job.kind == EngineKind.LOAD:
            assert not read
            assert not write
        elif job.kind == EngineKind.PROGRAM:
            saw(VectorEngineSituation.READ_STALL, read)
            saw(VectorEngineSituation.WRITE_STALL, write)
        else:
            offered = bool(dut.s0_valid_i.value)
            assert write == (offered and not dut.dst_ready_i.value)
            pending = self.inputs[0].owners or self.output.active or not self.output.idle
            assert read == (not offered) or not pending
            saw(VectorEngineSituation.COPY_READ_STALL, read)
            saw(VectorEngineSituation.COPY_WRITE_STALL, write)

    def follow_read(self, stream: int, channel: ReadChannel, job: EngineJob) -> None:
        """Judge a request, and bring the data."""
        # What a clock brings belongs to requests of clocks before.
        if channel.took():
            self.quiet = 0
        transfer, extent = channel.wanted(), job.reads[stream]
        if transfer is None:
            return
        assert extent is not None, f"{transfer} of a stream that is not there"
        if not channel.accepted:
            return
        self.quiet = 0
        starts = [start - job.base for start in transfer.row_starts()]
        assert transfer.row_bytes == extent.seg_bytes, f"{transfer} of other bytes"
        if stream == 0 and job.ordered is not None:
            self.asked += starts
            assert self.asked == job.ordered[: len(self.asked)], f"{transfer} out of turn"
        else:
            assert extent.places.issuperset(starts), f"{transfer} beyond the stream"
        rows = [self.memory[start : start + transfer.row_bytes].tobytes() for start in starts]
        channel.bring(job, rows)

    def follow_output(self, job: EngineJob) -> None:
        """Write what was taken, and take an announced transfer."""
        written = self.output.follow()
        if written is not None:
            self.quiet = 0
            addr, data = written
            place = addr - job.base
            self.memory[place : place + len(data)] = np.frombuffer(data, np.uint8)
        transfer = self.output.wanted()
        if transfer is None:
            return
        assert job.writes is not None, f"{transfer} of a command without an output"
        if self.output.accepted:
            self.quiet = 0
            self.check_written(transfer, job)
            self.output.expect(transfer)

    def check_written(self, transfer: Transfer, job: EngineJob) -> None:
        """Check that a transfer lies in the output."""
        assert job.writes is not None
        starts = {start - job.base for start in transfer.row_starts()}
        assert transfer.row_bytes == job.writes.seg_bytes
        assert starts <= job.writes.places, f"{transfer} beyond the output"

    def judge_fault(self, job: EngineJob) -> None:
        """Check that a command fails as it must, once."""
        dut = self.dut
        assert job.fault is not None, f"a sound command failed at {int(dut.fault_address_o.value)}"
        assert not self.failed, "a command failed twice"
        assert (bool(dut.fault_index_o.value), int(dut.fault_address_o.value)) == job.fault
        self.failed = True

    def finish(self, job: EngineJob) -> None:
        """Check what a command leaves behind that is done."""
        assert job.fault is None, "a command that must fail is done"
        assert self.output.idle, "done with results on their way"
        assert not self.output.active, "done with results missing"
        assert not any(channel.owners for channel in self.inputs), "done with operands on their way"
        if job.ordered is not None:
            assert self.asked == job.ordered, "done with rows missing"
        wrong = np.flatnonzero(self.memory != job.after)
        assert not wrong.size, f"{wrong.size} bytes of {job.kind.name} are wrong, the first at {wrong[0]}"
        self.done = True
        if self.at_once:
            self.retire()
            self.before = job.kind

    def retire(self) -> None:
        """Note that the command has retired."""
        job, saw = self.job, self.situations.saw
        assert job is not None
        if job.load is not None:
            entry, words = job.load
            self.note_load(entry, words.size)
            self.programs.load(entry, words)
            saw(VectorEngineSituation.RETIRED_AT_ONCE, self.at_once)
            saw(VectorEngineSituation.RETIRED_LATE, not self.at_once)
        self.note(job)
        self.job, self.done = None, False
        self.before = job.kind

    def cut(self, end: str) -> None:
        """Follow an abort or a reset: other bytes than those of the output stay."""
        self.note_cut(end)
        job = self.job
        if job is not None:
            after = job.after.copy()
            if job.writes is not None:
                for start in job.writes.starts():
                    part = slice(start, start + job.writes.seg_bytes)
                    after[part] = self.memory[part]
            assert np.array_equal(after, self.memory), "a cut off command wrote something else"
            if job.load is not None:
                entry, words = job.load
                self.programs.give_up(entry, words.size)
        if end == "reset":
            self.programs = ProgramMemory(PROGRAM_WORDS)
        for channel in self.inputs:
            channel.forget()
        self.output.forget()
        self.job, self.failed, self.done, self.before = None, False, False, None

    def look(self) -> None:
        """Compare program memory, as far as it is loaded and no sweep goes on."""
        count = self.programs.loaded
        if self.job is not None or not self.dut.program_ready_o.value or not count:
            return
        shown = int(self.dut.programs_o.value) & (1 << 64 * count) - 1
        assert shown == int.from_bytes(self.programs.words.tobytes(), "little"), "program memory differs"

    # --- coverage -------------------------------------------------------------------------------------------

    def note_cut(self, end: str) -> None:
        """Count the situations of an abort or a reset."""
        saw, job = self.situations.saw, self.job
        saw(VectorEngineSituation.RESET, end == "reset" and job)
        if end != "abort":
            return
        saw(VectorEngineSituation.ABORT_IDLE, job is None)
        if job is None or self.failed:
            return
        saw(Cut[job.kind.name])
        saw(VectorEngineSituation.ABORT_READ, any(channel.owners for channel in self.inputs))
        saw(VectorEngineSituation.ABORT_WRITE, self.output.active)
        saw(VectorEngineSituation.ABORT_ASKING, any(channel.wanted() for channel in self.inputs))
        saw(VectorEngineSituation.ABORT_START, self.clocks == 1)
        saw(VectorEngineSituation.ABORT_DONE, self.done and job.load)
        saw(VectorEngineSituation.ABORT_LOAD, job.load and job.load[0] < self.programs.loaded)

    def note(self, job: EngineJob) -> None:
        """Count the situations of a command that succeeded."""
        saw = self.situations.saw
        if job.kind == EngineKind.PROGRAM:
            saw(VectorEngineSituation.AWAKE, self.dut.test_enable_i.value)
            saw(VectorEngineSituation.RESTING, not self.dut.test_enable_i.value)
            if job.command is None:
                self.note_add(job)
            else:
                self.note_program(job)
        elif job.writes is not None:
            self.note_copy(job)

    def note_add(self, job: EngineJob) -> None:
        """Count the situations of an ADD_TENSOR."""
        saw, writes = self.situations.saw, job.writes
        assert writes is not None
        saw(VectorEngineSituation.ADD)
        saw(VectorEngineSituation.ADD_IN_PLACE, any(each and each.addr == writes.addr for each in job.reads))
        saw(VectorEngineSituation.ADD_LONG, writes.seg_bytes > 4 * ROW_ELEMENTS)

    def note_program(self, job: EngineJob) -> None:
        """Count the situations of a VECTOR command."""
        saw, command = self.situations.saw, job.command
        assert command is not None
        assert job.writes is not None
        rows, (batch0, batch1), output = command.rows, command.batch, command.output
        saw(VectorEngineSituation[INPUT_COUNTS[input_count(job)]])
        saw(VectorEngineSituation.ROWS, rows > 1)
        saw(VectorEngineSituation.BATCH0, batch0 > 1 and batch1 == 1)
        saw(VectorEngineSituation.BATCH1, batch0 == 1 and batch1 > 1)
        saw(VectorEngineSituation.BATCHES, min(rows, batch0, batch1) > 1)
        saw(VectorEngineSituation.MANY_ROWS, rows == MANY)
        saw(VectorEngineSituation.MANY_BATCH0, batch0 == MANY)
        saw(VectorEngineSituation.MANY_BATCH1, batch1 == MANY)
        saw(VectorEngineSituation.REPEATS, command.repeats > 1)
        saw(VectorEngineSituation.SEGMENTS_OUT, output.segments > 1)
        saw(VectorEngineSituation.PACKED_OUT, output.pack and output.segs > 1)
        saw(VectorEngineSituation[f"OUT{output.size}"])
        starts = sorted(job.writes.starts())
        close = any(b - a < job.writes.seg_bytes for a, b in itertools.pairwise(starts))
        saw(VectorEngineSituation.OVERLAP, close)
        if job.numbers is not None:
            self.note_scatter(job, command, close=close)
        for stream in command.inputs:
            if stream is None:
                continue
            saw(VectorEngineSituation[f"IN{stream.size}"])
            saw(VectorEngineSituation.SEGMENTS_IN, stream.segments > 1)
            saw(VectorEngineSituation.PACKED_IN, stream.pack and stream.segs > 1)
            saw(VectorEngineSituation.BROADCAST, stream.bcast)
            saw(VectorEngineSituation.SAME_ROW, rows > 1 and not stream.row_stride)
            saw(VectorEngineSituation.PASSES, stream.passes > 1)
            long = stream.segments * -(-stream.length // 16) * 16 > ROW_ELEMENTS
            saw(VectorEngineSituation.LONG, long and stream.passes > 1)
            saw(VectorEngineSituation.UNREAD, stream.length > command.cols)

    def note_scatter(self, job: EngineJob, command: VectorCommand, *, close: bool) -> None:
        """Count the situations of a command that scatters; `close`: its tables overlap."""
        saw, numbers = self.situations.saw, job.numbers
        assert numbers is not None
        assert command.indices is not None
        saw(VectorEngineSituation[f"SCATTER{32 * command.indices.seg_len}"])
        saw(VectorEngineSituation.SCATTER_INPUTS, all(command.inputs[:INPUTS_OF_SCATTER]))
        saw(VectorEngineSituation.SCATTER_SAME, np.any(numbers[1:] == numbers[:-1]) and command.rows > 1)
        saw(VectorEngineSituation.SCATTER_BATCHES, min(command.rows, *command.batch) > 1)
        saw(VectorEngineSituation.SCATTER_OVERLAP, close)
        saw(VectorEngineSituation.SCATTER_MANY, numbers.size > 0xFF)
        saw(VectorEngineSituation.SCATTER_FAR, int(numbers.max()) * command.output.row_stride > 0xFFFF)
        saw(VectorEngineSituation.SCATTER_NARROW, command.output.size == 2)

    def note_copy(self, job: EngineJob) -> None:
        """Count the situations of a copy or a gather."""
        saw, source, target = self.situations.saw, job.reads[0], job.writes
        assert source is not None
        assert target is not None
        row, long = target.seg_bytes, target.seg_bytes > BUS and target.seg_bytes % BUS
        if job.numbers is not None:
            same = np.any(job.numbers[1:] == job.numbers[:-1])
            saw(VectorEngineSituation.GATHER_SHORT, row < BUS)
            saw(VectorEngineSituation.GATHER_LONG, long)
            saw(VectorEngineSituation.GATHER_SAME, same)
            beats, rest = divmod(4 * job.numbers.size, BUS)
            saw(VectorEngineSituation.GATHER_BEATS, beats > 1 and rest)
            saw(VectorEngineSituation.GATHER_MANY, job.numbers.size == MANY)
            saw(VectorEngineSituation.GATHER_FAR, int(job.numbers.max()) * row > 0xFFFF)
            return
        rows, _, batch0, batch1 = target.counts
        saw(VectorEngineSituation.COPY_ROWS, rows > 1 and source.strides[0] > row and target.strides[0] > row)
        saw(VectorEngineSituation.COPY_BATCHES, min(rows, batch0, batch1) > 1)
        saw(VectorEngineSituation.COPY_SAME, batch0 > 1 and source.strides[2] == 0)
        saw(VectorEngineSituation.COPY_SHORT, row < BUS)
        saw(VectorEngineSituation.COPY_LONG, long)
        saw(VectorEngineSituation.COPY_MANY, rows == MANY)
        starts = sorted(target.starts())
        close = any(b - a < row for a, b in itertools.pairwise(starts))
        saw(VectorEngineSituation.COPY_OVERLAP, close)

    def note_load(self, entry: int, count: int) -> None:
        """Count the situations of a load that retires."""
        saw, loaded = self.situations.saw, self.programs.loaded
        saw(VectorEngineSituation.LOAD_ONE, count == 1)
        saw(VectorEngineSituation.LOAD_BEAT, count == LOAD_WORDS)
        saw(VectorEngineSituation.LOAD_MORE, count == LOAD_WORDS + 1)
        saw(VectorEngineSituation.LOAD_LESS, (count + 1) % LOAD_WORDS == 0)
        saw(VectorEngineSituation.LOAD_MANY, count > 0xFF)
        saw(VectorEngineSituation.LOAD_ALL, count == PROGRAM_WORDS)
        saw(VectorEngineSituation.LOAD_GAP, entry > loaded)
        saw(VectorEngineSituation.LOAD_INSIDE, entry + count < loaded)
        saw(VectorEngineSituation.LOAD_LAST, entry + count == PROGRAM_WORDS)

    def note_fault(self, job: EngineJob) -> None:
        """Count the situations of a command that failed."""
        assert job.fault is not None
        saw, (by_number, address) = self.situations.saw, job.fault
        if not by_number:
            saw(VectorEngineSituation.BAD_PROGRAM)
            saw(VectorEngineSituation.BAD_LOADED, address >= self.programs.loaded)
            rows = job.command.table_rows if job.command else 0
            bad = job.numbers is not None and np.any((job.numbers < 0) | (job.numbers >= rows))
            saw(VectorEngineSituation.SCATTER_BAD_PROGRAM, bad)
            return
        if job.command is not None:
            self.note_bad_index(job, job.command)
            return
        table, indices = job.reads[:2]
        assert job.numbers is not None
        assert table is not None
        assert indices is not None
        place = (address - job.base - indices.addr) // 4
        number = int(job.numbers[place])
        saw(VectorEngineSituation.NEGATIVE, number < 0)
        saw(VectorEngineSituation.BEYOND, number == table.counts[0])
        saw(VectorEngineSituation.BAD_FIRST, place == 0)
        saw(VectorEngineSituation.BAD_LATER, place > 2)

    def note_bad_index(self, job: EngineJob, command: VectorCommand) -> None:
        """Count the situations of a scatter that failed by an index."""
        saw, numbers = self.situations.saw, job.numbers
        assert numbers is not None
        place = int(np.flatnonzero((numbers < 0) | (numbers >= command.table_rows))[0])
        number = int(numbers[place])
        saw(VectorEngineSituation.SCATTER_BEYOND, number == command.table_rows)
        saw(VectorEngineSituation.SCATTER_HIGH, number & 0xFFFF_FFFF < command.table_rows)
        saw(VectorEngineSituation.SCATTER_BAD_FIRST, place == 0)
        saw(VectorEngineSituation.SCATTER_BAD_LATER, place > 2)

    # --- commands -------------------------------------------------------------------------------------------

    async def run(self, job: EngineJob, stop: int = -1) -> bool:
        """Run a command to its end, or to an abort or reset after `stop` clocks, whichever is first. Return
        whether it has succeeded."""
        # Program memory is ready in the clock after a load has retired.
        while job.kind == EngineKind.LOAD and not (self.before == job.kind or self.dut.program_ready_o.value):
            await self.clock()
        if job.large:
            self.hurry()
        await self.clock(start=job)
        # No load is open in the clock of a start.
        self.swept = job.kind != EngineKind.LOAD and not self.dut.program_ready_o.value
        while self.job is not None:
            if self.failed:
                for _ in range(random.choice((0, 1, 5, 30))):
                    await self.clock()
                self.note_fault(job)
                await self.clock(end="abort")
                self.situations.saw(VectorEngineSituation.AFTER_FAULT)
                return False
            # An end that is to come later is often one behind the end of a load.
            if stop == 0 or (self.done and stop > 0 and random.random() < 0.5):
                for _ in range(random.choice((1, 1, 3))):
                    await self.clock(end=random.choice(("abort", "abort", "abort", "reset")))
                return False
            stop -= 1
            retire = self.done and random.random() < 0.3
            await self.clock(retire=retire)
        return True

    def pace(self) -> None:
        """Draw how fast memory is, and when commands retire."""
        for channel in self.inputs:
            channel.accepting, channel.bringing = random.choice(CHANCES), random.choice((1.0, *CHANCES))
        self.output.accepting = random.choice((*CHANCES, 0.03))
        self.output.taking = random.choice((*CHANCES, 0.05))
        self.at_once = random.random() < 0.6
        self.dut.test_enable_i.value = random.getrandbits(1)

    def hurry(self) -> None:
        """Let memory wait for nothing: a large command takes long enough."""
        for channel in self.inputs:
            channel.accepting = channel.bringing = 1.0
        self.output.accepting = self.output.taking = 1.0


class CommandTraffic:
    """Random commands one after another, with the programs that they need."""

    def __init__(self, testbench: VectorEngineTestbench) -> None:
        self.testbench = testbench
        self.base = draw_base()

    def many(self, *situations: VectorEngineSituation) -> float:
        """Return the chance of a large count: higher as long as one of these situations is missing."""
        return 0.3 if self.testbench.situations.lacks(*situations) else 0.02

    def counts(self, kind: str) -> Counts | None:
        """Draw rows and batches for a program or a scatter, often those of a missing situation; None: any
        small numbers of them."""
        missing = [each for each in COUNTS[kind] if self.testbench.situations.lacks(each)]
        if random.random() < (0.4 if missing else 0.02):
            return random.choice(COUNTS[kind][random.choice(missing or list(COUNTS[kind]))])
        return None

    def next_kind(self) -> str:
        """Draw the kind of the next command: more of those of which a situation is missing."""
        lacks = self.testbench.situations.lacks
        wanted = [kind for kind, needed in NEEDED.items() if lacks(*needed)]
        if wanted and random.random() < 0.4:
            return random.choice(wanted)
        pairs = [(a, b) for a in TURNS for b in TURNS if lacks(Behind[f"{a.name}_{b.name}"])]
        follow = [TURNS[b] for a, b in pairs if a == self.testbench.before]
        if follow and random.random() < 0.5:
            return random.choice(follow)
        return random.choice((*KINDS, *(TURNS[a] for a, _ in pairs)))

    async def turn(self, kind: str, stop: int = -1) -> None:
        """Run a command of a kind, after the load of its program if it has one."""
        testbench, saw = self.testbench, self.testbench.situations.saw
        memory, programs = testbench.memory, testbench.programs
        if kind == "load":
            job = load_job(memory, self.base, programs.loaded, [])
        elif kind == "copy":
            job = copy_job(memory, self.base, self.many(VectorEngineSituation.COPY_MANY))
        elif kind == "gather":
            job = gather_job(memory, self.base, self.many(VectorEngineSituation.GATHER_MANY))
        elif kind == "add":
            job = add_job(memory, self.base)
        else:
            await self.program(stop, scatters=kind == "scatter")
            return
        done = await testbench.run(job, stop)
        saw(VectorEngineSituation.RUN_SWEPT, done and testbench.swept and kind == "add")

    async def program(self, stop: int, *, scatters: bool) -> None:
        """Load a random program and run it."""
        testbench, saw = self.testbench, self.testbench.situations.saw
        endless = random.random() < 0.1
        if endless:
            await testbench.clock(end="reset")
        loaded = testbench.programs.loaded
        anywhere = [random.randrange(PROGRAM_WORDS) for _ in range(3)]
        counts = self.counts("scatter" if scatters else "program")
        command, words = draw_program([*anywhere, 0, loaded], scatters=scatters, counts=counts)
        if endless and len(words) > 1:
            del words[-1]  # most often END
        load = load_job(testbench.memory, self.base, loaded, words, command.entry)
        while not await testbench.run(load):
            pass
        others = not endless and random.random() < 0.3
        if others:
            # Another load leaves this program alone, unless it overlaps.
            await testbench.run(load_job(testbench.memory, self.base, testbench.programs.loaded, []))
        cut = not endless and random.random() < 0.3
        if cut:
            again = load_job(testbench.memory, self.base, testbench.programs.loaded, [])
            await testbench.run(again, random.randrange(60))
        if command.entry >= testbench.programs.loaded:
            return
        try:
            job = program_job(testbench.memory, self.base, testbench.programs, command)
        except UnfitError:
            return
        done = await testbench.run(job, stop)
        saw(VectorEngineSituation.RUN_LOADED, done and not others and not cut)
        saw(VectorEngineSituation.RUN_OTHER, done and others)
        saw(VectorEngineSituation.RUN_SWEPT, done and testbench.swept)


@cocotb.test()
async def random_commands(dut: Any) -> None:
    """Memory and program memory are those of the functional model after each command; only operands are
    read; a broken rule is reported; after an abort at any time the next command works."""
    situations = Situations(VectorEngineSituation, Behind, Cut)
    await reset(dut)
    testbench = VectorEngineTestbench(dut, situations)
    traffic = CommandTraffic(testbench)
    await testbench.clock()
    for number in situations.rounds(200):
        testbench.pace()
        stop = random.choice((-1, -1, -1, -1, 0, random.randrange(30), random.randrange(300)))
        await traffic.turn(traffic.next_kind(), stop)
        if number % 50 == 0:
            traffic.base = draw_base()
        if number % 4 == 0:
            testbench.look()
        if random.random() < 0.3:
            for _ in range(random.choice((1, 2, 60))):
                await testbench.clock(end=random.choice(("", "", "", "abort")))


@cocotb.test()
async def an_end_in_each_clock(dut: Any) -> None:
    """An abort or a reset in each clock of a command of each kind leaves nothing of it: the next command is
    right."""
    await reset(dut)
    testbench = VectorEngineTestbench(dut, Situations())
    traffic = CommandTraffic(testbench)
    await testbench.clock()
    for kind in ("program", "scatter", "copy", "gather", "add", "load"):
        for stop in range(70):
            testbench.pace()
            await traffic.turn(kind, stop)
            await traffic.turn(random.choice(("copy", "gather", "add", "load")))
            testbench.look()


async def special_results(dut: Any, segments: int) -> tuple[VectorEngineTestbench, EngineJob]:
    """Return a testbench and a command of special functions. They need no input, and all go to the output."""
    await reset(dut)
    testbench = VectorEngineTestbench(dut, Situations())
    await testbench.clock()
    testbench.hurry()
    special = Instruction(Op.EXP, OPERAND_CODES["o"], OPERAND_CODES["iota"])
    program = [each.encode() for each in (*[special] * segments, Instruction(Op.END))]
    base = draw_base()
    while not await testbench.run(load_job(testbench.memory, base, testbench.programs.loaded, program, 0)):
        pass
    output = Descriptor(0, VECTOR_LENGTH, segs=segments, seg_stride=4 * VECTOR_LENGTH, passes=0)
    command = VectorCommand(0, rows=1, cols=VECTOR_LENGTH, inputs=(None,) * 4, output=output)
    return testbench, program_job(testbench.memory, base, testbench.programs, command)


@cocotb.test()
async def results_without_room(dut: Any) -> None:
    """Special functions in every stage of the lanes find room at the output, even if memory takes nothing."""
    queue = 8  # what the output queue holds, in results of an instruction
    testbench, job = await special_results(dut, 2 * queue)
    for taking in (0.02, 0.05, 0.2):
        testbench.pace()
        testbench.output.accepting, testbench.output.taking = 1.0, taking
        assert await testbench.run(job)


@cocotb.test()
async def an_end_of_results_under_way(dut: Any) -> None:
    """An abort with special functions in every stage of the lanes leaves the next command no result."""
    testbench, job = await special_results(dut, 2)
    for clocks in range(2, 24):
        await testbench.clock(start=job)
        for _ in range(clocks):
            await testbench.clock()
        await testbench.clock(end="abort")
        for _ in range(clocks % 4):
            await testbench.clock()
        assert await testbench.run(job)
        await testbench.clock()
