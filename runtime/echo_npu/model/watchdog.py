"""The least time of a command, and the most that the watchdog leaves it, for the functional model."""

from typing import Final

from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.packets import FENCES, Opcode
from echo_npu.spec.data_types import DataType
from echo_sim.config import NpuConfig

_MACS_OF_INT8 = 4
"""Products that a processing element adds in a clock if the operands are int8; one for other types."""

_MACS_OF_BLOCKS = 2
"""Likewise with weights in blocks: each row of the left operand enters as two planes of int8."""

_BEATS_AHEAD = 128
"""Beats of a table that the memory controller asks for before they are taken."""

_UNDER_WAY: Final = 3
"""Commands that are under way together, at most."""

_RETIREMENT: Final = 64
"""Clocks, and more, from the end of the oldest command to the one in which the next is the oldest."""


class Overlap:
    """What may be under way when a command starts: the time before it is the oldest does not count.

    Commands of the vector engine start when the one before them has retired, and LOAD_PROGRAM when all have.
    """

    def __init__(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Nothing is under way, and the host knows."""
        self._last: int | None = None
        self._vague = False

    def retire(self, opcode: int) -> None:
        """The model has executed a command, which the device may still do when the next one starts."""
        self._last = None if opcode in FENCES else opcode

    def move_limit(self, *, busy: bool) -> None:
        """The host writes another limit; if something may be under way, when it comes depends on timing."""
        self._vague |= busy or self._last is not None

    def most_clocks(self, opcode: int, limit: int) -> int:
        """Return the most clocks that the next command may take; 0 for any number.

        Args:
            opcode: of the next command.
            limit: WATCHDOG.
        """
        if self._vague:
            return 0
        alone = self._last is None or opcode == Opcode.LOAD_PROGRAM
        if alone or Opcode.MATMUL not in (opcode, self._last):
            return limit
        # Each command before it ends in time, too.
        return _UNDER_WAY * (limit + _RETIREMENT) if limit else 0


def least_clocks(command: CheckedCommand, config: NpuConfig) -> int:
    """Return the least clocks of a command with any memory.

    In a clock, one beat of the result or of a program that is loaded moves, and each processing element works
    once. The time of a VECTOR command's program is counted where the program is executed.
    """
    packet = command.packet
    moved = command.dst or (command.sources[0] if packet.opcode == Opcode.LOAD_PROGRAM else None)
    if moved is None:
        return 0
    inner, outer = command.batch
    rows = moved.rows if command.vector is None else command.vector.rows
    size = moved.segments * rows * moved.row_bytes * inner * outer
    beats = -(-size // (config.data_width // 8))
    each = _MACS_OF_INT8 if packet.opcode == Opcode.MATMUL and packet.data_type == DataType.INT8 else 1
    if packet.opcode == Opcode.MATMUL and packet.blocks:
        each = _MACS_OF_BLOCKS
    return max(beats, command.macs // (config.array_rows * config.array_cols * each))


def least_clocks_to_index(row: int, row_bytes: int, config: NpuConfig) -> int:
    """Return the least clocks until a GATHER or a scatter meets the index of a row, with any memory.

    The row before it need not be asked for then, and of the others some beats may be under way.
    """
    beats = max(row - 1, 0) * row_bytes // (config.data_width // 8)
    return max(beats - _BEATS_AHEAD, 0)
