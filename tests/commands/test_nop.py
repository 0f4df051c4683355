"""NOP retires and does nothing, through window and ring."""

from echo_npu.commands.packets import NpuCommandPacket, Opcode
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.testbench import NpuTestbench, npu_test


@npu_test(via=["window", "ring"], count=[1, 2, 40])
async def test_nop(tb: NpuTestbench, via: Path, count: int) -> None:
    """One NOP, two, and more than queue and ring hold at once."""
    assert await tb.run([NpuCommandPacket(Opcode.NOP)] * count, via) == State.DONE
