"""The modelled speed-up of a farm, and that the docs show what was measured last."""

import dataclasses

import pytest

from benchmarks import farm
from spec.marked_page import generated_part

CHUNK = farm.ChunkCosts(
    model_s=0.1, run_s=1.0, rtl_s=1.0, cycles=500, simulated=500, new_bytes=0, other_bytes=0
)
COSTS = farm.FarmCosts(start_s=0.0, weight_bytes=0, bare_s=0.1, tokens=1, chunks=[CHUNK] * 2)


def test_the_page_and_the_picture_show_the_committed_costs() -> None:
    costs, walls = farm.load()
    again = f"run {farm.COMMAND}"
    assert generated_part(farm.PAGE_OF_DOCS, farm.COMMAND) == farm.table(costs, walls), again
    assert farm.PICTURE.read_text(encoding="utf-8") == farm.picture(costs, walls), again


def test_without_other_costs_the_speed_up_is_the_number_of_workers() -> None:
    for workers in (1, 2, 4, 8):
        assert COSTS.speed_up(workers, with_model=False) == pytest.approx(workers)


def test_the_functional_model_bounds_the_speed_up() -> None:
    assert COSTS.speed_up(1, with_model=True) == pytest.approx(1, abs=0.01)
    assert COSTS.speed_up(64, with_model=True) == pytest.approx(10, rel=0.03)


def test_what_chunks_cost_besides_their_cycles_is_lost() -> None:
    warm = dataclasses.replace(CHUNK, run_s=1.25, rtl_s=1.25, simulated=625)
    costs = dataclasses.replace(COSTS, chunks=[warm] * 2)
    assert costs.speed_up(4, with_model=False) == pytest.approx(4 / 1.25)


def test_starts_weights_and_pages_are_lost_once() -> None:
    """512 chunks of a second on 64 workers take 8 s, and what comes on top."""
    for costs in (
        dataclasses.replace(COSTS, start_s=2.0),
        dataclasses.replace(COSTS, weight_bytes=int(2 * farm.BANDWIDTH)),
        dataclasses.replace(
            COSTS, chunks=[dataclasses.replace(CHUNK, new_bytes=int(farm.BANDWIDTH / 4))] * 2
        ),
    ):
        assert costs.speed_up(64, with_model=False) == pytest.approx(512 / 10)
