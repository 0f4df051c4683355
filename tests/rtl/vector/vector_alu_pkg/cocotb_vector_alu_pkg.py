"""Start the native comparison of vector_alu_pkg with the host's arithmetic and read its verdict."""

import os
from typing import Any

import cocotb
from cocotb.triggers import Timer

ROUNDS = 2_000_000
OPCODES = 35


@cocotb.test()
async def matches_host_arithmetic(dut: object) -> None:
    """Every opcode on all corner triples and on random operands gives its definition, bit for bit."""
    top: Any = dut
    top.start.value = 0
    top.rounds.value = ROUNDS
    top.seed.value = int(os.environ["COCOTB_RANDOM_SEED"]) & 0x7FFFFFFF
    await Timer(1, "ns")
    top.start.value = 1
    await Timer(1, "ns")
    assert top.done.value == 1
    assert top.checked.value.to_unsigned() > OPCODES * ROUNDS
    assert top.failures.value.to_unsigned() == 0, f"{top.failures.value.to_unsigned()} results differ"
