"""Summarise many measured products."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from echo_npu.benchmark.gemm import Measured

ROOFLINE_FLOOR: Final = 0.80
"""The least roofline that a product should reach."""

DECODE_FLOOR: Final = 0.90
"""The least roofline that a product of a single row should reach."""

BATCH_FLOOR: Final = 0.70
"""The least roofline that a batch of small products should reach."""


def floor_of(measured: Measured) -> float | None:
    """Return the roofline that a product should reach; None if it is judged by its fixed cost."""
    if measured.product.is_decode:
        return DECODE_FLOOR
    if measured.product.is_latency:
        return None
    return BATCH_FLOOR if measured.product.batch > 1 else ROOFLINE_FLOOR


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a run.

    Attributes:
        means: geometric mean of the roofline over all products that are large enough, by type and over all
            types ("all"); of single products, or of batches if there are no single products.
        below: products below what they should reach, worst first.
        decode: the lowest roofline of a product of a single row; None without one.
        latency: products too small to be judged by the roofline.
        wrong: products with a bit that is not the functional model's.
    """

    means: dict[str, float]
    below: tuple[Measured, ...]
    decode: Measured | None
    latency: tuple[Measured, ...]
    wrong: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as data for JSON."""
        return {
            "roofline_geometric_mean": self.means,
            "below": {each.name: each.roofline for each in self.below},
            "decode_lowest": self.decode.roofline if self.decode else None,
            "overhead_cycles": {each.name: each.overhead for each in self.latency},
            "wrong": [each.name for each in self.wrong],
        }


def summarize(measured: Iterable[Measured]) -> Summary:
    """Summarise a run. Products without cycles are judged only by their bits."""
    every = list(measured)
    timed = [each for each in every if each.roofline]
    large = [each for each in timed if not each.product.is_latency]
    counted = [each for each in large if each.product.batch == 1] or large
    types = dict.fromkeys(each.dtype for each in counted)
    means = {dtype.label: _mean([each for each in counted if each.dtype == dtype]) for dtype in types}
    if counted:
        means["all"] = _mean(counted)
    below = [each for each in timed if (floor := floor_of(each)) is not None and _roofline(each) < floor]
    return Summary(
        means=means,
        below=tuple(sorted(below, key=_roofline)),
        decode=min((each for each in timed if each.product.is_decode), key=_roofline, default=None),
        latency=tuple(each for each in timed if each.product.is_latency),
        wrong=tuple(each for each in every if each.bit_exact is False),
    )


def _roofline(measured: Measured) -> float:
    return measured.roofline or 0.0


def _mean(measured: Sequence[Measured]) -> float:
    return statistics.geometric_mean(_roofline(each) for each in measured)
