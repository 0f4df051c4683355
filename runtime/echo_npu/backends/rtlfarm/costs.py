"""Rough cycles of a command, by which a run is cut into chunks of about the same length."""

from typing import Final

from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.model.watchdog import least_clocks
from echo_sim.config import NpuConfig

_START: Final = 150
"""Cycles from one command to the next, with the latency of memory."""

_INSTRUCTIONS: Final = 12
"""Instructions of a vector program for each word of a row, on average."""


def roughly(packet: NpuCommandPacket, config: NpuConfig) -> float:
    """Return about how long a command takes if it is a product, as far as its packet says."""
    if packet.opcode != Opcode.MATMUL:
        return _START
    m, k, n = (max(each, 0) for each in (packet.m, packet.k, packet.n))
    weights = k * n * (1 if packet.blocks else packet.right_type.itemsize)
    return _START + max(
        weights / (config.data_width // 8), m * k * n / (config.array_rows * config.array_cols)
    )


def estimated_cycles(command: CheckedCommand, config: NpuConfig) -> float:
    """Return about how long a command takes.

    The balance between workers depends on it, and how close a sample comes to the cycles of all chunks.
    """
    inner, outer = command.batch
    operands = command.sources
    if command.packet.opcode == Opcode.GATHER and command.dst is not None:
        operands = (command.dst, *operands[1:])  # of the table, as many rows as there are indices
    moved = sum(each.rows * each.row_bytes * each.segments for each in operands)
    cycles: float = max(least_clocks(command, config), moved * inner * outer / (config.data_width // 8))
    if command.vector is not None:
        words = command.vector.rows * command.vector.cols * command.vector.repeats * inner * outer
        cycles = max(cycles, _INSTRUCTIONS * words / config.vector_lanes)
    return _START + cycles
