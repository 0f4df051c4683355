"""Chunks on functional models in place of RTL simulations: the same bits, and the cycles of one run."""

from typing import Any

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.pool import LocalWorkers
from echo_npu.backends.rtlfarm.runner import ChunkRunner
from echo_npu.backends.rtlmodel import Options
from echo_npu.commands.vector_command import Stream
from echo_npu.vector.assembler import assemble
from echo_sim.numerals import choose_seed
from tests.runtime.backends.farm_work import Work, farm_of, layers, random_work
from tests.runtime.backends.model_simulation import CONFIG, ModelSimulation, opened, simulations

__all__ = ["simulations"]


def _in_one(work: Work) -> tuple[Any, dict[str, int]]:
    with echo_npu.Device(ModelSimulation(CONFIG, Options())) as device:
        found = work(device)
        device.wait()
        return found, device.counters()


@pytest.mark.parametrize("chunk_cycles", [1, 1000, 4000])
@pytest.mark.parametrize("work", [random_work(choose_seed()), layers], ids=["random", "layers"])
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
    assert summed["busy_cycles"] == counters["busy_cycles"]
    assert summed["cycles"] == counters["cycles"]
    assert all(each.closed for each in simulations.made)


def _many_programs(device: echo_npu.Device) -> None:
    """Load vector programs one after the other, and run those that are there already."""
    ones, out = device.tensor(np.ones(4, np.float32)), device.empty((4,))
    text = ".name plus_{0}\n.stream x s0\nloop: chunks\n    add o, x, {0}.0\nnext loop, x\n    end\n"
    programs = [assemble(text.format(term)) for term in range(1, 6)]
    for index in (0, 1, 2, 3, 4, 0, 3, 1, 4, 2, 1):
        device.vector(programs[index], rows=1, cols=4, inputs=[Stream(ones.ptr)], output=Stream(out.ptr))
        assert (out.to_numpy() == index + 2).all()


@pytest.mark.parametrize("work", [_many_programs, random_work(choose_seed())], ids=["programs", "random"])
def test_a_simulation_takes_chunks_in_any_order(
    work: Work, simulations: type[ModelSimulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, counters = _in_one(work)
    chunks: list[RunChunk] = []

    def keep(workers: LocalWorkers, chunk: RunChunk) -> None:
        chunks.append(chunk)
        workers._on_result(chunk, ChunkResult(chunk.number, 0, {}, False, 0, 0.0, 0.0))

    monkeypatch.setattr(LocalWorkers, "submit", keep)
    with opened(jobs=1, chunk_cycles=1) as device:
        work(device)
    runner = ChunkRunner(CONFIG, Options())
    np.random.default_rng(choose_seed()).shuffle(chunks)  # type: ignore[arg-type]
    results = [runner.run(chunk) for chunk in [*chunks, *reversed(chunks)]]
    runner.close()
    assert [result.deviation for result in results] == [None] * len(results)
    assert sum(result.counters["commands"] for result in results) >= 2 * counters["commands"]
