"""A farm on functional models: what differs is said, once and whole; a sample is a share."""

import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm import backend
from echo_npu.backends.rtlfarm.chunk import RunChunk
from echo_npu.backends.rtlfarm.pool import Load
from echo_npu.backends.rtlfarm.progress import FarmProgress
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Flags, NpuCommandPacket, Opcode
from echo_npu.errors import BackendError, RtlMismatchError, SimulatorError
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from tb.repository import ROOT
from tests.processes import eventually
from tests.refusals import refuses
from tests.runtime.backends.farm_work import farm_of
from tests.runtime.backends.model_simulation import ModelSimulation, opened, simulations

__all__ = ["simulations"]

ONES = np.ones(3000, np.float32)


def _sums(device: echo_npu.Device, count: int) -> None:
    rng = np.random.default_rng(4)
    for _ in range(count):
        rows = rng.standard_normal((int(rng.integers(1, 9)), 16)).astype(np.float32)
        device.matmul(rows, np.eye(16, dtype=np.float32))
        device.add(rows, rows)


@pytest.mark.parametrize(
    "place",
    [
        lambda packet: packet.dst_addr - 1,
        lambda packet: packet.dst_addr + 4 * 3000,
        lambda packet: packet.src1_addr,
        lambda packet: packet.src2_addr + 4 * 2999 + 3,
        lambda _: 0,
        lambda _: MEMORY_SIZE // 2 - 1,
        lambda _: MEMORY_SIZE - 1,
    ],
)
def test_no_byte_of_memory_may_differ(
    place: Callable[[echo_npu.NpuCommandPacket], int], simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    wrong: list[int] = []

    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.ADD_TENSOR:
            wrong[:] = [place(command.packet)]
            memory.bytes[wrong[0]] ^= 0x40

    simulations.harm = harm
    device = opened(jobs=1, failures=tmp_path)
    device.add(ONES, ONES)
    with pytest.raises(RtlMismatchError) as caught:
        device.wait()
    device.close()
    assert caught.value.address is not None
    assert caught.value.address == wrong[0] or "ADD_TENSOR" in caught.value.command


def test_a_difference_comes_before_a_simulation_that_could_not_go_on(
    simulations: type[ModelSimulation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are there when the program next looks."""

    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.ADD_TENSOR:
            memory.bytes[0] ^= 1

    simulations.harm = harm
    device = opened(jobs=1, failures=tmp_path)
    farm = farm_of(device)
    device.add(ONES, ONES)
    farm._recorder.cut()
    farm.workers.drain()
    farm._failed(SimulatorError("no space left"))
    with pytest.raises(RtlMismatchError):
        device.wait()
    with pytest.raises(RtlMismatchError):
        device.wait()
    device.close()


def test_a_difference_is_said_where_no_other_simulation_can_be_started(
    simulations: type[ModelSimulation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may be full by then."""
    start = ModelSimulation.__init__

    def no_room(self: ModelSimulation, *arguments: Any) -> None:
        if simulations.made:
            raise SimulatorError("no space left")
        start(self, *arguments)

    monkeypatch.setattr(ModelSimulation, "__init__", no_room)
    simulations.harm = _damage
    device = opened(jobs=1, failures=tmp_path)
    device.add(ONES, ONES)
    with pytest.raises(RtlMismatchError):
        device.wait()
    device.close()


def test_the_earliest_difference_is_named_however_long_it_takes(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    """A later chunk is found to differ while an earlier one still runs."""
    late, early = threading.Event(), threading.Event()

    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.ADD_TENSOR:
            memory.bytes[0] = 1
            early.set()
            late.wait(60)
        elif command.packet.opcode == Opcode.MATMUL:
            early.wait(60)
            memory.bytes[1] = 1

    simulations.harm = harm
    device = opened(jobs=2, chunk_cycles=1, failures=tmp_path)
    farm = farm_of(device)
    device.add(ONES, ONES)
    device.matmul(ONES[:16].reshape(4, 4), ONES[:16].reshape(4, 4))
    farm._recorder.cut()
    assert eventually(lambda: bool(farm._deviations), 50)
    threading.Timer(0.2, late.set).start()
    with pytest.raises(RtlMismatchError) as caught:
        device.wait()
    device.close()
    assert len(farm._deviations) == 2
    assert farm._deviations[0][0].number > farm._deviations[1][0].number == caught.value.chunk
    assert caught.value.address == 0


def test_nothing_runs_behind_a_difference(simulations: type[ModelSimulation], tmp_path: Path) -> None:
    """What waits is dropped, and what a `with` block that fails has outstanding."""
    simulations.harm = _damage
    for leaves in (False, True):
        simulations.made.clear()
        device = opened(jobs=1, chunk_cycles=1 << 30 if leaves else 1, failures=tmp_path)

        def work(device: echo_npu.Device, leaves: bool) -> None:
            with device:
                if leaves:
                    device.add(ONES, ONES)
                    raise KeyError
                _sums(device, 40)
                device.wait()

        with pytest.raises(KeyError if leaves else RtlMismatchError):
            work(device, leaves)
        assert device.backend.closed  # type: ignore[attr-defined]
        assert farm_of(device).memory.bytes.size == 0
        assert sum(len(each.timing) - 1 for each in simulations.made) <= 3
        assert all(each.closed for each in simulations.made)
    assert len(list(tmp_path.iterdir())) == 1


def _damage(_command: Command, memory: DeviceMemory) -> None:
    memory.bytes[0] = 1


def test_an_error_that_nobody_has_seen_comes_with_close(simulations: type[ModelSimulation]) -> None:
    """The first one, and once."""
    device = opened(jobs=1)
    device.add(ONES, ONES)
    farm_of(device)._failed(SimulatorError("no space left"))
    farm_of(device)._failed(SimulatorError("another one"))
    with pytest.raises(SimulatorError, match="no space left"):
        device.close()
    device.close()
    seen = opened(jobs=1)
    farm_of(seen)._failed(SimulatorError("no space left"))
    with pytest.raises(SimulatorError, match="no space left"):
        seen.wait()
    seen.close()


def test_counters_have_64_bits(simulations: type[ModelSimulation]) -> None:
    with opened(jobs=1) as device:
        device.wait()
        wanted = {"macs": (5 << 32) + (3 << 30) + 7, "commands": (1 << 31) + 1, "read_beats": (1 << 64) - 1}
        farm_of(device)._totals._counters |= wanted
        found = device.counters()
        assert {name: found[name] for name in wanted} == wanted
        assert found["write_beats"] == 0


def test_a_high_word_that_is_read_first_is_nobody_elses_low_word(
    simulations: type[ModelSimulation],
) -> None:
    with opened(jobs=1) as device:
        device.add(ONES, ONES)
        device.wait()
        wanted = device.counters()
    with opened(jobs=1) as device:
        read = device.backend.read_reg
        assert [read(getattr(regs, name) + 4) for name in regs.COUNTERS] == [0] * len(regs.COUNTERS)
        device.add(ONES, ONES)
        device.wait()
        found = device.counters()
    assert found["busy_cycles"] == wanted["busy_cycles"] > 0
    assert found["commands"] == wanted["commands"] == 1
    assert found["read_beats"] == 0


def test_counters_that_are_cleared_in_a_chunk_that_is_not_simulated(
    simulations: type[ModelSimulation],
) -> None:
    """What comes behind is estimated, and nothing of what was before."""
    for seed in range(1, 7):
        with opened(jobs=1, chunk_cycles=1, sample=0.3, seed=seed) as device:
            _sums(device, 20)
            before = device.counters()["commands"]
            assert before > 10 or farm_of(device).info()["farm"]["chunks"] == 0
            device.clear_counters()
            device.wait()
            assert device.counters()["commands"] == 0
            _sums(device, 5)
            assert device.counters()["commands"] < 25
            device.reset()
            assert device.counters()["commands"] == 0


def test_progress_is_shown(simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks done, left, and the cycles of all simulations."""
    shown: list[tuple[int, Load, int]] = []
    monkeypatch.setattr(FarmProgress, "show", lambda _, *what: shown.append(what))
    with opened(jobs=1, chunk_cycles=1) as device:
        _sums(device, 9)
        device.wait()
        facts = device.info()["farm"]
    done = [each[0] for each in shown]
    assert done == sorted(done)
    assert shown[-1] == (facts["chunks"], Load(0, 0), facts["simulated_cycles"])
    assert shown[-1][2] == sum(each._clock for each in simulations.made)
    assert max(each[1].waiting for each in shown) <= 2
    assert max(each[1].running for each in shown) == 1


def test_counters_that_will_not_be_known_are_an_error(simulations: type[ModelSimulation]) -> None:
    device = opened(jobs=1)
    device.submit_batch([echo_npu.nop_packet()] * 3)
    later = device.counters_later()
    refuses(BackendError, "not known: the device was not at rest", later.wait)
    device.wait()
    assert later.wait()["commands"] >= 0
    lost = device.counters_later()
    farm_of(device).abandon()
    device.close()
    refuses(BackendError, "not known: the farm was closed before", lost.wait)
    with opened(sample=1e-9, chunk_cycles=1) as device:
        _sums(device, 3)
        later = device.counters_later()
        assert later.wait()["commands"] == 0


def test_an_open_that_fails_leaves_nothing_behind(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses(ValueError, "ring_slots is -3", opened, ring_slots=-3)
    start, started = threading.Thread.start, list[threading.Thread]()

    def runs_out(self: threading.Thread) -> None:
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(self)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", runs_out)
    refuses(RuntimeError, "can't start new thread", opened, jobs=3)
    assert not any(each.is_alive() for each in started)
    monkeypatch.setattr(threading.Thread, "start", start)

    def full(*_: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(backend, "DeviceMemory", full)
    refuses(OSError, "no memory", opened)
    assert len(simulations.made) == 3
    assert all(each.closed for each in simulations.made)


def test_simulations_start_wherever_the_program_is_by_then(
    simulations: type[ModelSimulation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "rtl" / "configs" / "small.toml", tmp_path / "mine.toml")
    monkeypatch.chdir(tmp_path)

    def until_there_are_two(_command: Command, _memory: DeviceMemory) -> None:
        assert eventually(lambda: len(simulations.made) == 2, 20)

    with echo_npu.open("rtlfarm", config="mine.toml", jobs=2, chunk_cycles=1) as device:
        monkeypatch.chdir(ROOT)
        simulations.harm = until_there_are_two
        device.add(ONES, ONES)
        device.add(ONES, ONES)
        device.wait()


def test_a_forked_child_leaves_the_farm_alone(simulations: type[ModelSimulation]) -> None:
    device = opened(jobs=1, chunk_cycles=1)
    _sums(device, 2)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            device.close()
        finally:
            os._exit(not device.closed)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    _sums(device, 2)
    device.wait()
    assert device.counters()["commands"] == 8
    device.close()


_UNCLOSED = """
import sys
from tests.runtime.backends import test_rtlfarm_backend as tests
from echo_npu.backends.rtlfarm import runner

runner.RtlmodelBackend = tests.ModelSimulation
tests.ModelSimulation.harm = tests._damage
device = tests.opened(jobs=1, chunk_cycles=1 << 30, failures=sys.argv[1])
device.add(tests.ONES, tests.ONES)
print("end")
if len(sys.argv) > 2:
    raise KeyError
"""


@pytest.mark.parametrize("raises", [False, True])
def test_a_program_that_does_not_close_the_farm_is_told(raises: bool, tmp_path: Path) -> None:
    """Chunks are checked at its end, unless an exception ends it."""
    done = subprocess.run(
        [sys.executable, "-c", _UNCLOSED, str(tmp_path), *["x"] * raises],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'runtime'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.stdout == "end\n"
    assert ("RtlMismatchError" in done.stderr) == (not raises), done.stderr
    assert len(list(tmp_path.iterdir())) == (not raises)


def test_farms_of_one_process_keep_their_chunks_apart(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    def harm(command: Command, memory: DeviceMemory) -> None:
        memory.bytes[0] = 1

    simulations.harm = harm
    files = []
    for value in (1.0, 2.0):
        device = opened(jobs=1, failures=tmp_path)
        device.add(value * ONES, ONES)
        with pytest.raises(RtlMismatchError) as caught:
            device.wait()
        device.close()
        assert caught.value.file is not None
        files.append(caught.value.file)
    assert len(set(files)) == 2
    assert sorted(tmp_path.iterdir()) == sorted(files)
    first, second = (RunChunk.load(file) for file in files)
    assert first.pages.keys() == second.pages.keys()
    assert any(first.pages[number].digest != second.pages[number].digest for number in first.pages)


def test_a_sample_simulates_its_share(simulations: type[ModelSimulation]) -> None:
    with opened(jobs=2, chunk_cycles=1) as device:
        _sums(device, 60)
        device.wait()
        whole, count = farm_of(device).cycles, farm_of(device).info()["farm"]["chunks"]
    assert count > 100
    assert whole.margin == 0
    found = []
    for seed in (1, 1, 2):
        simulations.made.clear()
        with opened(jobs=2, chunk_cycles=1, sample=0.3, seed=seed) as device:
            _sums(device, 60)
            device.wait()
            estimate, taken = farm_of(device).cycles, farm_of(device).info()["farm"]["chunks"]
        assert 0.15 * count < taken < 0.45 * count
        assert sum(len(each.timing) - 1 for each in simulations.made) == taken
        assert 0 < estimate.margin < whole.value
        assert abs(estimate.value - whole.value) <= 3 * estimate.margin
        found.append((taken, estimate))
    assert found[0] == found[1]
    assert found[0] != found[2]


def test_a_sample_of_everything_is_exact(simulations: type[ModelSimulation]) -> None:
    with opened(jobs=1, chunk_cycles=1, sample=1.0) as device:
        _sums(device, 5)
        device.wait()
        assert farm_of(device).cycles.margin == 0
        assert math.isfinite(farm_of(device).cycles.value)


@pytest.mark.parametrize("folder", [b"failures", "fail\0ures", "\udc80\ud800"])
def test_a_folder_that_no_path_can_name_is_refused(
    folder: str | bytes, simulations: type[ModelSimulation]
) -> None:
    with pytest.raises((TypeError, ValueError), match="failures is"):
        opened(failures=folder)


@pytest.mark.parametrize("progress", ["yes", 1, None])
def test_progress_is_a_truth_value(progress: object) -> None:
    with pytest.raises(TypeError, match="progress is"):
        opened(progress=progress)


def test_close_checks_commands_that_interrupt_one_by_one(
    simulations: type[ModelSimulation], tmp_path: Path
) -> None:
    def harm(command: Command, memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.MEMCPY:
            memory.bytes[0] ^= 1

    simulations.harm = harm
    device = opened(jobs=1, failures=tmp_path, ring_slots=512)
    x = device.tensor(ONES)
    device.wait()
    farm_of(device).run([WriteReg(regs.IRQ_ENABLE, 7)])
    copy = NpuCommandPacket(Opcode.MEMCPY, src1_addr=x.ptr, dst_addr=x.ptr + 64, m=1, k=32, n=1)
    device.submit_batch([*[NpuCommandPacket(Opcode.NOP, Flags.IRQ)] * 300, copy])
    with pytest.raises(RtlMismatchError):
        device.close()
