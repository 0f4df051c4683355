"""The least time of a command, for the functional model's watchdog."""

from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.packets import Opcode
from echo_npu.spec.data_types import DataType
from echo_sim.config import NpuConfig

_MACS_OF_INT8 = 4
"""Products that a processing element adds in a clock if the operands are int8; one for other types."""

_MACS_OF_BLOCKS = 2
"""Likewise with weights in blocks: each row of the left operand enters as two planes of int8."""

_BEATS_AHEAD = 128
"""Beats of a table that the memory controller asks for before they are taken."""


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
    size = moved.segments * moved.rows * moved.row_bytes * inner * outer
    beats = -(-size // (config.data_width // 8))
    each = _MACS_OF_INT8 if packet.opcode == Opcode.MATMUL and packet.data_type == DataType.INT8 else 1
    if packet.opcode == Opcode.MATMUL and packet.blocks:
        each = _MACS_OF_BLOCKS
    return max(beats, command.macs // (config.array_rows * config.array_cols * each))


def least_clocks_to_index(row: int, row_bytes: int, config: NpuConfig) -> int:
    """Return the least clocks until GATHER meets the index of a row, with any memory.

    The row before it need not be asked for then, and of the others some beats may be under way.
    """
    beats = max(row - 1, 0) * row_bytes // (config.data_width // 8)
    return max(beats - _BEATS_AHEAD, 0)
