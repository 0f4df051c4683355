"""Testbench around one NPU: drivers, monitors and scoreboard.

    @npu_test()
    async def test_something(testbench: NpuTestbench) -> None:
        a = testbench.place(values)
        ...
        await testbench.run(packets)

After the test body the testbench is closed. Every command must then have been checked, the bus must have
obeyed the protocol, and the device must still work.
"""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import cocotb
import numpy as np
from cocotb.triggers import Timer
from numpy.typing import NDArray

from echo_npu.commands.builders import load_program_packets, memcpy_packets
from echo_npu.commands.packets import Packet
from echo_npu.commands.vector_command import vector_command
from echo_npu.register_ops import ReadReg
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import ACTIVATION, MEMORY_REGIONS
from echo_npu.spec.status import ErrorCode, State
from echo_npu.vector.program import Program
from echo_sim.config import load_config
from echo_sim.contract import CHANNELS, KNOBS
from echo_sim.native import Dram
from tb.drivers.commands import CommandDriver, Path
from tb.drivers.memory import MemoryDriver
from tb.drivers.registers import CLOCK_NS, RegisterDriver
from tb.functional import FOLDER_VARIABLE
from tb.monitors.axi_monitor import AxiMonitor
from tb.monitors.register_monitor import RegisterMonitor
from tb.scoreboards.commands import STATE_REGISTERS, CommandScoreboard, DeviceState, device_state

if TYPE_CHECKING:
    from tb.functional.collector import Collector

CONFIG_VARIABLE = "ECHO_NPU_CONFIG"
STALLS_VARIABLE = "ECHO_NPU_STALLS"

DEFAULT_TIMING: Mapping[str, float] = {
    name: knob.default for name, knob in KNOBS.items() if knob.default is not None
}
_STALLS = tuple(f"stall_{channel}" for channel in CHANNELS)

RING_BASE = ACTIVATION.end - 0x1_0000  # at the end of activation memory, clear of what tests place
RING_SLOTS = 64


def stalled() -> bool:
    """Return whether memory stalls in this run."""
    return os.environ.get(STALLS_VARIABLE, "0") == "1"


def random_timing(rng: random.Random) -> dict[str, float]:
    """Draw memory timing that stalls every channel with its own probability; latencies in cycles."""
    stalls = {name: rng.choice((0.0, 0.1, 0.3, 0.6)) for name in _STALLS}
    stalls[rng.choice(sorted(stalls))] = 0.7
    return {
        **DEFAULT_TIMING,
        **stalls,
        "read_latency": rng.choice((1, 3, 17, 90)),
        "write_latency": rng.choice((1, 3, 17, 90)),
        "max_reads": rng.choice((1, 4, 64)),
        "max_writes": rng.choice((1, 4, 64)),
        "seed": rng.getrandbits(32),
    }


class NpuTestbench:
    """Drivers, monitors and scoreboard of one NPU, with shortcuts for tests."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self.config = load_config(os.environ.get(CONFIG_VARIABLE, "default"))
        # cocotb seeds the global generators from COCOTB_RANDOM_SEED for each test.
        self.random = random.Random(random.getrandbits(64))
        self.rng = np.random.default_rng(random.getrandbits(64))
        self.dram = Dram()
        self.scoreboard = CommandScoreboard(self.config)
        self.monitor = RegisterMonitor(self.scoreboard.observe)
        self.registers = RegisterDriver(dut)
        self.memory = MemoryDriver(dut, self.dram, self._host_writes)
        self.commands = CommandDriver(self.registers, self.memory, self.config.queue_depth)
        self.axi = AxiMonitor(self.dram)
        self.functional = self._collector()
        self.held = False
        """While True, commands are not shown to the functional model, which must first be told of their
        outcome. Host writes must not affect those commands."""
        self._next = {name: region.base for name, region in MEMORY_REGIONS.items()}
        self._entries: dict[bytes, int] = {}
        self._program_end = 0

    async def start(self) -> None:
        """Reset the device, clear its memory, configure memory timing and enable the ring."""
        self.dut.rst_n.value = 0
        self.registers.forget()
        self.dram.clear_faults()
        self.dram.configure(random_timing(self.random) if stalled() else DEFAULT_TIMING)
        self.memory.shared.clear()
        await self._end_reset()

    # ---- stimulus ----

    def alloc(self, nbytes: int, region: str = "activation", *, align: int = 64, offset: int = 0) -> int:
        """Allocate `nbytes` in `region` at a multiple of `align` plus `offset`, followed by a gap. Raise
        MemoryError if the region is full."""
        self._next[region] += -self._next[region] % align
        address = self._next[region] + offset
        self._next[region] = address + nbytes + 64
        if self._next[region] > MEMORY_REGIONS[region].end - 0x20000:
            raise MemoryError(f"the test uses more than the {region} region")
        return address

    def place(
        self, data: NDArray[Any], region: str = "activation", *, align: int = 64, offset: int = 0
    ) -> int:
        """Store an array in fresh memory and return its address."""
        address = self.alloc(data.nbytes, region, align=align, offset=offset)
        self.memory.write(address, data)
        return address

    def destination(self, nbytes: int, *, align: int = 64, offset: int = 0) -> int:
        """Allocate memory for a result and fill it and its surroundings with random bytes, so that a missing
        or stray write shows."""
        address = self.alloc(nbytes + 64, align=align, offset=offset + 32)
        self.memory.write(address - 32, self.rng.integers(0, 256, nbytes + 64, dtype=np.uint8))
        return address

    def floats(self, *shape: int) -> NDArray[np.float32]:
        """Draw normally distributed float32 of this shape."""
        return self.rng.standard_normal(shape, dtype=np.float32)

    # ---- running and checking ----

    async def run(
        self, packets: Sequence[Packet], via: Path = "window", *, timeout_cycles: int = 2_000_000
    ) -> State:
        """Submit packets, wait, check everything, and return the resulting state."""
        await self.commands.submit(packets, via)
        return await self.check(timeout_cycles)

    async def check(self, timeout_cycles: int = 2_000_000) -> State:
        """Wait until the device is idle, compare memory and state with the functional model, and return the
        state."""
        state = await self.commands.wait(timeout_cycles)
        self.monitor.sync()
        self.scoreboard.check(self.memory.shared, await self.state())
        return state

    # ---- vector programs ----

    async def load_programs(self, *programs: Program) -> None:
        """Load programs that are not yet in program memory, one after the other. If they do not fit, drop all
        programs and load these anew."""
        missing = {program.code: program for program in programs if program.code not in self._entries}
        words = sum(len(program) for program in missing.values())
        if self._program_end + words > self.config.program_words:
            self._entries.clear()
            self._program_end = 0
            missing = {program.code: program for program in programs}
            words = sum(len(program) for program in missing.values())
        if not missing:
            return
        at = self._program_end
        for program in missing.values():
            self._entries[program.code] = self._program_end
            self._program_end += len(program)
        code = self.place(np.frombuffer(b"".join(missing), dtype=np.uint8), "weight")
        assert await self.run(load_program_packets(code, words, at)) == State.DONE

    def vector_packets(self, program: Program, **fields: Any) -> list[Packet]:
        """Return the packets that run a program loaded by `load_programs`; `fields` as for
        `vector_command`."""
        return vector_command(self._entries[program.code], passes=program.passes, **fields).packets()

    async def vector(self, program: Program, via: Path = "window", **fields: Any) -> None:
        """Load a program if needed, run it once and check everything; `fields` as for `vector_command`."""
        await self.load_programs(program)
        assert await self.run(self.vector_packets(program, **fields), via) == State.DONE

    # ---- registers ----

    async def state(self) -> DeviceState:
        """Read the state, error and progress registers."""
        return device_state(await self.registers.run([ReadReg(offset) for offset in STATE_REGISTERS]))

    async def counters(self) -> dict[str, int]:
        """Read all performance counters, by name."""
        operations = [ReadReg(getattr(regs, name) + half) for name in regs.COUNTERS for half in (0, 4)]
        values = await self.registers.run(operations)
        return {name: values[2 * i] | values[2 * i + 1] << 32 for i, name in enumerate(regs.COUNTERS)}

    async def check_bus_error(self, code: ErrorCode, command: int | None) -> None:
        """Check everything after memory refused a burst, for which the device must report `code`.

        `command` is the number since reset of the failing command; None if the fetch of a ring slot fails.
        """
        address = self.dram.statistic("first_error_address")
        assert self.dram.statistic("error_responses"), "no burst was refused"
        self.scoreboard.expect_fault(code, address, command=command)
        self.monitor.sync()
        self.scoreboard.check(self.memory.shared, await self.state())

    async def recover(self) -> None:
        """Clear the error and run a copy to show that the device still works."""
        await self.commands.clear_error()
        await self.probe()

    async def hard_reset(self) -> None:
        """Reset the device through its pin and set up the ring again. No register access may be in
        progress."""
        # Away from clock edges: the master on s_axi wakes there and must see the same reset as the device.
        await Timer(CLOCK_NS // 2, "ns")
        self.dut.rst_n.value = 0
        await self._end_reset()

    async def _end_reset(self) -> None:
        await Timer(5 * CLOCK_NS, "ns")
        self.dut.rst_n.value = 1
        await Timer(5 * CLOCK_NS, "ns")
        await self.commands.setup_ring(RING_BASE, RING_SLOTS)

    async def restart(self) -> None:
        """Reset the device through its register and set up the ring again."""
        await self.commands.soft_reset()
        await self.commands.setup_ring(RING_BASE, RING_SLOTS)

    async def probe(self) -> None:
        """Run and check a small copy through window and ring."""
        data = self.rng.integers(0, 256, 100, dtype=np.uint8)
        paths: tuple[Path, ...] = ("window", "ring")
        for via in paths:
            copy = memcpy_packets(self.place(data), self.destination(100), 100)
            assert await self.run(copy, via) == State.DONE, "the device does not work after an error"

    async def finish(self) -> None:
        """End the test with the checks that the module's docstring lists."""
        self.monitor.sync()
        if regs.STATUS_STATE.get(await self.registers.read(regs.STATUS)) == State.ERROR:
            await self.recover()
        await self.counters()  # checkers/counter_checker.sv compares each value with its own count
        self.scoreboard.finish()
        self.axi.finish()
        if self.functional is not None:
            self.functional.commit()

    def close(self) -> None:
        """Release the model's memory."""
        self.scoreboard.close()

    def _collector(self) -> Collector | None:
        """Return the functional coverage collector if $ECHO_NPU_FUNCTIONAL is set."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            return None
        from tb.functional.collector import Collector  # its library is installed for campaigns only

        collector = Collector(self.config, self.dram.knobs, FilePath(folder))
        self.scoreboard.on_checked = collector.commands
        return collector

    def _host_writes(self, address: int, data: NDArray[np.uint8]) -> None:
        if not self.held:
            self.monitor.sync()  # commands submitted earlier must see the old memory
        self.scoreboard.mirror(address, data)


TestBody = Callable[..., Awaitable[None]]


def npu_test(**parameters: Sequence[Any]) -> Callable[[TestBody], Any]:
    """Turn `async def body(testbench, **values)` into a cocotb test per combination of `parameters`.

    A test fails if it takes more than ten million device cycles of simulated time.
    """

    def decorate(body: TestBody) -> Any:
        @functools.wraps(body)
        async def test(dut: Any, **values: Any) -> None:
            tb = NpuTestbench(dut)
            try:
                await tb.start()
                await body(tb, **values)
                await tb.finish()
            finally:
                tb.close()

        generator = cocotb.parametrize(**parameters)(test) if parameters else test
        return cocotb.test(timeout_time=10_000_000 * CLOCK_NS, timeout_unit="ns")(generator)

    return decorate
