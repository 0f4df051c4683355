"""`make bench` with a few small products."""

import json

import pytest

from benchmarks import committed, run
from benchmarks.page import render
from echo_npu.benchmark.gemm import workload_name
from echo_npu.spec.data_types import DataType

pytestmark = pytest.mark.sim


def test_everything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of small products gives the committed cycles and a report."""
    monkeypatch.setattr(run, "QUICK_MACS", 1 << 20)
    results, measured = run.measure(quick=True, jobs=2, simulation=False)
    dtypes = [DataType.of(label) for label in results["hardware"]["peak"]]
    expected = {
        workload_name(product, dtype)
        for product in committed.all_products()
        for dtype in dtypes
        if product.macs <= 1 << 20
    }
    assert {each.name for each in measured} == expected
    assert all(each.bit_exact for each in measured)
    assert not committed.CYCLES.moved(
        committed.CONFIG, {each.name: each.cycles for each in measured if each.cycles}
    )
    assert sum(len(results[key]["products"]) for key in run.GROUPS) == len(expected)
    assert results["layer"]["passed"]
    assert results["layer"]["cycles"] > 0
    assert "A short run" in render(json.loads(json.dumps(results)))
