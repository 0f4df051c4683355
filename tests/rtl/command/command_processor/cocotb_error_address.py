"""The address of an error above 4 GiB: a bus error, a fault of a program, a slot that cannot be read."""

import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.spec.status import ErrorCode, State
from tests.rtl.command.command_processor.surroundings import (
    SOON,
    advance_tail,
    begin,
    fail_fetch,
    failed,
    submit,
    until,
)
from tests.rtl.command.large import MEMORY
from tests.rtl.stimulus import pulse

MATRIX, VECTOR, MATRIX_NEXT = range(3)  # owners of an error
OLDER = {MATRIX: 0, MATRIX_NEXT: 1, VECTOR: 2}
"""Products that end before the command of an owner."""


def addresses() -> Iterator[int]:
    """Yield an address with each bit set alone or nearly so, and random ones."""
    bits = (MEMORY.end - 1).bit_length()
    yield from (1 << bit for bit in range(bits))
    yield from ((1 << bits) - 1 - (1 << bit) for bit in range(bits))
    yield from (random.getrandbits(bits) for _ in range(20))


async def engines_at_work(dut: Any) -> None:
    """Start two products and a copy, all independent."""
    weight, activation = MEMORY.weight.base, MEMORY.activation.base
    for first in (0, 1 << 20):
        product = matmul_packets(weight, weight + 4096, activation + first, 4, 4, 4)
        for packet in product:
            await submit(dut, packet.pack())
    for packet in memcpy_packets(weight, activation + (2 << 20), 64):
        await submit(dut, packet.pack())
    started = 0
    for _ in range(SOON):
        await ReadOnly()
        started += dut.start_o.value.to_unsigned().bit_count()
        await RisingEdge(dut.clk_i)
        if started == 3:
            return
    raise AssertionError(f"{started} of 3 commands start")


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def bus_errors(dut: Any) -> None:
    """Of the product at work, of the copy, and of the second product."""
    await begin(dut, MEMORY.weight.base)
    for address in addresses():
        for owner in (MATRIX, VECTOR, MATRIX_NEXT):
            await engines_at_work(dut)
            for each in (MATRIX, VECTOR, MATRIX_NEXT):
                dut.memory_error_addr_i[each].value = address if each == owner else ~address % MEMORY.end
            writes = random.randrange(2)
            dut.memory_error_i.value, dut.memory_error_write_i.value = 1 << owner, writes << owner
            await RisingEdge(dut.clk_i)
            dut.memory_error_i.value = dut.memory_error_write_i.value = 0
            for _ in range(OLDER[owner]):
                dut.done_i.value = 1 << MATRIX
                await RisingEdge(dut.clk_i)
                dut.done_i.value = 0
                await RisingEdge(dut.clk_i)
            code = ErrorCode.WRITE_RESPONSE if writes else ErrorCode.READ_RESPONSE
            _, found = await failed(dut, code)
            assert found == address, f"owner {owner}: 0x{found:x} for 0x{address:x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def faults_of_programs(dut: Any) -> None:
    """A bad index or a bad program of the command on the vector engine."""
    await begin(dut, MEMORY.weight.base)
    for address in addresses():
        index = random.randrange(2)
        for packet in memcpy_packets(MEMORY.weight.base, MEMORY.activation.base, 64):
            await submit(dut, packet.pack())
        await until(dut, State.BUSY)
        await ClockCycles(dut.clk_i, 20)
        dut.vector_fault_addr_i.value, dut.vector_fault_index_i.value = address, index
        await pulse(dut, "vector_fault_i")
        dut.vector_fault_addr_i.value = ~address % MEMORY.end
        _, found = await failed(dut, ErrorCode.BAD_INDEX if index else ErrorCode.BAD_PROGRAM)
        assert found == address, f"0x{found:x} for 0x{address:x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def slots_that_cannot_be_read(dut: Any) -> None:
    """The fetch of the ring's first slot fails."""
    await begin(dut, MEMORY.weight.base)
    for address in addresses():
        await advance_tail(dut)
        await fail_fetch(dut, address)
        _, found = await failed(dut, ErrorCode.READ_RESPONSE)
        assert found == address, f"0x{found:x} for 0x{address:x}"
