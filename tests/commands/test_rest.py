"""The clock of a unit rests when the unit has nothing to do: a checker of the board reports a pulse."""

import numpy as np
from cocotb.triggers import Timer
from cocotbext.axi import AxiResp

from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.spec.status import State
from tb.drivers.commands import Path
from tb.drivers.registers import CLOCK_NS
from tb.testbench import NpuTestbench, npu_test

IDLE_CLOCKS = 300


@npu_test(via=["window", "ring"])
async def test_clocks_rest_after_work(tb: NpuTestbench, via: Path) -> None:
    """Both engines and the host's port worked before; afterwards they work again."""
    size = 2 * tb.config.array_rows
    nbytes = 4 * size * size
    data = tb.place(tb.rng.integers(0, 100, nbytes, dtype=np.uint8))
    for _ in range(2):
        work = [
            *matmul_packets(data, data, tb.destination(nbytes), size, size, size),
            *memcpy_packets(data, tb.destination(nbytes), nbytes),
        ]
        assert await tb.run(work, via) == State.DONE
        address, written = tb.alloc(100), bytes(tb.rng.integers(0, 256, 100, dtype=np.uint8))
        assert (await tb.memory.front_write(address, written)).resp == AxiResp.OKAY
        assert bytes((await tb.memory.front_read(address, 100)).data) == written
        await Timer(IDLE_CLOCKS * CLOCK_NS, "ns")
    tb.scoreboard.check_memory(tb.memory.shared)
