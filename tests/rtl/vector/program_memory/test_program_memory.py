"""program_memory is a RAM in hardware."""

from tests.rtl.synthesis import holds


def test_it_is_a_ram() -> None:
    """A synthesis tool finds one memory, whose read port has a clock of its own."""
    sources = ("rtl/vector/vector_pkg.sv", "rtl/vector/program_memory.sv")
    ram = "t:$mem_v2"
    commands = ["memory -nomap", f"select -assert-count 1 {ram}"]
    assert not holds(
        "program_memory", sources, [*commands, f"select -assert-count 1 {ram} r:RD_CLK_ENABLE=1'1 %i"]
    )
    assert holds("program_memory", sources, [*commands, f"select -assert-count 1 {ram} r:RD_CLK_ENABLE=0 %i"])
