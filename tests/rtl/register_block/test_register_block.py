"""Builds register_block with odd capability values and runs its cocotb tests."""

from tb.designs import block_design
from tb.runner import run_block

SOURCES = (
    "rtl/npu_perf_pkg.sv",
    "rtl/regs/npu_regs_pkg.sv",
    "rtl/regs/npu_regs.sv",
    "rtl/perf_counters.sv",
    "rtl/register_block.sv",
)
# Every value differs from the default, so that a constant in their place would be seen.
PARAMETERS = {
    "ArrayRows": 8,
    "ArrayCols": 4,
    "VectorLanes": 4,
    "DataWidth": 128,
    "QueueDepth": 16,
    "ScratchABytes": 0x1234,
    "ScratchBBytes": 0x23456,
    "ScratchAccBytes": 0x345678,
    "VectorLength": 0x456,
    "RowElements": 0x56789A,
    "ProgramWords": 0x6789,
}


def test_register_block() -> None:
    """Registers, pulses, interrupts and counters."""
    run_block(
        block_design("register_block", SOURCES, parameters=PARAMETERS),
        "tests.rtl.register_block.cocotb_register_block",
    )
