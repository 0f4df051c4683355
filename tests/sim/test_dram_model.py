"""The memory model by itself: its data, its timing, and that its protocol checker sees every broken rule."""

from __future__ import annotations

import pytest

from tb.designs import block_design
from tb.runner import run_block


@pytest.mark.sim
@pytest.mark.parametrize("data_width", [64, 256])
def test_dram_model(data_width: int) -> None:
    run_block(
        block_design(
            "dram_tb",
            ["tb/hdl/dram_model.sv", "tests/sim/dram_tb.sv"],
            parameters={"DataWidth": data_width},
            cpp=["tb/hdl/dram.cpp"],
        ),
        "tests.sim.cocotb_dram_model",
    )
