"""After a reset, registers hold what the register map says, whatever they held before."""

from cocotb.triggers import Timer

from echo_npu.register_ops import ReadReg
from echo_npu.spec import registers as regs
from tb.drivers.registers import CLOCK_NS
from tb.testbench import RING_BASE, RING_SLOTS, NpuTestbench, npu_test

COUNTING = ("CYCLES",)
"""Registers that count clocks from the reset on."""
WRITTEN = ("IRQ_ENABLE", "WATCHDOG", "AXI_PROT", "RING_SIZE", "GUARD_SIZE")


async def values(tb: NpuTestbench) -> dict[str, int]:
    """Read all readable registers, by name and word."""
    places = {
        f"{name}[{word}]": register.offset + 4 * word
        for name, register in regs.REGISTERS.items()
        if register.readable and name not in COUNTING
        for word in range(register.count * register.width // 32)
    }
    read = await tb.registers.run([ReadReg(offset) for offset in places.values()])
    return dict(zip(places, read, strict=True))


async def reset(tb: NpuTestbench) -> None:
    """Reset by the pin, without any access after it."""
    tb.monitor.sync()
    tb.dut.rst_n.value = 0
    await Timer(5 * CLOCK_NS, "ns")
    tb.dut.rst_n.value = 1
    await Timer(5 * CLOCK_NS, "ns")
    tb.scoreboard.after_reset(tb.memory.shared, hard=True)


@npu_test()
async def test_every_register(tb: NpuTestbench) -> None:
    """First from the random state at power-up, then after commands and writes to all writable registers."""
    await reset(tb)
    first = await values(tb)
    for name, register in regs.REGISTERS.items():
        if not register.readable or name in COUNTING or name.startswith("CAP_"):
            continue
        words = register.width // 32
        for word in range(register.count * words):
            expected = register.reset >> 32 * (word % words) & 0xFFFF_FFFF
            assert first[f"{name}[{word}]"] == expected, name
    await tb.commands.setup_ring(RING_BASE, RING_SLOTS)
    await tb.probe()
    for name in WRITTEN:
        await tb.registers.write(getattr(regs, name), tb.random.getrandbits(32) | 1)
    for word in range(16):
        await tb.registers.write(regs.CMD_WINDOW + 4 * word, tb.random.getrandbits(32))
    used = await values(tb)
    assert all(used[f"{name}[0]"] != first[f"{name}[0]"] for name in (*WRITTEN, "RETIRED", "READ_BEATS"))
    await reset(tb)
    assert await values(tb) == first
