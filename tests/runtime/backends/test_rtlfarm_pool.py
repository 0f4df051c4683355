"""What the end of a simulation says about the RTL."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.pool import ATTEMPTS, Load, LocalWorkers, ended_by_itself
from echo_npu.commands.command import Command
from echo_npu.commands.packets import Opcode
from echo_npu.errors import SimulatorError
from echo_npu.model.memory import DeviceMemory
from tests.processes import eventually
from tests.runtime.backends.farm_work import farm_of
from tests.runtime.backends.model_simulation import ModelSimulation, opened, simulations

__all__ = ["simulations"]


@pytest.mark.parametrize("said", ["[4] %Error: x.sv:3: Assertion failed", "[4] %Fatal: x.sv:3: bad"])
def test_an_assertion_is_the_end_that_the_rtl_gave_itself(said: str) -> None:
    found = ended_by_itself(SimulatorError("it ended", exit_status=1, log_tail=f"first\n{said}\nlast"))
    assert found is not None
    assert said in found.what


@pytest.mark.parametrize(
    ("status", "log"),
    [
        (-9, "%Error: x"),
        (None, "%Error: x"),
        (0, "%Error: x"),
        (1, "OSError: [Errno 28] No space left on device"),
    ],
)
def test_what_a_machine_does_to_a_simulation_is_no_finding(status: int | None, log: str) -> None:
    assert ended_by_itself(SimulatorError("it ended", exit_status=status, log_tail=log)) is None


def test_as_many_chunks_run_as_there_are_jobs(simulations: type[ModelSimulation]) -> None:
    """Two at once; two a job wait, and the program with them; what is lost is next."""
    together, held, again = threading.Barrier(2, timeout=60), threading.Event(), threading.Event()
    order: list[int] = []

    def harm(command: Command, _memory: DeviceMemory) -> None:
        if command.packet.opcode == Opcode.ADD_TENSOR:
            if not held.is_set():
                together.wait()
                held.wait(60)
            number = max(command.packet.m, command.packet.k, command.packet.n)
            if number > 8:  # however long the simulation takes that runs the lost one
                again.wait(10)
            order.append(number)
            if order.count(7) == 2:
                again.set()
            if order.count(number) == 1 and number == 7:
                raise SimulatorError("it was killed", exit_status=-9)

    simulations.harm = harm
    with opened(jobs=2, chunk_cycles=1) as device:
        device.wait()
        workers = farm_of(device).workers

        def work() -> None:
            for count in range(5, 13):
                device.add(*[np.ones(count, np.float32)] * 2)

        ran = threading.Thread(target=work)
        ran.start()
        assert eventually(lambda: workers.load == Load(4, 2), 50)
        assert not workers.drain(0.05)
        assert ran.is_alive()
        held.set()
        ran.join()
        device.wait()
        assert workers.load == Load(0, 0)
    assert sorted(order) == [5, 6, 7, *range(7, 13)]
    first, second = (place for place, number in enumerate(order) if number == 7)
    assert second - first <= 3


@pytest.mark.parametrize("times", [1, ATTEMPTS])
def test_a_chunk_is_tried_on_another_simulation_and_counts_once(
    times: int, simulations: type[ModelSimulation]
) -> None:
    left = [times]

    def dies(_command: Command, _memory: DeviceMemory) -> None:
        if left[0]:
            left[0] -= 1
            raise SimulatorError("it was killed", exit_status=-9)

    simulations.harm = dies
    device = opened(jobs=1)
    device.add(np.ones(4, np.float32), np.ones(4, np.float32))  # no chunk yet
    if times < ATTEMPTS:
        device.wait()
        assert device.counters()["commands"] == 1
    else:
        with pytest.raises(SimulatorError, match="it was killed"):
            device.wait()
    device.close()
    assert len(simulations.made) == min(times + 1, ATTEMPTS)
    assert all(each.closed for each in simulations.made)


@pytest.mark.parametrize("why", ["another job", "a chunk that differed"])
def test_nothing_runs_on_a_simulation_that_starts_while_the_farm_closes(
    why: str, simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    starting, go = threading.Event(), threading.Event()
    start, ran = ModelSimulation.__init__, list[str]()

    def slow(self: ModelSimulation, *arguments: Any) -> None:
        if simulations.made:
            starting.set()
            go.wait(60)
        start(self, *arguments)

    def harm(_command: Command, _memory: DeviceMemory) -> None:
        ran.append("on the second" if go.is_set() else "on the first")
        if why == "another job":
            starting.wait(60)

    monkeypatch.setattr(ModelSimulation, "__init__", slow)
    simulations.harm = harm
    device = opened(jobs=2 if why == "another job" else 1, chunk_cycles=1, failures=tmp_path)
    workers = farm_of(device).workers
    assert isinstance(workers, LocalWorkers)
    if why != "another job":
        assert workers.runners[0] is not None
        workers.runners[0]._spoiled = True
    for _ in range(2 if why == "another job" else 1):
        device.add(np.ones(4, np.float32), np.ones(4, np.float32))
    assert starting.wait(60)
    farm_of(device).abandon()
    threading.Timer(0.2, go.set).start()
    device.close()
    assert "on the second" not in ran
    assert len(simulations.made) == 2
    assert all(each.closed for each in simulations.made)
