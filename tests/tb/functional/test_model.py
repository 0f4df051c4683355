"""The parts of a plan: names, bins, exclusions."""

import pytest

from tb.functional.model import CoverAxis, CoverGroup, Cross, ExcludedBins
from tb.functional.plan import PLAN

COLOURS = CoverAxis("colour", ("red", "blue"), "any colour")
SHAPES = CoverAxis("shape", ("round", "square", "odd"), "any shape")
NO_RED_SQUARES = ExcludedBins({"colour": ("red",), "shape": ("square",)}, "squares are blue")
GROUP = CoverGroup(
    "toys", "a box", (COLOURS, SHAPES), (Cross("both", ("colour", "shape"), "all"),), (NO_RED_SQUARES,)
)


def test_bins_and_reasons() -> None:
    colour, shape, both = GROUP.counters()
    assert both.name == "npu.toys.both"
    assert both.bins()[:3] == [("red", "round"), ("red", "square"), ("red", "odd")]
    assert [labels for labels in both.bins() if both.reason(labels)] == [("red", "square")]
    assert both.reason(("red", "square")) == "squares are blue"
    assert not any(colour.reason(labels) for labels in colour.bins())
    assert not any(shape.reason(labels) for labels in shape.bins())


def test_what_an_axis_excludes_no_cross_can_reach() -> None:
    nothing_odd = ExcludedBins({"shape": ("odd",)}, "out of production")
    group = CoverGroup("toys", "a box", GROUP.axes, GROUP.crosses, (nothing_odd,))
    _, shape, both = group.counters()
    assert [labels for labels in shape.bins() if shape.reason(labels)] == [("odd",)]
    assert [labels for labels in both.bins() if both.reason(labels) == nothing_odd.reason] == [
        ("red", "odd"),
        ("blue", "odd"),
    ]


@pytest.mark.parametrize(
    ("axis", "crossed", "excluded"),
    [
        ("colour", "shape", {}),
        ("combined", "combined", {}),  # the library would treat it as a bin
        ("colour", "colour", {"colour": ("green",)}),
        ("colour", "colour", {"shape": ("odd",)}),
    ],
)
def test_wrong_groups(axis: str, crossed: str, excluded: dict[str, tuple[str, ...]]) -> None:
    axes, crosses = (CoverAxis(axis, ("red",), "any"),), (Cross("c", (crossed,), "all"),)
    with pytest.raises(ValueError, match="toys"):
        CoverGroup("toys", "a box", axes, crosses, (ExcludedBins(excluded, "wrong"),) if excluded else ())


def test_the_plan_is_readable() -> None:
    """Every counter has its reason, no bin occurs twice, every exclusion has a reason, and each counter has a
    reachable bin."""
    names = [counter.name for group in PLAN for counter in group.counters()]
    assert len(names) == len(set(names))
    for group in PLAN:
        for counter in group.counters():
            assert counter.why
            assert len(set(counter.bins())) == len(counter.bins())
            assert not all(counter.reason(labels) for labels in counter.bins())
        for each in group.excluded:
            assert each.reason
            assert each.labels
