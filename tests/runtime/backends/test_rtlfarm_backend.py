"""A farm on functional models: what differs is said, once and whole; a sample is a share."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.chunk import RunChunk
from echo_npu.commands.packets import Command, Flags, NpuCommandPacket, Opcode
from echo_npu.errors import RtlMismatchError, SimulatorError
from echo_npu.model.memory import DeviceMemory
from echo_npu.register_ops import WriteReg
from echo_npu.spec import registers as regs
from echo_npu.spec.memory_map import MEMORY_SIZE
from tests.runtime.backends.model_simulation import ModelSimulation, farm_of, opened, simulations

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
