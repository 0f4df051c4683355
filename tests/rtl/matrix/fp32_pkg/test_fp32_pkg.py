"""The float32 adder, multiplier and scaler against the host's own arithmetic, in native code."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from echo_sim.designs import Design
from tb.blocks import block_design, run_block
from tb.repository import ROOT

HERE = "tests/rtl/matrix/fp32_pkg"
TESTS = f"{HERE}/cocotb_fp32_pkg".replace("/", ".")


def design(package: Path | str = "rtl/matrix/fp32_pkg.sv", suffix: str = "") -> Design:
    """The testbench around the package under test. Only its ports are public: the functions stay fast."""
    block = block_design(
        "fp32_tb",
        (package, f"{HERE}/fp32_tb.sv"),
        cpp=(f"{HERE}/fp32_check.cpp",),
        control=("rtl/waivers.vlt", f"{HERE}/public.vlt"),
        public=False,
    )
    return dataclasses.replace(block, name=f"{block.name}{suffix}")


def test_fp32_pkg() -> None:
    """36 million random operations and all corner pairs."""
    run_block(design(), TESTS)


def test_a_lost_sticky_bit_is_found(tmp_path: Path) -> None:
    """The comparison can fail: without the adder's sticky bit, results differ."""
    broken = tmp_path / "fp32_pkg.sv"
    shutil.copy(ROOT / "rtl/matrix/fp32_pkg.sv", broken)
    text = broken.read_text()
    assert text.count("(lost != 0) ? 32'd1") == 1
    broken.write_text(text.replace("(lost != 0) ? 32'd1", "(lost != 0) ? 32'd0"))
    with pytest.raises(AssertionError, match="results differ"):
        run_block(design(broken, "-broken"), TESTS)
