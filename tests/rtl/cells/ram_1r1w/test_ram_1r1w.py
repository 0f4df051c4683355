"""ram_1r1w sees a read that a technology's macro need not answer, and tools infer a RAM from it."""

import pytest

from tb.blocks import run_module
from tests.rtl.synthesis import holds


def test_a_collision_is_reported() -> None:
    """At the fifth edge, the first one behind the reset."""
    with pytest.raises(AssertionError, match=r"\[50000\] .*NoCollision: an entry was read at the edge"):
        run_module(__file__, "cocotb_collision", Width=8, Depth=4)


@pytest.mark.parametrize("lanes", [1, 4])
def test_it_is_a_ram(lanes: int) -> None:
    """A synthesis tool finds one memory, whose read port has a clock of its own."""
    sources, parameters = ("rtl/cells/ram_1r1w.sv",), f"-G Width=32 -G Depth=256 -G Lanes={lanes}"
    ram = "t:$mem_v2"
    commands = ["memory -nomap", f"select -assert-count 1 {ram}"]
    registered, other = (f"select -assert-count 1 {ram} r:RD_CLK_ENABLE={value} %i" for value in ("1'1", "0"))
    assert not holds("ram_1r1w", sources, [*commands, registered], parameters)
    assert holds("ram_1r1w", sources, [*commands, other], parameters)
