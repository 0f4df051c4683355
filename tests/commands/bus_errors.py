"""Commands that end with a bus error."""

from echo_npu.commands.packets import Packet
from echo_npu.spec.status import ErrorCode, State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench


async def fail(tb: NpuTestbench, packets: list[Packet], code: ErrorCode, via: Path, before: int) -> None:
    """Submit commands of which one, behind `before` others, ends with a bus error; check, and begin anew."""
    index = (await tb.state()).retired + before
    await tb.commands.submit(packets, via)
    assert await tb.commands.wait(1_000_000) == State.ERROR
    await tb.check_bus_error(code, index)
    tb.dram.clear_faults()
    await tb.recover()
    await tb.restart()
