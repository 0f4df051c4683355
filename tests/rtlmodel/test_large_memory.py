"""Memory above 4 GiB on the RTL: the same results and errors as on the functional model.

The configuration is `small` with the memory of `large`: it builds in a fraction of the time.
"""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu import Device
from echo_npu.commands.builders import memcpy_packets
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode, Packet
from echo_npu.spec import registers as regs
from echo_npu.spec.contract import PACKET_BYTES
from echo_npu.spec.status import ErrorCode, State
from echo_sim.config import LEGAL, MEMORY, load_config
from tests.large_memory import GIB, WORK, Borders, read, refusals, refused, write
from tests.refusals import refuses
from tests.rtlmodel.simulated import STALLS, open_rtl, simulator_only

pytestmark = [pytest.mark.sim, simulator_only]


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of the configuration."""
    small, large = load_config("small"), load_config("large")
    keys = {key: getattr(small, key) for key in LEGAL} | {key: getattr(large, key) for key in MEMORY}
    path: Path = tmp_path_factory.mktemp("configurations") / "wide.toml"
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()), encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module", params=[0.0, STALLS], ids=["without stalls", "with stalls"])
def pair(request: pytest.FixtureRequest, wide: str) -> Iterator[tuple[Device, Device]]:
    """An RTL simulation and a functional model."""
    with (
        open_rtl(wide, stalls=request.param, seed=6) as rtl,
        echo_npu.open("cmodel", config=wide) as model,
    ):
        yield rtl, model


@pytest.mark.parametrize("work", WORK)
def test_operands_above_4_gib(
    pair: tuple[Device, Device], work: Callable[[Device], tuple[np.ndarray, np.ndarray]]
) -> None:
    found, expected = work(pair[0])
    assert np.array_equal(found, expected)
    assert np.array_equal(found, work(pair[1])[0])


def test_operands_outside_of_memory_are_refused(pair: tuple[Device, Device]) -> None:
    assert refusals(pair[0]) == refusals(pair[1])


def test_operations(pair: tuple[Device, Device]) -> None:
    x = np.random.default_rng(1).standard_normal((9, 70)).astype(np.float32)
    weight, bias = x[0] + 1, x[1]
    results = [npu.layer_norm(npu.softmax(x), weight, bias) for npu in pair]
    assert np.array_equal(*results)


def test_the_ring_and_its_guard_lie_above_4_gib(pair: tuple[Device, Device]) -> None:
    for npu in pair:
        npu.submit_batch(memcpy_packets(4 * GIB + 64, 12 * GIB + 64, 8))
        npu.wait()
        base = 20 * GIB - 1024 * 64
        npu.limit(protect_ring=True)
        try:
            assert refused(npu, memcpy_packets(4 * GIB, base + 64, 8)) == (ErrorCode.PROTECTED, base + 64)
            assert refused(npu, memcpy_packets(4 * GIB, base - 8, 8)) == (0, 0)
        finally:
            npu.limit()


def start_ring(npu: Device, base: int, slots: int) -> None:
    """Let the device take packets from a ring anywhere in its memory."""
    for offset, value in (
        (regs.RING_BASE, base & 0xFFFF_FFFF),
        (regs.RING_BASE_HIGH, base >> 32),
        (regs.RING_SIZE, slots),
        (regs.CONTROL, regs.CONTROL_RING_ENABLE.mask),
    ):
        npu.backend.write_reg(offset, value)


def settled(npu: Device) -> State:
    """Wait until the device has nothing to do; return its state."""
    while (state := State(regs.STATUS_STATE.get(npu.backend.read_reg(regs.STATUS)))) == State.BUSY:
        pass
    return state


def window_answer(npu: Device, packets: list[Packet]) -> tuple[int, int]:
    """Submit a command through the window, where the ring's place does not count; return its error code and
    address, and clear it."""
    (packet,) = packets
    for index, (word,) in enumerate(struct.iter_unpack("<I", packet.pack())):
        npu.backend.write_reg(regs.CMD_WINDOW + 4 * index, word)
    npu.backend.write_reg(regs.DOORBELL, 1)
    if settled(npu) != State.ERROR:
        return 0, 0
    low, high = (npu.backend.read_reg(regs.ERROR_ADDR + word) for word in (0, 4))
    answer = npu.backend.read_reg(regs.ERROR_CODE), high << 32 | low
    npu.backend.write_reg(regs.CONTROL, regs.CONTROL_CLEAR_ERROR.mask)
    return answer


def packet_of(source: int, target: int, nbytes: int) -> bytes:
    """Return the packet of a copy."""
    (packet,) = memcpy_packets(source, target, nbytes)
    return packet.pack()


def test_a_guard_lies_across_a_multiple_of_4_gib(pair: tuple[Device, Device]) -> None:
    for npu in pair:
        at, half = Borders.of(npu), 1 << 16
        npu.backend.write_reg(regs.GUARD_BASE, at.seam - half & 0xFFFF_FFFF)
        npu.backend.write_reg(regs.GUARD_BASE_HIGH, at.seam - half >> 32)
        npu.backend.write_reg(regs.GUARD_SIZE, 2 * half)
        try:
            for inside in (at.seam - half, at.seam - 8, at.seam, at.seam + 256, at.seam + half - 8):
                command = memcpy_packets(at.activation, inside, 8)
                assert window_answer(npu, command) == (ErrorCode.PROTECTED, inside)
            for outside in (at.seam - half - 8, at.seam + half, at.weight_end - 8, at.weight):
                assert window_answer(npu, memcpy_packets(at.activation, outside, 8)) == (0, 0)
        finally:
            npu.limit()
            npu.reset()


@pytest.mark.parametrize("slot", [1, 4, 7])
def test_a_ring_lies_across_a_multiple_of_4_gib(pair: tuple[Device, Device], slot: int) -> None:
    """The border lies before slot `slot` of 8; the last packets wrap around to the ring's beginning."""
    for npu in pair:
        at, slots = Borders.of(npu), 8
        base = at.seam - slot * PACKET_BYTES
        values = np.arange(1, 13, dtype=np.float32)
        source = write(npu, at.activation + GIB, values)
        target = write(npu, at.activation + 2 * GIB, np.zeros_like(values))
        npu.reset()
        start_ring(npu, base, slots)
        for first, end in ((0, 7), (7, 12)):
            for index in range(first, end):
                packet = packet_of(source + 4 * index, target + 4 * index, 4)
                write(npu, base + index % slots * PACKET_BYTES, np.frombuffer(packet, np.uint8))
            npu.backend.write_reg(regs.RING_TAIL, end % slots)
            assert settled(npu) == State.DONE
        npu.reset()
        assert np.array_equal(read(npu, target, values), values)


@pytest.mark.parametrize("offset", [0, 3])
def test_a_row_of_almost_4_gib_does_not_wrap(pair: tuple[Device, Device], offset: int) -> None:
    """The copy is stopped by the watchdog: a length that wraps would end it early, and with success."""
    npu, _ = pair
    at = Borders.of(npu)
    begin = np.arange(4096, dtype=np.uint32).view(np.uint8)
    source, target = write(npu, at.weight + 64 + offset, begin), at.activation + 128 + 2 * offset
    command = [NpuCommandPacket(Opcode.MEMCPY, Flags.NONE, source, 0, target, m=0xFFFF_FFFF)]
    npu.limit(watchdog_cycles=20_000)
    try:
        assert refused(npu, command) == (ErrorCode.TIMEOUT, 0)
    finally:
        npu.limit()
    assert np.array_equal(read(npu, target, begin), begin)


def test_a_command_overwrites_the_ring(pair: tuple[Device, Device]) -> None:
    """A packet is what its slot holds when every command before it has finished."""
    for npu in pair:
        at, slots = Borders.of(npu), 8
        base = at.seam - 4 * PACKET_BYTES
        values = np.arange(1, 4, dtype=np.float32)
        source, target = write(npu, at.activation + GIB, values), at.activation + 2 * GIB
        write(npu, target, np.zeros_like(values))
        npu.reset()
        new = packet_of(source, target, values.nbytes)
        image = write(npu, at.activation + 3 * GIB, np.frombuffer(new, np.uint8))
        packets = [
            packet_of(image, base + 5 * PACKET_BYTES, PACKET_BYTES),
            *[NpuCommandPacket(Opcode.SYNC).pack()] * 4,
            NpuCommandPacket(0x99).pack(),
        ]
        for index, packet in enumerate(packets):
            write(npu, base + index * PACKET_BYTES, np.frombuffer(packet, np.uint8))
        start_ring(npu, base, slots)
        npu.backend.write_reg(regs.RING_TAIL, len(packets))
        assert settled(npu) == State.DONE
        npu.reset()
        assert np.array_equal(read(npu, target, values), values)


def test_the_host_window_does_not_reach_it(wide: str) -> None:
    refuses(ValueError, "does not reach", echo_npu.open, "rtlmodel", config=wide, access="frontdoor")
