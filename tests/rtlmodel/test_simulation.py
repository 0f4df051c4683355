"""A simulated device as its host sees it: time, registers, memory through both doors, time-outs, waves."""

import time
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu import (
    Device,
    ErrorCode,
    NpuBusError,
    NpuDeviceError,
    NpuPointerError,
    NpuTimeoutError,
    State,
    matmul_packets,
    memcpy_packets,
)
from echo_npu.register_ops import ReadReg, WaitIrq, WriteReg
from echo_npu.spec import registers as regs
from tests.rtlmodel.simulated import backend_of, simulator_only

pytestmark = pytest.mark.sim

LEFT, RIGHT, OUT = 0x1000, 0x8000, 0x1000_0000


def work(device: Device) -> dict[str, int]:
    """Run a fixed program; return its counters."""
    device.memset(LEFT, 0x3F, 4096)
    device.memset(RIGHT, 0x3E, 4096)
    device.submit([*matmul_packets(LEFT, RIGHT, OUT, 20, 30, 25), *memcpy_packets(OUT, OUT + 0x1000, 999)])
    device.wait()
    return device.counters()


@simulator_only
@pytest.mark.parametrize("stalls", [0.0, 0.3])
def test_cycles_are_the_same_every_time(config: str, stalls: float) -> None:
    """Cycles do not depend on the host: simulated time passes only while a request is served."""
    seen = []
    for pause in (0.0, 0.3):
        with echo_npu.open("rtlmodel", config=config, stalls=stalls, seed=5) as npu:
            time.sleep(pause)
            first = work(npu)
            time.sleep(pause)
            seen.append((first, work(npu), npu.status().cycle_count))
    assert seen[0] == seen[1]
    assert seen[0][0]["busy_cycles"] > 0


@simulator_only
def test_the_seed_changes_the_stalls(config: str) -> None:
    cycles = []
    for seed in (1, 2):
        with echo_npu.open("rtlmodel", config=config, stalls=0.3, seed=seed) as npu:
            cycles.append(work(npu)["cycles"])
    assert cycles[0] != cycles[1]


@simulator_only
def test_memory_timing_is_a_knob(npu: Device) -> None:
    backend = backend_of(npu)

    def busy() -> int:
        npu.reset()
        return work(npu)["busy_cycles"]

    quick = busy()
    backend.set_memory_timing({"read_latency": 400, "write_latency": 400})
    late = busy()
    backend.set_memory_timing(
        {"read_latency": 40, "write_latency": 40, "read_bandwidth": 2, "write_bandwidth": 2}
    )
    narrow = busy()
    assert late > quick + 300
    assert narrow > 2 * quick
    with pytest.raises(ValueError, match="no knob 'speed'"):
        backend.set_memory_timing({"speed": 1})
    assert busy() == narrow


def test_primitives(npu: Device) -> None:
    backend = npu.backend
    assert backend.read_reg(regs.ID) == regs.REGISTERS["ID"].reset
    backend.write_reg(regs.RING_BASE, 0x1234_5678)
    assert backend.read_reg(regs.RING_BASE) == 0x1234_5678
    with pytest.raises(NpuBusError, match="read of register offset 0x0ffc"):
        backend.read_reg(0xFFC)
    with pytest.raises(NpuBusError, match="write of register offset 0x0000"):
        backend.write_reg(regs.ID, 0)
    assert backend.read_reg(regs.ID) == regs.REGISTERS["ID"].reset
    with pytest.raises(ValueError, match="offset"):
        backend.read_reg(2)
    assert backend.run([]) == []
    assert backend.run([ReadReg(regs.VERSION), WriteReg(regs.RING_SIZE, 9), ReadReg(regs.RING_SIZE)]) == [
        1 << 16,
        0,
        9,
    ]


@simulator_only
def test_wait_irq_takes_no_more_time_than_it_may(npu: Device) -> None:
    start = npu.status().cycle_count
    assert not npu.backend.wait_irq(5000)
    assert 5000 <= npu.status().cycle_count - start < 5200
    high, low = npu.backend.run([WaitIrq(0), ReadReg(regs.CYCLES)])
    assert not high
    assert low < start + 5400


@simulator_only
def test_memory_is_shared_without_copies(npu: Device) -> None:
    """The simulator reads what the host wrote, without any request."""
    before = npu.status().cycle_count
    values = np.arange(5000, dtype=np.float32)
    npu.memcpy(OUT, values, values.nbytes)
    between = npu.status().cycle_count
    npu.memcpy(OUT + 0x10000, OUT, values.nbytes)
    copied = np.zeros_like(values)
    npu.memcpy(copied, OUT + 0x10000, values.nbytes)
    assert np.array_equal(copied, values)
    assert between - before < 200
    with pytest.raises(NpuPointerError):
        npu.backend.read_mem(0x1FFF_FFFF, 2)


@simulator_only
@pytest.mark.parametrize(("offset", "nbytes"), [(0, 64), (1, 1), (3, 7), (29, 4096), (4090, 70001)])
def test_the_front_door_moves_the_same_bytes(config: str, offset: int, nbytes: int) -> None:
    rng = np.random.default_rng(nbytes)
    data = rng.integers(0, 256, nbytes, dtype=np.uint8)
    with echo_npu.open("rtlmodel", config=config, access="frontdoor") as npu:
        backend = backend_of(npu)
        backend.memory.bytes[OUT : OUT + offset + nbytes + 64] = 0xEE
        npu.memcpy(OUT + offset, data, nbytes)
        assert np.array_equal(backend.memory.read(OUT + offset, nbytes), data)
        assert (backend.memory.read(OUT, offset) == 0xEE).all()
        assert (backend.memory.read(OUT + offset + nbytes, 64) == 0xEE).all()
        back = np.zeros_like(data)
        npu.memcpy(back, OUT + offset, nbytes)
        assert np.array_equal(back, data)
        assert npu.counters()["host_beats"] > 0
        product = npu.matmul(np.eye(4, dtype=np.float32), np.full((4, 3), 2, np.float32))
        assert (product == 2).all()


@simulator_only
def test_a_time_out_shows_the_state_and_the_device_can_go_on(npu: Device) -> None:
    npu.submit(matmul_packets(LEFT, RIGHT, OUT, 60, 60, 60))
    with pytest.raises(NpuTimeoutError, match=r"within 50 cycles; state BUSY.*waves=True") as caught:
        npu.wait(timeout_cycles=50)
    assert caught.value.status.state == State.BUSY
    assert caught.value.status.cycle_count > 0
    assert caught.value.counters["busy_cycles"] > 0
    npu.wait()
    assert npu.status().state == State.DONE
    npu.submit(matmul_packets(LEFT, RIGHT, OUT, 60, 60, 60))
    npu.reset()  # in the middle of the work
    assert npu.status().state == State.IDLE
    assert work(npu)["commands"] == 2


def test_an_extension_that_never_comes_does_not_hang_the_device(npu: Device) -> None:
    npu.submit(memcpy_packets(OUT, OUT + 4096, 4, rows=2)[0])
    with pytest.raises(NpuDeviceError) as caught:
        npu.wait()
    assert caught.value.code == ErrorCode.BAD_EXTENSION
    npu.clear_error()
    assert work(npu)["commands"] == 2


def test_a_doorbell_too_many(npu: Device) -> None:
    depth = npu.capabilities.queue_depth
    for word in range(16):
        npu.backend.write_reg(regs.CMD_WINDOW + 4 * word, 0)
    npu.submit(matmul_packets(LEFT, RIGHT, OUT, 60, 60, 60))
    npu.backend.run([WriteReg(regs.CMD_WINDOW + 4 * word, 0) for word in range(16)])
    npu.backend.run([WriteReg(regs.DOORBELL, 1)] * (depth + 2))
    with pytest.raises(NpuDeviceError) as caught:
        npu.wait()
    assert caught.value.code == ErrorCode.QUEUE_FULL
    npu.clear_error()
    npu.submit(echo_npu.nop_packet())
    npu.wait()


@pytest.mark.parametrize(
    ("writes", "code"),
    [
        ([(regs.RING_TAIL, 1)], ErrorCode.RING_CONFIG),
        (
            [(regs.RING_BASE, OUT), (regs.RING_SIZE, 4), (regs.CONTROL, 8), (regs.RING_TAIL, 4)],
            ErrorCode.RING_INDEX,
        ),
        (
            [(regs.RING_BASE, OUT + 4), (regs.RING_SIZE, 4), (regs.CONTROL, 8), (regs.RING_TAIL, 1)],
            ErrorCode.RING_CONFIG,
        ),
    ],
)
def test_ring_mistakes(npu: Device, writes: list[tuple[int, int]], code: ErrorCode) -> None:
    npu.backend.run([WriteReg(offset, value) for offset, value in writes])
    with pytest.raises(NpuDeviceError) as caught:
        npu.wait()
    assert caught.value.code == code
    npu.clear_error()
    npu.submit_batch([echo_npu.nop_packet()] * 3)
    npu.wait()
    assert npu.counters()["commands"] == 3


def test_out_of_memory_leaves_a_working_device(npu: Device) -> None:
    with pytest.raises(echo_npu.NpuOutOfMemoryError):
        npu.malloc(1 << 30)
    assert work(npu)["commands"] == 2


@simulator_only
def test_waves_are_written_and_complete() -> None:
    with echo_npu.open("rtlmodel", config="small", waves="test-waves") as npu:  # small: the quickest to build
        path = Path(npu.info()["simulator"]["waves"])
        assert path.name == "test-waves.vcd"
        assert str(path) in npu.backend.waves_hint
        cycles = work(npu)["cycles"]
    with path.open(errors="replace") as file:
        text = file.read()
    path.unlink()
    assert "$enddefinitions" in text
    last = max(int(line[1:]) for line in text.splitlines()[-200:] if line.startswith("#"))
    assert last >= cycles * 10  # nanoseconds, or a finer unit


@simulator_only
def test_two_devices_at_once(config: str) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((2, 12, 12), dtype=np.float32)
    with (
        echo_npu.open("rtlmodel", config=config) as first,
        echo_npu.open("rtlmodel", config=config, stalls=0.3) as second,
        echo_npu.open("cmodel", config=config) as model,
    ):
        first.submit(matmul_packets(LEFT, RIGHT, OUT, 40, 40, 40))
        expected = model.matmul(a, b)
        assert np.array_equal(second.matmul(a, b), expected)
        first.wait()
        assert np.array_equal(first.matmul(a, b), expected)
        pids = {device.info()["simulator"]["pid"] for device in (first, second)}
        assert len(pids) == 2
        second.close()
        assert np.array_equal(first.matmul(b, a), model.matmul(b, a))


def test_commands_are_limited(npu: Device) -> None:
    """A watchdog and a protected ring: errors have their codes, and the device recovers."""
    npu.limit(watchdog_cycles=400, protect_ring=True)
    npu.execute(memcpy_packets(LEFT, OUT, 64))
    npu.submit_batch(memcpy_packets(LEFT, OUT, 1 << 20))
    with pytest.raises(NpuDeviceError) as overdue:
        npu.wait()
    assert (overdue.value.code, overdue.value.packet) == (ErrorCode.TIMEOUT, 1)
    npu.clear_error()
    ring = backend_of(npu).read_reg(regs.RING_BASE)
    npu.submit_batch(memcpy_packets(LEFT, ring + 128, 4))
    with pytest.raises(NpuDeviceError) as stray:
        npu.wait()
    assert (stray.value.code, stray.value.address) == (ErrorCode.PROTECTED, ring + 128)
    npu.clear_error()
    npu.limit()
    npu.submit_batch(memcpy_packets(LEFT, OUT, 1 << 14))
    npu.wait()
