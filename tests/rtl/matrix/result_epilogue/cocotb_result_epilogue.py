"""result_epilogue: every step on random sums and corners, with gaps and aborts."""

import random
from collections import deque
from enum import Enum
from typing import Any

import cocotb
from cocotb.triggers import FallingEdge, RisingEdge

from echo_npu.spec.data_types import DataType, OutType
from tb.blocks import parameter
from tests.rtl.matrix.arithmetic import as_number, draw_words
from tests.rtl.matrix.commands import MatrixCommand
from tests.rtl.matrix.epilogues import draw_epilogue, stored
from tests.rtl.situations import Situations
from tests.rtl.stimulus import reset

CONFIGURATIONS = [{"Tile": 4}]
TILE, STAGES = parameter("Tile"), 5
ROWS, TILES = 8, 4


class ResultEpilogueSituation(Enum):
    """What the module's header promises, as it can be seen at the ports."""

    ALPHA = "alpha"
    ROW_SCALE = "a scale for each row"
    COL_SCALE = "a scale for each column"
    BIAS = "a bias"
    RELU = "relu"
    ALL_STEPS = "all steps on int8"
    NO_STEP = "no step at all"
    FP32 = "results of float32"
    BF16 = "results of bfloat16"
    FP16 = "results of float16"
    INT8 = "results of int8"
    FLOAT32 = "float32 of int8"
    INT32 = "sums of int8 as they are"
    FULL = "an entry in every clock for as long as one stays inside"
    ABORT = "an abort with entries inside"


def count(situations: Situations, command: MatrixCommand) -> None:
    """Count the situations of a command."""
    for step, asked in command.steps.items():
        situations.saw(ResultEpilogueSituation[step], asked)
    steps = command.steps.values()
    situations.saw(ResultEpilogueSituation.NO_STEP, not any(steps))
    situations.saw(ResultEpilogueSituation.ALL_STEPS, all(steps) and command.kind == DataType.INT8)
    if command.result == OutType.OWN:
        situations.saw(ResultEpilogueSituation[command.kind.name])
    elif command.kind == DataType.INT8:
        situations.saw(ResultEpilogueSituation[command.result.name])


@cocotb.test()
async def random_entries(dut: Any) -> None:
    """Every entry leaves after a fixed number of clocks, with the bits that its command defines."""
    situations = Situations(ResultEpilogueSituation)
    await reset(dut)
    for _ in situations.rounds(150):
        command = draw_epilogue(MatrixCommand())
        count(situations, command)
        dut.command_i.value = command.bits(len(dut.command_i))
        row_scales = [int(word) for word in draw_words(ROWS)]
        columns, biases = ([draw_words(TILE) for _ in range(TILES)] for _ in range(2))
        expected: deque[tuple[int, bytes]] = deque()
        pace = random.choice((1.0, 0.5, 0.1))
        streak = columns_shown = bias_shown = 0
        for clock in range(60 + STAGES):
            # Scale indices come from registers, so they are valid early in the clock.
            dut.valid_i.value = valid = int(clock < 60 and random.random() < pace)
            sums, row, tile = draw_words(TILE), random.randrange(ROWS), random.randrange(TILES)
            dut.sums_i.value, dut.row_i.value, dut.tile_i.value = as_number(sums), row, tile
            abort = clock < 60 and random.random() < 0.003
            dut.abort_i.value = int(abort)
            await FallingEdge(dut.clk_i)
            dut.row_scale_i.value = row_scales[int(dut.scale_row_o.value) % ROWS]
            # Those of columns have been asked for a clock before.
            dut.column_scales_i.value, dut.bias_i.value = columns_shown, bias_shown
            if dut.scale_read_o.value:
                columns_shown = as_number(columns[int(dut.scale_tile_o.value) % TILES])
            if dut.bias_read_o.value:
                bias_shown = as_number(biases[int(dut.bias_tile_o.value) % TILES])
            await RisingEdge(dut.clk_i)
            due = bool(expected) and expected[0][0] == clock
            assert bool(dut.valid_o.value) == due
            if due:
                result = expected.popleft()[1]
                shown = int(dut.result_o.value).to_bytes(4 * TILE, "little")
                assert shown == result.ljust(4 * TILE, b"\0"), command
            if valid:
                result = stored(command, sums, row_scales[row], columns[tile], biases[tile])
                expected.append((clock + STAGES, result))
            streak = streak + 1 if valid else 0
            situations.saw(ResultEpilogueSituation.FULL, streak > STAGES)
            if abort:
                situations.saw(ResultEpilogueSituation.ABORT, expected)
                expected.clear()
        assert not expected
