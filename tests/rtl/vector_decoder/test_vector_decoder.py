"""Builds vector_decoder with its testbench and runs its cocotb tests."""

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/vector_decoder"


def test_vector_decoder() -> None:
    """All opcodes with all operand codes."""
    run_block(
        block_design(
            "vector_decoder_tb",
            ("rtl/vector_pkg.sv", "rtl/vector_decoder.sv", f"{HERE}/vector_decoder_tb.sv"),
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the decoder needs
        ),
        f"{HERE}/cocotb_vector_decoder".replace("/", "."),
    )
