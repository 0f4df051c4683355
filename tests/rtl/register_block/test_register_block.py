"""Builds register_block with odd capability values and runs its cocotb tests."""

import pytest

from tb.designs import HDL, block_design
from tb.runner import run_block

SOURCES = (
    "rtl/npu_perf_pkg.sv",
    "rtl/regs/npu_regs_pkg.sv",
    "rtl/regs/npu_regs.sv",
    "rtl/perf_counters.sv",
    "rtl/register_block.sv",
    HDL / "axi_channel_checker.sv",
    HDL / "axil_checker.sv",
    "tests/rtl/register_block/register_block_rules.sv",
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


DESIGN = block_design("register_block", SOURCES, parameters=PARAMETERS)


def test_register_block() -> None:
    """Registers, pulses, interrupts and counters."""
    run_block(DESIGN, "tests.rtl.register_block.cocotb_register_block")


def test_a_broken_rule_of_the_bus_fails() -> None:
    """The report names the rule, who broke it, and what it says."""
    with pytest.raises(AssertionError) as caught:
        run_block(DESIGN, "tests.rtl.register_block.cocotb_broken_rule")
    assert "AXI4LITE_ERRM_AWVALID_STABLE: the host: VALID must stay high until READY" in str(caught.value)
