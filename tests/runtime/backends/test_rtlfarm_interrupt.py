"""An interrupt of the program, wherever it comes: no chunk is lost, and what is unchecked is said."""

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm import cluster as farm_cluster
from echo_npu.backends.rtlfarm.pool import LocalWorkers
from echo_npu.backends.rtlmodel import Options
from echo_npu.commands.checked import CheckedCommand
from echo_npu.commands.command import Command
from echo_npu.errors import BackendError, RtlMismatchError
from echo_npu.model.memory import DeviceMemory
from tests.refusals import refuses
from tests.runtime.backends.farm_work import farm_of
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, opened, simulations
from tests.runtime.backends.test_rtlfarm_cluster import _Client

__all__ = ["simulations"]

_WIDE = np.ones((4, 32), np.float32)


def _long(device: echo_npu.Device, wait: Callable[[Callable[[], object]], None]) -> bytes:
    """Submit a long program, wait for it as `wait` does, and then work on; return what it left."""
    with device.record() as program:
        y = x = program.input("x", _WIDE.shape)
        for _ in range(60):
            y = device.add(device.relu(y), x)
        program.output("y", y)
    wait(lambda: program.run(x=_WIDE))
    device.wait()
    device.add(_WIDE, _WIDE)
    device.wait()
    return bytes(device.backend.read_mem(0x1000_0000, 1 << 16))


def _interrupting(monkeypatch: pytest.MonkeyPatch, left: list[int]) -> None:
    """Let an interrupt end the wait for room behind as many chunks as are left."""
    submit = LocalWorkers.submit

    def interrupted(self: LocalWorkers, chunk: Any) -> None:
        submit(self, chunk)
        if left[0]:
            left[0] -= 1
            raise KeyboardInterrupt

    monkeypatch.setattr(LocalWorkers, "submit", interrupted)


def test_a_run_that_was_interrupted_while_it_waited_for_room_goes_on(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits and busy cycles as without interrupts, between two commands of the ring and at rest."""
    with echo_npu.Device(ModelSimulation(CONFIG, Options())) as device:
        wanted = _long(device, lambda run: (run(), None)[1])
        counters = device.counters()
    caught, left = [], [0]

    def run_on(run: Callable[[], object]) -> None:
        device.wait()
        left[0] = 3
        for again in [run, *[device.finish] * 9]:
            try:
                again()
            except KeyboardInterrupt:
                caught.append(farm_of(device)._recorder.count)
            else:
                break

    _interrupting(monkeypatch, left)
    with opened(jobs=1, chunk_cycles=2500) as device:
        found = _long(device, run_on)
        summed = device.counters()
        looks = summed.pop("cycles") - counters.pop("cycles")
        assert summed == counters
        assert 0 <= looks <= 3 * len(caught)  # of a host that looks again at a device at rest
        assert farm_of(device).info()["farm"]["chunks"] == farm_of(device)._recorder.count > 6
    assert found == wanted
    assert len(caught) == 3


def _until_full(workers: Any, submit: Callable[[], None]) -> None:
    """Submit until that blocks, and interrupt it there."""
    wait_for = workers._changed.wait_for

    def interrupted(condition: Callable[[], bool], timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread() and not condition():
            raise KeyboardInterrupt
        return bool(wait_for(condition, timeout))

    workers._changed.wait_for = interrupted
    with contextlib.suppress(KeyboardInterrupt):
        for _ in range(99):
            submit()
        pytest.fail("it never blocks")
    workers._changed.wait_for = wait_for


@pytest.mark.parametrize("place", ["here", "cluster"])
def test_the_chunk_whose_turn_was_awaited_is_checked(
    place: str, simulations: type[ModelSimulation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that differs."""
    held = threading.Event()
    sizes: list[int] = []

    def harm(command: Command, memory: DeviceMemory) -> None:
        held.wait(60)
        if max(command.packet.m, command.packet.k, command.packet.n) == sizes[-1]:
            memory.bytes[0] = 1

    monkeypatch.setattr(farm_cluster, "_connected", lambda _: _Client())
    monkeypatch.setattr(farm_cluster, "_LOOK_S", 0.01)
    where: dict[str, Any] = {"jobs": 1} if place == "here" else {"executor": "tcp://here:1"}
    device = opened(chunk_cycles=1, failures=tmp_path, **where)
    device.wait()
    simulations.harm = harm
    farm = farm_of(device)

    def submit() -> None:
        sizes.append(17 + len(sizes))
        x = np.ones(sizes[-1], np.float32)
        device.add(x, x)

    _until_full(farm.workers, submit)
    held.set()
    with pytest.raises(RtlMismatchError):
        device.close()


def test_a_model_that_was_interrupted_in_a_command_is_of_no_use(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left half done is the program's error, and none of the RTL."""
    device = opened(jobs=1)
    device.add(_WIDE, _WIDE)
    device.wait()
    recorder = farm_of(device)._recorder
    executing = recorder.executing

    def interrupted(command: Command, checked: CheckedCommand) -> None:
        executing(command, checked)
        raise KeyboardInterrupt

    monkeypatch.setattr(recorder, "executing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.add(_WIDE, _WIDE)
    monkeypatch.undo()
    refuses(BackendError, "KeyboardInterrupt has ended the functional model", device.wait)
    device.close()


def test_a_chunk_that_was_lost_is_no_success(
    simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    device = opened(jobs=1, chunk_cycles=1)
    device.wait()
    monkeypatch.setattr(LocalWorkers, "submit", lambda *_: None)
    device.add(_WIDE, _WIDE)
    refuses(BackendError, r"\d+ chunks were not checked", device.wait)
    refuses(BackendError, r"\d+ chunks were not checked", device.close)
