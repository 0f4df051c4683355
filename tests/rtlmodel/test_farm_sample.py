"""Cycles of a text that a small Llama writes, estimated from samples of its chunks, against all of them."""

import math

import numpy as np
import pytest

import echo_npu
from echo_npu.backends.rtlfarm.backend import RtlfarmBackend
from echo_npu.backends.rtlfarm.chunk import ChunkResult, RunChunk
from echo_npu.backends.rtlfarm.totals import Totals
from echo_npu.cli.chat import RING_SLOTS
from echo_npu.language.generator import TextGenerator
from echo_npu.language.network import Network
from echo_npu.models.gguf_model import GgufModel
from echo_sim.numerals import choose_seed
from tests.runtime.model_files import write_model

pytestmark = pytest.mark.sim

TEXT = [5, 200, 31, 7, 7, 96]
SAMPLES = 2000


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[RunChunk, ChunkResult]]:
    """All chunks of the text and their results, in order."""
    path = tmp_path_factory.mktemp("model") / "small.gguf"
    write_model(path)
    found: dict[int, tuple[RunChunk, ChunkResult]] = {}
    with pytest.MonkeyPatch.context() as patched:
        checked = RtlfarmBackend._checked

        def keeping(self: RtlfarmBackend, chunk: RunChunk, result: ChunkResult) -> None:
            found[chunk.number] = (chunk, result)
            checked(self, chunk, result)

        patched.setattr(RtlfarmBackend, "_checked", keeping)
        with echo_npu.open(
            "rtlfarm", config="small", jobs=2, chunk_cycles=6000, ring_slots=RING_SLOTS
        ) as device:
            network = Network(device, GgufModel(path), context=32)
            list(TextGenerator(network).generate(TEXT, 24))
            device.wait()
    return [found[number] for number in sorted(found)]


@pytest.mark.parametrize(("share", "least"), [(0.1, 0.85), (0.3, 0.91)])
def test_the_interval_of_a_sample_holds_the_cycles_of_all_chunks(
    share: float, least: float, simulated: list[tuple[RunChunk, ChunkResult]]
) -> None:
    """95 % of the intervals are to hold them; with five chunks in a sample fewer do."""
    total = sum(result.cycles for _, result in simulated)
    rng = np.random.default_rng(choose_seed())
    hits = 0
    margins: list[float] = []
    while len(margins) < SAMPLES:
        totals = Totals()
        for chunk, result in simulated:
            taken = rng.random() < share
            totals.add(chunk.number, chunk.estimate, result if taken else None, chunk.marks)
        found = totals.cycles
        if math.isfinite(found.margin):
            hits += abs(found.value - total) <= found.margin
            margins.append(found.margin / total)
    assert len(simulated) > 40
    assert hits / SAMPLES > least
    assert 0 < np.median(margins) < 0.5
