"""Builds masked_memory and runs its cocotb tests."""

from tb.blocks import block_design, run_block


def test_masked_memory() -> None:
    """Random reads and writes of parts of words."""
    run_block(
        block_design("masked_memory", ("rtl/cells/masked_memory.sv",), parameters={"Words": 4, "Depth": 16}),
        "tests.rtl.cells.masked_memory.cocotb_masked_memory",
    )
