"""The pictures of the report, drawn from made-up results."""

import pytest

from benchmarks import plots
from tb.report import pictures
from tests.runtime.benchmark.canned import SINGLE, measured, results


def test_the_same_picture_is_the_same_text() -> None:
    shown = [each.to_dict() for each in measured(SINGLE)]
    peaks = results()["hardware"]["peak"]
    drawn = {pictures.svg(plots.overview(shown, 32, peaks)) for _ in range(2)}
    assert len(drawn) == 1
    assert "Date" not in drawn.pop()


def test_utilisation_has_a_bar_for_each_product_and_type_and_one_for_its_bound() -> None:
    shown = [each.to_dict() for each in measured(SINGLE)]
    axes = plots.utilisation(shown).axes[0]
    widths = sorted(round(bar.get_width(), 6) for bar in axes.patches)
    expected = [each["utilisation"] for each in shown] + [
        min(1.0, each["macs"] / each["bound"] / results()["hardware"]["peak"][each["dtype"]])
        for each in shown
    ]
    assert widths == pytest.approx(sorted(expected), abs=1e-6)
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(product) for product in SINGLE]
