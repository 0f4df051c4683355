"""Each check of the testbench fails on the real device when something is wrong."""

import cocotb
import pytest
from cocotb.triggers import Timer

from echo_npu.commands.matmul_command import matmul_packets
from echo_npu.commands.packets import NpuCommandPacket, Opcode, Packet
from echo_npu.register_ops import ReadReg, WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.status import State
from echo_sim.contract import KNOBS
from tb.drivers.registers import CLOCK_NS
from tb.scoreboards.errors import ExactMismatchError, StateMismatchError, StrayWriteError, UncheckedError
from tb.testbench import NpuTestbench, npu_test
from tests.commands.cycles import busy_cycles


def product(tb: NpuTestbench) -> tuple[list[Packet], int]:
    """Return a small MATMUL and its destination."""
    a, b, dst = tb.place(tb.floats(5, 6)), tb.place(tb.floats(6, 7)), tb.destination(4 * 5 * 7)
    return list(matmul_packets(a, b, dst, 5, 6, 7)), dst


@npu_test(element=[0, 17, 34])
async def test_wrong_result_is_seen(tb: NpuTestbench, element: int) -> None:
    """One bit of a result is flipped."""
    packets, dst = product(tb)
    await tb.commands.submit(packets)
    await tb.commands.wait(100_000)
    tb.memory.shared.bytes[dst + 4 * element] ^= 1
    with pytest.raises(ExactMismatchError, match=f"row {element // 7} element {element % 7}"):
        await tb.check()


@npu_test(where=["before", "behind", "far"])
async def test_stray_write_is_seen(tb: NpuTestbench, where: str) -> None:
    """One byte outside of the destination is changed."""
    packets, dst = product(tb)
    await tb.commands.submit(packets)
    await tb.commands.wait(100_000)
    tb.memory.shared.bytes[{"before": dst - 1, "behind": dst + 4 * 5 * 7, "far": 0x0ABC_DEF0}[where]] ^= 0x80
    with pytest.raises(StrayWriteError):
        await tb.check()


@npu_test()
async def test_changed_operand_is_seen(tb: NpuTestbench) -> None:
    """The device works on other data than the model."""
    packets, _ = product(tb)
    first = packets[0]
    assert isinstance(first, NpuCommandPacket)
    tb.memory.shared.bytes[first.src1_addr + 3] ^= 0x40
    with pytest.raises((ExactMismatchError, StrayWriteError)):
        await tb.run(packets)


@npu_test()
async def test_hidden_command_is_seen(tb: NpuTestbench) -> None:
    """The device executes a command that the model does not see: its doorbell is lost on the way to the
    monitor."""
    await tb.commands.submit([NpuCommandPacket(Opcode.NOP)])
    await tb.commands.wait(100_000)
    tb.monitor.drop()
    with pytest.raises(StateMismatchError, match="retired 1"):
        await tb.check()


@npu_test()
async def test_unchecked_command_is_seen(tb: NpuTestbench) -> None:
    """A command is submitted and never checked; and a test checks nothing at all."""
    with pytest.raises(UncheckedError, match="checked no command"):
        await tb.finish()
    packets, _ = product(tb)
    await tb.commands.submit(packets)
    await tb.commands.wait(100_000)
    with pytest.raises(UncheckedError, match="MATMUL"):
        await tb.finish()
    await tb.check()


@npu_test()
async def test_external_register_master(tb: NpuTestbench) -> None:
    """Any AXI4-Lite master can drive s_axil: here cocotbext-axi submits a command, and the monitor sees
    it."""
    from cocotbext.axi import AxiLiteBus, AxiLiteMaster

    dut = tb.dut
    data, dst = tb.place(tb.floats(8)), tb.destination(32)
    packet = NpuCommandPacket(Opcode.MEMCPY, 0, data, 0, dst, m=32)
    dut.axil_external.value = 1
    dut.bus_enable.value = 1
    master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.bus_clk)
    assert int.from_bytes((await master.read(regs.ID, 4)).data, "little") == 0x4543484F
    for write in tb.commands.window_writes(packet.pack()):
        assert isinstance(write, WriteReg)
        await master.write_dword(write.offset, write.value)
    await master.read(regs.STATUS, 4)
    dut.axil_external.value = 0
    dut.bus_enable.value = 0
    await tb.check()


@npu_test()
async def test_capabilities(tb: NpuTestbench) -> None:
    """The capability registers are those of the configuration."""
    config, read = tb.config, tb.registers.read
    assert await read(regs.ID) == 0x4543484F
    assert await read(regs.VERSION) == 0x0001_0000
    assert await read(regs.CAP_ARRAY) == config.array_rows | config.array_cols << 16
    assert await read(regs.CAP_VECTOR) == config.vector_lanes | config.data_width << 16
    assert regs.CAP_QUEUE_DEPTH.get(await read(regs.CAP_QUEUE)) == config.queue_depth
    assert await read(regs.CAP_VECTOR_LENGTH) == config.vector_length
    assert await read(regs.CAP_VECTOR_ROW) == config.row_elements
    assert await read(regs.CAP_PROGRAM) == config.program_words
    await tb.probe()


@npu_test()
async def test_memory_knobs(tb: NpuTestbench) -> None:
    """Latency and bandwidth have their effects; a wrong knob or value is refused with the legal names."""
    nbytes = 16_384
    src, bus = tb.alloc(nbytes, "weight"), tb.config.bus_bytes
    spent = {}
    for name, knobs in {
        "steady": {},
        "slow": {"read_bandwidth": bus / 8},
        "slow writes": {"write_bandwidth": bus / 8},
        "late": {"read_latency": 3000},
    }.items():
        tb.dram.configure({"stall_aw": 0, "stall_w": 0, "stall_b": 0, "stall_ar": 0, "stall_r": 0})
        tb.dram.configure({"read_latency": 20, "write_latency": 20, "max_reads": 64, "max_writes": 64})
        tb.dram.configure({"read_bandwidth": 4096, "write_bandwidth": 4096, **knobs})
        copy = NpuCommandPacket(Opcode.MEMCPY, 0, src, 0, tb.destination(nbytes), m=nbytes)
        spent[name] = await busy_cycles(tb, [copy])
    beats = nbytes // bus
    assert spent["steady"] < 2 * beats + 200, spent
    assert 8 * beats <= spent["slow"] < 9 * beats + 200, spent
    assert 8 * beats <= spent["slow writes"] < 9 * beats + 200, spent
    assert spent["late"] > 3000 + beats, spent
    with pytest.raises(ValueError, match=", ".join(KNOBS)):
        tb.dram.set("latency", 3)
    for knob, value in (("stall_r", 0.95), ("stall_r", -0.1), ("read_bandwidth", 0), ("read_latency", 1.5)):
        with pytest.raises(ValueError, match=knob):
            tb.dram.set(knob, value)


@npu_test()
async def test_time_out_names_the_state(tb: NpuTestbench) -> None:
    """A wait is bounded, ends on time, and its error names the device's state."""
    from cocotb.utils import get_sim_time

    from tb.drivers.commands import DeviceHangError

    tb.dram.configure({"read_latency": 20_000})
    packets, _ = product(tb)
    await tb.commands.submit(packets)
    started = get_sim_time("ns")
    with pytest.raises(DeviceHangError, match="state BUSY"):
        await tb.commands.wait(500)
    assert (get_sim_time("ns") - started) / CLOCK_NS < 1000
    await tb.check()


@npu_test()
async def test_nothing_of_a_failed_test_stays(tb: NpuTestbench) -> None:
    """A test ends while its register accesses wait; the next test's accesses get their own answers."""
    left = cocotb.start_soon(tb.registers.run([ReadReg(regs.VERSION)] * 300))
    await Timer(20 * CLOCK_NS, "ns")
    left.cancel()
    await tb.start()
    packets, _ = product(tb)
    assert await tb.run(packets) == State.DONE
    assert await tb.registers.read(regs.ID) == regs.REGISTERS["ID"].reset
