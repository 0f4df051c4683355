"""Start the native comparison of vector_alu_pkg with the host's arithmetic and read its verdict."""

from typing import Any

import cocotb

from tests.rtl.native import compared

ROUNDS = 2_000_000
OPCODES = 35


@cocotb.test()
async def matches_host_arithmetic(dut: Any) -> None:
    """Every opcode on all corner triples and on random operands gives its definition, bit for bit."""
    assert await compared(dut, dut.rounds, ROUNDS) > OPCODES * ROUNDS
