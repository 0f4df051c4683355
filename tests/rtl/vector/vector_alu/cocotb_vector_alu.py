"""vector_alu: every opcode on random words, with accumulators, folds, pauses and clears, clock by clock.

The functions of the functional model give the expected bits. Those of vector_alu_pkg have a comparison of
their own with many more operands; here it is the choice of operands and the accumulators.
"""

import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge
from numpy.typing import NDArray

from echo_npu.model.vector_alu import ALU
from echo_npu.vector.isa import ACCUMULATING, CHUNK_MULTIPLE, FOLDED, Form, Op, form_of, source_count
from tb.blocks import parameter
from tests.rtl.elements import as_number
from tests.rtl.situations import Situations
from tests.rtl.stimulus import start_clock
from tests.rtl.vector.special import SPECIAL

CONFIGURATIONS = [{"Lanes": 4, "Pipeline": 0}, {"Lanes": 16, "Pipeline": 1}]
LANES = parameter("Lanes")
PIPELINE = bool(parameter("Pipeline"))
ACCUMULATORS = 4
WORDS = ACCUMULATORS * CHUNK_MULTIPLE // LANES
WORD_BITS = 32 * LANES
LANE_OPS = [op for op in Op if form_of(op) == Form.ALU]
FOLDS = [op for op in Op if form_of(op) == Form.FOLD]
EDGES = np.array(
    [
        0, 1, 0x7F_FFFF, 0x80_0000, 0x3F80_0000, 0x4040_0000, 0x4B00_0001, 0x7F7F_FFFF, 0x7F80_0000,
        0x7FC0_0000, 0x7F80_0001, 0x8000_0000, 0x8000_0001, 0xBF80_0000, 0xFF80_0000, 0xFFFF_FFFF,
        0x7FFF_FFFF, 31, 32, 0x1FF,
    ],
    np.uint32,
)  # fmt: skip

Word = NDArray[np.uint32]

LaneOp = Enum("LaneOp", {op.name: f"{op.mnemonic} of all lanes" for op in LANE_OPS})
Accumulation = Enum("Accumulation", {op.name: f"{op.mnemonic} into an accumulator" for op in ACCUMULATING})
AccumulationNext = Enum(
    "AccumulationNext", {op.name: f"{op.mnemonic} into a word as soon as it may" for op in ACCUMULATING}
)
WholeFold = Enum("WholeFold", {op.name: f"{op.mnemonic} of sixteen partial results" for op in FOLDS})


class VectorAluSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FEWER = "an accumulation of fewer elements than lanes"
    KEPT_NEXT = "lanes that keep what the accumulation before has left in the accumulator"
    AFTER_SET = "an accumulation as soon as it may into a word that was set"
    AFTER_OTHER = "an accumulation right after one into another word"
    AFTER_PAUSE = "an accumulation after one into the same word and a pause"
    AFTER_PLAIN = "an accumulation after one into the same word and an instruction without accumulator"
    FOLD_NEXT = "a fold right after an accumulation"
    FOLD_PAUSED = "a fold with a pause between its steps"
    FOLD_LEFT = "an accumulation right after a fold, into the word that the fold names"
    CLEARED = "a clear of accumulators that are not zero"
    CLEAR_NEXT = "a clear in the clock after an accumulation"
    CLEAR_WITH = "a clear in the clock of an accumulation"
    AFTER_CLEAR = "an accumulation into the word that a clear has kept from being written"
    PAUSE = "a pause with inputs of an accumulation"
    HELD = "a result that stays in a pause"
    LAST_WORD = "an accumulation into the last word"
    DROPPED = "an instruction that was issued and does not begin"
    SPECIALS = "a special function right behind another one"
    PASSES = "a word right behind a special function"
    PASSES_NEXT = "an accumulation into the word of the one before, which is right behind a special function"
    FOLD_PASSES = "a step of a fold that is right behind words behind a special function"
    SKIPS = "a word behind a special function and a pause"
    SPECIAL_BEHIND = "a special function right behind another word"
    SHOWN = "a partial result that is not zero"


@dataclass
class AluClock:
    """The inputs of a clock."""

    op: Op
    a: Word
    b: Word
    c: Word
    execute: bool = True
    accumulate: bool = False
    fold: bool = False
    first: bool = False
    word: int = 0
    count: int = LANES
    clear: bool = False
    dropped: bool = False  # issued, but not executed

    @property
    def stores(self) -> bool:
        return self.execute and (self.accumulate or self.op == Op.ASET)

    @property
    def special(self) -> bool:
        return self.execute and self.op in SPECIAL


def draw_word() -> Word:
    """Draw the operands of all lanes: bits, small floats, small integers, edges."""
    source = np.random.default_rng(random.getrandbits(32))
    chance = random.random()
    if chance < 0.35:
        return (source.integers(-64, 64, LANES).astype(np.float32) / 8).view(np.uint32)
    if chance < 0.5:
        return source.integers(-40, 40, LANES).astype(np.int32).view(np.uint32)
    if chance < 0.75:
        return source.choice(EDGES, LANES)
    bits: Word = source.integers(0, 1 << 32, LANES, np.uint32)
    return bits


@dataclass(frozen=True)
class AluResult:
    """A result before it can be seen: its defined lanes, and the accumulator word that it goes to."""

    op: Op
    words: Word
    lanes: int
    word: int | None


class VectorAluTestbench:
    """The ports, and a model of the accumulators and of the result."""

    def __init__(self, dut: Any, situations: Situations) -> None:
        self.dut, self.situations = dut, situations
        self.stored = np.zeros((WORDS, LANES), np.uint32)  # the accumulators as they can be read
        self.coming: tuple[int, Word] | None = None  # the word that is stored at the next clock edge
        self.coming_set = False  # it comes from an ASET
        self.issued = AluClock(Op.MOV, *(np.zeros(LANES, np.uint32),) * 3, execute=False)
        self.finishing: AluResult | None = None  # with Pipeline: the instruction of the clock before
        self.late: AluResult | None = None  # a word in the clock that special functions take more
        self.step_result: Word | None = None  # that the next step of a fold goes on with
        self.result: Word | None = None  # of the last instruction
        self.lanes = 0  # those of the result that are defined
        self.last: AluClock | None = None  # the clock before
        self.earlier: AluClock | None = None  # the one before that
        self.dropped = -1  # the word whose result a clear has dropped in the clock before

    @property
    def accumulators(self) -> NDArray[np.uint32]:
        """Return the accumulators as instructions see them."""
        values = self.stored.copy()
        if self.coming is not None:
            values[self.coming[0]] = self.coming[1]
        return values

    def waits(self, now: AluClock) -> bool:
        """Return whether an instruction needs what is still being computed, so that it may not begin."""
        before = self.issued
        if not PIPELINE or not now.execute or not before.execute:
            return False
        adds_on = now.accumulate and before.stores and not before.clear and before.word == now.word
        return adds_on or (now.fold and not now.first)

    async def clock(self, coming: AluClock) -> None:
        """Do one clock: issue an instruction, drive the operands of the last one, judge the outputs."""
        dut = self.dut
        now, self.issued = self.issued, coming
        dut.issue_i.value = int(coming.execute or coming.dropped)
        dut.opcode_i.value, dut.accumulate_i.value = int(coming.op), int(coming.accumulate)
        dut.fold_i.value, dut.fold_first_i.value = int(coming.fold), int(coming.first)
        dut.word_i.value, dut.count_i.value = coming.word, coming.count
        dut.special_i.value = int(coming.op in SPECIAL)
        dut.clear_i.value, dut.execute_i.value = int(now.clear), int(now.execute)
        dut.a_i.value, dut.b_i.value, dut.c_i.value = as_number(now.a), as_number(now.b), as_number(now.c)
        partial = random.randrange(ACCUMULATORS * CHUNK_MULTIPLE)
        if self.last is not None and random.random() < 0.5:
            partial = self.last.word * LANES + random.randrange(LANES)
        dut.partial_i.value = partial
        await RisingEdge(dut.clk_i)
        expected = int(self.stored.reshape(-1)[partial])
        assert int(dut.partial_o.value) == expected, f"partial result {partial}"
        self.situations.saw(VectorAluSituation.SHOWN, expected)
        if self.result is not None:
            shown = int(dut.result_o.value) & (1 << 32 * self.lanes) - 1
            assert shown == as_number(self.result[: self.lanes]), self.last
        self.note(now)
        self.follow(now)

    def follow(self, now: AluClock) -> None:
        """Pass the clock edge."""
        leaving = None
        if now.execute:
            lanes = 1 if now.fold else now.count if now.accumulate else LANES
            word = now.word if now.stores and not now.clear else None
            leaving = AluResult(now.op, self.computed(now), lanes, word)
        if PIPELINE:
            leaving, self.finishing = self.finishing, leaving
        self.stored = self.accumulators
        self.coming, self.dropped = None, -1
        if leaving is not None and leaving.op not in SPECIAL:
            self.step_result = leaving.words
            if leaving.word is not None and not now.clear:
                self.coming, self.coming_set = (leaving.word, leaving.words), leaving.op == Op.ASET
        if leaving is not None and (leaving.op in SPECIAL or self.late is not None):
            shown, self.late = self.late, leaving
        else:
            shown, self.late = self.late or leaving, None
        if shown is not None:
            self.result, self.lanes = shown.words, shown.lanes
        if now.clear:
            self.stored = np.zeros_like(self.stored)
            self.dropped = now.word if now.stores else -1
        self.earlier, self.last = self.last, now

    @np.errstate(all="ignore")
    def computed(self, now: AluClock) -> Word:
        """Return the result of an instruction, in all lanes."""
        if now.fold:
            before = now.a if self.step_result is None else self.step_result
            return now.a.copy() if now.first else ALU[FOLDED[now.op]](before, now.a)
        if now.accumulate:
            old = self.accumulators[now.word]
            three = ACCUMULATING[now.op] == 2
            new = ALU[now.op](now.a, now.b, old) if three else ALU[now.op](old, now.a)
            return np.where(np.arange(LANES) < now.count, new, old).astype(np.uint32)
        if now.op in (Op.MOV, Op.SWAP, Op.ASET):
            return now.a.copy()  # the core exchanges neighbours
        sources = (now.a, now.b, now.c)[: source_count(now.op)]
        return np.asarray(ALU[now.op](*sources))

    def note(self, now: AluClock) -> None:
        """Count the situations of a clock."""
        saw, last = self.situations.saw, self.last
        coming = self.coming is not None
        saw(VectorAluSituation.CLEARED, now.clear and self.stored.any())
        stored = last is not None and last.stores and not last.clear
        saw(VectorAluSituation.CLEAR_NEXT, now.clear and stored)
        saw(VectorAluSituation.CLEAR_WITH, now.clear and now.stores)
        saw(VectorAluSituation.PAUSE, not now.execute and now.accumulate and not now.clear)
        saw(VectorAluSituation.DROPPED, now.dropped and now.accumulate and coming)
        saw(VectorAluSituation.HELD, not now.execute and last is not None and not last.execute)
        if not now.execute or now.clear:
            return
        if form_of(now.op) == Form.ALU and not now.accumulate:
            saw(LaneOp[now.op.name])
        saw(VectorAluSituation.FOLD_NEXT, now.fold and coming)
        saw(VectorAluSituation.SPECIALS, now.special and last is not None and last.special)
        ordinary = last is not None and last.execute and not last.special
        saw(VectorAluSituation.SPECIAL_BEHIND, now.special and ordinary)
        paused = last is not None and not last.execute
        after = self.earlier is not None and self.earlier.special
        saw(VectorAluSituation.SKIPS, not now.special and paused and after)
        saw(VectorAluSituation.PASSES, not now.special and last is not None and last.special)
        late = self.late is not None and self.late.op not in SPECIAL
        saw(VectorAluSituation.FOLD_PASSES, now.fold and not now.first and late)
        same_word = self.late is not None and self.late.word == now.word
        saw(VectorAluSituation.PASSES_NEXT, now.accumulate and late and same_word)
        if not now.accumulate or last is None:
            return
        same = self.coming is not None and self.coming[0] == now.word
        saw(Accumulation[now.op.name])
        saw(AccumulationNext[now.op.name], same and now.count == LANES)
        saw(VectorAluSituation.FEWER, now.count < LANES)
        saw(VectorAluSituation.KEPT_NEXT, same and now.count < LANES)
        saw(VectorAluSituation.AFTER_SET, same and self.coming_set)
        saw(VectorAluSituation.AFTER_OTHER, stored and last.word != now.word)
        saw(VectorAluSituation.FOLD_LEFT, last.execute and last.fold and last.word == now.word)
        saw(VectorAluSituation.AFTER_CLEAR, self.dropped == now.word)
        saw(VectorAluSituation.LAST_WORD, now.word == WORDS - 1)
        named = last.word == now.word and self.stored[now.word].any()
        saw(VectorAluSituation.AFTER_PAUSE, named and not last.execute)
        saw(VectorAluSituation.AFTER_PLAIN, named and last.execute and not last.stores)


class InstructionDraw:
    """Random instructions that keep to a few words of the accumulators."""

    def __init__(self) -> None:
        self.words = [0]
        self.pause = 0.0

    def vary(self) -> None:
        """Draw other words and another pace."""
        self.words = random.choices(range(WORDS), k=random.choice((1, 2, 3, 8)))
        self.pause = random.choice((0.0, 0.2, 0.7))

    def instruction(self) -> AluClock:
        """Draw an instruction or a pause."""
        word, a, b, c = random.choice(self.words), draw_word(), draw_word(), draw_word()
        clear = random.random() < 0.03
        chance = random.random()
        if chance < 0.5:
            count = random.choice((LANES, LANES, random.randint(1, LANES)))
            now = AluClock(
                random.choice(list(ACCUMULATING)), a, b, c, accumulate=True, word=word, count=count
            )
        elif chance < 0.6:
            now = AluClock(Op.ASET, np.full(LANES, a[0], np.uint32), b, c, word=word)
        else:
            count = random.randint(1, LANES)
            now = AluClock(random.choice(LANE_OPS), a, b, c, word=word, count=count)
        now.clear, now.execute = clear, random.random() >= self.pause
        now.dropped = not now.execute and random.random() < 0.3
        return now

    def step(self, op: Op, *, first: bool) -> AluClock:
        """Draw a step of a fold."""
        word = random.choice(self.words)
        return AluClock(op, draw_word(), draw_word(), draw_word(), fold=True, first=first, word=word, count=1)

    def idle(self) -> AluClock:
        """Draw a pause."""
        now = self.instruction()
        now.dropped = now.dropped or (now.execute and random.random() < 0.3)
        now.execute = now.clear = False
        now.fold = random.random() < 0.5
        return now


@cocotb.test()
async def random_instructions(dut: Any) -> None:
    """Every result and every partial result is that of the functional model, in the clock that the header
    names."""
    situations = Situations(VectorAluSituation, LaneOp, Accumulation, AccumulationNext, WholeFold)
    await start_clock(dut)
    testbench, draw = VectorAluTestbench(dut, situations), InstructionDraw()

    async def play(now: AluClock) -> None:
        """Do the clock of an instruction, behind a pause if it has to wait."""
        if testbench.waits(now):
            await testbench.clock(draw.idle())
        await testbench.clock(now)

    dut.clear_i.value = 1
    await RisingEdge(dut.clk_i)
    for _ in situations.rounds(900):
        draw.vary()
        for _ in range(random.randint(1, 12)):
            await play(draw.instruction())
        if random.random() < 0.4:
            op, paused = random.choice(FOLDS), False
            for number in range(CHUNK_MULTIPLE):
                await play(draw.step(op, first=number == 0))
                while random.random() < draw.pause:
                    await testbench.clock(draw.idle())
                    paused = True
            situations.saw(WholeFold[op.name])
            situations.saw(VectorAluSituation.FOLD_PAUSED, paused)
