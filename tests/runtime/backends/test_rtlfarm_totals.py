"""The sum of the chunks of a farm, and its estimate from a sample."""

import dataclasses
import math

import numpy as np
import pytest

from echo_npu.backends.rtlfarm.chunk import ChunkResult
from echo_npu.backends.rtlfarm.totals import Totals


def _result(number: int, cycles: int, *, cleared: bool = False) -> ChunkResult:
    counters = {"cycles": cycles, "busy_cycles": cycles // 2}
    return ChunkResult(number, cycles, counters, cleared, 2 * cycles, 0.1, 0.01)


def test_results_count_once_and_in_order() -> None:
    totals = Totals()
    for number in (2, 0, 2, 1, 0):
        totals.add(number, 10.0, _result(number, 100 + number))
    assert totals.cycles.value == 303
    assert totals.cycles.margin == 0
    assert totals.checked == 3
    assert totals.simulated == 606
    assert totals.counters["busy_cycles"] == 50 + 50 + 51


def test_a_result_waits_for_those_before_it() -> None:
    totals = Totals()
    totals.add(1, 1.0, _result(1, 5))
    assert totals.cycles.value == 0
    totals.add(0, 1.0, _result(0, 4))
    assert totals.cycles.value == 9


def test_counters_begin_where_the_host_cleared_them() -> None:
    totals = Totals()
    totals.add(2, 1.0, _result(2, 8))
    totals.add(1, 1.0, _result(1, 6, cleared=True))
    totals.add(0, 1.0, _result(0, 100))
    assert totals.counters["cycles"] == 14
    assert totals.cycles.value == 114


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_the_interval_of_a_sample_holds_the_truth_about_as_often_as_it_says(share: float) -> None:
    rng = np.random.default_rng(5)
    hits = trials = 0
    for _ in range(400):
        estimates = rng.uniform(50, 150, 120)
        cycles = np.round(estimates * rng.normal(3, 0.4, 120)).astype(int)
        totals = Totals()
        for number in range(120):
            chosen = rng.random() < share
            result = _result(number, int(cycles[number])) if chosen else None
            totals.add(number, float(estimates[number]), result)
        found = totals.cycles
        if math.isinf(found.margin):
            continue
        trials += 1
        hits += abs(found.value - cycles.sum()) <= found.margin
        assert found.margin > 0
    assert trials > 300
    assert 0.9 < hits / trials < 0.99


def test_chunks_before_the_first_simulated_one_count_like_it() -> None:
    for cleared in (False, True):
        totals = Totals()
        totals.add(0, 10.0, None)
        totals.add(1, 30.0, None)
        totals.add(2, 20.0, _result(2, 60, cleared=cleared))
        assert totals.counters["cycles"] == (60 if cleared else 60 * 3)
        totals.add(3, 10.0, None)
        assert totals.counters["cycles"] == (90 if cleared else 210)


def test_a_chunk_that_is_not_simulated_counts_from_where_the_host_cleared_the_counters() -> None:
    totals = Totals()
    totals.add(0, 20.0, _result(0, 60))
    totals.add(1, 10.0, None, (), 4.0)
    assert totals.counters["cycles"] == 12
    totals.add(2, 10.0, None)
    assert totals.counters["cycles"] == 42
    late = Totals()
    late.add(0, 50.0, None)
    late.add(1, 10.0, None, (), 4.0)
    late.add(2, 20.0, _result(2, 60))
    assert late.counters["cycles"] == 72


def test_marks_are_the_counters_up_to_there() -> None:
    """Since the host cleared them, in the chunk of the mark or in one before."""
    totals = Totals()
    totals.add(0, 1.0, _result(0, 100))
    marked = {
        1: (False, {"cycles": 3, "busy_cycles": 2}),
        2: (True, {"cycles": 4, "busy_cycles": 1}),
    }
    totals.add(1, 1.0, dataclasses.replace(_result(1, 6, cleared=True), marks=marked))
    marked = {3: (False, {"cycles": 5, "busy_cycles": 5})}
    totals.add(2, 1.0, dataclasses.replace(_result(2, 7), marks=marked))
    assert [totals.marks[number]["cycles"] for number in (1, 2, 3)] == [103, 4, 11]
    assert [totals.marks[number]["busy_cycles"] for number in (1, 2, 3)] == [52, 1, 8]


def test_a_chunk_that_is_not_simulated_counts_like_all_that_were_before() -> None:
    totals = Totals()
    totals.add(0, 10.0, _result(0, 100))
    totals.add(1, 30.0, _result(1, 60))
    totals.add(2, 20.0, None)
    assert totals.counters["cycles"] == 100 + 60 + 160 * 20 // 40
    totals.add(3, 10.0, _result(3, 40))
    totals.add(4, 5.0, None)
    assert totals.counters["cycles"] == 240 + 40 + 200 * 5 // 50


def test_one_chunk_is_no_sample() -> None:
    totals = Totals()
    totals.add(0, 10.0, _result(0, 20))
    totals.add(1, 30.0, None)
    assert totals.cycles.value == 80
    assert math.isinf(totals.cycles.margin)
    assert totals.counters["cycles"] == 80


def test_counters_of_a_sample_never_run_backwards() -> None:
    rng = np.random.default_rng(8)
    totals = Totals()
    seen = [0]
    for number in range(60):
        simulated = rng.random() < 0.3
        cycles = int(rng.integers(50, 500))
        totals.add(
            number, float(rng.uniform(50, 150)), _result(number, cycles) if simulated else None, [number]
        )
        seen.append(totals.counters["cycles"])
        assert simulated or totals.marks[number]["cycles"] == seen[-1]
    assert seen == sorted(seen)
    assert seen[-1] > 0


def test_a_sample_without_scatter_still_has_a_margin() -> None:
    """Two of four chunks that are all the same: Student's 12.71, and one chunk that is a quarter off."""
    totals = Totals()
    for number in range(4):
        totals.add(number, 10.0, _result(number, 100) if number < 2 else None)
    assert totals.cycles.value == 400
    scatter = 25**2 / 2
    assert totals.cycles.margin == pytest.approx(12.71 * 4 * math.sqrt((1 - 2 / 4) * scatter / 2))
