"""Goals are judged by made-up cycles."""

import pytest

from echo_npu.benchmark.gemm import Measured
from echo_npu.benchmark.goals import Goal, find_goals
from echo_npu.benchmark.products import Product
from echo_npu.benchmark.roofline import Bound
from echo_npu.spec.data_types import DataType

CUBE, SMALL, DECODE = Product(512, 512, 512), Product(16, 16, 16), Product(1, 576, 1536)
BATCH = Product(16, 64, 16, batch=9)


def measured(product: Product, dtype: DataType, bound: float, cycles: int | None) -> Measured:
    return Measured(product, dtype, cycles, 256, 32, Bound(bound, bound / 2, bound / 4))


def test_goals() -> None:
    products = [
        measured(CUBE, DataType.FP32, 524288, 526000),
        measured(CUBE, DataType.INT8, 131072, 160000),
        measured(DECODE, DataType.FP32, 1000, 1100),
        measured(DECODE, DataType.INT8, 1000, 1250),
        measured(BATCH, DataType.FP32, 70, 100),
        measured(SMALL, DataType.FP32, 64, 214),
        measured(SMALL, DataType.INT8, 32, 183),
    ]
    mean = (524288 / 526000 / 1.1 * 0.8192 * 0.8) ** 0.25
    assert {goal.name: (goal.value, goal.met, goal.product) for goal in find_goals(products)} == {
        "utilisation of the 512 cube, fp32": (pytest.approx(512**3 / 256 / 526000), True, ""),
        "roofline, geometric mean, fp32": (pytest.approx((524288 / 526000 / 1.1) ** 0.5), True, ""),
        "roofline, geometric mean, int8": (pytest.approx((0.8192 * 0.8) ** 0.5), False, ""),
        "roofline, geometric mean, all": (pytest.approx(mean), False, ""),
        "roofline of a large product, lowest": (0.8, True, "int8 1x576x1536"),
        "roofline of a single row, lowest": (0.8, False, "int8 1x576x1536"),
        "roofline of attention, lowest": (0.7, True, "fp32 9x16x64x16"),
        "overhead of the 16 cube, highest, cycles": (151, False, "int8 16x16x16"),
    }


def test_what_was_not_measured_has_no_goal() -> None:
    assert find_goals([]) == []
    assert find_goals([measured(CUBE, DataType.FP32, 1, None)]) == []
    (goal,) = find_goals([measured(BATCH, DataType.FP32, 1, 2)])
    assert goal.name == "roofline of attention, lowest"


def test_json() -> None:
    assert Goal("speed", 2.0, 3.0).to_dict() == {
        "name": "speed", "value": 2.0, "meant": "at least 3", "product": "", "met": False,
    }  # fmt: skip
    assert Goal("cost", 2.0, 3.0, at_most=True, product="x").to_dict() == {
        "name": "cost", "value": 2.0, "meant": "at most 3", "product": "x", "met": True,
    }  # fmt: skip
