"""Chunks on functional models in place of RTL simulations: the same bits, and the cycles of one run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlmodel import Options
from echo_sim.numerals import choose_seed
from tests.rtlmodel import programs
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, farm_of, opened, simulations

__all__ = ["simulations"]

Work = Callable[[echo_npu.Device], Any]


def _in_one(work: Work) -> tuple[Any, dict[str, int]]:
    with echo_npu.Device(ModelSimulation(CONFIG, Options())) as device:
        found = work(device)
        device.wait()
        return found, device.counters()


def _random_work(seed: int) -> Work:
    def work(device: echo_npu.Device) -> Any:
        rng = np.random.default_rng(seed)
        device.memcpy(0x40, programs.image(rng, programs.WEIGHT_BYTES), programs.WEIGHT_BYTES)
        for _ in range(12):
            device.submit_batch([each for _ in range(rng.integers(1, 9)) for each in programs.command(rng)])
            if rng.random() < 0.7:
                device.finish()
            device.memcpy(programs.ACTIVATION, 0x80, int(rng.integers(1, 900)))
            if rng.random() < 0.3:
                device.memcpy(0x80, programs.image(rng, 400), 400)
        return device.backend.read_mem(programs.ACTIVATION, programs.ACTIVATION_BYTES).tobytes()

    return work


def _layers(device: echo_npu.Device) -> Any:
    rng = np.random.default_rng(3)
    weights = device.tensor((rng.standard_normal((24, 24)) / 6).astype(np.float32))
    rows = rng.standard_normal((8, 24)).astype(np.float32)
    with device.record() as program:
        y = x = program.input("x", rows.shape)
        for _ in range(60):
            y = device.add(device.softmax(device.matmul(y, weights)), x)
        program.output("y", y)
    return [program.run(x=rows * scale)["y"].to_numpy().tobytes() for scale in (1, 2)]


@pytest.mark.parametrize("chunk_cycles", [1, 4000])
@pytest.mark.parametrize("work", [_random_work(choose_seed()), _layers], ids=["random", "layers"])
def test_the_sum_of_the_chunks_is_one_run(
    work: Work, chunk_cycles: int, simulations: type[ModelSimulation]
) -> None:
    wanted, counters = _in_one(work)
    with opened(jobs=2, chunk_cycles=chunk_cycles) as device:
        found = work(device)
        device.wait()
        summed, chunks = device.counters(), farm_of(device).info()["farm"]["chunks"]
    assert found == wanted
    assert chunks >= 4
    assert summed["commands"] == counters["commands"]
    assert summed["cycles"] == counters["cycles"]
    assert all(each.closed for each in simulations.made)
