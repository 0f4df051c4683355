"""vector_core: random programs, legal and not, clock by clock; windows and output at any pace; aborts."""

import random
from enum import Enum, auto
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from echo_npu.spec.instructions import INPUTS
from echo_npu.vector.isa import (
    CHUNK_MULTIPLE,
    OPERAND_CODES,
    OPERAND_NAMES,
    Form,
    Instruction,
    Kind,
    Op,
    form_of,
    kind_of,
)
from tests.rtl.elements import as_number
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset
from tests.rtl.vector.vector_core.commands import (
    LANES,
    VECTOR_LENGTH,
    CommandCourse,
    ProgramRule,
    ReachedInstruction,
    draw,
)
from tests.rtl.vector.vector_core.pipeline import PIPELINE, IssuedWord, Pipeline, Place, words_of
from tests.rtl.windows import word as window_word

# With two lanes a chunk has more words than a fold has steps, with sixteen fewer.
CONFIGURATIONS = [
    {"Lanes": 2, "VectorLength": 64, "RowElements": 128, "Pipeline": 1},
    {"Lanes": 2, "VectorLength": 64, "RowElements": 128, "Pipeline": 0},
    {"Lanes": 16, "VectorLength": 32, "RowElements": 64, "Pipeline": 0},
]
BEATS = VECTOR_LENGTH // LANES
WORD_BITS = 32 * LANES
MARGIN = 5 if PIPELINE else 4
"""Words of room that the output must have when one is issued."""
PACES = (1.0, 1.0, 0.6, 0.15)

Executed = Enum("Executed", {op.name: f"{op.mnemonic} executed" for op in Op})
Read = Enum("Read", {f"CODE{code}": f"{name} read" for code, name in OPERAND_NAMES.items() if name != "o"})


class VectorCoreSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    WAIT_VECTOR = "a wait for a word of a vector register"
    WAIT_SCALAR = "a wait for a scalar"
    WAIT_ROW = "a wait for a word of a row register, in a later chunk"
    WAIT_FOLD = "a wait for the sum of a fold"
    WAIT_ACCUMULATOR = "a fold that waits for its accumulator"
    WAIT_LATE = "a wait for the last clock of a special function"
    PASSES = "a word that goes the way of the special function right before it"
    SKIPS = "a word behind a special function and a pause"
    SPECIAL_NEXT = "a special function right behind a word of another one"
    SPECIAL_GIVEN = "a special function's result that goes straight to an operand"
    SPECIALS = "special functions in every stage"
    GIVEN_A = "a result that goes straight to operand a"
    GIVEN_B = "a result that goes straight to operand b"
    GIVEN_C = "a result that goes straight to operand c"
    GIVEN_SCALAR = "a scalar that goes straight to an instruction"
    GIVEN_ROW = "a word of a row register that goes straight to an instruction, in a later chunk"
    GIVEN_MERGED = "a word given straight, of which only some elements are new"
    GIVEN_SWAPPED = "a result that goes straight to swap"
    OTHER_WORD = "no wait for another word of the register that is being written"
    UNWRITTEN_VECTOR = "a vector register of the row before, read as zero"
    UNWRITTEN_SCALAR = "a scalar of the row before, read as zero"
    UNWRITTEN_ROW = "a row register of the row before, read as zero"
    UNWRITTEN_ACCUMULATOR = "an accumulator of the row before, folded"
    KEPT_VECTOR = "elements of a vector register that keep their value behind those written, shown"
    KEPT_W0 = "elements of the first row register that keep their value behind those written, shown"
    KEPT_W1 = "elements of the second row register that keep their value behind those written, shown"
    ODD_SWAP = "swap of an odd number of elements"
    ODD_ACCUMULATION = "an accumulation of fewer elements than lanes"
    SAME_PARTIALS = "accumulations into the same partial results one behind the other"
    STARVED = "an instruction that waits for a window"
    BLOCKED = "an instruction that waits for room in the output"
    STARVED_LATER = "a wait for a window in the midst of an instruction"
    BLOCKED_LATER = "a wait for room in the midst of an instruction"
    BOTH = "a wait for a window and for room"
    CLOSE = "an output with room for no more words than the stages hold"
    REPEAT_INSIDE = "a repeat loop in a chunk loop"
    CHUNKS_INSIDE = "a chunk loop in a repeat loop"
    CHUNKS_AGAIN = "a second chunk loop, from chunk 0"
    SHORT_CHUNK = "a last chunk that is shorter"
    LATER_IOTA = "iota in a later chunk"
    LATER_REP = "rep in a later iteration"
    ROW = "the number of a later row, in a later batch"
    BATCH0 = "the number of a later batch, in a later outer batch"
    BATCH1 = "the number of a later outer batch"
    SEGMENTS = "an output of several segments"
    SHORT_OUT = "an output word with fewer elements than lanes"
    BROKEN_LATER = "a rule broken in a later chunk or iteration"
    BROKEN_BUSY = "a rule broken with results on their way to the output"
    START_AT_ONCE = "a command right after an abort or a reset with results on their way"
    WAITS_AT_END = "an END that waits for the lanes"
    ABORT_BUSY = "an abort with results on their way to the output"
    ABORT_WAITING = "an abort of an instruction that waits"
    ABORT_BEGIN = "an abort of a command that begins"
    ABORT_LATE = "an abort of one clock before the last one of a special function that goes to the output"
    RESET_LATE = "a reset of one clock before the last one of a special function that goes to the output"
    ABORT_BROKEN = "an abort after a broken rule, with results on their way to the output"
    RESET_BUSY = "a reset with results on their way to the output"


class CommandState(Enum):
    """The progress of a command."""

    IDLE = auto()
    BEGIN = auto()
    RUN = auto()
    END = auto()  # of a row: the lanes still work


class Windows:
    """The environment of the input streams: the words of each window come one after another."""

    def __init__(self) -> None:
        self.chance = 1.0
        self._come = [0] * INPUTS

    def clock(self) -> None:
        """Let words come."""
        for stream in range(INPUTS):
            if self._come[stream] < BEATS and random.random() < self.chance:
                self._come[stream] += 1

    def move(self, streams: int) -> None:
        """Start new windows for these streams, a bit for each."""
        for stream in range(INPUTS):
            if streams >> stream & 1:
                self._come[stream] = random.choice((0, self._come[stream])) if self.chance < 1 else BEATS

    def ready(self, beat: int) -> int:
        """Return which windows have this word."""
        return sum((self._come[stream] > beat) << stream for stream in range(INPUTS))


class Output:
    """The environment of the output: a queue, which takes words as long as it has room."""

    def __init__(self) -> None:
        self.chance, self.depth = 1.0, MARGIN
        self.level = 0

    @property
    def room(self) -> bool:
        return self.depth - self.level >= MARGIN

    def clock(self, *, valid: bool) -> None:
        """Perhaps take a word, and perhaps drop one."""
        if self.level and random.random() < self.chance:
            self.level -= 1
        self.level += valid
        assert self.level <= self.depth, "a word without room"


class VectorCoreTestbench:
    """The ports, and a model of every clock: the command's progress, and the contents of the stages."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.state = CommandState.IDLE
        self.windows, self.output = Windows(), Output()
        self.pipeline = Pipeline()
        self.job: CommandCourse | None = None
        self.base = 0  # of the program, among addresses
        self.row = self.at = 0  # the step of the row
        self.words: list[IssuedWord] = []  # those of the instruction still to be issued
        self.fetched: int | None = None
        self.now: set[Place] = set()  # written in this row
        self.before: set[Place] = set()
        self.kept: dict[Place, int] = {}  # words written in part over what was there: the elements written
        self.loops: list[Op] = []
        self.chunk_loops = 0
        self.stopped = False  # by an abort or a reset in the last clock, with results on their way
        self.broken = False  # a rule, and no abort has come since

    # --- the command ----------------------------------------------------------------------------------------

    @property
    def step(self) -> ReachedInstruction | None:
        """Return the instruction at issue."""
        return self.job.steps[self.at] if self.job and self.state == CommandState.RUN else None

    def begin(self, job: CommandCourse) -> None:
        """Put a command on the ports."""
        dut, command = self.dut, job.command
        self.job = job
        self.base = random.choice((0, 0x8000_0000, 0xFFF8, 0x7FFF_FFF8, 0xFFFF_FF00, random.getrandbits(31)))
        dut.rows_i.value, dut.cols_i.value, dut.repeats_i.value = command.rows, command.cols, command.repeats
        dut.batch0_i.value, dut.batch1_i.value = command.batch
        dut.entry_i.value = self.base + command.entry
        dut.params_i.value = as_number(np.array(command.params, np.uint32))
        dut.enable_i.value = sum((each is not None) << stream for stream, each in enumerate(command.inputs))
        dut.out_length_i.value, dut.out_segments_i.value = command.output.length, command.output.segments
        self.row = 0
        self.windows.chance, self.output.chance = random.choice(PACES), random.choice(PACES)
        # The results of the previous command are still in the queue or on their way.
        self.output.depth = max(random.choice((MARGIN, MARGIN + 1, 8)), self.output.level + MARGIN - 1)
        self.before = set()

    def begin_row(self) -> None:
        """Begin a row: its first instruction comes in the next clock."""
        self.state, self.at = CommandState.RUN, 0
        self.before |= self.now
        self.now, self.kept = set(), {}
        self.chunk_loops = 0
        self.loops = []
        self.windows.move(0xF)
        self.prepare()

    def prepare(self) -> None:
        """Lay out the words of the next instruction."""
        step = self.step
        self.words = []
        if step and self.job and not step.control and not step.broken:
            outputs = self.job.outputs
            self.words = words_of(step, None if outputs is None else outputs[self.row])

    def counters(self) -> tuple[int, int, int]:
        """Return the indices of the row and its batches."""
        assert self.job is not None
        rows, (batch0, _) = self.job.command.rows, self.job.command.batch
        return self.row % rows, self.row // rows % batch0, self.row // rows // batch0

    # --- clocks ---------------------------------------------------------------------------------------------

    async def clock(
        self, *, start: CommandCourse | None = None, abort: bool = False, reset: bool = False
    ) -> None:
        """One clock: choose inputs, judge the outputs, follow."""
        dut = self.dut
        dut.start_i.value, dut.abort_i.value = int(start is not None), int(abort)
        dut.rst_ni.value = int(not reset)
        if start:
            self.begin(start)
        word = self.words[0] if self.words else None
        beat = word.beat if word else 0
        self.drive_instruction()
        ready = self.windows.ready(beat)
        room = self.output.room
        dut.window_ready_i.value = ready
        dut.window_used_up_i.value = self.used_up()
        dut.window_words_i.value = self.shown(word, ready)
        dut.out_room_i.value = int(room)
        starved = word is not None and any(not ready >> stream & 1 for stream in word.streams)
        blocked = word is not None and word.out and not room
        waits = self.pipeline.waits(word) if word else []
        adds_on = word is not None and self.pipeline.adds_on(word)
        issued = word if not (starved or blocked or waits or adds_on) else None
        await RisingEdge(dut.clk_i)
        if not abort and not reset:
            self.judge(word, issued, starved=starved, blocked=blocked)
        self.cover(word, issued, waits, starved=starved, blocked=blocked, abort=abort, reset=reset)
        if dut.fetch_o.value:
            self.fetched = int(dut.fetch_address_o.value)
        self.output.clock(valid=self.pipeline.write is not None and self.pipeline.write.out)
        self.windows.clock()
        self.stopped = (abort or reset) and not self.pipeline.empty
        if abort or reset:
            self.broken = False
            self.state = CommandState.IDLE
            self.words = []
            self.pipeline.clear()
            self.output.level = 0
        else:
            self.follow(issued, start=start is not None)

    def drive_instruction(self) -> None:
        """Drive the last fetched instruction, one clock after its fetch; noise follows the program."""
        dut = self.dut
        if self.fetched is None or self.job is None:
            return
        number = self.fetched - self.base
        programs = self.job.programs
        known = 0 <= number < programs.loaded
        dut.executable_i.value = int(known)
        place = number if known else random.randrange(self.job.command.entry, programs.loaded)
        dut.instruction_i.value = int(programs.words[place])

    def used_up(self) -> int:
        """Return which windows have no pass left; noise for streams that do not exist."""
        step = self.step
        if step is None or self.job is None:
            return random.getrandbits(INPUTS)
        bits = 0
        streams = zip(step.windows, self.job.command.inputs, strict=True)
        for stream, (window, descriptor) in enumerate(streams):
            there = window is not None and descriptor is not None
            bits |= (window[2] >= descriptor.passes if there else random.getrandbits(1)) << stream
        return bits

    def shown(self, word: IssuedWord | None, ready: int) -> int:
        """Return the words of all windows, with noise where none is read or none exists."""
        words = random.getrandbits(WORD_BITS * INPUTS) if random.random() < 0.3 else 0
        if word is None or self.job is None:
            return words
        for stream in word.streams:
            values, window = self.job.inputs[stream], word.step.windows[stream]
            assert values is not None
            assert window is not None
            segment, offset, _ = window
            part = window_word(values[self.row, segment], self.job.shape(stream), offset + word.beat * LANES)
            if ready >> stream & 1:
                words &= ~((1 << WORD_BITS) - 1 << WORD_BITS * stream)
                words |= part << WORD_BITS * stream
        return words

    def judge(
        self, word: IssuedWord | None, issued: IssuedWord | None, *, starved: bool, blocked: bool
    ) -> None:
        """Compare the outputs of this clock."""
        dut, step = self.dut, self.step
        broken = step is not None and step.broken is not None
        assert bool(dut.busy_o.value) == (self.state != CommandState.IDLE)
        assert bool(dut.fault_o.value) == broken, step
        if broken and step:
            assert int(dut.fault_address_o.value) == self.base + step.number
        # The word of an instruction that breaks a rule may be anything: it waits for nothing.
        assert bool(dut.stall_read_o.value) == (starved and not broken), step
        assert bool(dut.stall_write_o.value) == (blocked and not starved and not broken), step
        if word is not None and word.streams:
            assert int(dut.window_beat_o.value) == word.beat
        self.judge_fetch(issued)
        moved = 0
        if step and step.decoded and step.decoded.form == Form.STEP and not broken:
            moved = step.decoded.instruction.imm & 0xF
        assert int(dut.window_advance_o.value) == moved, step
        if moved and step:
            assert int(dut.window_granules_o.value) == -(-step.elements // CHUNK_MULTIPLE), step
        assert bool(dut.row_end_o.value) == (self.state == CommandState.END and self.pipeline.empty)
        self.judge_output()

    def judge_fetch(self, issued: IssuedWord | None) -> None:
        """The next instruction must be fetched one clock ahead, and nothing else while one waits."""
        dut, step, job = self.dut, self.step, self.job
        wanted = None
        if job and (
            self.state == CommandState.BEGIN
            or (self.state == CommandState.END and self.pipeline.empty and not self.last_row)
        ):
            wanted = job.command.entry
        elif job and step and not step.broken and (step.control or (issued and issued.last)):
            if self.at == len(job.steps) - 1:
                return  # END: what follows it does not matter
            wanted = job.steps[self.at + 1].number
        elif step and step.broken:
            return
        assert bool(dut.fetch_o.value) == (wanted is not None), step
        if wanted is not None:
            assert int(dut.fetch_address_o.value) == self.base + wanted, step

    @property
    def last_row(self) -> bool:
        return self.job is not None and self.row == self.job.rows - 1

    def judge_output(self) -> None:
        """Check that results of the lanes go to the output in the same clock."""
        dut, word = self.dut, self.pipeline.write
        assert bool(dut.out_valid_o.value) == (word is not None and word.out)
        if word is None or not word.out:
            return
        assert int(dut.out_count_o.value) == word.count
        if word.expected is not None:
            shown = int(dut.out_word_o.value) & (1 << 32 * word.count) - 1
            assert shown == word.expected, f"{word.step} word {word.beat} of row {self.row}"

    def follow(self, issued: IssuedWord | None, *, start: bool) -> None:
        """Pass the clock edge."""
        step = self.step
        ended = self.state == CommandState.END and self.pipeline.empty
        if issued and issued.writes:
            if issued.count < LANES and issued.writes in self.now:
                self.kept[issued.writes] = max(issued.count, self.kept.get(issued.writes, 0))
            else:
                self.kept.pop(issued.writes, None)
            self.now.add(issued.writes)
        self.pipeline.step(issued)
        if start:
            self.state = CommandState.BEGIN
        elif self.state == CommandState.BEGIN:
            self.begin_row()
        elif ended and self.last_row:
            self.state = CommandState.IDLE
        elif ended:
            self.row += 1
            self.begin_row()
        elif step is None:
            return
        elif step.broken:
            self.state, self.broken = CommandState.IDLE, True
        elif step.control:
            self.control(step)
        elif issued:
            del self.words[0]
            if not self.words:
                self.at += 1
                self.prepare()

    def control(self, step: ReachedInstruction) -> None:
        """Execute a control instruction."""
        assert step.decoded is not None
        if step.decoded.form == Form.END:
            self.state = CommandState.END
            return
        if step.decoded.form == Form.STEP:
            self.windows.move(step.decoded.instruction.imm)
        self.at += 1
        self.prepare()

    # --- coverage -------------------------------------------------------------------------------------------

    def cover(
        self,
        word: IssuedWord | None,
        issued: IssuedWord | None,
        waits: list[Place],
        *,
        starved: bool,
        blocked: bool,
        abort: bool,
        reset: bool,
    ) -> None:
        """Count the situations of this clock."""
        saw, step, pipeline = self.situations.saw, self.step, self.pipeline
        busy = pipeline.goes_out
        saw(VectorCoreSituation.ABORT_BUSY, abort and pipeline.execute is not None and busy)
        saw(VectorCoreSituation.ABORT_WAITING, abort and word is not None and issued is None)
        saw(VectorCoreSituation.ABORT_BEGIN, abort and self.state == CommandState.BEGIN)
        saw(VectorCoreSituation.ABORT_BROKEN, abort and self.state == CommandState.IDLE and busy)
        saw(VectorCoreSituation.RESET_BUSY, reset and pipeline.execute is not None and busy)
        if abort or reset:
            return
        saw(VectorCoreSituation.WAITS_AT_END, self.state == CommandState.END and not pipeline.empty)
        if step is None:
            return
        if step.broken:
            saw(step.broken)
            saw(VectorCoreSituation.BROKEN_LATER, step.base or step.rep)
            saw(VectorCoreSituation.BROKEN_BUSY, busy)
            return
        assert step.decoded is not None
        instruction = step.decoded.instruction
        if step.control:
            saw(Executed[instruction.op.name])
            self.cover_loop(instruction.op, step.number)
            return
        assert word is not None
        first_later = step.base > 0
        for place in waits:
            kind = kind_of(place[0])
            late = pipeline.write
            folding = late is not None and late.writes == place and not late.ready
            saw(VectorCoreSituation.WAIT_VECTOR, kind == Kind.VECTOR)
            saw(VectorCoreSituation.WAIT_SCALAR, kind == Kind.SCALAR)
            saw(VectorCoreSituation.WAIT_ROW, kind == Kind.ROW_REGISTER and first_later)
            saw(VectorCoreSituation.WAIT_FOLD, kind == Kind.SCALAR and folding)
            saw(VectorCoreSituation.WAIT_ACCUMULATOR, kind == Kind.ACCUMULATOR)
            saw(VectorCoreSituation.WAIT_LATE, pipeline.late is not None and pipeline.late.writes == place)
        saw(VectorCoreSituation.STARVED, starved)
        saw(VectorCoreSituation.BLOCKED, blocked)
        saw(VectorCoreSituation.STARVED_LATER, starved and word.beat)
        saw(VectorCoreSituation.BLOCKED_LATER, blocked and word.beat)
        saw(VectorCoreSituation.BOTH, starved and blocked)
        if issued:
            self.cover_word(issued, instruction)

    def cover_loop(self, op: Op, number: int) -> None:
        """Count situations of loops."""
        saw = self.situations.saw
        if op == Op.CHUNKS:
            saw(VectorCoreSituation.CHUNKS_INSIDE, self.loops)
            self.chunk_loops += 1
            saw(VectorCoreSituation.CHUNKS_AGAIN, self.chunk_loops > 1)
            self.loops.append(op)
        elif op == Op.REPEAT:
            saw(VectorCoreSituation.REPEAT_INSIDE, self.loops)
            self.loops.append(op)
        # The next step shows whether it was the last iteration.
        elif op == Op.NEXT and self.job and self.job.steps[self.at + 1].number == number + 1:
            self.loops.pop()

    def cover_word(self, word: IssuedWord, instruction: Instruction) -> None:
        """Count situations of an issued word."""
        saw, pipeline, step = self.situations.saw, self.pipeline, word.step
        saw(Executed[instruction.op.name])
        for code in instruction.sources:
            saw(Read[f"CODE{code}"])
        later = step.base > 0
        given = pipeline.forwarded(word)
        promises = VectorCoreSituation.GIVEN_A, VectorCoreSituation.GIVEN_B, VectorCoreSituation.GIVEN_C
        for place, forwarded, promise in zip(word.reads, given, promises, strict=False):
            if place is None:
                continue
            kind = kind_of(place[0])
            saw(promise, forwarded)
            if forwarded and pipeline.write is not None:
                saw(VectorCoreSituation.GIVEN_SCALAR, kind == Kind.SCALAR and LANES > 1)
                saw(VectorCoreSituation.GIVEN_ROW, kind == Kind.ROW_REGISTER and later)
                old = pipeline.write.count < word.count and kind != Kind.SCALAR
                saw(VectorCoreSituation.GIVEN_MERGED, old)
                saw(VectorCoreSituation.GIVEN_SWAPPED, instruction.op == Op.SWAP)
                saw(VectorCoreSituation.SPECIAL_GIVEN, pipeline.write.special)
            stale = place in self.before and place not in self.now
            saw(VectorCoreSituation.UNWRITTEN_VECTOR, stale and kind == Kind.VECTOR)
            saw(VectorCoreSituation.UNWRITTEN_SCALAR, stale and kind == Kind.SCALAR)
            saw(VectorCoreSituation.UNWRITTEN_ROW, stale and kind == Kind.ROW_REGISTER)
            saw(VectorCoreSituation.UNWRITTEN_ACCUMULATOR, stale and kind == Kind.ACCUMULATOR)
        saw(VectorCoreSituation.OTHER_WORD, pipeline.others(word))
        accumulates = kind_of(instruction.dst) == Kind.ACCUMULATOR and form_of(instruction.op) == Form.ALU
        self.cover_kept(word, instruction)
        self.cover_special(word)
        saw(VectorCoreSituation.ODD_SWAP, instruction.op == Op.SWAP and word.count % 2)
        saw(VectorCoreSituation.ODD_ACCUMULATION, accumulates and word.count < LANES)
        before = pipeline.before
        same = before is not None and before.writes == word.writes
        if accumulates and before is not None and same:
            apart = (before.beat - word.beat) * LANES
            saw(VectorCoreSituation.SAME_PARTIALS, apart % CHUNK_MULTIPLE == 0)
        saw(VectorCoreSituation.CLOSE, word.out and self.output.depth - self.output.level == MARGIN)
        saw(VectorCoreSituation.SHORT_CHUNK, later and step.elements < VECTOR_LENGTH)
        self.cover_counters(word, instruction)
        if word.out and self.job is not None:
            saw(VectorCoreSituation.SEGMENTS, step.done >= self.job.command.output.length)
            saw(VectorCoreSituation.SHORT_OUT, word.count < LANES)

    def cover_special(self, word: IssuedWord) -> None:
        """Words behind special functions."""
        saw, pipeline = self.situations.saw, self.pipeline
        behind = pipeline.execute
        stages = [pipeline.execute, pipeline.late, pipeline.write, *([pipeline.finish] if PIPELINE else [])]
        saw(VectorCoreSituation.SPECIAL_NEXT, word.special and behind is not None and behind.special)
        before = pipeline.finish if PIPELINE else pipeline.late
        plain = not word.special
        saw(VectorCoreSituation.PASSES, plain and behind is not None and behind.special)
        saw(VectorCoreSituation.SKIPS, plain and behind is None and before is not None and before.special)
        full = all(each is not None and each.special for each in stages)
        saw(VectorCoreSituation.SPECIALS, full and word.special)

    def cover_kept(self, word: IssuedWord, instruction: Instruction) -> None:
        """Elements behind those written last, which go to the output as they are."""
        saw, place = self.situations.saw, word.reads[0] if word.reads else None
        if not word.out or instruction.op != Op.MOV or place is None or place not in self.kept:
            return
        if word.count > self.kept[place]:
            saw(VectorCoreSituation.KEPT_VECTOR, kind_of(place[0]) == Kind.VECTOR)
            saw(VectorCoreSituation.KEPT_W0, place[0] == OPERAND_CODES["w0"])
            saw(VectorCoreSituation.KEPT_W1, place[0] == OPERAND_CODES["w1"])

    def cover_counters(self, word: IssuedWord, instruction: Instruction) -> None:
        """Count situations that only the counters show."""
        saw, step = self.situations.saw, word.step
        row, batch0, batch1 = self.counters()
        sources = instruction.sources
        saw(VectorCoreSituation.LATER_IOTA, OPERAND_CODES["iota"] in sources and step.base)
        saw(VectorCoreSituation.LATER_REP, OPERAND_CODES["rep"] in sources and step.rep)
        saw(VectorCoreSituation.ROW, OPERAND_CODES["row"] in sources and row and (batch0 or batch1))
        saw(VectorCoreSituation.BATCH0, OPERAND_CODES["batch0"] in sources and batch0 and batch1)
        saw(VectorCoreSituation.BATCH1, OPERAND_CODES["batch1"] in sources and batch1)


def late_is_next(testbench: VectorCoreTestbench) -> bool:
    """Return whether a special function that goes to the output begins its last clock at the coming edge."""
    leaving = testbench.pipeline.before
    return leaving is not None and leaving.special and leaving.out


async def run(testbench: VectorCoreTestbench, job: CommandCourse, stop: int, *, late: bool) -> None:
    """Run a command to its end, or to an abort or reset after this many clocks, whichever is first. With
    `late` one comes where a special function is about to begin its last clock, too."""
    await testbench.clock(start=job)
    while testbench.state != CommandState.IDLE:
        if stop == 0 or (late and late_is_next(testbench)):
            await halt(testbench)
            break
        stop -= 1
        await testbench.clock()


async def halt(testbench: VectorCoreTestbench) -> None:
    """Abort or reset for some clocks."""
    by_reset, clocks = random.random() < 0.3, random.choice((1, 1, 3))
    late = clocks == 1 and late_is_next(testbench)
    testbench.situations.saw(VectorCoreSituation.ABORT_LATE, late and not by_reset)
    testbench.situations.saw(VectorCoreSituation.RESET_LATE, late and by_reset)
    for _ in range(clocks):
        await testbench.clock(abort=not by_reset, reset=by_reset)


@cocotb.test()
async def random_programs(dut: Any) -> None:
    """Results are those of the functional model and come in the right clocks; a broken rule is reported at
    once, with the instruction's number."""
    situations = Situations(VectorCoreSituation, Executed, Read, ProgramRule)
    await reset(dut)
    testbench = VectorCoreTestbench(dut, situations)
    await testbench.clock()
    for _ in situations.rounds(200):
        stop = random.choice((-1, -1, -1, -1, -1, -1, random.randrange(4), random.randrange(100)))
        await run(testbench, draw(), stop, late=random.random() < 0.1)
        if random.random() < 0.6:
            for _ in range(random.randint(1, 5)):
                await testbench.clock()
        if testbench.broken:
            await halt(testbench)
        situations.saw(VectorCoreSituation.START_AT_ONCE, testbench.stopped)
