"""The comparison of `make bench-sim` runs, its simulators agree to the byte, and differences are found.

Plain cocotb takes minutes to build; `make bench-sim` itself compares its results.
"""

import copy
from typing import Any

import numpy as np
import pytest

from benchmarks import sim_speed, sim_speed_replay
from echo_npu.model.memory import DeviceMemory
from echo_npu.spec.memory_map import ACTIVATION

CONFIG = "small"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return sim_speed.measure(CONFIG, quick=True, cocotb=False)


@pytest.mark.sim
@pytest.mark.slow
def test_harness_and_bare_loop_agree(report: dict[str, Any]) -> None:
    assert sim_speed.failures(report) == []
    (program,) = report["programs"]
    for name in ("harness", "bare"):
        assert program[name]["best"]["same"]
        assert program[name]["cycles_per_s"] > 0
    assert program["harness"]["best"]["busy_cycles"] == program["bare"]["best"]["busy_cycles"] > 10_000


@pytest.mark.sim
@pytest.mark.slow
def test_the_report_has_every_ratio(report: dict[str, Any]) -> None:
    (program,) = report["programs"]
    assert program["harness_to_bare"] > 0
    host = report["host"]
    assert host["packets"] >= sim_speed.HOST_PACKETS
    assert host["host_overhead"] == pytest.approx(host["host_s"] / host["simulation_s"])
    text = "\n".join(sim_speed.lines(report))
    for part in ("harness / bare", "of the simulation", "open()"):
        assert part in text


@pytest.mark.sim
@pytest.mark.slow
def test_differences_are_failures(report: dict[str, Any]) -> None:
    for key in ("same_results", "same_cycles"):
        wrong = copy.deepcopy(report)
        wrong["programs"][0][key] = False
        assert len(sim_speed.failures(wrong)) == 1
    wrong = copy.deepcopy(report)
    wrong["host"]["same_results"] = False
    assert len(sim_speed.failures(wrong)) == 1


def test_a_replay_gives_what_the_computation_gave() -> None:
    replay = sim_speed_replay.heavy(CONFIG, size=16)
    expected = replay.expected()
    again = replay.repeated("again", 50)
    assert len(again.slots) >= 50
    assert len(again.slots) % len(replay.slots) == 0
    assert sim_speed_replay.same_result(again.expected(), expected)
    random = np.random.default_rng(1)
    x = random.standard_normal((16, 16)).astype(np.float32)
    assert any(x.tobytes() in data.tobytes() for _, data in replay.before)
    softmax = expected.read(ACTIVATION.base + x.nbytes, x.nbytes).view(np.float32).reshape(x.shape)
    np.testing.assert_allclose(softmax.sum(axis=1), 1, rtol=1e-5)


def test_one_wrong_byte_is_seen() -> None:
    expected = sim_speed_replay.heavy(CONFIG, size=16).expected()
    other = DeviceMemory()
    for address, data in sim_speed_replay.content(expected):
        other.write(address, data)
    other.bytes[sim_speed_replay.RING_BASE] = 1
    assert sim_speed_replay.same_result(other, expected)
    other.bytes[ACTIVATION.base] ^= 1
    assert not sim_speed_replay.same_result(other, expected)


def test_the_ring_has_its_limit() -> None:
    replay = sim_speed_replay.heavy(CONFIG, size=16).repeated("long", sim_speed_replay.RING_SLOTS)
    with pytest.raises(ValueError, match="the ring takes 1023"):
        replay.script(DeviceMemory())


def test_host_writes_in_the_midst_are_refused() -> None:
    def prepare(device: Any) -> Any:
        return lambda: device.tensor(np.ones(4, np.float32))

    with pytest.raises(RuntimeError, match="cannot be replayed"):
        sim_speed_replay.record("wrong", CONFIG, prepare)
