"""Run the tests of register_block with odd capability values."""

import pytest

from tb.blocks import run_module

# Every value differs from the default, so a constant in its place would fail.
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
    "WeightMib": 0xABC,
    "ActivationMib": 0x789A,
}


def test_register_block() -> None:
    """Registers, pulses, interrupts and counters."""
    run_module(__file__, **PARAMETERS)


def test_clock_by_clock() -> None:
    """Random accesses beside events and clears, against a model."""
    run_module(__file__, "cocotb_clock_by_clock", **PARAMETERS)


def test_a_broken_rule_of_the_bus_fails() -> None:
    """The report has the rule's name, the offender and the rule's sentence."""
    with pytest.raises(AssertionError) as caught:
        run_module(__file__, "cocotb_broken_rule", **PARAMETERS)
    assert "AXI4LITE_ERRM_AWVALID_STABLE: the host: VALID must stay high until READY" in str(caught.value)
