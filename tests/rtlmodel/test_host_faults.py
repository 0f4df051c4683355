"""Faults of the host: each ends with a named exception, in time, and leaves nothing behind."""

import contextlib
import gc
import itertools
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import echo_npu
from echo_npu import Device, ErrorCode, NpuDeviceError, SimulatorError, matmul_packets, nop_packet
from echo_npu.backends import simulator
from echo_npu.backends.simulator import Simulator
from echo_npu.model.memory import DeviceMemory
from echo_npu.spec import registers as regs
from echo_sim.run import RUNS
from tests.rtlmodel.simulated import backend_of, open_rtl, simulator_only

pytestmark = pytest.mark.sim

SECONDS = 20.0  # of wall time, on a loaded machine; the events take fractions of one


def children() -> set[int]:
    """Return the processes started by this one that still run, or were not waited for."""
    found = set()
    for folder in Path("/proc/self/task").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found |= {int(pid) for pid in (folder / "children").read_text().split()}
    return found


def left_behind() -> dict[str, object]:
    """Return everything that a simulation could leave: processes, files, shared memory, sockets, threads."""
    gc.collect()
    links = Path("/proc/self/fd")
    opened = [os.readlink(links / name) for name in os.listdir(links) if (links / name).exists()]
    sockets = Path("/proc/net/unix").read_text().splitlines()
    return {
        "processes": children(),
        "memories": sum("memfd:echo-npu" in target for target in opened),
        "open files": len(os.listdir(links)),
        "sockets": [line for line in sockets if f"@echo-npu-{os.getpid()}-" in line],
        "threads": threading.active_count(),
        "runs": {path.name for path in RUNS.glob(f"rtlmodel-{os.getpid()}-*")},
        "shared memory": set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set(),
    }


@pytest.fixture(scope="module", autouse=True)
def built(config: str) -> None:
    """Build, import and open everything that is made only once."""
    with echo_npu.open("rtlmodel", config=config):
        pass


@pytest.fixture(autouse=True)
def nothing_left(built: None) -> Iterator[None]:
    """Check that a fault leaves nothing but the run's folder with the log that its exception names."""
    before = left_behind()
    yield
    after = left_behind()
    for name in after["runs"] - before["runs"]:  # type: ignore[operator]
        folder = RUNS / name
        assert (folder / "simulator.log").exists()
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    assert {**after, "runs": before["runs"]} == before


@contextlib.contextmanager
def ends_soon() -> Iterator[None]:
    """Check that the block takes no longer than SECONDS."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < SECONDS


def link_of(device: Device) -> socket.socket:
    """Return the connection to the simulator."""
    link = backend_of(device).simulator._link
    assert link is not None
    return link


# --- the link -----------------------------------------------------------------------------------------------


def _cut(link: socket.socket) -> None:
    link.shutdown(socket.SHUT_RDWR)


def _half_a_request(link: socket.socket) -> None:
    link.sendall(b"\x40\x00\x00\x00\x00\x00\x00\x00{")
    link.shutdown(socket.SHUT_WR)


def _garbage(link: socket.socket) -> None:
    link.sendall(b"\xff" * 64)


@simulator_only
@pytest.mark.parametrize("fault", [_cut, _half_a_request, _garbage])
def test_a_broken_link_ends_the_simulator_and_is_named(
    config: str, fault: Callable[[socket.socket], None]
) -> None:
    with echo_npu.open("rtlmodel", config=config) as npu, ends_soon():
        fault(link_of(npu))
        with pytest.raises(SimulatorError, match="the simulator ended") as caught:
            npu.status()
        assert caught.value.log_path is not None
        if fault is _garbage:
            assert "cannot be understood any more" in caught.value.log_path.read_text()
        with pytest.raises(SimulatorError):  # and it stays so
            npu.status()


@simulator_only
def test_an_answer_that_is_garbage_is_named(config: str) -> None:
    with echo_npu.open("rtlmodel", config=config) as npu, ends_soon():
        ours, theirs = socket.socketpair()
        with theirs, link_of(npu):
            theirs.sendall(b"\xff" * 64)
            backend_of(npu).simulator._link = ours
            with pytest.raises(SimulatorError, match="answer is garbled"):
                npu.status()


@simulator_only
def test_a_second_client_is_turned_away(config: str) -> None:
    """A client that connects before the simulator is refused, and so is a later one."""
    answers: list[bytes] = []
    refused: list[str] = []

    def intrude() -> None:
        end = time.monotonic() + SECONDS
        while not answers and time.monotonic() < end:
            for line in Path("/proc/net/unix").read_text().splitlines():
                name = line.rpartition("@")[2]
                if not name.startswith(f"echo-npu-{os.getpid()}-"):
                    continue
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as intruder:
                    intruder.settimeout(SECONDS)
                    try:
                        intruder.connect("\0" + name)
                    except OSError:
                        continue
                    refused.append(name)
                    answers.append(intruder.recv(1))
                    return

    thread = threading.Thread(target=intrude)
    thread.start()
    with echo_npu.open("rtlmodel", config=config) as npu:
        thread.join(SECONDS)
        assert answers == [b""]
        npu.submit(nop_packet())
        npu.wait()
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as intruder,
            pytest.raises(ConnectionRefusedError),
        ):
            intruder.connect("\0" + refused[0])


# --- shared memory ------------------------------------------------------------------------------------------


@simulator_only
@pytest.mark.parametrize(
    ("size", "words"), [(None, "cannot open the device memory"), (4096, "has 4096 bytes")]
)
def test_shared_memory_that_is_missing_or_too_short_is_named(
    config: str, tmp_path: Path, size: int | None, words: str
) -> None:
    path = tmp_path / "memory"
    if size is not None:
        path.write_bytes(bytes(size))
    memory = SimpleNamespace(share_path=str(path))
    with ends_soon(), pytest.raises(SimulatorError, match="ended before it could be used") as caught:
        Simulator(config, memory, waves=False, seed=1, timeout=5.0)  # type: ignore[arg-type]
    assert words in str(caught.value)


@simulator_only
def test_shared_memory_outlives_its_name(npu: Device) -> None:
    """Shared memory has no name: closing the host's descriptor does not affect the simulator."""
    os.close(os.dup(backend_of(npu).memory.fd))
    ones = np.eye(3, dtype=np.float32)
    assert np.array_equal(npu.matmul(ones, ones), ones)


# --- a full disk --------------------------------------------------------------------------------------------


@simulator_only
def test_a_log_that_takes_nothing_does_no_harm(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator's log is lost, but its results are right."""
    number = 900_000_000
    folder = RUNS / f"rtlmodel-{os.getpid()}-{number}"
    folder.mkdir(parents=True)
    (folder / "simulator.log").symlink_to("/dev/full")
    (folder / "results.xml").symlink_to("/dev/full")
    monkeypatch.setattr(simulator, "_numbers", itertools.count(number))
    with ends_soon(), echo_npu.open("rtlmodel", config=config) as npu:
        ones = np.eye(3, dtype=np.float32)
        assert np.array_equal(npu.matmul(ones, ones), ones)
    assert not folder.exists()


@simulator_only
def test_a_run_directory_that_cannot_be_made_is_named(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number = 900_000_001
    place = RUNS / f"rtlmodel-{os.getpid()}-{number}"
    place.symlink_to("/dev/full")
    monkeypatch.setattr(simulator, "_numbers", itertools.count(number))
    try:
        with ends_soon(), pytest.raises(SimulatorError, match="could not be started") as caught:
            echo_npu.open("rtlmodel", config=config)
        assert place.name in str(caught.value)
    finally:
        place.unlink()


@simulator_only
def test_a_waveform_that_fills_the_disk_ends_the_simulation_and_is_named() -> None:
    name = f"test-full-disk-{os.getpid()}"
    with echo_npu.open("rtlmodel", config="small", waves=name, timeout=SECONDS) as npu, ends_soon():
        waves = backend_of(npu).simulator.waves
        assert waves is not None
        room = waves.stat().st_size + 65536
        resource.prlimit(backend_of(npu).simulator.pid, resource.RLIMIT_FSIZE, (room, room))
        with pytest.raises(SimulatorError) as caught:
            npu.matmul(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    assert "the waveform cannot be written: File too large" in str(caught.value)
    waves.unlink()
    assert caught.value.log_path is not None
    for path in caught.value.log_path.parent.iterdir():
        path.unlink()
    caught.value.log_path.parent.rmdir()


# --- the simulator dies around a recording ------------------------------------------------------------------


@simulator_only
@pytest.mark.parametrize("moment", ["recording", "running"])
def test_a_simulator_that_dies_around_a_recording_is_named(npu: Device, moment: str) -> None:
    x = npu.tensor(np.ones((8, 8), np.float32))
    y = npu.empty((8, 8))
    pid = backend_of(npu).simulator.pid

    def record_and_run() -> None:
        with npu.record() as program:
            npu.matmul(x, x, out=y)
            if moment == "recording":
                os.kill(pid, signal.SIGKILL)
        program.run()
        os.kill(pid, signal.SIGKILL)
        program.run()

    with ends_soon(), pytest.raises(SimulatorError, match="signal 9"):
        record_and_run()
    with pytest.raises(SimulatorError):
        npu.status()


# --- a corrupted ring ---------------------------------------------------------------------------------------


both_backends = pytest.mark.parametrize("backend", ["cmodel", "rtlmodel"])


@contextlib.contextmanager
def ringed(backend: str, config: str) -> Iterator[tuple[Device, int]]:
    """Return a device whose ring was used, and the ring's address."""
    opened = (
        open_rtl(config, ring_slots=16)
        if backend == "rtlmodel"
        else echo_npu.open(backend, config=config, ring_slots=16)
    )
    with opened as npu:
        npu.submit_batch([nop_packet()] * 3)
        npu.wait()
        yield npu, npu.backend.read_reg(regs.RING_BASE)


def fails(npu: Device, *codes: ErrorCode) -> None:
    """Check that `wait` reports one of these errors and that the device then works."""
    with ends_soon(), pytest.raises(NpuDeviceError) as caught:
        npu.wait()
    assert caught.value.code in codes, caught.value
    npu.reset()
    ones = np.eye(3, dtype=np.float32)
    npu.submit_batch([nop_packet()] * 20)
    npu.wait()
    assert np.array_equal(npu.matmul(ones, ones), ones)


@both_backends
def test_a_corrupted_ring_is_a_device_error(config: str, backend: str) -> None:
    """The host overwrites slots, writes indices beyond the ring, and a base outside of memory."""
    with ringed(backend, config) as (npu, base):
        corrupt(npu, base)


def corrupt(npu: Device, base: int) -> None:
    """Apply one corruption after the other."""
    rng = np.random.default_rng(5)
    for garbage in (np.full(64 * 16, 0xFF, np.uint8), rng.integers(0, 256, 64 * 16, dtype=np.uint8)):
        npu.submit_batch([nop_packet()])
        npu.wait()
        npu.backend.write_mem(base, garbage)
        tail = npu.backend.read_reg(regs.RING_TAIL)
        npu.backend.write_reg(regs.RING_TAIL, (tail + 5) % 16)
        fails(npu, ErrorCode.BAD_OPCODE)
    npu.submit_batch([nop_packet()])
    npu.wait()
    npu.backend.write_reg(regs.RING_TAIL, 0xFFFF)
    fails(npu, ErrorCode.RING_INDEX)
    for register, value in ((regs.RING_BASE, 0x2000_0000), (regs.RING_BASE, base + 4), (regs.RING_SIZE, 0)):
        npu.submit_batch([nop_packet()])
        npu.wait()
        npu.backend.write_reg(register, value)
        npu.backend.write_reg(regs.RING_TAIL, 1)
        fails(npu, ErrorCode.RING_CONFIG, ErrorCode.RING_INDEX)


@both_backends
def test_packets_overwritten_while_the_device_is_busy(config: str, backend: str) -> None:
    """A program that overwrites its ring gets the error of its data, or everything was fetched before."""
    with ringed(backend, config) as (npu, base):
        npu.submit_batch([*matmul_packets(0x1000, 0x80_0000, 0x1000_0000, 40, 40, 40), *[nop_packet()] * 9])
        npu.backend.write_mem(base, np.full(64 * 16, 0xAB, np.uint8))
        with ends_soon(), contextlib.suppress(NpuDeviceError):
            npu.wait()
        npu.reset()
        npu.submit_batch([nop_packet()])
        npu.wait()


def test_the_memory_of_a_closed_device_is_given_back() -> None:
    memory = DeviceMemory()
    path = memory.share_path
    memory.close()
    assert not Path(path).exists() or "echo-npu" not in os.readlink(path)
