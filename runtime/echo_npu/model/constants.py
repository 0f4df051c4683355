"""The registers that a hardware configuration fixes, and those that only keep what is written to them."""

from typing import Final

from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import DataType
from echo_npu.spec.status import ALL_IRQS
from echo_sim.config import NpuConfig

_BLOCK_FIELDS: Final = (regs.CAP_TYPES_Q8_0, regs.CAP_TYPES_Q4_0, regs.CAP_TYPES_Q4_1)

STORED_BITS: Final = {
    regs.IRQ_ENABLE: ALL_IRQS,
    regs.WATCHDOG: 0xFFFF_FFFF,
    regs.AXI_PROT: regs.AXI_PROT_PROT.mask,
    regs.RING_BASE: 0xFFFF_FFFF,
    regs.RING_SIZE: regs.RING_SIZE_SLOTS.mask,
    regs.GUARD_BASE: regs.GUARD_BASE_ADDRESS.mask,
    regs.GUARD_SIZE: regs.GUARD_SIZE_BLOCKS.mask,
    regs.RING_BASE_HIGH: regs.RING_BASE_HIGH_ADDRESS.mask,
    regs.GUARD_BASE_HIGH: regs.GUARD_BASE_HIGH_ADDRESS.mask,
}
"""Plain configuration registers, and their bits."""


def constant_registers(config: NpuConfig) -> dict[int, int]:
    """Return ID, VERSION and the capability registers of a configuration: offset to value, ID first."""
    tile = config.array_rows * config.array_cols
    return {
        regs.ID: regs.REGISTERS["ID"].reset,
        regs.VERSION: regs.REGISTERS["VERSION"].reset,
        regs.CAP_ARRAY: regs.CAP_ARRAY_ROWS.put(config.array_rows)
        | regs.CAP_ARRAY_COLS.put(config.array_cols),
        regs.CAP_VECTOR: regs.CAP_VECTOR_LANES.put(config.vector_lanes)
        | regs.CAP_VECTOR_DATA_WIDTH.put(config.data_width),
        regs.CAP_TYPES: sum(1 << dtype for dtype in DataType)
        | sum(field.put(int(config.has_blocks)) for field in _BLOCK_FIELDS)
        | regs.CAP_TYPES_HALF_B.put(1),
        regs.CAP_QUEUE: regs.CAP_QUEUE_DEPTH.put(config.queue_depth) | regs.REGISTERS["CAP_QUEUE"].reset,
        regs.CAP_SCRATCH_A: 4 * config.block_m * config.block_k_tiles * config.array_rows,
        regs.CAP_SCRATCH_B: 4 * config.block_k_tiles * config.block_n_tiles * tile,
        regs.CAP_SCRATCH_ACC: 4 * config.acc_entries * config.array_cols,
        regs.CAP_VECTOR_LENGTH: config.vector_length,
        regs.CAP_VECTOR_ROW: config.row_elements,
        regs.CAP_PROGRAM: config.program_words,
        regs.CAP_MEMORY: regs.CAP_MEMORY_WEIGHT_MIB.put(config.weight_mib)
        | regs.CAP_MEMORY_ACTIVATION_MIB.put(config.activation_mib),
    }
