"""systolic_row: every step with its own enable, float32 and int8, to the bit."""

import random
from enum import Enum
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import RisingEdge

from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import Words, draw_words, products, sums
from tests.rtl.situations import Situations
from tests.rtl.stimulus import start_clock

CONFIGURATIONS = [{"Cols": 4, "Pipeline": 0}, {"Cols": 4, "Pipeline": 1}]
COLS = parameter("Cols")
PIPELINE = bool(parameter("Pipeline"))


class SystolicRowSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    FLOAT = "a float32 product added"
    INTEGER = "products of int8 added"
    UNSIGNED = "products of bytes without a sign"
    CHANGE = "a product of one kind right behind one of the other"
    SUCCESSOR = "new weights written while the old ones work"
    SAME_CLOCK = "a swap in the clock of the next weights' write"
    IDLE = "a sum that holds while nothing is added"


def show(ports: Any, words: Words) -> None:
    """Set the elements of an unpacked port."""
    for column, word in enumerate(words):
        ports[column].value = int(word)


@cocotb.test()
async def random_steps(dut: Any) -> None:
    """Weights change when enabled, products meet the sums of their clock, and nothing else changes."""
    situations = Situations(SystolicRowSituation)
    await start_clock(dut)
    successor: Words | None = None
    weights: Words | None = None
    product: Words | None = None
    total: Words | None = None
    added: Words | None = None  # with Pipeline: the sum that is being finished
    added_integer = False
    was_integer = False
    multiplied = False  # in the last clock
    used_since_write = True
    busy = 0.5
    for turn in situations.rounds(12_000):
        if turn % 100 == 0:
            busy = random.choice((1.0, 0.5, 0.1))
        write, swap = random.random() < 0.2, successor is not None and random.random() < 0.2
        multiply = weights is not None and random.random() < busy
        integer, unsigned, add = random.random() < 0.5, random.random() < 0.5, multiplied
        activation = int(draw_words(1)[0])
        written, above = draw_words(COLS), draw_words(COLS)
        dut.write_i.value, dut.swap_i.value = int(write), int(swap)
        dut.multiply_i.value, dut.multiply_integer_i.value = multiply, integer
        dut.multiply_unsigned_i.value = unsigned
        dut.activation_i.value = activation
        dut.add_i.value, dut.add_integer_i.value = int(add), int(was_integer)
        # Without Pipeline these two have no effect.
        finish = added is not None if PIPELINE else random.random() < 0.5
        dut.finish_i.value, dut.finish_integer_i.value = int(finish), int(added_integer)
        show(dut.write_data_i, written)
        show(dut.sum_i, above)
        await RisingEdge(dut.clk_i)
        if total is not None:
            shown = np.array([int(dut.sum_o[column].value) for column in range(COLS)], np.uint32)
            assert np.array_equal(shown, total), f"{shown} instead of {total}"
            situations.saw(SystolicRowSituation.IDLE, not (finish if PIPELINE else add))
        if PIPELINE:
            total, added = (total if added is None else added), None
        if add:
            assert product is not None
            result = sums(above, product, integer=was_integer)
            if PIPELINE:
                added, added_integer = result, was_integer
            else:
                total = result
            situations.saw(SystolicRowSituation.INTEGER if was_integer else SystolicRowSituation.FLOAT)
            situations.saw(SystolicRowSituation.CHANGE, multiply and integer != was_integer)
        if multiply:
            assert weights is not None
            product = products(activation, weights, integer=integer, unsigned=unsigned)
            negative = any(activation >> 8 * byte & 0x80 for byte in range(4))
            situations.saw(SystolicRowSituation.UNSIGNED, integer and unsigned and negative)
            situations.saw(SystolicRowSituation.SUCCESSOR, not used_since_write)
            used_since_write = True
        multiplied, was_integer = multiply, integer
        if swap:
            weights = successor
            situations.saw(SystolicRowSituation.SAME_CLOCK, write)
        if write:
            successor = written
            used_since_write = False
