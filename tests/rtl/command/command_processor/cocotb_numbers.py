"""The numbers of commands, set close to each power of two: no simulation counts that far."""

from typing import Any

import cocotb
from cocotb.triggers import RisingEdge

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.memory_map import ACTIVATION, WEIGHT
from echo_npu.spec.status import ErrorCode, State
from tests.rtl.command.command_processor.surroundings import begin, failed, submit, until

COPY = NpuCommandPacket(Opcode.MEMCPY, 0, WEIGHT.base, 0, ACTIVATION.base, m=64)
UNKNOWN = NpuCommandPacket(0x99)
COUNT_BITS = 32
NUMBERS = [(1 << bit) - 1 for bit in range(COUNT_BITS + 1)]
VECTOR = 1
"""Place of the vector engine's end and of its errors."""


async def submit_at(dut: Any, packet: NpuCommandPacket, count: Any, number: int) -> None:
    """Submit a packet, with a count set to `number` before the packet is taken.

    The count is set while the unit is awake: at rest no register changes.
    """
    await submit(dut, packet.pack())
    count.value = number


async def copy_at_work(dut: Any, count: Any, number: int) -> None:
    """Submit a copy as `submit_at` does, and wait until it is on its engine."""
    await submit_at(dut, COPY, count, number)
    while not dut.start_o.value.to_unsigned() >> VECTOR & 1:
        await RisingEdge(dut.clk_i)


async def fails_as(dut: Any, code: ErrorCode, number: int) -> None:
    """Wait for the failure of the command with this number, and clear it."""
    found, _ = await failed(dut, code)
    assert found == number, f"ERROR_INDEX 0x{found:x} of command 0x{number:x}"


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def errors_name_their_command(dut: Any) -> None:
    """A refused packet, a bus error, and a packet behind that: all 32 bits of ERROR_INDEX."""
    await begin(dut, WEIGHT.base)
    for number in NUMBERS:
        await submit_at(dut, UNKNOWN, dut.taken_q, number)
        await fails_as(dut, ErrorCode.BAD_OPCODE, number)
        await copy_at_work(dut, dut.taken_q, number)
        dut.memory_error_i.value = 1 << VECTOR
        await RisingEdge(dut.clk_i)
        dut.memory_error_i.value = 0
        await fails_as(dut, ErrorCode.READ_RESPONSE, number)
        await submit(dut, UNKNOWN.pack())
        await fails_as(dut, ErrorCode.BAD_OPCODE, (number + 1) % (1 << COUNT_BITS))


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def every_retirement_counts(dut: Any) -> None:
    """A NOP, and a copy that its engine has ended: all 32 bits of RETIRED."""
    await begin(dut, WEIGHT.base)
    for number in NUMBERS:
        for engine in (False, True):
            if engine:
                await copy_at_work(dut, dut.retired_q, number)
                dut.done_i.value = 1 << VECTOR
                await RisingEdge(dut.clk_i)
                dut.done_i.value = 0
            else:
                await submit_at(dut, NpuCommandPacket(Opcode.NOP), dut.retired_q, number)
                await until(dut, State.BUSY)
            await until(dut, State.DONE)
            found = dut.retired_o.value.to_unsigned()
            assert found == (number + 1) % (1 << COUNT_BITS), f"0x{found:x} behind 0x{number:x}"
