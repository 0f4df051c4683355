"""NOP: retires, does nothing, by window and by ring."""

from echo_npu.packets import NpuCommandPacket, Opcode
from echo_npu.status import State
from tb.bench import NpuBench, npu_test
from tb.drivers.commands import Path


@npu_test(via=["window", "ring"], count=[1, 2, 40])
async def test_nop(bench: NpuBench, via: Path, count: int) -> None:
    """One, two, and more than queue and ring hold at once."""
    assert await bench.run([NpuCommandPacket(Opcode.NOP)] * count, via) == State.DONE
