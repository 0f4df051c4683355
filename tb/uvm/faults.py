"""Commands that a refused memory range makes fail, as far as that can be said without a clock."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from echo_npu.commands.checked import CheckedCommand, MemoryOperand
from echo_npu.commands.command import as_commands
from echo_npu.commands.packets import Opcode
from echo_sim.config import NpuConfig
from tb.checking import accepted, loaded_programs
from tb.scoreboards.accuracy import addresses
from tb.stimulus.steps import Fault

PAGE = 4096


class Suspects(NamedTuple):
    """Numbers of commands, from 0: those that may meet the fault, and the first that must (None: none
    must)."""

    possible: frozenset[int]
    certain: int | None

    def explain(self, failed: int | None) -> bool:
        """Return whether command `failed`, or none, can be the one that failed."""
        if failed is None:
            return self.certain is None
        return failed in self.possible and (self.certain is None or failed <= self.certain)


def commands_of(packets: Sequence[bytes], config: NpuConfig) -> list[CheckedCommand | None]:
    """Return the commands in consecutive packets; None for a refused one."""
    programs = loaded_programs(config.program_words)
    return [accepted(command, programs, blocks=config.has_blocks) for command in as_commands(packets)]


def suspects(commands: Sequence[CheckedCommand | None], faults: Sequence[Fault], beat: int) -> Suspects:
    """Return the commands that meet the faults; `beat` is the bus width in bytes.

    A program need not read all of a stream, and a GATHER reads the rows that it is told, so these may miss a
    fault in their operand. Destinations are written completely, but for a scatter's table. A command after
    the first that must fail may meet the fault earlier, but is not the one reported.
    """
    possible: set[int] = set()
    certain: int | None = None
    for number, command in enumerate(commands):
        if command is None:
            continue
        for fault in faults:
            operands = [command.dst] if fault.write else list(command.sources)
            hit = [
                place
                for place, operand in enumerate(operands)
                if operand is not None and _touches(operand, command.batch, fault, beat)
            ]
            if not hit:
                continue
            possible.add(number)
            vague = command.vector is not None or (command.packet.opcode == Opcode.GATHER and hit == [0])
            if fault.write:
                vague = command.vector is not None and bool(command.vector.table_rows)
            if certain is None and not vague:
                certain = number
    return Suspects(frozenset(possible), certain)


def explains_address(faults: Sequence[Fault], address: int) -> bool:
    """Return whether a burst that starts at `address` can touch a fault; no burst crosses a page."""
    return any(fault.low // PAGE * PAGE <= address < fault.high for fault in faults)


def _touches(operand: MemoryOperand, batch: tuple[int, int], fault: Fault, beat: int) -> bool:
    runs = addresses(operand, batch).reshape(-1)
    first = runs // beat * beat
    last = -(-(runs + operand.row_bytes) // beat) * beat
    return bool(np.any((first < fault.high) & (fault.low < last)))
