"""Simulation under cocotb as new users run it; executed inside the simulator.

npu_top has every signal public, the clock comes from cocotb's `Clock`, device memory is behind
cocotbext-axi's `AxiRam`, registers are reached through its `AxiLiteMaster`. Reads ECHO_NPU_MEMORY (device
memory) and ECHO_NPU_SCRIPT (`Replay.script`), writes its figures to ECHO_NPU_FIGURES.
"""

import json
import mmap
import os
import time
from pathlib import Path
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.handle import HierarchyObject
from cocotb.triggers import RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from echo_npu.spec import registers as regs
from echo_npu.spec.status import State

CLOCK_NS = 10


class Host:
    """Register accesses and the wait for the interrupt, without optimisation."""

    def __init__(self, dut: HierarchyObject) -> None:
        self._dut: Any = dut
        self._axil = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk)

    async def write(self, offset: int, value: int) -> None:
        await self._axil.write_dword(offset, value)

    async def read(self, offset: int) -> int:
        return int(await self._axil.read_dword(offset))

    async def busy_cycles(self) -> int:
        low = await self.read(regs.BUSY_CYCLES)  # first: it latches the high word
        return low | await self.read(regs.BUSY_CYCLES + 4) << 32

    async def wait(self) -> None:
        while True:
            if not self._dut.irq.value:
                await RisingEdge(self._dut.irq)
            await self.write(regs.IRQ_STATUS, regs.IRQ_STATUS_DONE.mask | regs.IRQ_STATUS_ERROR.mask)
            state = regs.STATUS_STATE.get(await self.read(regs.STATUS))
            assert state != State.ERROR, "the device stopped in state ERROR"
            if state != State.BUSY:
                return


@cocotb.test()
async def replay(dut: Any) -> None:
    """Run the script and measure the part after its line "measure"."""
    with open(os.environ["ECHO_NPU_MEMORY"], "r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    Clock(dut.clk, CLOCK_NS, "ns").start()
    for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
        getattr(dut, f"s_axi_{name}").value = 0
    dut.test_enable.value = 0
    dut.rst_n.value = 0
    AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, mem=memory)
    host = Host(dut)
    for _ in range(10):
        await RisingEdge(dut.clk)
    dut.rst_n.value = 1
    for _ in range(10):
        await RisingEdge(dut.clk)

    busy, start_ns, wall, cpu = 0, 0.0, 0.0, 0.0
    for line in Path(os.environ["ECHO_NPU_SCRIPT"]).read_text(encoding="utf-8").splitlines():
        word, *numbers = line.split()
        if word == "write":
            await host.write(int(numbers[0]), int(numbers[1]))
        elif word == "wait":
            await host.wait()
        else:
            busy, start_ns = await host.busy_cycles(), get_sim_time("ns")
            wall, cpu = time.perf_counter(), time.process_time()
    figures = {
        "cycles": round((get_sim_time("ns") - start_ns) / CLOCK_NS),
        "wall_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - cpu,
        "busy_cycles": await host.busy_cycles() - busy,
    }
    Path(os.environ["ECHO_NPU_FIGURES"]).write_text(json.dumps(figures), encoding="utf-8")
