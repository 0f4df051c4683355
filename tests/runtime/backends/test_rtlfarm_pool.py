"""What the end of a simulation says about the RTL."""

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.pool import ATTEMPTS, ended_by_itself
from echo_npu.commands.packets import Command
from echo_npu.errors import SimulatorError
from echo_npu.model.memory import DeviceMemory
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
