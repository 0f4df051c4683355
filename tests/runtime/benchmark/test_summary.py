"""A run is judged by made-up cycles."""

import pytest

from echo_npu.benchmark.gemm import Measured
from echo_npu.benchmark.products import Product
from echo_npu.benchmark.roofline import Bound
from echo_npu.benchmark.summary import summarize
from echo_npu.spec.data_types import DataType


def measured(
    product: Product, roofline: float | None, dtype: DataType = DataType.FP32, exact: bool | None = True
) -> Measured:
    """Return a product of 1000 cycles with the bound that gives this `roofline`."""
    bound = Bound(compute=1000 * (roofline or 1), read=4, write=8)
    return Measured(product, dtype, None if roofline is None else 1000, 256, 32, bound, exact)


LARGE, LARGER = Product(64, 64, 64), Product(64, 64, 128)
DECODE, TINY, BATCH = Product(1, 576, 192), Product(16, 16, 16), Product(16, 16, 16, batch=9)


def test_derived_figures() -> None:
    each = measured(LARGE, 0.5)
    assert each.roofline == 0.5
    assert each.utilisation == pytest.approx(64**3 / (1000 * 256))
    assert each.overhead == 500
    assert each.intensity == 64**3 / (8 * 32)
    assert each.name == "fp32 64x64x64"


def test_means_are_geometric_by_type_and_over_all() -> None:
    counted = [measured(LARGE, 0.9), measured(LARGER, 0.4), measured(LARGE, 0.8, DataType.INT8)]
    found = summarize([*counted, measured(TINY, 0.001), measured(BATCH, 0.001)])
    assert found.means["fp32"] == pytest.approx(0.6)
    assert found.means["int8"] == pytest.approx(0.8)
    assert found.means["all"] == pytest.approx((0.9 * 0.4 * 0.8) ** (1 / 3))


def test_batches_alone_have_means() -> None:
    assert summarize([measured(BATCH, 0.5), measured(TINY, 0.1)]).means == {"fp32": 0.5, "all": 0.5}


def test_what_is_below_is_listed_worst_first() -> None:
    rooflines = {LARGE: 0.79, LARGER: 0.81, DECODE: 0.89, BATCH: 0.69, TINY: 0.1}
    rooflines[Product(16, 16, 32, batch=9)] = 0.71
    found = summarize([measured(product, roofline) for product, roofline in rooflines.items()])
    assert [each.product for each in found.below] == [BATCH, LARGE, DECODE]
    assert found.decode is not None
    assert found.decode.roofline == 0.89
    assert [each.product for each in found.latency] == [DECODE, TINY]
    assert found.to_dict()["overhead_cycles"]["fp32 16x16x16"] == 900


def test_a_wrong_bit_is_wrong_with_or_without_cycles() -> None:
    found = summarize([measured(LARGE, None, exact=False), measured(LARGER, None, exact=None)])
    assert [each.product for each in found.wrong] == [LARGE]
    assert found.means == {}
    assert found.decode is None
