"""What many measured products say together."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from echo_npu.benchmark.gemm import Measured

ROOFLINE_FLOOR: Final = 0.80
"""What every product is meant to reach."""

DECODE_FLOOR: Final = 0.90
"""What products of a single row are meant to reach."""

BATCH_FLOOR: Final = 0.70
"""What batches of small products are meant to reach."""


def floor_of(measured: Measured) -> float | None:
    """The roofline that a product is meant to reach; None where its fixed cost counts instead."""
    if measured.product.is_decode:
        return DECODE_FLOOR
    if measured.product.is_latency:
        return None
    return BATCH_FLOOR if measured.product.batch > 1 else ROOFLINE_FLOOR


@dataclass(frozen=True, slots=True)
class Summary:
    """The judgement of a run.

    Attributes:
        means: geometric mean of the roofline over all products that are large enough, by type and over all
            types ("all"); single products only, or batches only where there is nothing else.
        below: products below what they are meant to reach, worst first.
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
        """For JSON."""
        return {
            "roofline_geometric_mean": self.means,
            "below": {each.name: each.roofline for each in self.below},
            "decode_lowest": self.decode.roofline if self.decode else None,
            "overhead_cycles": {each.name: each.overhead for each in self.latency},
            "wrong": [each.name for each in self.wrong],
        }


def summarize(measured: Iterable[Measured]) -> Summary:
    """Judge a run; products without cycles are only judged for their bits."""
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
