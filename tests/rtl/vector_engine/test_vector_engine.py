"""Builds vector_engine with a wide bus and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/vector_engine"
DATA_WIDTH = 128


def test_vector_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat brings several words of a program; each goes where it belongs."""
    monkeypatch.setitem(os.environ, "ENGINE_DATA_WIDTH", str(DATA_WIDTH))
    run_block(
        block_design(
            "vector_engine_tb",
            (
                "rtl/npu_pkg.sv",
                "rtl/fp32_pkg.sv",
                "rtl/vector_alu_pkg.sv",
                "rtl/vector_pkg.sv",
                "rtl/sync_fifo.sv",
                "rtl/stream_walker.sv",
                "rtl/element_packer.sv",
                "rtl/element_unpacker.sv",
                "rtl/stream_window.sv",
                "rtl/stream_input.sv",
                "rtl/row_gatherer.sv",
                "rtl/program_memory.sv",
                "rtl/vector_decoder.sv",
                "rtl/vector_alu.sv",
                "rtl/vector_core.sv",
                "rtl/vector_engine.sv",
                f"{HERE}/vector_engine_tb.sv",
            ),
            includes=("rtl",),
            parameters={"DataWidth": DATA_WIDTH},
            # The packages are more than the engine needs; its output is not looked at.
            verilator_args=("-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY"),
        ),
        f"{HERE}/cocotb_vector_engine".replace("/", "."),
    )
