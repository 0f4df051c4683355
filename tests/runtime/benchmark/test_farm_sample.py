"""What samples of a farm's chunks estimate, and that the docs show what was measured last."""

import pytest

from benchmarks import farm_sample
from benchmarks.farm_sample import SimulatedChunk, quality
from echo_npu.backends.rtlfarm.chunk import ChunkResult
from spec.marked_page import generated_part


def _chunk(estimate: float, cycles: int) -> SimulatedChunk:
    return SimulatedChunk(estimate, ChunkResult(0, cycles, {}, False, cycles, 0.0, 0.0))


def test_the_page_shows_the_committed_comparison() -> None:
    page = generated_part(farm_sample.PAGE_OF_DOCS, farm_sample.COMMAND)
    assert page == farm_sample.table(farm_sample.load()), f"run {farm_sample.COMMAND}"


def test_samples_of_equal_chunks_are_right() -> None:
    found = quality([_chunk(10.0, 50)] * 40, 0.3, 1, 100)
    assert found.held == 1
    assert found.error == pytest.approx(0)
    assert found.chunks == pytest.approx(12, abs=1)


def test_samples_that_miss_what_is_rare_are_wrong() -> None:
    """One chunk of forty has half of all cycles, and its estimate does not say so."""
    found = quality([*[_chunk(10.0, 50)] * 39, _chunk(10.0, 39 * 50)], 0.1, 1, 400)
    assert found.held < 0.5
    assert found.error > 0.3
