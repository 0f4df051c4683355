"""How long a program may keep the device busy before it counts as hanging."""

from typing import Final

from echo_npu.model.watchdog import least_clocks
from echo_sim.config import NpuConfig
from tb.stimulus.steps import CommandStep, StepProgram
from tb.uvm.faults import commands_of

_SLOWNESS: Final = 8
"""Cycles for each that a command takes at least."""

_CYCLES_OF_BATCH: Final = 500
"""For a batch, whose operands and vectors are asked for anew: some round trips to a slow memory."""


def patience(program: StepProgram, config: NpuConfig) -> int:
    """Return the cycles that the commands of a program may take besides those that small ones take."""
    packets = [each for step in program.steps if isinstance(step, CommandStep) for each in step.packets]
    cycles = 0
    for command in commands_of(packets, config):
        if command is not None:
            inner, outer = command.batch
            cycles += _SLOWNESS * least_clocks(command, config) + _CYCLES_OF_BATCH * inner * outer
    return cycles
