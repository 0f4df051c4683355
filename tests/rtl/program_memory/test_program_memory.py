"""Builds program_memory with its testbench and runs its cocotb tests."""

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/program_memory"


def test_program_memory() -> None:
    """Random loads and reads, limits, the built-in program."""
    run_block(
        block_design(
            "program_memory_tb",
            ("rtl/vector_pkg.sv", "rtl/program_memory.sv", f"{HERE}/program_memory_tb.sv"),
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the memory needs
        ),
        f"{HERE}/cocotb_program_memory".replace("/", "."),
    )
