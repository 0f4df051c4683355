"""RTL simulation in parallel through time: the same bits and the same cycles as one simulation."""

import json
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import echo_npu
from echo_npu.backends.rtlfarm.chunk import Deviation, RunChunk
from echo_npu.backends.rtlfarm.pool import LocalWorkers
from echo_npu.backends.rtlfarm.replay import replay_chunk
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.cli.app import app
from echo_npu.errors import NpuDeviceError, RtlMismatchError, SimulatorError
from echo_npu.spec.status import ErrorCode
from echo_sim.numerals import choose_seed
from echo_sim.run import RUNS
from tests.rtlmodel import programs
from tests.runtime.backends.farm_work import Work, farm_of, layers, random_work

pytestmark = pytest.mark.sim

CONFIG = "small"


def runners_of(device: echo_npu.Device) -> list[ChunkRunner]:
    workers = farm_of(device).workers
    assert isinstance(workers, LocalWorkers)
    return [runner for runner in workers.runners if runner is not None]


def sequential(work: Work, **options: Any) -> tuple[Any, dict[str, int]]:
    with echo_npu.open("rtlmodel", config=CONFIG, **options) as device:
        result = work(device)
        device.wait()
        return result, device.counters()


def in_chunks(work: Work, **options: Any) -> tuple[Any, dict[str, int], int]:
    """Return the result, the counters and the number of chunks."""
    with echo_npu.open("rtlfarm", config=CONFIG, **options) as device:
        result = work(device)
        device.wait()
        return result, device.counters(), farm_of(device).info()["farm"]["chunks"]


def test_chunks_between_idle_engines_take_exactly_the_cycles_of_one_run() -> None:
    work = random_work(choose_seed())
    wanted, counters = sequential(work)
    found, summed, chunks = in_chunks(work, jobs=2, chunk_cycles=1)
    assert found == wanted
    assert summed == counters
    assert chunks >= 5


def test_chunks_of_one_submission_take_its_cycles_but_for_a_thousandth() -> None:
    wanted, counters = sequential(layers)
    found, summed, chunks = in_chunks(layers, jobs=2, chunk_cycles=2000)
    assert found == wanted
    assert chunks > 10
    assert summed["commands"] == counters["commands"]
    assert summed["macs"] == counters["macs"]
    for name in ("cycles", "busy_cycles"):
        assert abs(summed[name] - counters[name]) <= counters[name] / 1000


@pytest.mark.parametrize("way", ["window", "ring"])
def test_a_host_that_never_waits_meets_queues_that_empty_later_than_the_models(way: str) -> None:
    """The model has room for all packets while the RTL's queue would be full."""

    def work(device: echo_npu.Device) -> Any:
        device.memcpy(0x40, programs.image(np.random.default_rng(1), 9000), 9000)
        for number in range(40):
            product = echo_npu.matmul_packets(0x40, 0x1000, 0x1000_0000 + 0x1000 * number, 30, 30, 30)
            if way == "window":
                device.submit(*product)
            else:
                device.submit_batch(product)
        device.finish()
        return device.backend.read_mem(0x1000_0000, 0x1000 * 40).tobytes()

    wanted, counters = sequential(work, ring_slots=16)
    found, summed, _ = in_chunks(work, jobs=1, chunk_cycles=1, ring_slots=16)
    assert found == wanted
    assert summed["commands"] == counters["commands"] == 40


@pytest.fixture
def wrong_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """Addresses that the RTL leaves with other bits than it wrote, by the chunk's number."""
    wrong: list[tuple[int, int]] = []
    compare = ChunkRunner._differences

    def differences(self: ChunkRunner, chunk: RunChunk) -> Deviation | None:
        for number, address in wrong:
            if number == chunk.number:
                self.rtl.memory.bytes[address] ^= 0x10
        return compare(self, chunk)

    monkeypatch.setattr(ChunkRunner, "_differences", differences)
    return wrong


def test_a_difference_is_named_by_chunk_command_and_address(
    wrong_at: list[tuple[int, int]], tmp_path: Path
) -> None:
    device = echo_npu.open("rtlfarm", config=CONFIG, jobs=1, chunk_cycles=1, failures=tmp_path)
    a, b = (device.tensor(np.full((4, 8), value, np.float32)) for value in (1, 2))
    out = device.empty((4, 8))
    device.wait()
    first = farm_of(device).info()["farm"]["chunks"]
    device.softmax(a)
    wrong_at.append((first + 1, out.ptr + 9))
    device.add(a, b, out=out)
    with pytest.raises(RtlMismatchError) as caught:
        device.wait()
    error = caught.value
    assert error.address == out.ptr + 9
    assert "ADD_TENSOR" in error.command
    assert error.chunk == first + 1
    assert error.file is not None
    assert error.file.parent == tmp_path
    assert str(error.file) in str(error)
    with pytest.raises(RtlMismatchError):
        device.submit(echo_npu.nop_packet())
    device.close()
    alone = replay_chunk(error.file)
    assert alone.blame is not None
    assert (alone.blame.address, alone.blame.command) == (error.address, error.command)
    assert CliRunner().invoke(app, ["replay", str(error.file)]).exit_code == 1
    wrong_at.clear()  # as if the RTL had been corrected
    right = CliRunner().invoke(app, ["replay", str(error.file), "--json"])
    assert right.exit_code == 0
    assert json.loads(right.stdout)["differs"] is False


def test_what_is_no_chunk_is_not_replayed(tmp_path: Path) -> None:
    (tmp_path / "garbage").write_bytes(b"no chunk")
    for path in (tmp_path / "garbage", tmp_path / "missing"):
        assert CliRunner().invoke(app, ["replay", str(path)]).exit_code == 2


def test_a_byte_outside_of_what_the_commands_touch_is_a_difference(
    wrong_at: list[tuple[int, int]], tmp_path: Path
) -> None:
    wrong_at += [(number, 0x0ABC_DEF0) for number in range(10)]
    device = echo_npu.open("rtlfarm", config=CONFIG, jobs=1, failures=tmp_path)
    device.add(np.ones(4, np.float32), np.ones(4, np.float32))
    with pytest.raises(RtlMismatchError, match="outside of what its commands touch") as caught:
        device.close()
    assert caught.value.address == 0x0ABC_DEF0
    assert caught.value.command == ""


def test_a_full_disk_does_not_hide_a_difference(wrong_at: list[tuple[int, int]], tmp_path: Path) -> None:
    for number in range(10):  # every byte that is written there finds the disk full
        (tmp_path / f"chunk-{os.getpid()}-{number}.chunk.part").symlink_to("/dev/full")
    wrong_at += [(number, 0x0ABC_DEF0) for number in range(10)]
    device = echo_npu.open("rtlfarm", config=CONFIG, jobs=1, failures=tmp_path)
    device.add(np.ones(4, np.float32), np.ones(4, np.float32))
    with pytest.raises(RtlMismatchError, match=r"could not be kept: .*No space left") as caught:
        device.wait()
    assert caught.value.file is None
    assert len(list(tmp_path.iterdir())) == 9, "half a file was left behind"
    device.close()


@pytest.mark.parametrize("phase", ["_restore", "_play", "_differences"])
def test_a_chunk_whose_simulator_is_killed_runs_again_and_counts_once(
    phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, counters = sequential(layers)
    killed: list[int] = []
    original = getattr(ChunkRunner, phase)

    def kill(self: ChunkRunner, *arguments: Any) -> Any:
        if arguments[0].number in (2, 5) and arguments[0].number not in killed:
            killed.append(arguments[0].number)
            os.kill(self.rtl.simulator.pid, signal.SIGKILL)
        return original(self, *arguments)

    monkeypatch.setattr(ChunkRunner, phase, kill)
    with echo_npu.open("rtlfarm", config=CONFIG, jobs=2, chunk_cycles=4000) as device:
        found = layers(device)
        device.wait()
        summed = device.counters()
        logs = [runner.rtl.simulator.log for runner in runners_of(device)]
    assert sorted(killed) == [2, 5]
    assert found == wanted
    assert summed["commands"] == counters["commands"]
    assert abs(summed["cycles"] - counters["cycles"]) <= counters["cycles"] / 1000
    assert all(RUNS in log.parents for log in logs)
    assert not any(log.exists() for log in logs)
    assert not multiprocessing.active_children()


def test_simulators_that_always_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    original = ChunkRunner._play

    def kill(self: ChunkRunner, *arguments: Any) -> Any:
        os.kill(self.rtl.simulator.pid, signal.SIGKILL)
        return original(self, *arguments)

    monkeypatch.setattr(ChunkRunner, "_play", kill)
    device = echo_npu.open("rtlfarm", config=CONFIG, jobs=1)
    device.add(np.ones(4, np.float32), np.ones(4, np.float32))
    with pytest.raises(SimulatorError, match="killed by signal 9"):
        device.wait()
    device.close()


def test_results_come_before_the_simulation_and_nothing_piles_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's result is there while chunks wait; at most 2 a job wait."""
    most = 0
    original = LocalWorkers.submit

    def submit(self: LocalWorkers, chunk: RunChunk) -> None:
        nonlocal most
        original(self, chunk)
        most = max(most, self.load.waiting)

    monkeypatch.setattr(LocalWorkers, "submit", submit)
    with echo_npu.open("rtlfarm", config=CONFIG, jobs=1, chunk_cycles=1) as device:
        x = device.tensor(np.ones((20, 64), np.float32))
        for _ in range(12):
            x = device.add(x, x)
        before = farm_of(device).info()["farm"]["chunks"]
        assert (x.to_numpy() == 2.0**12).all()
        device.wait()
        after = farm_of(device).info()["farm"]["chunks"]
    assert before < after
    assert 1 <= most <= 2


def test_an_error_of_the_device_is_the_same_on_the_farm() -> None:
    with echo_npu.open("rtlfarm", config=CONFIG, jobs=1) as device:
        for _ in range(2):
            with pytest.raises(NpuDeviceError) as caught:
                device.execute(echo_npu.NpuCommandPacket(0x77, 0, 0, 0, 0))
            assert caught.value.code == ErrorCode.BAD_OPCODE
            device.clear_error()
            assert (device.add(np.ones(3, np.float32), np.ones(3, np.float32)) == 2).all()
        device.reset()
        assert device.counters()["commands"] >= 0


def test_a_sample_estimates_the_cycles() -> None:
    _, summed, _ = in_chunks(layers, jobs=2, chunk_cycles=2000)
    with echo_npu.open("rtlfarm", config=CONFIG, jobs=2, chunk_cycles=2000, sample=0.4, seed=4) as device:
        layers(device)
        device.wait()
        found = farm_of(device).cycles
        chunks = farm_of(device).info()["farm"]["chunks"]
    assert 2 < chunks < 25
    # A few chunks say little about what they do not show, so the interval is wide.
    assert summed["cycles"] / 10 < found.margin < found.value
    assert abs(found.value - summed["cycles"]) < summed["cycles"] / 10
