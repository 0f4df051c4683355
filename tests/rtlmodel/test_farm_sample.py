"""Cycles of a text that a small Llama writes, estimated from samples of its chunks, against all of them."""

import numpy as np
import pytest

import echo_npu
from benchmarks.farm_sample import SimulatedChunk, quality, simulate
from echo_npu.backends.rtlfarm.options import FarmOptions
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import Network
from echo_npu.models.gguf_model import GgufModel
from echo_sim.numerals import choose_seed
from tests.runtime.model_files import write_model

pytestmark = pytest.mark.sim

TEXT = [5, 200, 31, 7, 7, 96]
SAMPLES = 2000


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> list[SimulatedChunk]:
    """All chunks of the text and their results, in order."""
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_model(path)

    def load(device: echo_npu.Device) -> None:
        network = Network(device, GgufModel(path), context=48)
        list(TextGenerator(network).generate(TEXT, 40))

    cycles, chunks = simulate(load, "small", FarmOptions(jobs=2, chunk_cycles=6000))
    assert cycles.value == sum(each.result.cycles for each in chunks)
    assert cycles.margin == 0
    return chunks


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_the_interval_of_a_sample_holds_the_cycles_of_all_chunks(
    share: float, simulated: list[SimulatedChunk]
) -> None:
    found = quality(simulated, share, choose_seed(), SAMPLES)
    assert len(simulated) > 40
    assert found.held > 0.95
    assert 0 < found.error < found.margin < 0.5


def test_estimates_of_chunks_are_about_their_cycles() -> None:
    """Of every engine: products, vector programs, copies, and a few rows of a large table."""

    def load(device: echo_npu.Device) -> None:
        table = device.tensor(np.zeros((20_000, 64), np.float32))
        x = device.tensor(np.ones((64, 64), np.float32))
        for _ in range(4):
            rows = device.embedding(table, device.tensor(np.arange(64, dtype=np.int32)))
            device.matmul(device.gelu(rows), x)
            device.copy(x, out=rows)

    _, chunks = simulate(load, "small", FarmOptions(jobs=1, chunk_cycles=3000))
    long = [each for each in chunks if each.result.cycles > 1000]
    assert len(long) > 4
    for each in long:
        assert 0.2 < each.estimate / each.result.cycles < 5
