"""Cycles of the benchmarks' matrix products: the committed ones, whatever the operands are.

`make bench` measures and compares all of them, or commits them with UPDATE=1.
"""

from pathlib import Path

import pytest

import echo_npu
from echo_npu.benchmark.gemm import Session, measure_product, workload_name
from echo_npu.benchmark.products import Product, choose_products, load_products
from echo_npu.spec.data_types import DataType
from tb.committed_cycles import CommittedCycles
from tests.rtlmodel.simulated import BENCHMARKED

pytestmark = pytest.mark.sim

COMMITTED = CommittedCycles(
    Path(__file__).resolve().parents[2] / "benchmarks" / "gemm_cycles.json", tolerance=0.01
)
LONGEST = 1 << 24
"""Limit of the MACs of a product that is measured here."""
CUBE = Product(512, 512, 512)


def work(dtypes: list[DataType]) -> list[tuple[Product, DataType]]:
    """Return all of the benchmarks' products in these types."""
    return [(product, dtype) for product in choose_products(load_products()) for dtype in dtypes]


@pytest.fixture(scope="module")
def dtypes(device: echo_npu.Device) -> list[DataType]:
    """Return the types that the hardware has."""
    return [DataType.of(label) for label in device.capabilities.data_types]


def test_every_product_has_a_committed_number(dtypes: list[DataType]) -> None:
    assert set(COMMITTED.load(BENCHMARKED)) == {workload_name(*each) for each in work(dtypes)}


@pytest.mark.slow
def test_cycles_are_the_committed_ones(dtypes: list[DataType]) -> None:
    """Cycles are within one percent of the committed ones."""
    chosen = [each for each in work(dtypes) if each[0].macs <= LONGEST or each[0] == CUBE]
    measured = Session(config=BENCHMARKED, check_limit=0, jobs=2).run(chosen)
    COMMITTED.compare(BENCHMARKED, {each.name: each.cycles for each in measured if each.cycles})
    assert len(measured) == len(chosen)
    assert all(each.cycles for each in measured)


@pytest.mark.parametrize(
    "product", [Product(100, 150, 16), Product(16, 64, 16, batch=9, trans_b=True)], ids=str
)
def test_no_cycle_depends_on_data(device: echo_npu.Device, dtypes: list[DataType], product: Product) -> None:
    """Cycles depend neither on the operands nor on earlier work, so the other test draws both. Results are
    compared to the bit."""
    for dtype in dtypes:
        with echo_npu.open("cmodel", config=BENCHMARKED) as twin:
            drawn = [measure_product(device, product, dtype, twin=twin, seed=seed) for seed in (1, 2)]
        with echo_npu.open("rtlmodel", config=BENCHMARKED) as fresh:
            zeros = measure_product(fresh, product, dtype)
        assert [each.bit_exact for each in drawn] == [True, True]
        assert zeros.cycles == drawn[0].cycles == drawn[1].cycles
