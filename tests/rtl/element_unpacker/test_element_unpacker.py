"""Builds element_unpacker for the named configurations' widths and runs its cocotb tests."""

import os

import pytest

from tb.designs import block_design
from tb.runner import run_block

HERE = "tests/rtl/element_unpacker"


@pytest.mark.parametrize(("data_width", "lanes"), [(64, 4), (256, 16)])
def test_element_unpacker(data_width: int, lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random words into segments of all element sizes, and throughput."""
    monkeypatch.setitem(os.environ, "ELEMENT_DATA_WIDTH", str(data_width))
    monkeypatch.setitem(os.environ, "ELEMENT_LANES", str(lanes))
    run_block(
        block_design(
            "element_unpacker_tb",
            ("rtl/vector_pkg.sv", "rtl/element_unpacker.sv", f"{HERE}/element_unpacker_tb.sv"),
            parameters={"DataWidth": data_width, "Lanes": lanes},
            verilator_args=("-Wno-UNUSEDPARAM",),  # the package is more than the unpacker needs
        ),
        f"{HERE}/cocotb_element_unpacker".replace("/", "."),
    )
