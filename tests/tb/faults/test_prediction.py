"""The functional model of the campaigns has byte strobes, runs on demand, and can undo its writes."""

import random
import struct
from collections import Counter

import numpy as np
import pytest

from echo_npu.commands.builders import gather_command
from echo_npu.commands.packets import ExtensionPacket, Flags, NpuCommandPacket, Opcode, packet_bytes
from echo_npu.model.program_memory import ILLEGAL
from echo_npu.spec import registers as regs
from echo_npu.spec.data_types import Blocks
from echo_npu.spec.status import ErrorCode, State
from tb.faults.fuzz_case import FuzzCase
from tb.faults.packets import (
    edited,
    flipped,
    fuzzed,
    mixed_up,
    multiplied,
    reformatted,
    rescattered,
    restrided,
)
from tb.faults.prediction import SLVERR, PredictedDevice, behind, commands, effort, written_ranges
from tb.faults.script import Script
from tb.faults.stage import FaultStage


@pytest.fixture(scope="module")
def device() -> PredictedDevice:
    return PredictedDevice("small")


@pytest.fixture(autouse=True)
def powered(device: PredictedDevice) -> None:
    device.take_back()
    device.power()


def copy(src: int, dst: int, m: int, flags: int = 0) -> bytes:
    return NpuCommandPacket(Opcode.MEMCPY, flags, src, 0, dst, m=m).pack()


def test_nothing_runs_before_it_is_asked_for(device: PredictedDevice) -> None:
    device.host_write(0x1000, b"abcd")
    device.submit(copy(0x1000, 0x1000_0000, 4))
    assert regs.STATUS_STATE.get(device.peek(regs.STATUS)[0]) == State.BUSY
    assert not device.memory.bytes[0x1000_0000]
    device.drain()
    assert device.registers() == (State.DONE, 0, 0, 0, 0, 1)
    assert device.memory.bytes[0x1000_0000:0x1000_0004].tobytes() == b"abcd"
    assert device.written[0].ranges == [(0x1000_0000, 0x1000_0004)]


def test_memory_is_taken_back(device: PredictedDevice) -> None:
    device.host_write(0x1000, b"abcd")
    device.submit(copy(0x1000, 0x1002_0000, 4))
    device.drain()
    device.take_back()
    assert not device.memory.bytes[0x1000:0x1004].any()
    assert not device.memory.bytes[0x1002_0000:0x1002_0004].any()


def test_what_is_written_twice_is_predicted_too(device: PredictedDevice) -> None:
    strides = {"dst_row_stride": 8, "src1_batch0_stride": 16, "dst_batch0_stride": 4}
    extension = ExtensionPacket(rows=2, batch0=2, **strides)
    device.host_write(0x1000, bytes(range(32)))
    device.submit(copy(0x1000, 0x1000_0000, 8, Flags.EXT))
    device.submit(extension.pack())
    device.drain()
    assert not device.error
    assert device.written[0].defined
    assert device.memory.bytes[0x1000_0000:0x1000_0014].tolist() == [*range(4), *range(16, 32)]
    device.take_back()
    assert not device.memory.bytes[0x1000_0000:0x1000_0014].any()


@pytest.mark.parametrize(
    ("offset", "value", "strobes", "expected"),
    [
        (regs.RING_BASE, 0x1234_5678, 0b0101, 0xFF34_FF78),
        (regs.RING_BASE + 3, 0x1234_5678, 0b1111, 0x1234_5678),
        (regs.CMD_WINDOW + 4, 0x1234_5678, 0b0010, 0x0000_5600),
        (regs.RING_SIZE, 0xFFFF_1234, 0b1100, 0x0000_0000),
    ],
)
def test_strobes(device: PredictedDevice, offset: int, value: int, strobes: int, expected: int) -> None:
    device.write_reg(regs.RING_BASE, 0xFFFF_FFFF)
    assert device.write_strobed(offset, value, strobes) == 0
    assert device.peek(offset) == (expected, 0xFFFF_FFFF, 0)


def test_a_doorbell_without_a_byte_is_none(device: PredictedDevice) -> None:
    assert device.write_strobed(regs.DOORBELL, 1, 0) == 0
    assert device.write_strobed(regs.RING_TAIL, 0x10000, 0b1100) == 0
    assert device.registers()[0] == State.IDLE
    assert not device.error
    device.write_strobed(regs.DOORBELL, 0, 0b1000)
    assert device.registers()[0] == State.BUSY


def test_refused_accesses(device: PredictedDevice) -> None:
    assert device.write_strobed(regs.ID, 1, 15) == SLVERR
    assert device.write_strobed(0x3000, 1, 15) == SLVERR
    assert device.peek(0x3000) == (0, 0xFFFF_FFFF, SLVERR)
    assert device.peek(regs.DOORBELL) == (0, 0xFFFF_FFFF, SLVERR)
    assert device.peek(regs.CYCLES)[1] == 0


def test_commands_with_their_packets(device: PredictedDevice) -> None:
    extended = [copy(0x1000, 0x1000_0000, 8, Flags.EXT), ExtensionPacket(rows=2).pack()]
    bad = NpuCommandPacket(0x77).pack()
    found = list(commands([*extended, bad, copy(0, 0x2000, 8), extended[0]], device.programs, blocks=False))
    assert [len(slots) for slots, _ in found] == [2, 1, 1]
    assert [command is None for _, command in found] == [False, True, False]


def test_what_may_be_under_way_behind_a_failed_command(device: PredictedDevice) -> None:
    product = NpuCommandPacket(Opcode.MATMUL, 0, 0x1000, 0x2000, 0x3000, m=4, k=4, n=4).pack()
    vector, nop = copy(0x1000, 0x4000, 8), NpuCommandPacket(Opcode.NOP).pack()

    def found(failed: bool, *slots: bytes) -> int:
        return len(behind(failed, slots, device.programs, blocks=False))

    assert found(False, product, product, product) == 2
    assert found(True, product, product) == 1
    assert found(True, vector, product, vector) == 2
    assert found(False, vector, product) == 0
    assert found(True, nop, product) == 0


def test_effort_grows_with_the_work(device: PredictedDevice) -> None:
    small, large = (
        NpuCommandPacket(Opcode.MATMUL, 0, 0, 0x10_0000, 0x1000_0000, m=size, k=size, n=size).pack()
        for size in (4, 64)
    )
    (_, first), (_, second) = commands([small, large], device.programs, blocks=False)
    assert first is not None
    assert second is not None
    assert effort(first) < 200 < 20_000 < effort(second)


def test_a_command_is_sound_if_nothing_but_the_time_can_stop_it(device: PredictedDevice) -> None:
    """A bad index and a program that was overwritten are found; neither memory nor the state changes."""
    stage = FaultStage("small", random.Random(9), 60, device)
    stage.ready(Script())
    device.host_write(0x1000, b"abcd" + bytes(16))
    for slots in stage.pool:
        ((_, command),) = commands(slots, device.programs, blocks=device.has_blocks)
        assert command is not None
        assert command.dst is None or device.is_sound(command)
    (gather,) = gather_command(0x1000, 0x1004, 0x1000_0000, 4, 4, 1).slots
    ((_, command),) = commands([gather], device.programs, blocks=False)
    assert command is not None
    assert device.is_sound(command)
    state = device.registers()
    assert not device.memory.bytes[0x1000_0000:0x1000_0010].any()
    device.host_write(0x100C, struct.pack("<i", -1))
    assert not device.is_sound(command)
    ((_, vector),) = commands(
        next(slots for slots in stage.pool if len(slots) == 4), device.programs, blocks=device.has_blocks
    )
    assert vector is not None
    assert device.is_sound(vector)
    device.programs.load(0, np.full(device.programs.loaded, ILLEGAL))
    assert not device.is_sound(vector)
    assert device.registers() == state
    assert not device.written
    nop = NpuCommandPacket(Opcode.NOP).pack()
    ((_, nothing),) = commands([nop], device.programs, blocks=False)
    assert nothing is not None
    with pytest.raises(ValueError, match="destination"):
        device.is_sound(nothing)


def test_an_overdue_command_has_no_other_error(device: PredictedDevice) -> None:
    """Each ends with TIMEOUT, even where all programs were overwritten; some are left to try then."""
    stage = FaultStage("small", random.Random(9), 60, device)
    for broken in (False, True):
        errors = Counter[int]()
        for seed in range(60):
            case = FuzzCase(stage, seed, 0)
            if broken:
                device.programs.load(0, np.full(device.programs.loaded, ILLEGAL))
            case._overdue()
            errors += Counter(case.errors)
            device.take_back()
        assert errors.keys() == {ErrorCode.TIMEOUT}
        assert errors[ErrorCode.TIMEOUT] > 10


def test_packets_are_drawn_from_the_seed(device: PredictedDevice) -> None:
    stage = FaultStage("small", random.Random(3), 20, device)
    first, second = ([fuzzed(random.Random(seed), stage.pool) for seed in range(40)] for _ in range(2))
    assert first == second
    assert len({b"".join(slots) for slots in first}) > 30
    assert all(len(slot) == 64 for slots in first for slot in slots)


def test_mutations_change_what_they_say() -> None:
    rng, slots = random.Random(1), [bytes(64), bytes(64)]
    for _ in range(50):
        one = flipped(rng, slots, 1)
        assert sum(byte.bit_count() for slot in one for byte in slot) == 1
        changed = [a != b for slot in edited(rng, slots) for a, b in zip(slot, bytes(64), strict=True)]
        assert sum(changed) <= 12
        assert 1 <= len(mixed_up(rng, slots, slots)) <= 3


def test_rows_are_products_near_powers_of_two(device: PredictedDevice) -> None:
    """Only the two counts of one stream change; the longest legal rows are among the results."""
    stage, rng = FaultStage("small", random.Random(5), 200, device), random.Random(6)
    vectors = [slots for slots in stage.pool if len(slots) == 4]
    longest = 0
    for _ in range(200):
        slots = rng.choice(vectors)
        before, after = (struct.unpack("<64I", b"".join(each)) for each in (slots, multiplied(rng, slots)))
        changed = [word for word in range(64) if before[word] != after[word]]
        assert 1 <= len(changed) <= 2
        assert max(changed) - min(changed) <= 2  # the list of descriptors has a magic word in the middle
        if len(changed) == 2:
            elements = after[changed[0]] * (after[changed[1]] & 0xF_FFFF)
            assert min(abs(elements - (1 << exponent)) for exponent in range(30, 51)) < 1 << 20
            longest += elements.bit_length() == 51
    assert longest > 50


def test_commands_scatter_to_tables_of_any_height(device: PredictedDevice) -> None:
    """Many of them are accepted, many are not, and some tables are high."""
    stage, rng = FaultStage("small", random.Random(5), 200, device), random.Random(6)
    vectors = [slots for slots in stage.pool if len(slots) == 4]
    heights = []
    for _ in range(300):
        slots = rescattered(rng, rng.choice(vectors))
        for _, command in commands(slots, device.programs, blocks=device.has_blocks):
            if command is not None and command.vector is not None:
                heights.append(command.vector.table_rows)
    assert 50 < sum(height > 0 for height in heights) < 280
    assert max(heights) > 1000


def test_what_a_scatter_may_write(device: PredictedDevice) -> None:
    """The whole table may be written; the model keeps the rows that it does write."""
    stage = FaultStage("small", random.Random(5), 200, device)
    for slots in stage.pool:
        ((_, command),) = commands(slots, device.programs, blocks=device.has_blocks)
        assert command is not None
        if command.vector is None or not command.vector.table_rows:
            continue
        stage.ready(Script())
        for slot in slots:
            device.submit(packet_bytes(slot))
        device.drain()
        ((first, end),) = written_ranges(command)
        assert all(first <= low < high <= end for low, high in device.written[-1].ranges)
        device.take_back()
        return
    raise AssertionError("no scatter in the pool")


def test_destinations_overlap_themselves(device: PredictedDevice) -> None:
    """Destinations overlap themselves often enough, in copies, products and vector commands."""
    stage, rng = FaultStage("small", random.Random(5), 200, device), random.Random(6)
    met: Counter[int] = Counter()
    for _ in range(400):
        for _, command in commands(
            restrided(rng, rng.choice(stage.pool)), device.programs, blocks=device.has_blocks
        ):
            if command is not None and command.dst is not None:
                met[command.packet.opcode] += command.dst.overlaps_itself(command.batch)
    assert min(met[opcode] for opcode in (Opcode.MEMCPY, Opcode.MATMUL, Opcode.VECTOR)) >= 10


def test_the_stage_is_legal(device: PredictedDevice) -> None:
    """Every command of the pool executes without an error."""
    stage = FaultStage("small", random.Random(9), 60, device)
    for slots in stage.pool:
        stage.ready(Script())
        for slot in slots:
            device.submit(packet_bytes(slot))
        device.drain()
        assert device.error == ErrorCode.NONE
        device.take_back()


@pytest.mark.parametrize("config", ["small", "default", "random-7"])
def test_weights_in_other_formats(config: str) -> None:
    """A device with weights in blocks accepts many of them in each format, another one accepts none."""
    rng, hardware = random.Random(4), PredictedDevice(config)
    stage = FaultStage(config, rng, 60, hardware)
    products = [slots for slots in stage.pool if slots[0][0] == Opcode.MATMUL]
    found = Counter[Blocks]()
    for _ in range(600):
        changed = reformatted(rng, rng.choice(products))
        for _, command in commands(changed, hardware.programs, blocks=hardware.has_blocks):
            if command is not None:
                found[command.packet.blocks] += 1
    wanted = [each for each in Blocks if hardware.has_blocks or not each]
    assert sorted(found) == wanted
    assert min(found.values()) > 20


def test_the_longest_command_is_known(device: PredictedDevice) -> None:
    """Of those that were executed since it was set to 0: refused ones take no time."""
    efforts = []
    for size in (64, 4096, 128):
        device.longest = 0.0
        device.submit(copy(0x1000, 0x10000, size))
        device.drain()
        efforts.append(device.longest)
    assert efforts[0] < efforts[2] < efforts[1]
    device.submit(copy(0x1000, 0x20000, 4096))
    device.submit(copy(0x1000, 0x30000, 64))
    device.submit(copy(0x1000, 0x1000, 1 << 20))
    device.drain()
    assert device.longest == efforts[1]
    assert device.error == ErrorCode.OVERLAP
