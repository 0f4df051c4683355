"""The memory model alone: its data, its timing, and its protocol checker, which finds every broken rule."""

import pytest

from tb.blocks import block_design, run_block


@pytest.mark.sim
@pytest.mark.parametrize("data_width", [64, 256])
def test_dram_model(data_width: int) -> None:
    run_block(
        block_design(
            "dram_tb",
            ["rtl/cells/clock_gate.sv", "runtime/echo_sim/board/dram_model.sv", "tests/sim/dram_tb.sv"],
            parameters={"DataWidth": data_width},
            cpp=["runtime/echo_sim/board/dram.cpp"],
        ),
        "tests.sim.cocotb_dram_model",
    )
