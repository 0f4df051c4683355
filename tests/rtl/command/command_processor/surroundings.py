"""What tests of command_processor alone put around it: engines and memory that are ready for everything."""

from collections.abc import Sequence
from typing import Any

from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge

from echo_npu.spec.status import ErrorCode, State
from tests.rtl.stimulus import CLOCK_NS, pulse, start_clock

SOON = 200
"""Clocks in which commands start or fail."""
RING_SLOTS = 4


async def until(dut: Any, state: State) -> None:
    """Wait for a state of the device."""
    for _ in range(SOON):
        await RisingEdge(dut.clk_i)
        await ReadOnly()
        if dut.state_o.value.to_unsigned() == state:
            await RisingEdge(dut.clk_i)
            return
    raise AssertionError(f"the device does not reach {state.name}")


async def begin(dut: Any, ring_base: int) -> None:
    """Reset the device; its surroundings are ready for all commands."""
    dut.rst_ni.value = 0
    await start_clock(dut, "done_i", "memory_error_i", "memory_error_write_i", "guard_size_i", "watchdog_i")
    Clock(dut.free_clk_i, CLOCK_NS, unit="ns").start()
    for name in ("memory_idle_i", "matrix_ready_i", "program_ready_i", "desc_ready_i", "ring_enable_i"):
        getattr(dut, name).value = 1
    dut.ring_base_i.value, dut.ring_size_i.value = ring_base, RING_SLOTS
    await ClockCycles(dut.clk_i, 3)
    dut.rst_ni.value = 1


async def submit(dut: Any, packet: bytes) -> None:
    """Write one packet to the window."""
    dut.cmd_packet_i.value = int.from_bytes(packet, "little")
    await pulse(dut, "cmd_doorbell_i")


async def advance_tail(dut: Any) -> None:
    """Submit the ring's next slot."""
    dut.ring_tail_i.value = (dut.ring_tail_o.value.to_unsigned() + 1) % RING_SLOTS
    await pulse(dut, "ring_tail_write_i")


async def fail_fetch(dut: Any, address: int) -> None:
    """Answer the read of the ring's first slot with an error there."""
    for _ in range(SOON):
        await ReadOnly()
        if dut.desc_valid_o.value:
            break
        await RisingEdge(dut.clk_i)
    assert dut.desc_o.value
    await ClockCycles(dut.clk_i, 3)
    dut.fetch_error_addr_i.value = address
    dut.data_valid_i.value = dut.fetch_error_i.value = 1
    await RisingEdge(dut.clk_i)
    dut.fetch_error_i.value = 0
    await RisingEdge(dut.clk_i)
    dut.data_valid_i.value = 0


async def answer_fetch(dut: Any, packets: Sequence[bytes]) -> None:
    """Answer the next read of the ring, which must be of these slots."""
    for _ in range(SOON):
        await ReadOnly()
        if dut.desc_valid_o.value:
            break
        await RisingEdge(dut.clk_i)
    await ClockCycles(dut.clk_i, 3)
    size = len(dut.data_i) // 8
    data = b"".join(packets)
    for first in range(0, len(data), size):
        dut.data_i.value = int.from_bytes(data[first : first + size], "little")
        await pulse(dut, "data_valid_i")


async def failed(dut: Any, code: ErrorCode) -> tuple[int, int]:
    """Wait for a failure and clear it; return the number of the command and the address."""
    await until(dut, State.ERROR)
    found = ErrorCode(dut.error_code_o.value.to_unsigned())
    assert found == code, f"{found.name}, not {code.name}"
    number, address = dut.error_index_o.value.to_unsigned(), dut.error_addr_o.value.to_unsigned()
    await pulse(dut, "clear_error_i")
    await until(dut, State.IDLE)
    return number, address
