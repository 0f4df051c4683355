"""Goals of the matrix engine, and whether it reaches them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from echo_npu.benchmark.gemm import Measured
from echo_npu.benchmark.products import Product
from echo_npu.benchmark.summary import BATCH_FLOOR, DECODE_FLOOR, ROOFLINE_FLOOR, summarize
from echo_npu.spec.data_types import DataType

LARGE_CUBE: Final = Product(512, 512, 512)
SMALL_CUBE: Final = Product(16, 16, 16)
UTILISATION: Final = 0.99
"""Of the large cube in fp32."""
MEAN_ROOFLINE: Final = 0.90
OVERHEAD_CYCLES: Final = 150
"""Of the small cube."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure and its goal.

    Attributes:
        name: of the figure.
        value: measured.
        limit: the least value that is good, or with `at_most` the greatest.
        product: for the worst figure of many products, the product.
    """

    name: str
    value: float
    limit: float
    at_most: bool = False
    product: str = ""

    @property
    def met(self) -> bool:
        """Whether the value keeps the limit."""
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    @property
    def meant(self) -> str:
        """The limit, for people."""
        return f"{'at most' if self.at_most else 'at least'} {self.limit:g}"

    @property
    def shown(self) -> str:
        """The value, for people."""
        return f"{self.value:.0f}" if self.at_most else f"{self.value:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        return {
            "name": self.name,
            "value": self.value,
            "meant": self.meant,
            "product": self.product,
            "met": self.met,
        }


def find_goals(measured: Iterable[Measured]) -> list[Goal]:
    """Return the goals for which something was measured, of all types together or of each type."""
    timed = [each for each in measured if each.roofline is not None]
    single = [each for each in timed if each.product.batch == 1 and not each.product.is_latency]
    groups = (
        ("roofline of a large product", ROOFLINE_FLOOR, single),
        ("roofline of a single row", DECODE_FLOOR, [each for each in timed if each.product.is_decode]),
        ("roofline of attention", BATCH_FLOOR, [each for each in timed if each.product.batch > 1]),
    )
    goals = [
        Goal("utilisation of the 512 cube, fp32", each.utilisation or 0.0, UTILISATION)
        for each in timed
        if (each.product, each.dtype) == (LARGE_CUBE, DataType.FP32)
    ]
    goals += [
        Goal(f"roofline, geometric mean, {name}", mean, MEAN_ROOFLINE)
        for name, mean in (summarize(single).means if single else {}).items()
    ]
    for name, floor, group in groups:
        if group:
            worst = min(group, key=lambda each: each.roofline or 0.0)
            goals.append(Goal(f"{name}, lowest", worst.roofline or 0.0, floor, product=worst.name))
    small = [each for each in timed if each.product == SMALL_CUBE]
    if small:
        worst = max(small, key=lambda each: each.overhead or 0.0)
        goals.append(
            Goal(
                "overhead of the 16 cube, highest, cycles",
                worst.overhead or 0.0,
                OVERHEAD_CYCLES,
                at_most=True,
                product=worst.name,
            )
        )
    return goals
