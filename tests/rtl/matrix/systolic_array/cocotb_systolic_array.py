"""systolic_array: rows of any kind at any pace, weights that change in between, resets."""

import random
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge

from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import Words, as_number, as_words, draw_words, products, sums
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [{"Tile": 4, "Pipeline": 0}, {"Tile": 4, "Pipeline": 1}, {"Tile": 8, "Pipeline": 1}]
TILE = parameter("Tile")
SKEW = 1 + parameter("Pipeline")  # clocks from row to row
SUM_IN = 3  # clocks behind a row's data
HALF = TILE // 2
MIDDLE_OUT = SUM_IN + SKEW * HALF
SUM_OUT = SUM_IN + SKEW * TILE


class SystolicArraySituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FULL = "a row in every clock for as long as a row stays inside"
    MIXED = "rows of both kinds inside"
    HALVES = "a row in halves between rows that are not"
    OVERLAP = "rows inside that use old and new weights"
    AT_ONCE = "new weights that are taken over while their last rows are still written"
    SOON = "the next weights written in the clock in which row 0 takes its own over"
    SWAPS = "new weights for two rows one behind the other"
    RESET = "a reset with rows inside"


@dataclass(frozen=True)
class Entered:
    """A row of activations inside: when it entered, its words, and its weights [k, n]."""

    clock: int
    words: Words
    weights: list[Words]
    integer: bool
    unsigned: bool
    halves: bool

    def result(self, above: Words, first: int, last: int) -> Words:
        """Return the sums below some of the array's rows, from `first` to before `last`."""
        total = above
        for word, weights in zip(self.words[first:last], self.weights[first:last], strict=True):
            product = products(int(word), weights, integer=self.integer, unsigned=self.unsigned)
            total = sums(total, product, integer=self.integer)
        return total


@cocotb.test()
async def random_rows(dut: Any) -> None:
    """Every row is multiplied by the weights of its time; its sums leave when the header says."""
    situations = Situations(SystolicArraySituation)
    await reset(dut)
    successor: list[Words] = []  # the set that is being written, or was written last
    taken = True  # it has entered the array with a row
    gapless = False  # its rows come one a clock, so it may be taken with the second
    weights: list[Words] = []
    inside: deque[tuple[Entered, Words]] = deque()  # with the sums that they add to
    entered: deque[Entered] = deque()  # of them, those whose sums have not come
    pace, writing = 0.5, 0.5
    last_swap, streak = -10, 0
    for clock in situations.rounds(12_000):
        if clock % 80 == 0:
            pace, writing = random.choice((1.0, 0.5, 0.05)), random.choice((1.0, 1.0, 0.3))
        unfinished = 0 < len(successor) < TILE
        begin = not unfinished and taken and random.random() < writing
        fill = begin or (unfinished and (gapless or random.random() < 0.6))
        row, words, above = draw_words(TILE), draw_words(TILE), draw_words(TILE)
        swap = not taken and (gapless or not unfinished) and random.random() < 0.5
        valid = bool(weights or swap) and random.random() < pace
        swap, integer, unsigned = swap and valid, random.random() < 0.5, random.random() < 0.5
        halves = integer and random.random() < 0.5
        if begin:
            successor, gapless = [], random.random() < 0.7
            situations.saw(SystolicArraySituation.SOON, clock == last_swap + 1)
        dut.weight_write_i.value = int(fill)
        dut.weight_row_i.value = len(successor) if fill else random.randrange(TILE)
        dut.valid_i.value, dut.swap_i.value, dut.integer_i.value = int(valid), int(swap), int(integer)
        dut.unsigned_i.value, dut.halves_i.value = int(unsigned), int(halves)
        dut.weight_i.value, dut.data_i.value, dut.sum_i.value = map(as_number, (row, words, above))
        await RisingEdge(dut.clk_i)
        if swap:
            situations.saw(SystolicArraySituation.AT_ONCE, len(successor) < TILE)
            situations.saw(SystolicArraySituation.SWAPS, clock - last_swap <= TILE + 1)
            situations.saw(SystolicArraySituation.OVERLAP, inside)
            weights, taken, last_swap = successor, True, clock  # the rest of a set without gaps is on its way
        if fill:
            successor.append(row)
        if begin:
            taken = False
        if valid:
            situations.saw(SystolicArraySituation.MIXED, entered and entered[-1].integer != integer)
            cut = entered and inside and halves != entered[-1].halves
            situations.saw(SystolicArraySituation.HALVES, cut and halves != inside[-1][0].halves)
            entered.append(Entered(clock, words, weights, integer, unsigned, halves))
        streak = streak + 1 if valid else 0
        situations.saw(SystolicArraySituation.FULL, streak >= SUM_OUT)
        if entered and entered[0].clock == clock - SUM_IN:
            inside.append((entered.popleft(), above))
        for passing, terms in inside:
            if passing.clock == clock - MIDDLE_OUT:
                expected, shown = passing.result(terms, 0, HALF), as_words(int(dut.middle_o.value), TILE)
                assert np.array_equal(shown, expected), f"{shown} instead of {expected} in the middle"
        if inside and inside[0][0].clock == clock - SUM_OUT:
            leaving, terms = inside.popleft()
            upper = np.zeros(TILE, np.uint32) if leaving.halves else leaving.result(terms, 0, HALF)
            expected, shown = leaving.result(upper, HALF, TILE), as_words(int(dut.sum_o.value), TILE)
            assert np.array_equal(shown, expected), f"{shown} instead of {expected}"
        if random.random() < 0.002:
            situations.saw(SystolicArraySituation.RESET, inside and entered)
            dut.rst_ni.value = 0
            dut.valid_i.value = dut.weight_write_i.value = 0
            await ClockCycles(dut.clk_i, 3)
            dut.rst_ni.value = 1
            inside.clear()
            entered.clear()
            # Weights have no reset: the next row brings new ones.
            successor, weights, taken, last_swap = [], [], True, -10
