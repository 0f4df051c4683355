"""Cocotb tests of register_block: every register through AXI4-Lite, with idle cycles and back-pressure."""

import itertools
import random

import cocotb
from cocotb.handle import SimHandleBase
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiResp

from echo_npu.spec import registers as regs
from tests.rtl.stimulus import clocks, pause, reset

WINDOW_BYTES = 1 << 16
REST = 20
"""Clocks without traffic, more than the registers stay awake for."""
# The values of test_register_block.py, which builds the block.
CAPABILITIES = {
    "CAP_ARRAY": 8 | 4 << 16,
    "CAP_VECTOR": 4 | 128 << 16,
    "CAP_TYPES": 0b1111 | 0b111 << 17 | 1 << 24,
    "CAP_QUEUE": 16 | 16 << 16,
    "CAP_SCRATCH_A": 0x1234,
    "CAP_SCRATCH_B": 0x23456,
    "CAP_SCRATCH_ACC": 0x345678,
    "CAP_VECTOR_LENGTH": 0x456,
    "CAP_VECTOR_ROW": 0x56789A,
    "CAP_PROGRAM": 0x6789,
    "CAP_MEMORY": 0x789A_0ABC,
}
STATUS_INPUTS = (
    *("state_i", "queue_level_i", "queue_full_i", "error_code_i", "error_index_i", "error_addr_i"),
    *("retired_i", "ring_head_i"),
)
# Members of perf_events_t from the most significant bit: the counter that each moves, and its width.
EVENTS = [(name, {"MACS": 16, "HOST_BEATS": 2}.get(name, 1)) for name in regs.COUNTERS if name != "CYCLES"]


class RegisterBlockTestbench:
    """The block, its AXI4-Lite master, and a record of every pulse of its outputs."""

    def __init__(self, dut: SimHandleBase) -> None:
        self.dut = dut
        self.master: AxiLiteMaster
        self.pulses: list[tuple[str, int]] = []  # name, accompanying value
        self.cycle = 0

    async def start(self, idle: float = 0.0, backpressure: float = 0.0) -> None:
        """Start the clock, reset, and set the inputs idle."""
        dut = self.dut
        dut.rst_ni.value = 0
        self.master = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk_i, dut.rst_ni, reset_active_level=False
        )
        await reset(dut, *STATUS_INPUTS, "events_i")
        await ClockCycles(dut.clk_i, 2)
        write, read = self.master.write_if, self.master.read_if
        pause(idle, write.aw_channel, write.w_channel, read.ar_channel)
        pause(backpressure, write.b_channel, read.r_channel)
        cocotb.start_soon(self._watch())

    async def _watch(self) -> None:
        dut = self.dut
        while True:
            await RisingEdge(dut.clk_i)
            await ReadOnly()
            self.cycle += 1
            if dut.soft_reset_o.value:
                self.pulses.append(("soft_reset", 0))
            if dut.clear_error_o.value:
                self.pulses.append(("clear_error", 0))
            if dut.cmd_doorbell_o.value:
                self.pulses.append(("doorbell", dut.cmd_packet_o.value.to_unsigned()))
            if dut.ring_tail_write_o.value:
                self.pulses.append(("tail", dut.ring_tail_o.value.to_unsigned()))

    def taken_pulses(self) -> list[tuple[str, int]]:
        """Return the pulses since the last call."""
        taken, self.pulses = self.pulses, []
        return taken

    async def read(self, offset: int, response: AxiResp = AxiResp.OKAY) -> int:
        """Read 32 bits and check the response."""
        answer = await self.master.read(offset, 4)
        assert answer.resp == response, f"read of 0x{offset:X}: {answer.resp!r}"
        return int.from_bytes(answer.data, "little")

    async def read64(self, offset: int) -> int:
        """Read 64 bits, the low word first."""
        low = await self.read(offset)
        return low | await self.read(offset + 4) << 32

    async def write(self, offset: int, value: int, size: int = 4, response: AxiResp = AxiResp.OKAY) -> None:
        """Write `size` bytes within a word and check the response."""
        answer = await self.master.write(offset, value.to_bytes(size, "little"))
        assert answer.resp == response, f"write of 0x{offset:X}: {answer.resp!r}"

    async def pulse(self, name: str) -> None:
        """Hold an input at 1 for one cycle; return when the effect is visible."""
        signal = getattr(self.dut, name)
        signal.value = 1
        await RisingEdge(self.dut.clk_i)
        signal.value = 0
        await RisingEdge(self.dut.clk_i)


def words() -> dict[int, tuple[str, regs.Register]]:
    """Return every 32-bit offset that holds a register, with the register."""
    return {
        register.offset + 4 * index: (name, register)
        for name, register in regs.REGISTERS.items()
        for index in range(register.count * register.width // 32)
    }


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], backpressure=[0.0, 0.5])
async def reset_values(dut: SimHandleBase, idle: float, backpressure: float) -> None:
    """Every register reads as the map says after reset; write-only ones refuse the read."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start(idle, backpressure)
    for offset, (name, register) in words().items():
        if not register.readable:
            assert await testbench.read(offset, AxiResp.SLVERR) == 0, name
        elif name == "CYCLES":
            assert await testbench.read(offset) < 10_000
        else:
            assert await testbench.read(offset) == CAPABILITIES.get(name, register.reset), name
    assert not testbench.taken_pulses()
    assert not dut.irq_o.value


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], backpressure=[0.0, 0.5])
async def access_types(dut: SimHandleBase, idle: float, backpressure: float) -> None:
    """Plain registers take writes in any byte combination; read-only ones refuse them."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start(idle, backpressure)
    masks = {
        "IRQ_ENABLE": regs.IRQ_ENABLE_DONE.mask | regs.IRQ_ENABLE_ERROR.mask | regs.IRQ_ENABLE_COMMAND.mask,
        "WATCHDOG": 0xFFFF_FFFF,
        "AXI_PROT": 0x7,
        "RING_BASE": 0xFFFF_FFFF,
        "RING_SIZE": 0xFFFF,
        "RING_TAIL": 0xFFFF,
        "GUARD_BASE": 0xFFFF_FFC0,
        "GUARD_SIZE": 0xFFFF_FFC0,
        "RING_BASE_HIGH": 0x7,
        "GUARD_BASE_HIGH": 0x7,
        "CMD_WINDOW": 0xFFFF_FFFF,
    }
    expected = {}
    for offset, (name, register) in words().items():
        if name in masks:
            value = 0
            for _ in range(6):
                size = random.choice((1, 2, 4))
                byte = random.randrange(0, 4, size)
                part = random.getrandbits(8 * size)
                await testbench.write(offset + byte, part, size)
                lanes = ((1 << 8 * size) - 1) << 8 * byte
                value = (value & ~lanes | part << 8 * byte) & masks[name]
                assert await testbench.read(offset) == value, name
            expected[offset] = value
        elif not register.writable:
            before = 0 if name == "CYCLES" else await testbench.read(offset)
            await testbench.write(offset, random.getrandbits(32), response=AxiResp.SLVERR)
            if name != "CYCLES":
                assert await testbench.read(offset) == before, name
    # No write went to a neighbour.
    for offset, value in expected.items():
        assert await testbench.read(offset) == value
    plain = ("RING_BASE", "RING_SIZE", "RING_TAIL", "GUARD_BASE", "GUARD_SIZE", "WATCHDOG", "AXI_PROT")
    for name in (*plain, "RING_BASE_HIGH", "GUARD_BASE_HIGH"):
        output = getattr(dut, f"{name.lower()}_o")
        assert output.value.to_unsigned() == expected[regs.REGISTERS[name].offset], name


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def bad_offsets(dut: SimHandleBase) -> None:
    """An offset without a register answers SLVERR, reads 0 and changes nothing, anywhere in the window."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    mapped = words()
    near = [offset for offset in range(0, 0x300, 4) if offset not in mapped]
    # Aliases: a mapped offset with one higher address bit set.
    aliases = [offset | 1 << bit for offset in (0x40, 0x60, 0x100) for bit in range(10, 16)]
    far = [random.randrange(0x300, WINDOW_BYTES, 4) for _ in range(64)]
    for offset in [*near, *aliases, *far, WINDOW_BYTES - 4]:
        assert await testbench.read(offset, AxiResp.SLVERR) == 0
        await testbench.write(offset, 0xFFFF_FFFF, response=AxiResp.SLVERR)
    assert not testbench.taken_pulses()
    assert await testbench.read(regs.IRQ_ENABLE) == 0
    assert await testbench.read(regs.RING_BASE) == 0


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def status_fields(dut: SimHandleBase) -> None:
    """Status inputs appear in their fields; the error address is one moment's value."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    for _ in range(20):
        ports = [getattr(dut, name) for name in STATUS_INPUTS]
        values = [random.getrandbits(len(port)) for port in ports]
        for port, value in zip(ports, values, strict=True):
            port.value = value
        state, level, full, code, index, address, retired, head = values
        await RisingEdge(dut.clk_i)
        status = await testbench.read(regs.STATUS)
        assert regs.STATUS_STATE.get(status) == state
        assert regs.STATUS_QUEUE_LEVEL.get(status) == level
        assert regs.STATUS_QUEUE_FULL.get(status) == full
        assert await testbench.read(regs.ERROR_CODE) == code
        assert await testbench.read(regs.ERROR_INDEX) == index
        assert await testbench.read(regs.RETIRED) == retired
        assert await testbench.read(regs.RING_HEAD) == head
        low = await testbench.read(regs.ERROR_ADDR)
        dut.error_addr_i.value = ~address & (1 << 64) - 1
        await RisingEdge(dut.clk_i)
        assert low | await testbench.read(regs.ERROR_ADDR + 4) << 32 == address


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5], backpressure=[0.0, 0.5])
async def doorbell(dut: SimHandleBase, idle: float, backpressure: float) -> None:
    """Each doorbell write of any size is one pulse, and the packet stands with it."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start(idle, backpressure)
    for size in (1, 2, 4, 1):
        packet = [random.getrandbits(32) for _ in range(16)]
        # Posted together: only the order on the bus makes the packet complete before the doorbell.
        tasks = [
            cocotb.start_soon(testbench.write(regs.CMD_WINDOW + 4 * index, word))
            for index, word in enumerate(packet)
        ]
        byte = random.randrange(0, 4, size)
        tasks.append(
            cocotb.start_soon(testbench.write(regs.DOORBELL + byte, random.getrandbits(8 * size), size))
        )
        for task in tasks:
            await task
        await ClockCycles(dut.clk_i, 3)
        whole = sum(word << 32 * index for index, word in enumerate(packet))
        assert testbench.taken_pulses() == [("doorbell", whole)]
        for index, word in enumerate(packet):
            assert await testbench.read(regs.CMD_WINDOW + 4 * index) == word


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def writes_in_flight(dut: SimHandleBase) -> None:
    """Of two writes, the second on its way before the first is answered, the first acts first, even if both
    come in consecutive clocks."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    acting = {
        "soft_reset": (regs.CONTROL, regs.CONTROL_SOFT_RESET.mask, dut.soft_reset_o),
        "clear_error": (regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask, dut.clear_error_o),
        "doorbell": (regs.DOORBELL, 1, dut.cmd_doorbell_o),
        "tail": (regs.RING_TAIL, 1, dut.ring_tail_write_o),
    }
    apart = set()
    for (first, second), late in itertools.product(itertools.permutations(acting, 2), range(4)):
        acted: dict[str, int] = {}

        async def watch(names: tuple[str, str] = (first, second), seen: dict[str, int] = acted) -> None:
            while True:
                await RisingEdge(dut.clk_i)
                await ReadOnly()
                for name in names:
                    if acting[name][2].value:
                        assert name not in seen, f"{name} acts twice"
                        seen[name] = clocks()

        watcher = cocotb.start_soon(watch())
        writes = []
        for name in (first, second):
            offset, value, _ = acting[name]
            writes.append(cocotb.start_soon(testbench.write(offset, value)))
            if name == first:
                await ClockCycles(dut.clk_i, late)
        for write in writes:
            await write
        await ClockCycles(dut.clk_i, 3)
        watcher.cancel()
        assert acted.keys() == {first, second}
        distance = acted[second] - acted[first]
        assert distance > 0, f"{second}, {late} clocks behind {first}, acts {distance} clocks behind it"
        apart.add(distance)
    assert apart >= {1, 2, 3}, "no two writes came in consecutive clocks"


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def control_and_ring(dut: SimHandleBase) -> None:
    """Control bits pulse once and read 0; ring enable and tail follow software and the hardware's clears."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    await testbench.write(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask)
    assert await testbench.read(regs.CONTROL) == 0
    assert testbench.taken_pulses() == [("clear_error", 0)]

    await testbench.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask)
    assert await testbench.read(regs.CONTROL) == regs.CONTROL_RING_ENABLE.mask
    assert dut.ring_enable_o.value
    await testbench.pulse("ring_enable_clear_i")
    assert await testbench.read(regs.CONTROL) == 0
    assert not dut.ring_enable_o.value

    for tail in (1, 0xFFFF, 0xFFFF, 0):
        await testbench.write(regs.RING_TAIL, tail)
        await ClockCycles(dut.clk_i, 2)
        assert testbench.taken_pulses() == [("tail", tail)]
    await testbench.write(regs.RING_TAIL, 77)
    await testbench.pulse("ring_tail_clear_i")
    assert await testbench.read(regs.RING_TAIL) == 0
    dut.ring_tail_value_i.value = 0xFEDC
    await testbench.pulse("ring_tail_set_i")
    assert await testbench.read(regs.RING_TAIL) == 0xFEDC
    assert testbench.taken_pulses() == [("tail", 77)]  # what the device sets is no doorbell

    # Soft reset keeps the configuration and resets everything else of the block.
    await testbench.write(regs.RING_BASE, 0x1000_0040)
    await testbench.write(regs.RING_SIZE, 32)
    await testbench.write(regs.IRQ_ENABLE, 7)
    await testbench.write(regs.CMD_WINDOW + 60, 0xDEAD_BEEF)
    await testbench.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask)
    await testbench.pulse("irq_error_i")
    assert dut.irq_o.value
    await testbench.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask | regs.CONTROL_RING_ENABLE.mask)
    await ClockCycles(dut.clk_i, 2)
    assert testbench.taken_pulses() == [("soft_reset", 0)]
    assert await testbench.read(regs.CONTROL) == 0
    assert await testbench.read(regs.CMD_WINDOW + 60) == 0
    assert await testbench.read(regs.IRQ_STATUS) == 0
    assert not dut.irq_o.value
    assert await testbench.read(regs.RING_BASE) == 0x1000_0040
    assert await testbench.read(regs.RING_SIZE) == 32
    assert await testbench.read(regs.IRQ_ENABLE) == 7


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def interrupts(dut: SimHandleBase) -> None:
    """Status bits collect events, clear by writing 1, and reach the pin only when enabled."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    inputs = ("irq_done_i", "irq_error_i", "irq_command_i")
    for bit, name in enumerate(inputs):
        await testbench.write(regs.IRQ_ENABLE, 0)
        await testbench.pulse(name)
        assert await testbench.read(regs.IRQ_STATUS) == 1 << bit
        assert not dut.irq_o.value
        for enabled in range(8):
            await testbench.write(regs.IRQ_ENABLE, enabled)
            assert bool(dut.irq_o.value) == bool(enabled >> bit & 1)
        await testbench.write(regs.IRQ_STATUS, ~(1 << bit) & 7)
        assert await testbench.read(regs.IRQ_STATUS) == 1 << bit, "a 0 cleared the bit"
        await testbench.write(regs.IRQ_STATUS, 1 << bit)
        assert await testbench.read(regs.IRQ_STATUS) == 0
        assert not dut.irq_o.value
    # An event in the cycle of the clear is kept.
    dut.irq_done_i.value = 1
    await testbench.write(regs.IRQ_STATUS, 7)
    dut.irq_done_i.value = 0
    assert await testbench.read(regs.IRQ_STATUS) == regs.IRQ_STATUS_DONE.mask


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def events_at_rest(dut: SimHandleBase) -> None:
    """The registers' clock stops behind an access or an event; each event alone takes effect, however long
    the clock has rested."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    await testbench.write(regs.IRQ_ENABLE, 7)
    dut.ring_tail_value_i.value = 0xFEDC

    async def at_rest(name: str) -> None:
        await ClockCycles(dut.clk_i, REST)
        for _ in range(REST):
            await RisingEdge(dut.clk_i)
            await ReadOnly()
            assert not dut.regs_clk.value, "the clock runs without traffic"
        await RisingEdge(dut.clk_i)
        await testbench.pulse(name)

    await testbench.write(regs.CONTROL, regs.CONTROL_RING_ENABLE.mask)
    await at_rest("ring_enable_clear_i")
    assert not dut.ring_enable_o.value
    await testbench.write(regs.RING_TAIL, 77)
    await at_rest("ring_tail_clear_i")
    assert dut.ring_tail_o.value.to_unsigned() == 0
    await at_rest("ring_tail_set_i")
    assert dut.ring_tail_o.value.to_unsigned() == 0xFEDC
    for name in ("irq_done_i", "irq_error_i", "irq_command_i"):
        await testbench.write(regs.IRQ_STATUS, 7)
        assert not dut.irq_o.value
        await at_rest(name)
        assert dut.irq_o.value, name


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def clocks_behind_an_event(dut: SimHandleBase) -> None:
    """The registers' clock runs with an event and for seven clocks more."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    for name in ("irq_done_i", "ring_tail_set_i"):
        await ClockCycles(dut.clk_i, REST)
        await FallingEdge(dut.clk_i)
        getattr(dut, name).value = 1
        await FallingEdge(dut.clk_i)
        getattr(dut, name).value = 0
        behind = []
        for _ in range(REST):
            await RisingEdge(dut.clk_i)
            await ReadOnly()
            behind.append(bool(dut.regs_clk.value))
        assert behind == [True] * 7 + [False] * (REST - 7), name


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(bit=[0, 1, 2])
async def events_beside_a_clear(dut: SimHandleBase, bit: int) -> None:
    """One event at each clock around a clear: it is lost up to some clock and kept from then on, whether or
    not the flag was set before."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    name = ("irq_done_i", "irq_error_i", "irq_command_i")[bit]
    kept: dict[bool, list[bool]] = {False: [], True: []}
    for flagged, runs in kept.items():
        for delay in range(1, 14):
            await testbench.write(regs.IRQ_STATUS, 7)
            if flagged:
                await testbench.pulse(name)
            clear = cocotb.start_soon(testbench.write(regs.IRQ_STATUS, 7))
            await ClockCycles(dut.clk_i, delay)
            await testbench.pulse(name)
            await clear
            runs.append(await testbench.read(regs.IRQ_STATUS) == 1 << bit)
    assert kept[False] == kept[True], "whether an event is kept depends on the flag"
    assert kept[True] == sorted(kept[True])
    ends = (kept[True][0], kept[True][-1])
    assert ends == (False, True), "the clear is not among the clocks tried"


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(name=["irq_done_i", "irq_error_i", "irq_command_i"])
async def events_at_a_reset(dut: SimHandleBase, name: str) -> None:
    """An event in the clock of a soft reset, or of its completion, sets no flag."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    event = getattr(dut, name)

    async def coincide() -> None:
        await RisingEdge(dut.soft_reset_o)
        event.value = 1
        await RisingEdge(dut.clk_i)
        event.value = 0

    at_request = cocotb.start_soon(coincide())
    await testbench.write(regs.CONTROL, regs.CONTROL_SOFT_RESET.mask)
    await at_request
    assert await testbench.read(regs.IRQ_STATUS) == 0
    dut.ring_enable_clear_i.value = 1
    event.value = 1
    await RisingEdge(dut.clk_i)
    dut.ring_enable_clear_i.value = 0
    event.value = 0
    assert await testbench.read(regs.IRQ_STATUS) == 0


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def counters_count(dut: SimHandleBase) -> None:
    """Every counter adds its own event and no other; a clear zeroes all of them."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    total = dict.fromkeys((name for name, _ in EVENTS), 0)
    for _ in range(400):
        packed = 0
        for name, width in EVENTS:
            value = random.getrandbits(width)
            total[name] += value
            packed = packed << width | value
        dut.events_i.value = packed
        await RisingEdge(dut.clk_i)
    dut.events_i.value = 0
    for name, count in total.items():
        assert await testbench.read64(regs.REGISTERS[name].offset) == count, name
    await testbench.write(regs.CONTROL, regs.CONTROL_CLEAR_COUNTERS.mask)
    for name in regs.COUNTERS:
        value = await testbench.read64(regs.REGISTERS[name].offset)
        assert value < 1000 if name == "CYCLES" else value == 0, name


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(backpressure=[0.0, 0.5])
async def counters_are_atomic(dut: SimHandleBase, backpressure: float) -> None:
    """Around the carry into the high word, the two halves of a read belong together."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start(backpressure=backpressure)
    carry = 5 << 32
    start = carry - 64
    seen = set()
    for lead in range(40, 70):
        # CYCLES is the most significant member of the counts.
        dut.u_perf_counters.counts_q.value = start << 64 * (len(regs.COUNTERS) - 1)
        await ClockCycles(dut.clk_i, lead)
        value = await testbench.read64(regs.CYCLES)
        assert start < value < start + 1000, f"torn read: 0x{value:X}"
        seen.add(value >> 32)
    assert seen == {4, 5}, "the carry was not crossed"


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def counters_have_64_bits(dut: SimHandleBase) -> None:
    """Each counter shows both of its words, and no other counter's."""
    testbench = RegisterBlockTestbench(dut)
    await testbench.start()
    for _ in range(8):
        values = [random.getrandbits(63) for _ in regs.COUNTERS]
        word = 0
        for value in values:  # CYCLES, the first one, is the most significant member
            word = word << 64 | value
        dut.u_perf_counters.counts_q.value = word
        await ClockCycles(dut.clk_i, 2)
        for name, value in zip(regs.COUNTERS, values, strict=True):
            found = await testbench.read64(getattr(regs, name))
            most = value + (10_000 if name == "CYCLES" else 0)
            assert value <= found <= most, f"{name}: 0x{found:x} for 0x{value:x}"
