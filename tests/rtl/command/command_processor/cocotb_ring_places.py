"""Where a ring may lie above 4 GiB, when it stays there, and what one that has shrunk refuses."""

from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from echo_npu.commands.builders import memcpy_packets, nop_packet
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.spec.contract import PACKET_BYTES
from echo_npu.spec.status import ErrorCode, State
from tests.rtl.command.command_processor.surroundings import (
    RING_SLOTS,
    SOON,
    advance_tail,
    answer_fetch,
    begin,
    fail_fetch,
    failed,
    until,
)
from tests.rtl.command.large import MEMORY
from tests.rtl.stimulus import pulse

GIB = 1 << 30
RING_BYTES = RING_SLOTS * PACKET_BYTES
REGIONS = (MEMORY.weight, MEMORY.activation)
ADDRESS_BITS = (MEMORY.end - 1).bit_length()


async def submitted(dut: Any, base: int) -> ErrorCode:
    """Write a tail with this base; return what the device answers, and let it work on."""
    dut.ring_base_i.value = base
    await advance_tail(dut)
    await ClockCycles(dut.clk_i, 20)
    if dut.state_o.value.to_unsigned() == State.BUSY:  # it waits for the slot
        await pulse(dut, "soft_reset_i")
        await until(dut, State.IDLE)
        return ErrorCode.NONE
    await failed(dut, ErrorCode.RING_CONFIG)
    return ErrorCode.RING_CONFIG


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def rings_lie_in_one_region(dut: Any) -> None:
    """The first and the last place of each region are good, a slot before and behind it is not; nor is any
    place that differs from a good one in a bit that leads out of memory."""
    await begin(dut, MEMORY.weight.base)
    for region in REGIONS:
        last = region.end - RING_BYTES
        for base in (region.base, region.base + 4 * GIB - PACKET_BYTES, last):
            assert await submitted(dut, base) == ErrorCode.NONE, hex(base)
        for bit in range(6, ADDRESS_BITS):
            base = region.base ^ 1 << bit
            inside = any(each.base <= base and base + RING_BYTES <= each.end for each in REGIONS)
            wanted = ErrorCode.NONE if inside else ErrorCode.RING_CONFIG
            assert await submitted(dut, base) == wanted, hex(base)
    for base in (MEMORY.weight.base - PACKET_BYTES, MEMORY.activation.base - PACKET_BYTES, 0x1000):
        assert await submitted(dut, base) == ErrorCode.RING_CONFIG, hex(base)
    assert await submitted(dut, MEMORY.activation.end - RING_BYTES + PACKET_BYTES) == ErrorCode.RING_CONFIG


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_ring_that_holds_packets_is_not_moved(dut: Any) -> None:
    """Not by any power of two, 4 GiB included."""
    await begin(dut, MEMORY.weight.base)
    for region in REGIONS:
        for bit in range(6, 33):
            dut.ring_base_i.value = region.base
            await advance_tail(dut)
            dut.ring_base_i.value = region.base + (1 << bit)
            await advance_tail(dut)
            await fail_fetch(dut, region.base)  # the packet that it holds does not come
            await failed(dut, ErrorCode.RING_CONFIG)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def a_head_behind_the_ring_refuses_tails(dut: Any) -> None:
    """An error of an engine takes the head back to a slot of the ring as it was, which may have shrunk since.

    A tail written then is refused, and with the error cleared the shrunk ring goes on at its own tail.
    """
    await begin(dut, MEMORY.weight.base)
    weight, activation = MEMORY.weight.base, MEMORY.activation.base
    (product,) = matmul_packets(weight, weight + 4096, activation, 4, 4, 4)
    (copy,) = memcpy_packets(weight, activation + 4096, 64)
    nops = [nop_packet().pack()] * (2 * RING_SLOTS - 2)
    dut.ring_size_i.value = 2 * RING_SLOTS
    for tail, packets in ((len(nops), nops), (0, [product.pack(), copy.pack()])):
        dut.ring_tail_i.value = tail
        await pulse(dut, "ring_tail_write_i")
        await answer_fetch(dut, packets)
        await ClockCycles(dut.clk_i, SOON)
    assert dut.ring_head_o.value == 0  # both are at work, and the ring is empty
    dut.ring_size_i.value, dut.ring_tail_i.value = RING_SLOTS, 1
    await pulse(dut, "ring_tail_write_i")
    await pulse(dut, "memory_error_i")  # of the product
    await until(dut, State.ERROR)
    assert dut.ring_head_o.value == 2 * RING_SLOTS - 1
    dut.ring_tail_i.value = 2
    await pulse(dut, "ring_tail_write_i")
    await failed(dut, ErrorCode.READ_RESPONSE)
    assert dut.ring_head_o.value == dut.ring_tail_o.value == 1
